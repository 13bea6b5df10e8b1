package fault_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil/fault"
)

func draw() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }

// happenings runs a schedule of two faults in virtual time and returns what happened, and when.
func happenings(t *testing.T, seed uint64) (all []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		began := time.Now()
		note := func(name string) func(context.Context, *rand.Rand) error {
			return func(_ context.Context, draw *rand.Rand) error {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, fmt.Sprint(name, " ", draw.IntN(100), " at ", time.Since(began)))
				return nil
			}
		}
		s := fault.Schedule{Seed: seed, Faults: []fault.Fault{{Name: "a", Every: time.Second, Do: note("a")}, {Name: "b", Every: 300 * time.Millisecond, Do: note("b")}}}
		counts, err := s.Run(t.Context(), func(c fault.Counts) (bool, error) { return c["a"] >= 5 && c["b"] >= 5, nil })
		if err != nil || counts["a"]+counts["b"] != len(all) {
			t.Errorf("%v, %v of %d", err, counts, len(all))
		}
	})
	return all
}

func TestScheduleOfOneSeedIsTheSame(t *testing.T) {
	one := fmt.Sprint(happenings(t, 5))
	if again := fmt.Sprint(happenings(t, 5)); again != one {
		t.Errorf("of one seed:\n%s\n%s", one, again)
	}
	if other := fmt.Sprint(happenings(t, 6)); other == one {
		t.Errorf("of two seeds: %s", one)
	}
}

func TestScheduleTellsItsSeed(t *testing.T) {
	for _, seed := range []uint64{0, 12} {
		var said string
		s := fault.Schedule{Seed: seed, Log: func(format string, args ...any) { said = fmt.Sprintf(format, args...) }}
		if _, err := s.Run(t.Context(), func(fault.Counts) (bool, error) { return true, nil }); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(said, "seed ") || said == "seed 0" || seed != 0 && said != "seed 12" {
			t.Errorf("it said %q", said)
		}
	}
}

func TestScheduleEndsWithAnError(t *testing.T) {
	broken := errors.New("it is broken")
	synctest.Test(t, func(t *testing.T) {
		s := fault.Schedule{Seed: 1, Faults: []fault.Fault{
			{Name: "nothing there", Every: time.Second, Do: func(context.Context, *rand.Rand) error { return fault.ErrMissed }},
			{Name: "the server", Every: 10 * time.Second, Do: func(context.Context, *rand.Rand) error { return broken }},
		}}
		counts, err := s.Run(t.Context(), func(fault.Counts) (bool, error) { return false, nil })
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "the server") || len(counts) != 0 {
			t.Errorf("it ended with %v and %v", err, counts)
		}
		if _, err := s.Run(t.Context(), func(fault.Counts) (bool, error) { return false, broken }); !errors.Is(err, broken) {
			t.Errorf("an error of done: %v", err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, broken)
		defer cancel()
		s.Faults = nil
		if _, err := s.Run(ctx, func(fault.Counts) (bool, error) { return false, nil }); !errors.Is(err, broken) {
			t.Errorf("the end of its context: %v", err)
		}
	})
}

// Two faults of one thing never happen at the same time; one that happens at most twice happens twice.
func TestScheduleBreaksAThingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thing := new(int)
		var broken, most atomic.Int32
		do := func(context.Context, *rand.Rand) error {
			most.Store(max(most.Load(), broken.Add(1)))
			time.Sleep(time.Second)
			broken.Add(-1)
			return nil
		}
		s := fault.Schedule{Seed: 1, Faults: []fault.Fault{{Name: "a", Every: time.Second, Of: thing, Do: do}, {Name: "b", Every: time.Second, Of: thing, Do: do},
			{Name: "c", Every: time.Second, Most: 2, Do: func(context.Context, *rand.Rand) error { return nil }}}}
		counts, err := s.Run(t.Context(), func(c fault.Counts) (bool, error) { return c["a"] > 5 && c["b"] > 5, nil })
		if err != nil || most.Load() != 1 || counts["c"] != 2 {
			t.Errorf("%v, %v, %d at once", err, counts, most.Load())
		}
		if text := counts.String(); !strings.Contains(text, ", c 2") || (fault.Counts{}).String() != "no faults" {
			t.Errorf("it reads %q", text)
		}
	})
}

// What is broken is mended before Run returns, at once.
func TestScheduleMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		began := time.Now()
		schedule := fault.Schedule{Seed: 1, Faults: []fault.Fault{fault.StopServer(s, time.Millisecond, time.Hour)}}
		if _, err := schedule.Run(t.Context(), func(fault.Counts) (bool, error) { return s.stops.Load() > 0, nil }); err != nil {
			t.Error(err)
		}
		if s.stops.Load() != 1 || s.starts.Load() != 1 || time.Since(began) > time.Minute {
			t.Errorf("%d stops and %d starts in %v", s.stops.Load(), s.starts.Load(), time.Since(began))
		}
	})
}
