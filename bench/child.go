package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ackfloor/ackfloor/worker"
)

// A contestant runs in a process of its own, so that its CPU time, allocations and memory are the worker's alone. The parent and
// it talk in lines, over the child's standard input and output:
//
//	child: ready                 it has started
//	parent: start
//	child: handled               all n messages (not in drain)
//	parent: stop                 all is settled, as the server sees it
//	child: {…}                   its report, then it ends
//
// The end of its standard input ends the child: none is left behind.

const childWord = "child" // the first argument of a child

// order is what a child is told to do.
type order struct {
	build                  string // the binary of the child; "" for this one
	mode, name             string
	target                 target
	n, skip                int
	share                  share // share mode
	cpuProfile, memProfile string
}

// report is what a child has measured.
type report struct {
	Handled   int       // messages, those that came twice counted twice
	First     time.Time // when the first was handled
	Usage     usage     // from the start to when all was settled
	Work      work      // the same, as /proc sees it
	PeakRSS   uint64
	Latencies []time.Duration // latency mode: of each message, sorted
	Samples   []sample        // memory mode
	Drains    []time.Duration // drain mode

	Calls, Done   []byte        // failures mode: how often the handler was called for each message, and how often it returned nil, up to 255
	Most          time.Time     // failures mode: when nine in ten of the messages had their last call
	WrongAttempts int64         // failures mode: calls whose Attempt was not their number
	Counts        worker.Counts // failures mode

	Goroutines int           // share mode, while it works
	Busy       time.Duration // share mode: all calls of handlers that sleep together
}

func (o order) args() []string {
	args := []string{childWord, "-mode", o.mode, "-name", o.name, "-url", o.target.url, "-stream", o.target.stream, "-consumer", o.target.consumer, "-domain", o.target.domain,
		"-n", fmt.Sprint(o.n), "-skip", fmt.Sprint(o.skip), "-cpuprofile", o.cpuProfile, "-memprofile", o.memProfile}
	return append(args, o.share.args()...)
}

func parseOrder(args []string) (order, error) {
	var o order
	f := flag.NewFlagSet(childWord, flag.ContinueOnError)
	f.StringVar(&o.mode, "mode", modeThroughput, "what to measure")
	f.StringVar(&o.name, "name", "", "the contestant")
	f.StringVar(&o.target.url, "url", "", "of the server")
	f.StringVar(&o.target.stream, "stream", "", "to consume from")
	f.StringVar(&o.target.consumer, "consumer", "", "the durable")
	f.StringVar(&o.target.domain, "domain", "", "the JetStream domain")
	o.share.flags(f)
	f.IntVar(&o.n, "n", 0, "messages to handle; drain: times to drain")
	f.IntVar(&o.skip, "skip", 0, "latency: messages at the start that are not measured")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to this file")
	f.StringVar(&o.memProfile, "memprofile", "", "write an allocation profile to this file")
	return o, f.Parse(args)
}

// childMain is the process of a contestant.
func childMain(args []string, in io.Reader, out io.Writer) error {
	o, err := parseOrder(args)
	if err != nil {
		return err
	}
	var who contestant
	if o.mode != modeFailures && o.mode != modeShare {
		if who, err = contestantNamed(o.name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	lines := make(chan string)
	go func() {
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
		cancel(errors.New("the parent is gone"))
	}()
	await := func(word string) error {
		select {
		case got := <-lines:
			if got != word {
				return fmt.Errorf("the parent says %q instead of %q", got, word)
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	say := func(word string) { fmt.Fprintln(out, word) }

	say("ready")
	if err := await("start"); err != nil {
		return err
	}
	done := func() error { say("handled"); return await("stop") }
	var rep report
	switch o.mode {
	case modeDrain:
		rep, err = drainTimes(ctx, who, o)
	case modeFailures:
		rep, err = handleFailing(ctx, o, done)
	case modeShare:
		rep, err = shareWork(ctx, o, say, await)
	default:
		rep, err = consumeAll(ctx, who, o, done)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(rep)
}

// consumeAll runs a contestant until it has handled all messages and done says that they are settled.
func consumeAll(ctx context.Context, who contestant, o order, done func() error) (report, error) {
	w := watcherOf(o)
	endProfiles, err := startProfiles(o)
	if err != nil {
		return report{}, err
	}
	before, workBefore := used(), workOf("self")
	stop, err := who.start(ctx, o.target, w.handle)
	if err != nil {
		return report{}, fmt.Errorf("%s: %w", o.name, err)
	}
	select {
	case <-w.all:
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	}
	if err := done(); err != nil {
		return report{}, err
	}
	rep := report{Usage: used().since(before), Work: workOf("self").since(workBefore), PeakRSS: peakRSS()}
	if err := errors.Join(endProfiles(), stop()); err != nil {
		return report{}, fmt.Errorf("%s: %w", o.name, err)
	}
	rep.Handled, rep.First = int(w.handled.Load()), w.first
	rep.Samples = w.finishSamples()
	rep.Latencies = w.latencies
	slices.Sort(rep.Latencies)
	return rep, nil
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
