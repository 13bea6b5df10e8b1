package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// run is one contestant's turn: its report, and when the server had everything settled.
type run struct {
	report
	settled time.Time
	server  work // of the server's process, from the start to when all was settled
	n       int
	fates   fates // failures mode
}

// rate is messages a second, from the first one handled to the last one settled.
func (r run) rate() float64 { return float64(r.n) / r.settled.Sub(r.First).Seconds() }

// conversation is with a child: see child.go.
type conversation struct {
	o    order
	cmd  *exec.Cmd
	in   io.WriteCloser
	from *bufio.Reader
}

// converse starts a child and returns when it is ready.
func converse(ctx context.Context, o order) (*conversation, error) {
	binary := o.build
	if binary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		binary = self
	}
	c := &conversation{o: o, cmd: exec.CommandContext(ctx, binary, o.args()...)}
	c.cmd.Stderr = os.Stderr
	endWithParent(c.cmd)
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.from = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, c.end(c.await("ready"), false)
}

func (c *conversation) say(word string) { fmt.Fprintln(c.in, word) }

func (c *conversation) await(word string) error {
	line, err := c.from.ReadString('\n')
	if err == nil && line != word+"\n" {
		err = fmt.Errorf("the child says %q instead of %q", line, word)
	}
	return err
}

// end ends the child if it is to be ended, or if there was an error; that comes back, or the child's own.
func (c *conversation) end(err error, anyway bool) error {
	if err == nil && !anyway {
		return nil
	}
	_ = c.in.Close()
	if ended := c.cmd.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return fmt.Errorf("%s, %s: %w", c.o.mode, c.o.name, err)
	}
	return nil
}

// turn runs a contestant in a process of its own. meanwhile is called once it has been told to start, nil for nothing to do.
func (b *bed) turn(ctx context.Context, o order, durable jetstream.Consumer, meanwhile func() error) (run, error) {
	c, err := converse(ctx, o)
	if err != nil {
		return run{}, err
	}
	r, err := b.talk(ctx, c, durable, meanwhile)
	if err := c.end(err, true); err != nil {
		return run{}, err
	}
	return r, nil
}

// talk is the parent's side of the conversation that child.go describes.
func (b *bed) talk(ctx context.Context, c *conversation, durable jetstream.Consumer, meanwhile func() error) (run, error) {
	o := c.o
	r := run{n: o.n}
	serverBefore := b.work()
	c.say("start")
	if meanwhile != nil {
		if err := meanwhile(); err != nil {
			return r, err
		}
	}
	if o.mode != modeDrain {
		if err := c.await("handled"); err != nil {
			return r, err
		}
		var err error
		if r.settled, err = settled(ctx, durable); err != nil {
			return r, err
		}
		r.server = b.work().since(serverBefore)
		c.say("stop")
	}
	if err := json.NewDecoder(c.from).Decode(&r.report); err != nil {
		return r, err
	}
	if o.mode != modeDrain && o.mode != modeFailures && r.Handled != o.n {
		return r, fmt.Errorf("handled %d messages of %d: some came twice, the figures would not compare", r.Handled, o.n)
	}
	return r, nil
}

// profiles adds the files to write profiles to, if any.
func (o order) profiles(opt options, round int) order {
	name := fmt.Sprintf("%s-%s-%d", o.mode, o.name, round)
	if o.build != "" {
		name += "-against"
	}
	if opt.cpuProfile != "" {
		o.cpuProfile = filepath.Join(opt.cpuProfile, name+".cpu.prof")
	}
	if opt.memProfile != "" {
		o.memProfile = filepath.Join(opt.memProfile, name+".mem.prof")
	}
	return o
}
