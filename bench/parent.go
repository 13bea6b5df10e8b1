package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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

// turn runs a contestant in a process of its own. meanwhile is called once it has been told to start, nil for nothing to do.
func (b *bed) turn(ctx context.Context, o order, durable jetstream.Consumer, meanwhile func() error) (run, error) {
	binary := o.build
	if binary == "" {
		self, err := os.Executable()
		if err != nil {
			return run{}, err
		}
		binary = self
	}
	cmd := exec.CommandContext(ctx, binary, o.args()...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return run{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return run{}, err
	}
	if err := cmd.Start(); err != nil {
		return run{}, err
	}
	r, err := b.talk(ctx, o, durable, meanwhile, bufio.NewReader(out), func(word string) { fmt.Fprintln(in, word) })
	_ = in.Close()
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return run{}, fmt.Errorf("%s, %s: %w", o.mode, o.name, err)
	}
	return r, nil
}

// talk is the parent's side of the conversation that child.go describes.
func (b *bed) talk(ctx context.Context, o order, durable jetstream.Consumer, meanwhile func() error, from *bufio.Reader, say func(string)) (run, error) {
	await := func(word string) error {
		line, err := from.ReadString('\n')
		if err == nil && line != word+"\n" {
			err = fmt.Errorf("the child says %q instead of %q", line, word)
		}
		return err
	}
	r := run{n: o.n}
	if err := await("ready"); err != nil {
		return r, err
	}
	serverBefore := workOf(b.pid)
	say("start")
	if meanwhile != nil {
		if err := meanwhile(); err != nil {
			return r, err
		}
	}
	if o.mode != modeDrain {
		if err := await("handled"); err != nil {
			return r, err
		}
		var err error
		if r.settled, err = settled(ctx, durable); err != nil {
			return r, err
		}
		r.server = workOf(b.pid).since(serverBefore)
		say("stop")
	}
	if err := json.NewDecoder(from).Decode(&r.report); err != nil {
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
