package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
)

// The last handler ends while the server is away: the stop waits for it, and what was done is confirmed.
func TestStopWaitsForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 4)
		release := make(chan struct{})
		w := r.startOn(connectLikeWorker(t, s), testutil.Block(release))
		r.calls.WaitStarted(t, 4, time.Second)
		s.Stop()
		w.stop()
		time.Sleep(100 * time.Millisecond)
		close(release)
		time.Sleep(time.Second)
		select {
		case <-w.done:
			t.Fatalf("Run has returned %v with 4 settlements unconfirmed", w.err)
		default:
		}
		s.Start()
		w.ok(w.wait(2 * time.Second))
		info := r.floor(4, time.Second)
		if info.Delivered.Consumer != 4 || w.Status().Counts.Unconfirmed != 0 {
			t.Errorf("delivered %d, unconfirmed %d", info.Delivered.Consumer, w.Status().Counts.Unconfirmed)
		}
	})
}

// The server does not come back: the stop ends all the same, and says that it was not a clean one.
func TestStopWithoutTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 4)
		release := make(chan struct{})
		w := r.startOn(connectLikeWorker(t, s), testutil.Block(release))
		r.calls.WaitStarted(t, 4, time.Second)
		s.Stop()
		close(release)
		err := w.end()
		var broken *DrainError
		if !errors.As(err, &broken) || broken.Unconfirmed != 4 || broken.ExitCode() != 75 {
			t.Errorf("Run returned %v", err)
		}
		if w.took > 10*time.Second+confirmWait+time.Second {
			t.Errorf("it took %v", w.took)
		}
	})
}

// Plain acks: a clean stop leaves nothing pending all the same.
func TestPlainAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 300)
		w := r.start(testutil.Fail(1, errors.New("not now")), func(c *Config) { c.Ack = AckSend })
		r.floor(300, 10*time.Second)
		if c := w.Status().Counts; c.Acked != 300 || c.Retried != 300 || c.Resends != 0 || c.Unconfirmed != 0 {
			t.Errorf("%+v", c)
		}
		w.ok(w.end())
	})
}

// How often a settlement is sent again to which nothing is answered: more often behind a reconnect, since others are about to pull what is settled,
// and less and less often later. A 503 is an answer.
func TestResendTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := testutil.Bubble(t).Conn(t)
		began := time.Now()
		c := newConfirmer(nc, clock{began}, nats.NewInbox())
		sub, err := nc.Subscribe(c.inbox+".*", func(m *nats.Msg) { c.answered(m.Subject[len(c.inbox)+1:], m) })
		must(t, err)
		loop := func(until time.Duration) {
			for ; time.Since(began) < until; time.Sleep(10 * time.Millisecond) {
				c.scan(time.Since(began))
			}
		}
		c.settle("nobody", ackBody, 1, false, 0, 0)
		loop(3 * time.Second)
		if c.stats.resends < 20 || c.stats.resends > 60 {
			t.Errorf("sent again %d times in 3s while nobody listens", c.stats.resends)
		}
		var times []time.Duration
		silent, err := nc.Subscribe("nobody", func(*nats.Msg) { times = append(times, time.Since(began)) })
		must(t, err)
		loop(13 * time.Second)
		c.resendAll()
		loop(16 * time.Second)
		must(t, silent.Unsubscribe())
		must(t, sub.Unsubscribe())
		var before, hurried, later []time.Duration
		for i, at := range times[1:] {
			switch gap := at - times[i]; {
			case at < 13*time.Second:
				before = append(before, gap)
			case at < 14*time.Second:
				hurried = append(hurried, gap)
			default:
				later = append(later, gap)
			}
		}
		near := func(gap, want time.Duration) bool {
			return gap > want-50*time.Millisecond && gap < want+50*time.Millisecond
		}
		if len(before) != 4 || !near(before[0], answerWait) || !near(before[1], 2*answerWait) || !near(before[3], answerWaitMax) && !near(before[3], 8*answerWait) {
			t.Errorf("before: %v", before)
		}
		if len(hurried) < 8 || !near(hurried[1], hurryWait) {
			t.Errorf("behind a reconnect: %v", hurried)
		}
		if len(later) < 2 || !near(later[len(later)-1], 2*answerWait) {
			t.Errorf("later: %v", later)
		}
	})
}

// A NAK with a delay that nobody has taken, since the consumer's leader was moving, had no effect: behind its delay it is sent all the same, or the message would wait for
// its lease to end. One that may have been taken is not: its message has come back, maybe to another. One without a delay is sent again behind a reconnect only.
func TestANakThatNobodyTook(t *testing.T) {
	const delay = 30 * time.Millisecond
	for name, tc := range map[string]struct {
		delay     time.Duration
		answers   []string // a status, or nothing at all
		reconnect bool     // behind a second
		bodies    []string
	}{
		"refused, and taken":            {delay, []string{"503", "503", "taken"}, false, []string{`-NAK {"delay":30000000}`, "-NAK", "-NAK"}},
		"unanswered, then refused":      {delay, []string{"", "503", "taken"}, false, []string{`-NAK {"delay":30000000}`}},
		"refused, and then who knows":   {delay, []string{"503", "", "taken"}, false, []string{`-NAK {"delay":30000000}`, "-NAK"}},
		"at once, refused, and taken":   {0, []string{"503", "503", "taken"}, false, []string{"-NAK", "-NAK", "-NAK"}},
		"at once, unanswered":           {0, []string{"", "", "taken"}, false, []string{"-NAK"}},
		"at once, refused, who knows":   {0, []string{"503", "", "taken"}, false, []string{"-NAK", "-NAK"}},
		"at once, and lost with a line": {0, []string{"", "", "taken"}, true, []string{"-NAK", "-NAK", "-NAK"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			nc := connectLikeWorker(t, testutil.Bubble(t))
			c := newConfirmer(nc, clock{time.Now()}, nc.NewInbox())
			ctx, cancel := context.WithCancel(t.Context())
			answers, err := nc.Subscribe(c.inbox+".*", func(m *nats.Msg) { c.answered(m.Subject[len(c.inbox)+1:], m) })
			must(t, err)
			var bodies []string
			subject := nc.NewInbox()
			server, err := nc.Subscribe(subject, func(m *nats.Msg) {
				answer := "taken"
				if len(bodies) < len(tc.answers) {
					answer = tc.answers[len(bodies)]
				}
				bodies = append(bodies, string(m.Data))
				switch answer {
				case "taken":
					_ = m.Respond(nil)
				case "":
				default:
					_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {answer}}})
				}
			})
			must(t, err)
			time.Sleep(100 * time.Millisecond)
			done := make(chan struct{})
			go func() { defer close(done); c.alarm.loop(ctx, c.clock, c.scan) }()
			c.settle(subject, nakBody(tc.delay), 1, true, tc.delay, c.clock.now())
			time.Sleep(time.Second)
			if tc.reconnect {
				c.resendAll()
			}
			time.Sleep(20 * time.Second)
			cancel()
			<-done
			must(t, answers.Unsubscribe())
			must(t, server.Unsubscribe())
			if !slices.Equal(bodies, tc.bodies) || c.open.Load() != 0 {
				t.Errorf("%s: sent %q, %d open", name, bodies, c.open.Load())
			}
		})
	}
}
