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
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// What a worker needs that only binds, what one needs beside to create its consumer, and what one may read.
var (
	bindOnly  = []string{"$JS.API.CONSUMER.INFO.EVENTS.D", "$JS.API.CONSUMER.MSG.NEXT.EVENTS.D", "$JS.ACK.EVENTS.D.>", "$JS.ACK.*.*.EVENTS.D.>", "ackfloor.settled.EVENTS.D.*"}
	creating  = []string{"$JS.API.CONSUMER.CREATE.EVENTS.D", "$JS.API.CONSUMER.CREATE.EVENTS.D.>"}
	ownInbox  = []string{"_INBOX_D.>", "ackfloor.settled.EVENTS.D.*"}
	someInbox = nats.CustomInboxPrefix("_INBOX_D")
)

// lockedRig is a rig whose workers log in as a user who may publish and subscribe to what is given, and to nothing else.
func lockedRig(t *testing.T, n int, publish, subscribe []string) (*rig, func(h ackfloor.Handler, change ...func(*Config)) *running) {
	s := testutil.Bubble(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "a"}, {Username: "worker", Password: "w",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe}}}}
	})
	s.Login(nats.UserInfo("admin", "a"))
	r := newRig(t, s, n)
	r.admin = []nats.Option{nats.UserInfo("admin", "a")}
	return r, func(h ackfloor.Handler, change ...func(*Config)) *running {
		nc := s.Conn(t, nats.UserInfo("worker", "w"), someInbox, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		return r.startOn(nc, h, change...)
	}
}

func without(list []string, drop ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(drop, s) })
}

// With exactly the rights of the manual a worker binds, handles, retries, extends leases, looks and drains, and the server reports nothing.
func TestLeastPrivilege(t *testing.T) {
	for _, mode := range []string{BindExisting, BindEnsure, BindUpdate} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rights := bindOnly
				if mode != BindExisting {
					rights = append(slices.Clone(bindOnly), creating...)
				}
				r, start := lockedRig(t, 20, rights, ownInbox)
				filter := []string{"events.>"}
				if mode != BindEnsure { // which makes it
					old := r.cfg
					old.Filter, old.AckWait = filter, 3*time.Second
					r.s.Consumer(t, rigStream, wanted(old))
				}
				h := testutil.ByData(map[string]ackfloor.Handler{"3": testutil.Fail(2, errWork), "4": testutil.Sleep(5 * time.Second), "5": testutil.Fail(1, ackfloor.Permanent(errWork))}, testutil.Succeed())
				w := start(h, func(c *Config) { c.Bind, c.Filter = mode, filter })
				r.floor(20, 10*time.Second)
				if _, err := w.Look(t.Context()); err != nil {
					t.Error(err)
				}
				w.ok(w.end())
				if n := r.calls.Count(5); n != 1 { // its lease was extended
					t.Errorf("the slow message was handled %d times", n)
				}
				if c := w.Status().Counts; c.Acked != 19 || c.Terminated != 1 || c.Retried != 2 || c.Resends != 0 || c.PullErrors["lost"] != 0 {
					t.Errorf("counted %+v", c)
				}
				if err := w.nc.LastError(); mode == BindExisting && err != nil {
					t.Errorf("the server reports %v", err)
				}
			})
		})
	}
}

// A right that is missing is an error that names the subject to allow, within seconds; a restart with the right loses nothing.
func TestMissingRights(t *testing.T) {
	all := append(slices.Clone(bindOnly), creating...)
	tests := []struct {
		name               string
		publish, subscribe []string
		bind               string
		denied, allow      string
		isPublish, pulled  bool // pulled: the missing right shows only after a message was handled
	}{
		{"to look at the consumer", without(bindOnly, "$JS.API.CONSUMER.INFO.EVENTS.D"), ownInbox, BindExisting, "$JS.API.CONSUMER.INFO.EVENTS.D", "$JS.API.CONSUMER.INFO.EVENTS.D", true, false},
		{"to pull", without(bindOnly, "$JS.API.CONSUMER.MSG.NEXT.EVENTS.D"), ownInbox, BindExisting, "$JS.API.CONSUMER.MSG.NEXT.EVENTS.D", "$JS.API.CONSUMER.MSG.NEXT.EVENTS.D", true, false},
		{"to acknowledge", without(bindOnly, "$JS.ACK.EVENTS.D.>", "$JS.ACK.*.*.EVENTS.D.>"), ownInbox, BindExisting, "$JS.ACK.", "$JS.ACK.", true, true},
		{"to acknowledge, plain acks", without(bindOnly, "$JS.ACK.EVENTS.D.>", "$JS.ACK.*.*.EVENTS.D.>"), ownInbox, BindExisting + " " + AckSend, "$JS.ACK.", "$JS.ACK.", true, true},
		{"to subscribe to its inbox", bindOnly, []string{"_INBOX.other.>"}, BindExisting, "_INBOX_D.", "_INBOX_D.>", false, false},
		{"to subscribe to anything", bindOnly, []string{"nothing"}, BindExisting, "_INBOX_D.", "_INBOX_D.>", false, false},
		{"to create", without(all, creating...), ownInbox, BindEnsure, "$JS.API.CONSUMER.CREATE.EVENTS.D", "$JS.API.CONSUMER.CREATE.EVENTS.D", true, false},
		{"to create with a filter", without(all, "$JS.API.CONSUMER.CREATE.EVENTS.D.>"), ownInbox, BindEnsure + " with a filter", "$JS.API.CONSUMER.CREATE.EVENTS.D.events.>", "$JS.API.CONSUMER.CREATE.EVENTS.D", true, false},
		{"to update", bindOnly, ownInbox, BindUpdate, "$JS.API.CONSUMER.CREATE.EVENTS.D", "$JS.API.CONSUMER.CREATE.EVENTS.D", true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, start := lockedRig(t, 5, tt.publish, tt.subscribe)
				bind, filtered := strings.CutSuffix(tt.bind, " with a filter")
				bind, plain := strings.CutSuffix(bind, " "+AckSend)
				if bind != BindEnsure {
					old := r.cfg
					old.AckWait = 3 * time.Second
					r.s.Consumer(t, rigStream, wanted(old))
				}
				began := time.Now()
				w := start(testutil.Succeed(), func(c *Config) {
					c.Bind, c.StartupTimeout = bind, 30*time.Second
					if plain {
						c.Ack = AckSend
					}
					if filtered {
						c.Filter = []string{"events.>"}
					}
				})
				err := w.wait(20 * time.Second)
				denied, ok := errors.AsType[*PermissionError](err)
				if !ok {
					t.Fatalf("Run returned %T: %v", err, err)
				}
				if !strings.HasPrefix(denied.Subject, tt.denied) || !strings.HasPrefix(denied.Allow, tt.allow) || denied.Publish != tt.isPublish || denied.ExitCode() != 69 || !errors.Is(err, nats.ErrPermissionViolation) {
					t.Errorf("the error is %+v", denied)
				}
				if !strings.Contains(err.Error(), "allow ") || !strings.Contains(err.Error(), denied.Allow) {
					t.Errorf("the error says %q", err)
				}
				if d := time.Since(began); d > 8*time.Second {
					t.Errorf("it took %v", d)
				}
				if n := len(r.calls.Calls()); n > 0 && !tt.pulled {
					t.Errorf("%d messages were handled", n)
				}
				w.nc.Close()
				// Nothing is lost: with the right the next worker does the rest.
				next := r.startOn(r.s.Conn(t, nats.UserInfo("admin", "a")), testutil.Succeed())
				r.floor(5, 10*time.Second)
				next.ok(next.end())
				if n := r.calls.Distinct(); n != 5 {
					t.Errorf("%d of 5 messages were handled", n)
				}
			})
		})
	}
}

// A right that a handler lacks is the handler's own affair: its errors must not be taken for the worker's.
func TestHandlersMissingRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, start := lockedRig(t, 5, bindOnly, ownInbox)
		r.s.Consumer(t, rigStream, wanted(r.cfg))
		var nc *nats.Conn
		ready := make(chan struct{})
		w := start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			<-ready
			if err := nc.Publish("$JS.API.STREAM.DELETE.EVENTS", nil); err != nil {
				return err
			}
			_, err := nc.SubscribeSync("events.>")
			return err
		}), func(c *Config) { c.Bind = BindExisting })
		nc = w.nc
		close(ready)
		r.floor(5, 5*time.Second)
		r.s.Events(t, 5)
		time.Sleep(5 * time.Second)
		r.floor(10, 5*time.Second)
		if s := w.Status(); !s.Ready || !s.Alive {
			t.Errorf("the status is %+v", s)
		}
		w.ok(w.end())
		r.onceEach(10)
	})
}
