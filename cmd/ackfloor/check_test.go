//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// lockedWorker is the configuration of the tests of rights.
func lockedWorker(bind string) worker.Config {
	return worker.Config{Stream: "EVENTS", Consumer: "orders", Filter: []string{"events.order_placed"}, Bind: bind, DeadLetter: "EVENTS_DLQ", DeadLetterBytes: 64 << 20,
		Records: "ackfloor_EVENTS", Connection: worker.Connection{InboxPrefix: "_INBOX_orders"}, Logger: zap.NewNop(), PullExpiry: 200 * time.Millisecond}
}

// lockedRig is a server with a user admin, and one each for a list of rights: u0, u1 and so on.
func lockedRig(t *testing.T, lists ...[]string) *rig {
	t.Helper()
	return lockedRigIn(t, "", lists...)
}

// lockedRigIn is a lockedRig whose JetStream has a domain.
func lockedRigIn(t *testing.T, domain string, lists ...[]string) *rig {
	t.Helper()
	listens := subjectsOf(listens(lockedWorker(""), wants{replays: true}))
	s := testutil.Server(t, func(o *server.Options) {
		o.JetStreamDomain = domain
		o.Users = []*server.User{{Username: "admin", Password: "p"}}
		for i, publish := range lists {
			o.Users = append(o.Users, &server.User{Username: fmt.Sprint("u", i), Password: "p", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: listens}}})
		}
	})
	login := nats.UserInfo("admin", "p")
	s.Login(login)
	r := &rig{server: s, nc: s.Conn(t, login), js: s.JetStream(t, login), natsCommand: testutil.NatsCommand(t)}
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, AllowDirect: true})
	for range 5 {
		if _, err := r.js.Publish(t.Context(), "events.order_placed", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// work runs a worker until it has handled all there is: what it makes is there then.
func (r *rig) work(t *testing.T, cfg worker.Config, user string, h ackfloor.Handler) error {
	t.Helper()
	nc := r.server.Conn(t, nats.UserInfo(user, "p"), nats.CustomInboxPrefix("_INBOX_orders"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	defer nc.Close()
	cfg.ExitWhenIdle = true
	w, err := worker.New(nc, cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return w.Run(ctx)
}

func handled() ackfloor.Handler {
	return ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil })
}

// checks is the command as a process of its own.
func (r *rig) checks(user string, args ...string) *exec.Cmd {
	cmd := exec.Command("ackfloor", append([]string{"check", "--stream", "EVENTS", "--consumer", "orders", "--filter", "events.order_placed"}, args...)...)
	cmd.Env = []string{"NATS_URL=" + r.server.URL(), "NATS_USER=" + user, "NATS_PASSWORD=p", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	return cmd
}

// dryRun is the command without a process of its own, which is slow to start under the race detector.
func (r *rig) dryRun(t *testing.T, cfg worker.Config, w wants, user string) (int, string) {
	t.Helper()
	cfg.Connection.URL, cfg.Connection.User, cfg.Connection.Password = r.server.URL(), user, "p"
	full, err := worker.New(r.nc, cfg, handled())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := &command{screen: &screen{out: &out, err: &out}}
	c.connect.timeout = limit
	k := newChecker(c, full.Config(), w)
	k.run(t.Context(), nil)
	return shutdown.ExitCode(k.end(t.Context())), out.String()
}

func subjectsOf(list []right) (out []string) {
	for _, r := range list {
		out = append(out, r.subject)
	}
	return out
}

// state is all that the server keeps, but for what looking changes.
func (r *rig) state(t *testing.T) string {
	t.Helper()
	var all []any
	for s := range r.js.ListStreams(t.Context()).Info() {
		st := s.State
		all = append(all, s.Config, st)
		stream, err := r.js.Stream(t.Context(), s.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for c := range stream.ListConsumers(t.Context()).Info() {
			all = append(all, c.Config, c.Created, c.Delivered.Stream, c.AckFloor.Stream, c.NumAckPending, c.NumRedelivered, c.NumPending)
		}
	}
	var lines strings.Builder
	for _, one := range all {
		b, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s\n", b)
	}
	return lines.String()
}

// changes are the lines in which two states differ.
func changes(before, after string) string {
	b, a := strings.Split(before, "\n"), strings.Split(after, "\n")
	if len(a) != len(b) {
		return before + "now\n" + after
	}
	var out strings.Builder
	for i := range a {
		if a[i] != b[i] {
			fmt.Fprintf(&out, "was %s\nis  %s\n", b[i], a[i])
		}
	}
	return out.String()
}

// With the rights that permissions prints nothing fails, with one fewer check names that one; and whatever it finds, it leaves everything as it is.
func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, bind := range []string{worker.BindEnsure, worker.BindUpdate, worker.BindExisting} {
		t.Run(bind, func(t *testing.T) {
			t.Parallel()
			cfg := lockedWorker(bind)
			cfg.PinnedTTL = 10 * time.Second
			w := wants{replays: true, admin: true, once: "ackfloor_once", publish: []string{"events.stock_reserved.*"}, read: []string{"events.stock_reserved.*"}}
			list := rights(cfg, w)
			users := [][]string{subjectsOf(list)}
			for i := range list {
				users = append(users, slices.Delete(subjectsOf(list), i, i+1))
			}
			r := lockedRig(t, users...)
			all := cfg
			all.Bind = worker.BindEnsure
			o, err := once.NewKV(r.js, once.KVConfig{})
			if err == nil {
				err = o.Prepare(t.Context(), "EVENTS")
			}
			if err == nil {
				err = r.work(t, all, "admin", handled())
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // to be taken by nobody
				if _, err := r.js.Publish(t.Context(), "events.order_placed", []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
			for end := time.Now().Add(limit); ; { // the server counts them for the consumer a moment later
				c, err := r.js.Consumer(t.Context(), "EVENTS", "orders")
				if err != nil || time.Now().After(end) {
					t.Fatalf("%v, or the messages are not counted", err)
				}
				if c.CachedInfo().NumPending == 3 {
					break
				}
			}
			before := r.state(t)
			args := []string{"--bind", bind, "--pinned", "--admin", "--once", "ackfloor_once", "--publish", "events.stock_reserved.*", "--read", "events.stock_reserved.*"}
			if code, out := outcome(t, r.checks("u0", args...)); code != 0 || strings.Contains(out, "FAIL") || strings.Contains(out, "warn") || !strings.Contains(out, "not tried publish events.stock_reserved.*") {
				t.Errorf("with all rights: %d\n%s", code, out)
			}
			for i, missing := range list {
				code, out := r.dryRun(t, cfg, w, fmt.Sprint("u", i+1))
				said := strings.Contains(out, fmt.Sprintf("publish %s: denied: allow %q to publish", missing.subject, missing.subject))
				fatal := missing.without == "" && !missing.makes
				switch {
				case missing.try == tryNot && code == 0:
				case missing.try == tryNot || !said || fatal && code != 69 || !fatal && code != 0:
					t.Errorf("without %s: %d\n%s", missing.subject, code, out)
				}
			}
			if after := r.state(t); after != before {
				t.Errorf("it changed something:\n%s", changes(before, after))
			}
		})
	}
}

// Where nothing is there yet, it says what would be made, and makes nothing; who may not make it is told.
func TestCheckBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	list := rights(lockedWorker(worker.BindEnsure), wants{replays: true})
	fewer := rights(lockedWorker(worker.BindExisting), wants{replays: true})
	r := lockedRig(t, subjectsOf(list), append(subjectsOf(fewer), "$JS.API.STREAM.INFO.EVENTS"))
	before := r.state(t)
	code, out := outcome(t, r.checks("u0"))
	for _, says := range []string{"the consumer orders: it would be made: starts at all, takes events.order_placed", "dead letters EVENTS_DLQ: their stream would be made",
		"replays of dead letters replay_EVENTS_orders: it would be made", "the bucket of the attempts ackfloor_EVENTS: it would be made"} {
		if !strings.Contains(out, says) || code != 0 {
			t.Errorf("%d, and it does not say %q:\n%s", code, says, out)
		}
	}
	code, out = outcome(t, r.checks("u1"))
	for _, says := range []string{`denied: allow "$JS.API.CONSUMER.CREATE.EVENTS.orders.events.order_placed"`, `denied: allow "$JS.API.STREAM.CREATE.EVENTS_DLQ"`} {
		if !strings.Contains(out, says) || code != 69 {
			t.Errorf("%d, and it does not say %q:\n%s", code, says, out)
		}
	}
	code, out = outcome(t, r.checks("u1", "--bind", "existing"))
	for _, says := range []string{"FAIL      the consumer orders: it is not there", "FAIL      dead letters EVENTS_DLQ", "warn      the bucket of the attempts"} {
		if !strings.Contains(out, says) || code != 69 {
			t.Errorf("%d, and it does not say %q:\n%s", code, says, out)
		}
	}
	if after := r.state(t); after != before {
		t.Errorf("it made something:\n%s", changes(before, after))
	}
	if code, out = outcome(t, r.checks("u0", "--stream", "NONE", "--admin=false")); code != 69 || !strings.Contains(out, "FAIL") {
		t.Errorf("another stream: %d\n%s", code, out)
	}
}

// The rights that are printed are all that a worker needs, which makes what it needs at first and only binds from then on; in a domain, too.
func TestPrintedRightsAreEnough(t *testing.T) {
	t.Parallel()
	for _, domain := range []string{"", "hub"} {
		t.Run("domain "+domain, func(t *testing.T) {
			t.Parallel()
			ensure, existing, w := lockedWorker(worker.BindEnsure), lockedWorker(worker.BindExisting), wants{replays: true}
			ensure.Connection.Domain, existing.Connection.Domain = domain, domain
			ensure.Concurrency = 1
			var leaf []string // without those that the domain's own server wants
			for _, s := range subjectsOf(rights(ensure, w)) {
				if domain == "" || !strings.HasPrefix(s, "$JS.API.") {
					leaf = append(leaf, s)
				}
			}
			r := lockedRigIn(t, domain, subjectsOf(rights(ensure, w)), subjectsOf(rights(existing, w)), leaf)
			code, out := r.dryRun(t, ensure, w, "u2")
			if domain != "" && (code != 69 || !strings.Contains(out, `denied: allow "$JS.API.CONSUMER.INFO.EVENTS.orders" to publish`)) {
				t.Errorf("without what the domain's own server wants: %d\n%s", code, out)
			}
			flaky := ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
				if m.Sequence == 2 {
					return ackfloor.Permanent(os.ErrInvalid)
				}
				return nil
			})
			if code, out := r.dryRun(t, ensure, w, "u0"); code != 0 || strings.Contains(out, "warn") {
				t.Fatalf("before: %d\n%s", code, out)
			}
			if err := r.work(t, ensure, "u0", flaky); err != nil {
				t.Fatal(err)
			}
			code, out = r.dryRun(t, existing, w, "u1")
			if code != 0 || strings.Contains(out, "warn") || !strings.Contains(out, "the bucket of the attempts ackfloor_EVENTS: it is there") {
				t.Fatalf("what it made: %d\n%s", code, out)
			}
			if _, err := r.js.Publish(t.Context(), "events.order_placed", []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if err := r.work(t, existing, "u1", flaky); err != nil {
				t.Fatal(err)
			}
			c, err := r.js.Consumer(t.Context(), "EVENTS", "orders")
			if err != nil {
				t.Fatal(err)
			}
			letters, err := r.js.Stream(t.Context(), "EVENTS_DLQ")
			if err != nil || c.CachedInfo().AckFloor.Stream != 6 || letters.CachedInfo().State.Msgs != 1 {
				t.Errorf("%v, ack floor %d, letters %+v", err, c.CachedInfo().AckFloor.Stream, letters.CachedInfo().State)
			}
		})
	}
}

// Wrong settings are told before a server is asked, a server that is away or knows no such user within the time, each with the worker's exit code.
func TestCheckOfSettings(t *testing.T) {
	t.Parallel()
	r := lockedRig(t, []string{"nothing"})
	for _, c := range []struct {
		code int
		says string
		args []string
		env  string
	}{
		{78, `WORKER_BIND is "sometimes"`, []string{"--bind", "sometimes"}, ""},
		{78, `WORKER_CONCURRENCY is "many"`, nil, "WORKER_CONCURRENCY=many"},
		{0, "WORKER_CONCURENCY is unknown; did you mean WORKER_CONCURRENCY?", nil, "WORKER_CONCURENCY=3"},
		{69, "was not available within", []string{"--server", "nats://127.0.0.1:1", "--timeout", "200ms"}, ""},
		{69, "Authorization", []string{"--timeout", "300ms"}, "NATS_PASSWORD=wrong"},
		{69, `FAIL      subscribe _INBOX_other.>: denied: allow "_INBOX_other.>" to subscribe`, []string{"--inbox-prefix", "_INBOX_other"}, "NATS_USER=u0"},
		{64, "--timeout is 0s", []string{"--timeout", "0s"}, ""},
		{64, "unknown", []string{"--nonsense"}, ""},
	} {
		cmd := r.checks("admin", c.args...)
		cmd.Env = append(cmd.Env, c.env)
		began := time.Now()
		if code, out := outcome(t, cmd); code != c.code || !strings.Contains(out, c.says) || time.Since(began) > limit/2 {
			t.Errorf("%v %s: %d, not %d, or not %q:\n%s", c.args, c.env, code, c.code, c.says, out)
		}
	}
}

// What is wrong with a consumer that is there has the exit code of a wrong configuration, and says what to do.
func TestCheckOfTheConsumer(t *testing.T) {
	t.Parallel()
	r := lockedRig(t)
	for name, c := range map[string]struct {
		code int
		says string
		cfg  jetstream.ConsumerConfig
		args []string
	}{
		"foreign":  {78, "FAIL      the consumer orders: it delivers events.user_registered, which WORKER_FILTER (events.order_placed) does not name", jetstream.ConsumerConfig{FilterSubject: "events.user_registered"}, nil},
		"existing": {0, "warn      the consumer orders: filter_subjects is events.user_registered, the configuration says events.order_placed", jetstream.ConsumerConfig{FilterSubject: "events.user_registered"}, []string{"--bind", "existing", "--dead-letter", "off"}},
		"no acks":  {78, "its ack policy is not explicit", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, FilterSubject: "events.order_placed"}, nil},
		"pinned":   {78, "it is pinned or not, unlike WORKER_PINNED_TTL (10s)", jetstream.ConsumerConfig{FilterSubject: "events.order_placed"}, []string{"--pinned"}},
		"backoff":  {0, "backoff is [1s], the configuration says none; WORKER_BIND=update applies it", jetstream.ConsumerConfig{FilterSubject: "events.order_placed", BackOff: []time.Duration{time.Second}, MaxDeliver: 5}, nil},
		"forgets":  {0, "inactive_threshold is 1h0m0s", jetstream.ConsumerConfig{FilterSubject: "events.order_placed", InactiveThreshold: time.Hour}, nil},
	} {
		c.cfg.Durable = "orders"
		if c.cfg.AckPolicy != jetstream.AckNonePolicy || name != "no acks" {
			c.cfg.AckPolicy = jetstream.AckExplicitPolicy
		}
		if _, err := r.js.CreateOrUpdateConsumer(t.Context(), "EVENTS", c.cfg); err != nil {
			t.Fatal(err)
		}
		if code, out := outcome(t, r.checks("admin", c.args...)); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: %d, not %d, or not %q:\n%s", name, code, c.code, c.says, out)
		}
		if err := r.js.DeleteConsumer(t.Context(), "EVENTS", "orders"); err != nil {
			t.Fatal(err)
		}
	}
}

// Each line of --json is an object with the fields that are documented.
func TestCheckInJSON(t *testing.T) {
	t.Parallel()
	r := lockedRig(t)
	code, out := outcome(t, r.checks("admin", "--json"))
	if code != 0 {
		t.Fatalf("%d\n%s", code, out)
	}
	n := 0
	for line := range strings.Lines(out) {
		var l lineJSON
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Verdict != good || l.What == "" {
			t.Errorf("%v: %s", err, line)
		}
		n++
	}
	if n < 20 || reflect.TypeFor[lineJSON]().NumField() != 4 {
		t.Errorf("%d lines", n)
	}
}
