package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

func floorAt(seq uint64) func(*jetstream.ConsumerInfo) bool {
	return func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == seq && i.NumAckPending == 0 }
}

// publish stores one message for each subject.
func publish(t *testing.T, s *testutil.S, subjects ...string) {
	t.Helper()
	js := s.JetStream(t)
	for _, subject := range subjects {
		if _, err := js.Publish(t.Context(), subject, []byte(subject)); err != nil {
			t.Fatal(err)
		}
	}
}

// startLine returns the fields of the one line that a start gets.
func startLine(t *testing.T, r *rig) map[string]any {
	t.Helper()
	lines := r.logs.FilterMessageSnippet("working").All()
	if len(lines) != 1 {
		t.Fatalf("%d lines tell of a start: %v", len(lines), lines)
	}
	r.logs.TakeAll()
	return lines[0].ContextMap()
}

// Three services with filters on one stream get their own messages each, and a floor of their own.
func TestThreeFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		var subjects []string
		for i := range 100 {
			subjects = append(subjects, fmt.Sprintf("events.%s.%d", []string{"order", "page", "input", "mail"}[i%4], i))
		}
		publish(t, s, subjects...)
		services := map[string][]string{"orders": {"events.order.*"}, "pages": {"events.page.>"}, "both": {"events.page.*", "events.input.*"}}
		var runs []*running
		calls := map[string]*testutil.Recorder{}
		for name, filter := range services {
			calls[name] = new(testutil.Recorder)
			runs = append(runs, r.start(calls[name], func(c *Config) { c.Consumer, c.Filter = name, filter }))
			time.Sleep(10 * time.Millisecond)
			if got := startLine(t, r)["filter"]; got != strings.Join(filter, ",") {
				t.Errorf("%s: the start line says %q", name, got)
			}
		}
		for name, want := range map[string][]string{"orders": {"order"}, "pages": {"page"}, "both": {"page", "input"}} {
			last := uint64(0)
			var expected []uint64
			for i, subject := range subjects {
				if slices.Contains(want, strings.Split(subject, ".")[1]) {
					last = uint64(i + 1)
					expected = append(expected, last)
				}
			}
			info := s.WaitInfo(t, rigStream, name, 5*time.Second, "nothing pending", func(i *jetstream.ConsumerInfo) bool { return i.NumPending == 0 && i.NumAckPending == 0 })
			if info.AckFloor.Stream != last {
				t.Errorf("%s: the floor is at %d, want %d", name, info.AckFloor.Stream, last)
			}
			if got := slices.Sorted(slices.Values(calls[name].Sequences())); !slices.Equal(got, expected) {
				t.Errorf("%s handled %v, want %v", name, got, expected)
			}
		}
		for _, w := range runs {
			w.ok(w.end())
		}
	})
}

// Without a filter, or with >, every subject comes, and the start line says so.
func TestNoFilterIsSaid(t *testing.T) {
	for name, filter := range map[string][]string{"none": nil, ">": {">"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 2)
				w := r.start(testutil.Succeed(), func(c *Config) { c.Filter = filter })
				r.floor(2, time.Second)
				w.ok(w.end())
				line := startLine(t, r)
				if line["filter"] != "none: every subject of the stream comes" || line["consumer_is"] != "created, starts at all" {
					t.Errorf("the start line says %v", line)
				}
			})
		})
	}
}

// Under ensure a consumer that would deliver what the configuration did not ask for is refused: it may be another's.
func TestForeignSubjectsAreRefused(t *testing.T) {
	tests := []struct {
		name         string
		have, filter []string
		words        []string // none: it binds
	}{
		{"another subject", []string{"events.mail.*", "events.order.*"}, []string{"events.order.*"}, []string{"events.mail.*", "FILTER (events.order.*)"}},
		{"every subject", nil, []string{"events.order.*"}, []string{"every subject of the stream"}},
		{"a wider filter", []string{"events.>"}, []string{"events.order.*"}, []string{"events.>"}},
		{"a narrower filter", []string{"events.order.1"}, []string{"events.order.*"}, nil},
		{"no filter configured", []string{"events.mail.*"}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 0)
				publish(t, s, "events.mail.1", "events.order.1")
				s.Consumer(t, rigStream, wanted(Config{Consumer: rigConsumer, Filter: tt.have, AckWait: 2 * time.Second}))
				w := r.start(testutil.Succeed(), func(c *Config) { c.Filter = tt.filter })
				if tt.words == nil {
					r.calls.Wait(t, 1, time.Second)
					w.ok(w.end())
					return
				}
				mentioned(t, configProblems(t, w.wait(time.Second)), append(tt.words, `consumer "D"`, "BIND=update")...)
				if len(r.calls.Calls()) > 0 || s.Info(t, rigStream, rigConsumer).Delivered.Stream != 0 {
					t.Error("something was delivered")
				}
			})
		})
	}
}

// What was acknowledged does not come back: behind a stop, behind a restart of the server, and the consumer stays the same.
func TestAcknowledgedStaysAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 100)
		w := r.start(testutil.Succeed())
		created := r.floor(100, 5*time.Second).Created
		w.ok(w.end())
		startLine(t, r)
		for _, restart := range []bool{false, true, true} {
			if restart {
				s.Restart()
			}
			w = r.start(testutil.Succeed())
			time.Sleep(5 * time.Second)
			w.ok(w.end())
			if line := startLine(t, r); line["consumer_is"] != "bound" || line["ack_floor"] != uint64(100) {
				t.Errorf("the start line says %v", line)
			}
		}
		r.onceEach(100)
		if got := s.Info(t, rigStream, rigConsumer).Created; !got.Equal(created) {
			t.Errorf("the consumer was created at %v, and again at %v", created, got)
		}
		if n := w.Status().Counts.Received; n != 0 {
			t.Errorf("%d messages came again", n)
		}
	})
}

// A durable has one Runner in a process, until that has ended; a Runner runs once.
func TestOneRunnerForOneDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 3)
		first := r.start(testutil.Succeed())
		r.floor(3, time.Second)
		if err := r.start(testutil.Succeed()).wait(time.Second); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), `"D" on stream "EVENTS"`) {
			t.Errorf("the second Runner returned %v", err)
		}
		other := r.start(testutil.Succeed(), func(c *Config) { c.Consumer = "E" }) // another durable is free
		s.WaitInfo(t, rigStream, "E", time.Second, "floor 3", floorAt(3))
		other.ok(other.end())
		if s := first.Status(); !s.Ready || s.State != StateWorking {
			t.Errorf("the first Runner is %+v", s)
		}
		first.ok(first.end())
		if err := first.Run(t.Context()); !errors.Is(err, ErrUsed) {
			t.Errorf("the second Run returned %v", err)
		}
		third := r.start(testutil.Succeed())
		s.Events(t, 1)
		r.floor(4, time.Second)
		third.ok(third.end())
	})
}

// Who was refused may start once the first has ended, however that ended.
func TestDurableIsFreeBehindAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		w := r.start(testutil.Stubborn(3*time.Second), func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
		r.calls.WaitStarted(t, 1, time.Second)
		if err := w.end(); err == nil {
			t.Fatal("the drain went well")
		}
		w = r.start(testutil.Succeed())
		r.floor(1, time.Second)
		w.ok(w.end())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.make(r.s.Conn(t), testutil.Succeed()).Run(ctx); err != nil { // stopped before it began
			t.Errorf("Run returned %v", err)
		}
		time.Sleep(5 * time.Second) // for the stubborn handler
	})
}
