package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An error's text of any length is cut in the letter and in the record: neither is too large to be written, and attempts stay exact.
func TestHugeErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 2)
		huge := fmt.Errorf("%s", strings.Repeat("x", 1100000))
		w := r.start(testutil.ByData(map[string]ackfloor.Handler{"0": testutil.Fail(-1, huge), "1": testutil.Fail(2, errWork)}, nil), withLetters,
			func(c *Config) { c.RetrySchedule = "3s" })
		l := r.awaitLetters(1, 90*time.Second)[0]
		r.floor(2, 5*time.Second)
		w.ok(w.end())
		if l.Attempts != 5 || len(l.Error) > 1100 || r.calls.Count(1) != 5 || r.calls.Count(2) != 3 || r.logged("a record could not be written") > 0 {
			t.Errorf("calls %d and %d, %d attempts, %d bytes of error", r.calls.Count(1), r.calls.Count(2), l.Attempts, len(l.Error))
		}
		for _, e := range r.logs.All() {
			if n := len(fmt.Sprint(e.ContextMap())); n > 20000 {
				t.Errorf("%q has %d bytes of fields", e.Message, n)
			}
		}
	})
}

type panickingError struct{}

func (panickingError) Error() string { panic("nats://user:secret@host \x1b[31m") }

// Where a method of an error panics no secret gets out either.
func TestSecretsOfAPanickingErrorStayInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		w := r.start(testutil.Fail(-1, panickingError{}), withLetters, func(c *Config) { c.MaxAttempts = 1 })
		l := r.awaitLetters(1, 20*time.Second)[0]
		w.ok(w.end())
		texts := []string{l.Error}
		for _, e := range r.logs.All() {
			texts = append(texts, fmt.Sprint(e.Message, e.ContextMap()))
		}
		for _, s := range texts {
			if strings.Contains(s, "secret") || strings.Contains(s, "\x1b") {
				t.Errorf("%.300q", s)
			}
		}
	})
}

// Consumers and streams of any name that the server takes have exact attempts, letters and replays.
func TestOddNames(t *testing.T) {
	long := strings.Repeat("n", 120)
	for _, name := range []string{"a$b", "größe", "x=y", "-", "a,b", "@", "d" + long, "a\"b", "a%b"} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 3)
			var mended atomic.Bool
			h := ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
				if m.Sequence == 2 && !mended.Load() {
					return errWork
				}
				return nil
			})
			w := r.start(h, withLetters, func(c *Config) { c.Consumer, c.MaxAttempts = name, 2 })
			l := r.awaitLetters(1, 10*time.Second)[0]
			mended.Store(true)
			r.replay(l)
			time.Sleep(5 * time.Second)
			if l.Attempts != 2 || l.Consumer != name || r.calls.Count(2) != 3 || !w.Status().Ready || r.logged("no bucket for records") > 0 {
				t.Errorf("consumer %q: %d calls, the letter says %+v", name, r.calls.Count(2), l)
			}
			w.ok(w.end())
		})
	}
	for _, name := range []string{"a$b", "größe", "S" + long} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			s.Stream(t, jetstream.StreamConfig{Name: name, Subjects: []string{"events.>"}})
			r := newRig(t, s, -1)
			puts(t, s, 3, "x")
			w := r.start(testutil.Fail(-1, errWork), func(c *Config) {
				c.Stream, c.MaxAttempts, c.DeadLetter, c.Records, c.Consumer = name, 2, "", "", strings.Repeat("c", 100)
			})
			time.Sleep(10 * time.Second)
			w.ok(w.end())
			if c := w.Status().Counts; c.DeadLettered != 3 || len(r.calls.Calls()) != 6 || r.logged("no bucket for records") > 0 {
				t.Errorf("stream %q: %d calls, counted %+v", name, len(r.calls.Calls()), c)
			}
		})
	}
}

// Messages of any size, with headers of any size, come out of the dead letters as they were.
func TestLettersOfAnySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
		r := newRig(t, s, -1)
		big := nats.Header{}
		for i := range 60 {
			big.Set(fmt.Sprintf("H%d", i), strings.Repeat("h", 1050))
		}
		type sent struct {
			subject, body string
			header        nats.Header
		}
		all := []sent{{"events.x", "", nil}, {"events.x", strings.Repeat("x", 1<<20), nil}, {"events.x", strings.Repeat("y", 1<<20-66000), big}, {"events.x", "", big},
			{"events." + strings.Repeat("s", 3000), "long subject", nats.Header{"nats-rollup": {"x"}, "nats-expected-stream": {"y"}, "X": {"", "b"}}}}
		for _, m := range all {
			put(t, s, m.subject, m.body, m.header)
		}
		var mended atomic.Bool
		var good atomic.Int32
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if !mended.Load() {
				return ackfloor.Permanent(fmt.Errorf("%s", strings.Repeat("e", 200000)))
			}
			want := all[m.Sequence-1]
			if m.Subject == want.subject && string(m.Data) == want.body && m.Header.Get("H59") == want.header.Get("H59") && len(m.Header["X"]) == len(want.header["X"]) {
				good.Add(1)
			}
			return nil
		}), withLetters)
		letters := r.awaitLetters(5, 20*time.Second)
		r.floor(5, 5*time.Second)
		mended.Store(true)
		r.replay(letters...)
		time.Sleep(20 * time.Second)
		w.ok(w.end())
		if n := good.Load(); n != 5 {
			t.Errorf("%d of 5 are what they were", n)
		}
	})
}

// With one attempt whatever fails is given up at once, however it fails.
func TestOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 4)
		w := r.start(testutil.ByData(map[string]ackfloor.Handler{"0": testutil.Fail(-1, errWork), "1": testutil.Panic("x"), "2": testutil.Goexit(),
			"3": testutil.Fail(-1, ackfloor.RetryAfter(0, errWork))}, nil), withLetters, func(c *Config) { c.MaxAttempts = 1 })
		for _, l := range r.awaitLetters(4, 10*time.Second) {
			if l.Attempts != 1 || l.Reason != deadletter.ReasonExhausted {
				t.Errorf("the letter says %+v", l)
			}
		}
		r.floor(4, 5*time.Second)
		w.ok(w.end())
		r.onceEach(4)
	})
}
