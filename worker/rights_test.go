package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// What dead letters, records and replays need beside the rest. docs/howto-bind.md has the same list.
var (
	writeLetters = []string{"dlq.EVENTS.D.>"}
	bindLetters  = []string{"$JS.API.STREAM.INFO.EVENTS_DLQ", "$JS.API.DIRECT.GET.EVENTS_DLQ.dlq.EVENTS.D.>"}
	makeLetters  = []string{"$JS.API.STREAM.CREATE.EVENTS_DLQ"}
	bindRecords  = []string{"$JS.API.STREAM.INFO.KV_ackfloor_EVENTS", "$JS.API.DIRECT.GET.KV_ackfloor_EVENTS.$KV.ackfloor_EVENTS.EVENTS.D.>", "$KV.ackfloor_EVENTS.EVENTS.D.>"}
	makeRecords  = []string{"$JS.API.STREAM.CREATE.KV_ackfloor_EVENTS"}
	bindReplays  = []string{"$JS.API.CONSUMER.INFO.EVENTS_DLQ.replay_EVENTS_D", "$JS.API.CONSUMER.MSG.NEXT.EVENTS_DLQ.replay_EVENTS_D", "$JS.ACK.EVENTS_DLQ.replay_EVENTS_D.>"}
	makeReplays  = []string{"$JS.API.CONSUMER.CREATE.EVENTS_DLQ.replay_EVENTS_D.>"}
)

// With more rights more is done; with the right to write letters alone, what is given up is kept all the same.
func TestLettersWithFewRights(t *testing.T) {
	everything := slices.Concat(bindOnly, creating, writeLetters, bindLetters, makeLetters, bindRecords, makeRecords, bindReplays, makeReplays)
	for name, tt := range map[string]struct {
		publish      []string
		made         bool // the stream is there
		exact, quiet bool
	}{
		"to write only":   {slices.Concat(bindOnly, creating, writeLetters), true, false, false},
		"and to look":     {slices.Concat(bindOnly, creating, writeLetters, bindLetters), true, false, false},
		"records too":     {slices.Concat(bindOnly, creating, writeLetters, bindLetters, bindRecords, makeRecords), true, true, false},
		"everything":      {everything, true, true, true},
		"and to make all": {everything, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, start := lockedRig(t, 20, tt.publish, ownInbox)
				if tt.made {
					s := r.s.(*testutil.S)
					s.Stream(t, jetstream.StreamConfig{Name: "EVENTS_DLQ", Subjects: deadletter.Subjects("EVENTS"), Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, AllowDirect: true, MaxAge: 720 * time.Hour})
				}
				h := testutil.ByData(map[string]ackfloor.Handler{"3": testutil.Fail(2, errWork), "5": testutil.Fail(1, ackfloor.Permanent(errWork)), "6": testutil.Fail(-1, errWork)}, testutil.Succeed())
				w := start(h, withLetters)
				letters := r.awaitLetters(2, 20*time.Second)
				r.floor(20, 5*time.Second)
				time.Sleep(20 * time.Second)
				if st := w.Status(); !st.Ready || st.Counts.DeadLettered != 2 || st.Counts.Acked != 18 || st.Counts.Resends+st.Counts.DeadLetterFailures != 0 {
					t.Errorf("ready %v (%s), counted %+v", st.Ready, st.Reason, st.Counts)
				}
				exact := r.logged("attempts are counted by the server's deliveries") == 0
				if exact != tt.exact || letters[1].Attempts != 5 || r.calls.Count(7) != 5 {
					t.Errorf("exact %v, %d attempts, %d calls", exact, letters[1].Attempts, r.calls.Count(7))
				}
				if err := w.nc.LastError(); tt.quiet && err != nil && !strings.Contains(err.Error(), "STREAM.INFO.EVENTS\"") {
					t.Errorf("the server reports %v", err)
				}
				if tt.quiet { // a replay comes
					_, err := r.store().Replay(context.Background(), letters[0])
					must(t, err)
					time.Sleep(5 * time.Second)
					if n := r.calls.Count(letters[0].MessageSequence); n != 2 {
						t.Errorf("%d calls after a replay", n)
					}
				}
				w.ok(w.end())
			})
		})
	}
}

// Without the right to write letters, or without a stream for them and the right to make it, a worker does not begin.
func TestLettersWithoutRights(t *testing.T) {
	for name, tt := range map[string]struct {
		publish []string
		bind    string
		allow   string
	}{
		"to write":                {slices.Concat(bindOnly, creating, bindLetters, makeLetters), BindEnsure, "dlq.EVENTS.D.>"},
		"to make the stream":      {slices.Concat(bindOnly, creating, writeLetters, bindLetters), BindEnsure, "$JS.API.STREAM.CREATE.EVENTS_DLQ"},
		"to look and to make":     {slices.Concat(bindOnly, creating, writeLetters), BindEnsure, "$JS.API.STREAM.CREATE.EVENTS_DLQ"},
		"to make, and only binds": {slices.Concat(bindOnly, writeLetters), BindExisting, "nats stream add"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, start := lockedRig(t, 5, tt.publish, ownInbox)
				r.s.Consumer(t, rigStream, wanted(r.cfg))
				w := start(testutil.Succeed(), withLetters, func(c *Config) { c.Bind = tt.bind })
				err := w.wait(30 * time.Second)
				var coded interface{ ExitCode() int }
				if err == nil || !strings.Contains(err.Error(), tt.allow) || !strings.Contains(err.Error(), "EVENTS_DLQ") && !strings.Contains(err.Error(), "dlq.") || !errors.As(err, &coded) || coded.ExitCode() != 69 {
					t.Errorf("Run returned %v", err)
				}
				if n := len(r.calls.Calls()); n > 0 {
					t.Errorf("%d messages were handled", n)
				}
			})
		})
	}
}
