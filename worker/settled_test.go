package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// settledLog keeps what OnSettled tells.
type settledLog struct {
	mu  sync.Mutex
	all map[uint64][]Settled
}

func (l *settledLog) add(s Settled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[uint64][]Settled)
	}
	l.all[s.Sequence] = append(l.all[s.Sequence], s)
}

// of returns what was told of a message.
func (l *settledLog) of(seq uint64) []Settled {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[seq]
}

// Each settlement is told once, when it is confirmed: acks, those of runs too, naks and terms.
func TestOnSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		r := newRig(t, testutil.Bubble(t), n)
		var log settledLog
		began := time.Now()
		w := r.make(r.s.Conn(t), ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			switch {
			case m.Sequence == 7:
				return ackfloor.Permanent(errors.New("never"))
			case m.Sequence == 8 && m.Attempt == 1:
				return errors.New("not yet")
			}
			return nil
		}))
		w.OnSettled(func(s Settled) {
			log.add(s)
			if s.Sequence == 9 {
				panic("in the observer")
			}
		})
		w.run()
		r.floor(n, 10*time.Second)
		w.ok(w.end())
		if w.conf.runs.made == 0 {
			t.Error("there were no runs")
		}
		for seq := uint64(1); seq <= n; seq++ {
			want := []string{"ack"}
			switch seq {
			case 7:
				want = []string{"term"}
			case 8:
				want = []string{"nak", "ack"}
			}
			got := log.of(seq)
			if len(got) != len(want) {
				t.Fatalf("sequence %d: told %v, want %v", seq, got, want)
			}
			for i, s := range got {
				if s.Kind != want[i] || s.Tries < 1 || s.Sent.Before(began) || s.Confirmed.Before(s.Sent) || s.Confirmed.After(time.Now()) {
					t.Errorf("sequence %d: told %+v, want %s", seq, s, want[i])
				}
			}
		}
		if c := w.Status().Counts; c.Panics != 1 || r.logged("the function of OnSettled panicked") != 1 {
			t.Errorf("its panic was counted %d times", c.Panics)
		}
	})
}

// Plain acks are told when they are sent, without a confirmation; and nobody is told any more once that is taken away.
func TestOnSettledOfPlainAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		var log settledLog
		w := r.make(r.s.Conn(t), ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil }), func(c *Config) { c.Ack = AckSend })
		w.OnSettled(log.add)
		w.run()
		r.floor(1, 10*time.Second)
		if got := log.of(1); len(got) != 1 || got[0].Kind != "ack" || got[0].Sent.IsZero() || !got[0].Confirmed.IsZero() {
			t.Errorf("told %+v", got)
		}
		w.OnSettled(nil)
		puts(t, r.s, 1, "one more")
		r.floor(2, 10*time.Second)
		w.ok(w.end())
		if got := log.of(2); got != nil {
			t.Errorf("told %+v when nobody listened any more", got)
		}
	})
}

// A NAK that nobody answers for as long as it is sent again is told too, as not confirmed: its message comes back by itself.
func TestOnSettledOfWhatIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		var log settledLog
		w := r.make(r.s.Conn(t), ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if m.Attempt == 1 {
				s.Stop()
				return errors.New("the server is away")
			}
			return nil
		}), func(c *Config) { c.RetrySchedule = "3s" })
		w.OnSettled(log.add)
		w.run()
		time.Sleep(8 * time.Second)
		got := log.of(1)
		if len(got) != 1 || got[0].Kind != "nak" || !got[0].Confirmed.IsZero() || got[0].Sent.IsZero() {
			t.Errorf("told %+v", got)
		}
		s.Start()
		r.floor(1, 20*time.Second)
		w.ok(w.end())
	})
}
