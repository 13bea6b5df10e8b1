package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// Each field is compared by itself, and none where the configuration leaves it to the server.
func TestDriftFieldByField(t *testing.T) {
	base := Config{Consumer: "D", AckWait: time.Second}
	with := func(change func(*Config)) Config { c := base; change(&c); return c }
	same := func(change func(*jetstream.ConsumerConfig)) jetstream.ConsumerConfig {
		c := wanted(base)
		c.MaxAckPending = 1000 // as the server fills it in
		change(&c)
		return c
	}
	tests := []struct {
		name string
		c    Config
		have jetstream.ConsumerConfig
		want string // field, have, want
	}{
		{"nothing", base, same(func(*jetstream.ConsumerConfig) {}), ""},
		{"ack_wait", base, same(func(h *jetstream.ConsumerConfig) { h.AckWait = time.Minute }), "ack_wait 1m0s 1s"},
		{"max_ack_pending", with(func(c *Config) { c.MaxAckPending = 7 }), same(func(*jetstream.ConsumerConfig) {}), "max_ack_pending 1000 7"},
		{"max_ack_pending the same", with(func(c *Config) { c.MaxAckPending = 1000 }), same(func(*jetstream.ConsumerConfig) {}), ""},
		{"max_deliver", base, same(func(h *jetstream.ConsumerConfig) { h.MaxDeliver = 3 }), "max_deliver 3 -1"},
		{"backoff", base, same(func(h *jetstream.ConsumerConfig) { h.BackOff = []time.Duration{time.Second} }), "backoff [1s] none"},
		{"a filter where there is none", with(func(c *Config) { c.Filter = []string{"a"} }), same(func(*jetstream.ConsumerConfig) {}), "filter_subjects none a"},
		{"no filter where there is one", base, same(func(h *jetstream.ConsumerConfig) { h.FilterSubject = "a" }), "filter_subjects a none"},
		{"another filter", with(func(c *Config) { c.Filter = []string{"a", "b"} }), same(func(h *jetstream.ConsumerConfig) { h.FilterSubjects = []string{"c", "a"} }), "filter_subjects a,c a,b"},
		{"the same filters in another order", with(func(c *Config) { c.Filter = []string{"a", "b"} }), same(func(h *jetstream.ConsumerConfig) { h.FilterSubjects = []string{"b", "a"} }), ""},
		{"one filter in the other field", with(func(c *Config) { c.Filter = []string{"a"} }), same(func(h *jetstream.ConsumerConfig) { h.FilterSubjects = []string{"a"} }), ""},
		{"every subject, said in two ways", with(func(c *Config) { c.Filter = []string{">"} }), same(func(*jetstream.ConsumerConfig) {}), ""},
		{"every subject, the other way round", base, same(func(h *jetstream.ConsumerConfig) { h.FilterSubject = ">" }), ""},
		{"the start, not configured", base, same(func(h *jetstream.ConsumerConfig) { h.DeliverPolicy = jetstream.DeliverNewPolicy }), ""},
		{"the start", with(func(c *Config) { c.Start = "seq:7" }), same(func(*jetstream.ConsumerConfig) {}), "deliver_policy all seq:7"},
		{"the start's sequence", with(func(c *Config) { c.Start = "seq:7" }), same(func(h *jetstream.ConsumerConfig) {
			h.DeliverPolicy, h.OptStartSeq = jetstream.DeliverByStartSequencePolicy, 8
		}), "deliver_policy seq:8 seq:7"},
		{"the server's own metadata", base, same(func(h *jetstream.ConsumerConfig) { h.Metadata = map[string]string{"_nats.level": "1"} }), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, d := range drift(tt.c, tt.have) {
				got = append(got, strings.Join([]string{d.Field, d.Have, d.Want}, " "))
			}
			if strings.Join(got, "; ") != tt.want {
				t.Errorf("drift %q, want %q", got, tt.want)
			}
		})
	}
}

// drifted is a consumer that differs from the rig's in four fields.
var drifted = jetstream.ConsumerConfig{Durable: rigConsumer, AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "events.1", AckWait: 9 * time.Second, MaxAckPending: 7, MaxDeliver: 3}

func driftText(ds []Drift) string {
	var out []string
	for _, d := range ds {
		out = append(out, d.String())
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

const fourFields = `ack_wait is 9s, the configuration says 2s
filter_subjects is events.1, the configuration says events.>
max_ack_pending is 7, the configuration says 100
max_deliver is 3, the configuration says -1`

// What to do with a consumer that differs is said by BIND: ensure reports, update applies, existing only binds.
func TestBindModes(t *testing.T) {
	for _, mode := range []string{BindEnsure, BindUpdate, BindExisting} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 3)
				s.Consumer(t, rigStream, drifted)
				before := s.Info(t, rigStream, rigConsumer)
				time.Sleep(time.Second)
				w := r.start(testutil.Succeed(), func(c *Config) { c.Bind, c.Filter = mode, []string{"events.>"} })
				r.calls.Wait(t, 1, time.Second)
				w.ok(w.end())
				after := s.Info(t, rigStream, rigConsumer)
				if got := driftText(w.Status().Drift); got != fourFields {
					t.Errorf("the status reports\n%s\nwant\n%s", got, fourFields)
				}
				changed := fmt.Sprint(after.Config) != fmt.Sprint(before.Config)
				if changed != (mode == BindUpdate) || !after.Created.Equal(before.Created) {
					t.Errorf("the consumer was %+v, created %v\nand is       %+v, created %v", before.Config, before.Created, after.Config, after.Created)
				}
				if mode == BindUpdate {
					if d := drift(w.cfg, after.Config); len(d) > 0 {
						t.Errorf("left behind an update: %v", d)
					}
					if r.logged("drifted") != 0 {
						t.Error("warned of what was updated")
					}
					return
				}
				for line := range strings.Lines(fourFields) {
					if r.logged("has drifted: "+strings.TrimSpace(line)) != 1 {
						t.Errorf("not one line says %q", line)
					}
				}
				if n := r.calls.Sequences(); !slices.Equal(n, []uint64{2}) {
					t.Errorf("handled %v, its filter has 2 only", n)
				}
			})
		})
	}
}

// An update applies what may change and keeps the cursor, and what it does not know of.
func TestUpdateKeepsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 5)
		old := drifted
		old.FilterSubject, old.Description, old.Metadata, old.MaxRequestBatch = "", "the shop's", map[string]string{"owner": "ada"}, 50
		s.Consumer(t, rigStream, old)
		w := r.start(testutil.Succeed())
		r.floor(5, time.Second)
		w.ok(w.end())
		s.Events(t, 2)
		w = r.start(testutil.Succeed(), func(c *Config) { c.Bind = BindUpdate })
		r.floor(7, time.Second)
		w.ok(w.end())
		r.onceEach(7)
		c := s.Info(t, rigStream, rigConsumer).Config
		if c.Description != old.Description || c.Metadata["owner"] != "ada" || c.MaxRequestBatch != 50 || c.AckWait != 2*time.Second || c.MaxDeliver != -1 || c.MaxAckPending != 100 {
			t.Errorf("the consumer is now %+v", c)
		}
	})
}

// The start of an existing consumer is never changed: ensure says so, update refuses, and the cursor stays.
func TestStartIsNeverChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 3)
		w := r.start(testutil.Succeed())
		r.floor(3, time.Second)
		w.ok(w.end())
		created := s.Info(t, rigStream, rigConsumer).Created
		time.Sleep(time.Second)

		w = r.start(testutil.Succeed(), func(c *Config) { c.Start = "seq:1" })
		time.Sleep(time.Second)
		w.ok(w.end())
		if r.logged("deliver_policy is all, the configuration says seq:1; BIND=update applies it but for this one: the start of an existing consumer is never changed") != 1 {
			t.Errorf("the drift is not explained: %v", r.logs.FilterMessageSnippet("drifted").All())
		}
		w = r.start(testutil.Succeed(), func(c *Config) { c.Start, c.Bind = "seq:1", BindUpdate })
		mentioned(t, configProblems(t, w.wait(time.Second)), "deliver_policy is all", "seq:1", "never changed", "START")
		r.onceEach(3)
		if i := s.Info(t, rigStream, rigConsumer); i.AckFloor.Stream != 3 || !i.Created.Equal(created) {
			t.Errorf("the floor is at %d, created %v", i.AckFloor.Stream, i.Created)
		}
		w = r.start(testutil.Succeed(), func(c *Config) { c.Bind = BindUpdate }) // no START: nothing to refuse
		time.Sleep(100 * time.Millisecond)
		w.ok(w.end())
	})
}

// A backoff on the consumer bends every delay: warned of, by name, and removed by an update.
func TestBackoffIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		cfg := wanted(r.cfg)
		cfg.BackOff = []time.Duration{time.Second, 3 * time.Second}
		cfg.AckWait = time.Second
		s.Consumer(t, rigStream, cfg)
		w := r.start(testutil.Succeed())
		r.floor(1, time.Second)
		w.ok(w.end())
		if r.logged(`consumer "D" has backoff [1s 3s]`) != 1 || r.logged("drifted: backoff is [1s 3s], the configuration says none") != 1 {
			t.Errorf("not warned of: %v", r.logs.All())
		}
		if got := s.Info(t, rigStream, rigConsumer).Config.BackOff; len(got) != 2 {
			t.Errorf("ensure changed it to %v", got)
		}
		w = r.start(testutil.Succeed(), func(c *Config) { c.Bind = BindUpdate })
		time.Sleep(100 * time.Millisecond)
		w.ok(w.end())
		if c := s.Info(t, rigStream, rigConsumer).Config; len(c.BackOff) != 0 || c.AckWait != 2*time.Second {
			t.Errorf("the update left %v, ack_wait %v", c.BackOff, c.AckWait)
		}
		if r.logged("has backoff") != 1 {
			t.Error("warned of a backoff that is gone")
		}
	})
}
