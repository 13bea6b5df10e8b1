package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor/testutil/fault"
)

const stopLimit = 20 * time.Second // for a worker to end after SIGTERM; then it is killed, and counted as one that hung

// crew are the worker processes of one run. Unlike fault.Crew, it goes on when one of them hangs or fails: that is what is counted here.
type crew struct {
	children []fault.Child
	mu       sync.Mutex // held by the fault that has a worker
	procs    []*fault.Process
	drains   []time.Duration
	hung     int
	died     int // ended by themselves
}

func startCrew(children []fault.Child) (*crew, error) {
	c := &crew{children: children}
	for _, child := range children {
		p, err := child.Start()
		if err != nil {
			c.kill()
			return nil, err
		}
		c.procs = append(c.procs, p)
	}
	return c, nil
}

// kill ends all of them at once.
func (c *crew) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.procs {
		p.Kill()
		<-p.Ended()
	}
}

// end tells one to end, by SIGTERM, and waits for that. c.mu is held.
func (c *crew) end(i int) error {
	p := c.procs[i]
	select {
	case <-p.Ended():
		c.died++
		return nil
	default:
	}
	p.Term()
	_, took, err := p.Exit(stopLimit)
	if errors.Is(err, fault.ErrAlive) {
		c.hung++
		p.Kill()
		<-p.Ended()
		took, err = stopLimit, nil
	}
	c.drains = append(c.drains, took)
	return err
}

// restart is a fault: a worker is told to end, waited for and started again.
func (c *crew) restart(every time.Duration) fault.Fault {
	return fault.Fault{Name: "restart of a worker", Every: every, Do: func(_ context.Context, draw *rand.Rand) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := draw.IntN(len(c.procs))
		if err := c.end(i); err != nil {
			return err
		}
		return c.start(i)
	}}
}

// start starts one again. c.mu is held.
func (c *crew) start(i int) error {
	p, err := c.children[i].Start()
	if err == nil {
		c.procs[i] = p
	}
	return err
}

// revive starts those again that have ended by themselves, as a supervisor does.
func (c *crew) revive() error {
	if !c.mu.TryLock() {
		return nil // one is being restarted; the next look is soon
	}
	defer c.mu.Unlock()
	for i, p := range c.procs {
		select {
		case <-p.Ended():
			c.died++
			if err := c.start(i); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// stop ends all of them, one after the other's signal.
func (c *crew) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var faults []error
	for i := range c.procs {
		faults = append(faults, c.end(i))
	}
	return errors.Join(faults...)
}

// tally is what became of n messages, by a journal.
type tally struct {
	lost, again int
}

// tallied reads a journal: number i is handled when a handler returned nil for it.
func tallied(journal *fault.Journal, n int) (tally, error) {
	events, err := journal.Events()
	if err != nil {
		return tally{}, err
	}
	times := make([]int, n)
	for _, e := range events {
		if e.Kind != fault.KindEnd || e.Error != "" {
			continue
		}
		if e.Sequence >= uint64(n) {
			return tally{}, fmt.Errorf("message %d was handled, of %d", e.Sequence, n)
		}
		times[e.Sequence]++
	}
	var t tally
	for _, k := range times {
		if k == 0 {
			t.lost++
		}
		t.again += max(0, k-1)
	}
	return t, nil
}
