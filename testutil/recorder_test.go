package testutil

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		if err := r.Handle(t.Context(), Message("a.b", "body", Sequence(5), Attempt(2))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTest)
		defer cancel()
		_ = r.Wrap(Sleep(time.Minute)).Handle(ctx, Message("c", nil, Sequence(3)))
		_ = r.Handle(t.Context(), Message("c", nil, Sequence(5)))

		calls := r.Calls()
		first, second := calls[0], calls[1]
		if first.Sequence != 5 || first.Attempt != 2 || first.Subject != "a.b" || string(first.Data) != "body" ||
			first.Err != nil || first.Cause != nil || first.NoReturn {
			t.Errorf("the first call: %+v", first)
		}
		if second.Err != errTest || second.Cause != errTest || second.End.Sub(second.Start) != time.Second {
			t.Errorf("the second call: %+v", second)
		}
		if got := r.Sequences(); !slices.Equal(got, []uint64{5, 3, 5}) {
			t.Errorf("Sequences: %v", got)
		}
		if r.Count(5) != 2 || r.Count(3) != 1 || r.Count(9) != 0 || r.Distinct() != 2 {
			t.Errorf("Count: %d, %d, %d; Distinct: %d", r.Count(5), r.Count(3), r.Count(9), r.Distinct())
		}
	})
}

func TestRecorderMaxConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		h := r.Wrap(Sleep(time.Second))
		for round := range 2 { // the second begins at the very time at which the first ends
			var calls sync.WaitGroup
			for i := range 3 {
				subject := "a"
				if i == 2 {
					subject = "b"
				}
				calls.Go(func() { _ = h.Handle(t.Context(), Message(subject, nil, Sequence(uint64(3*round+i)))) })
			}
			calls.Wait()
		}
		if n := r.MaxConcurrent(); n != 3 {
			t.Errorf("MaxConcurrent is %d, want 3", n)
		}
		if n := r.MaxConcurrentOf(func(c Call) string { return c.Subject }); n != 2 {
			t.Errorf("MaxConcurrentOf subject is %d, want 2", n)
		}
	})
}

func TestRecorderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		release := make(chan struct{})
		h := r.Wrap(Block(release))
		for i := range 3 {
			go func() {
				time.Sleep(time.Duration(i) * time.Second)
				_ = h.Handle(t.Context(), Message("x", nil, Sequence(uint64(1+i/2)))) // 1, 1, 2
			}()
		}
		start := time.Now()
		if calls := r.WaitStarted(t, 2, time.Minute); len(calls) != 2 || time.Since(start) != time.Second {
			t.Errorf("%d calls began in %v", len(calls), time.Since(start))
		}
		said := failure(t, func(t testing.TB) { r.Wait(t, 1, time.Millisecond) })
		for _, words := range []string{"after 1ms", "waiting for 1 calls to end", "0 calls ended and 2 are under way", "with 1 different",
			"sequence 1, attempt 1, x: under way"} {
			if !strings.Contains(said, words) {
				t.Errorf("%q is missing in %q", words, said)
			}
		}
		release <- struct{}{}
		release <- struct{}{}
		r.Wait(t, 2, time.Minute)
		if said := failure(t, func(t testing.TB) { r.WaitDistinct(t, 2, time.Millisecond) }); !strings.Contains(said, "returned nil") {
			t.Errorf("it said %q", said)
		}
		close(release)
		r.WaitDistinct(t, 2, time.Minute)
		if time.Since(start) != 2*time.Second {
			t.Errorf("it took %v, want 2 s", time.Since(start))
		}
	})
	var unused Recorder
	if said := failure(t, func(t testing.TB) { unused.WaitStarted(t, 1, time.Millisecond) }); !strings.Contains(said, "never called") {
		t.Errorf("it said %q", said)
	}
}
