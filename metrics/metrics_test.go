package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/metrics"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	lint "github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
)

// scrape is what a registry holds: by name, and by the labels beside stream_name and consumer_name, in words.
type scrape map[string]map[string]*dto.Metric

func gather(t testing.TB, reg prometheus.Gatherer) scrape {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(scrape)
	for _, f := range families {
		out[f.GetName()] = make(map[string]*dto.Metric)
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if l.GetName() != "stream_name" {
					labels = append(labels, l.GetValue())
				}
			}
			out[f.GetName()][strings.Join(labels, " ")] = m // consumer first, then the others by name
		}
	}
	return out
}

func (s scrape) value(name, labels string) float64 {
	m := s[name][labels]
	if m == nil {
		return -1
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

func (s scrape) has(t testing.TB, name, labels string, want float64) {
	t.Helper()
	if got := s.value(name, labels); got != want {
		t.Errorf("%s{%s} is %v, want %v", name, labels, got, want)
	}
}

func newRunner(t testing.TB, s *testutil.S, consumer string, h ackfloor.Handler) *worker.Runner {
	t.Helper()
	r, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: consumer, Concurrency: 2, RetrySchedule: "10ms", MaxAttempts: 3, Logger: zap.NewNop()}, h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs a Runner until the test ends.
func start(t testing.TB, r *worker.Runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return stop
}

// await waits for what a Runner does in its own time.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// Through a server: what becomes of messages, what is held, and where the consumer stands.
func TestOfARunner(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 20)
	x := newMetrics(t, metrics.Options{})
	release := make(chan struct{})
	r := newRunner(t, s, "billing", x.Wrap(testutil.ByData(map[string]ackfloor.Handler{
		"1": testutil.Fail(1, errors.New("once")),
		"2": testutil.Fail(-1, ackfloor.Permanent(errors.New("never"))),
		"3": testutil.Panic("at the disco"),
		"5": testutil.Block(release),
	}, testutil.Succeed())))
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.Collector(r))

	before := gather(t, reg)
	before.has(t, "ackfloor_connected", "billing", 1)
	before.has(t, "ackfloor_ready", "billing", 0)
	before.has(t, "ackfloor_concurrency", "billing", 2)
	before.has(t, "ackfloor_handle_timeout_seconds", "billing", 300)
	before.has(t, "ackfloor_drain_timeout_seconds", "billing", 25)
	before.has(t, "ackfloor_draining_seconds", "billing", 0)
	before.has(t, "ackfloor_messages_total", "billing acked", 0)
	before.has(t, "ackfloor_pull_errors_total", "billing lost", 0)
	if before["ackfloor_pending"] != nil || before["ackfloor_ack_floor_stream_sequence"] != nil {
		t.Error("before anybody has looked, the consumer is said to stand somewhere")
	}

	stop := start(t, r)
	await(t, "all but one", func() bool { c := r.Status().Counts; return c.Acked == 17 && c.DeadLettered == 2 && c.Unconfirmed == 0 })
	if _, err := r.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := gather(t, reg)
	for labels, want := range map[string]float64{"acked": 17, "retried": 3, "dead_lettered": 2, "terminated": 0, "returned": 0, "unconfirmed": 0} {
		now.has(t, "ackfloor_messages_total", "billing "+labels, want)
	}
	now.has(t, "ackfloor_panics_total", "billing", 3)
	now.has(t, "ackfloor_attempts_exhausted_total", "billing", 1)
	now.has(t, "ackfloor_held", "billing running", 1)
	now.has(t, "ackfloor_held", "billing waiting", 0)
	now.has(t, "ackfloor_ready", "billing", 1)
	now.has(t, "ackfloor_alive", "billing", 1)
	now.has(t, "ackfloor_draining", "billing", 0)
	now.has(t, "ackfloor_ack_floor_stream_sequence", "billing", 5)
	now.has(t, "ackfloor_delivered_stream_sequence", "billing", 20)
	now.has(t, "ackfloor_ack_pending", "billing", 1)
	now.has(t, "ackfloor_pending", "billing", 0)
	if v := now.value("ackfloor_running_oldest_seconds", "billing"); v <= 0 || v > 20 {
		t.Errorf("the handler that hangs has run for %v s", v)
	}
	if v := now.value("ackfloor_deliveries_total", "billing"); v < 20 || v > 23 { // a near retry needs none
		t.Errorf("%v deliveries", v)
	}
	took := now["ackfloor_handle_duration_seconds"]
	for labels, want := range map[string]uint64{"billing ok": 17, "billing failed": 1, "billing permanent": 1, "billing panicked": 3} {
		if got := took[labels].GetHistogram().GetSampleCount(); got != want {
			t.Errorf("calls %s: %d, want %d", labels, got, want)
		}
	}
	if len(took) != 4 {
		t.Errorf("outcomes that there were not: %v", took)
	}
	if a := now["ackfloor_handle_attempt"]["billing"].GetHistogram(); a.GetSampleCount() != 23 || a.GetSampleSum() != 20+2+2+3 {
		t.Errorf("attempts: %v", a)
	}
	close(release)
	stop()
	after := gather(t, reg)
	after.has(t, "ackfloor_messages_total", "billing acked", 18)
	after.has(t, "ackfloor_held", "billing running", 0)
	after.has(t, "ackfloor_ack_floor_age_seconds", "billing", 0)
	after.has(t, "ackfloor_ack_floor_stream_sequence", "billing", 20)
}

// The linter of promtool has nothing to say about what two Runners in one registry expose, after everything has happened to them; and their series differ by labels only.
func TestTwoRunnersInOneRegistry(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 4)
	reg := prometheus.NewPedanticRegistry()
	for _, consumer := range []string{"billing", "email"} {
		x := newMetrics(t, metrics.Options{Kind: kinds, Kinds: []string{"events"}})
		r := newRunner(t, s, consumer, x.Wrap(testutil.ByData(map[string]ackfloor.Handler{"1": testutil.Panic(1)}, testutil.Succeed())))
		c := x.Collector(r)
		reg.MustRegister(c)
		if err := reg.Register(x.Collector(r)); err == nil {
			t.Error("a second collector of one Runner was taken")
		}
		start(t, r)
		await(t, "all messages", func() bool { c := r.Status().Counts; return c.Acked == 3 && c.DeadLettered == 1 })
	}
	problems, err := lint.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	now := gather(t, reg)
	for _, consumer := range []string{"billing", "email"} {
		now.has(t, "ackfloor_messages_total", consumer+" acked", 3)
		if n := now["ackfloor_handle_duration_seconds"][consumer+" events ok"].GetHistogram().GetSampleCount(); n != 3 {
			t.Errorf("%s: %d calls", consumer, n)
		}
	}
	families, _ := reg.Gather()
	for _, f := range families {
		for _, m := range f.Metric {
			names := map[string]bool{}
			for _, l := range m.Label {
				names[l.GetName()] = true
			}
			if !names["stream_name"] || !names["consumer_name"] || !strings.HasPrefix(f.GetName(), "ackfloor_") {
				t.Errorf("%s has the labels %v", f.GetName(), names)
			}
		}
	}
}

// Part registers the Runner while its context lives, and a process whose metrics can't be registered does not go on without them.
func TestPart(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 0)
	x := newMetrics(t, metrics.Options{})
	r := newRunner(t, s, "billing", testutil.Succeed())
	reg := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- x.Part(reg)(ctx, r) }()
	await(t, "the metrics", func() bool { return len(gather(t, reg)) > 0 })
	if gather(t, reg)["ackfloor_handle_duration_seconds"] != nil {
		t.Error("without Wrap, calls are said to be observed")
	}
	if err := x.Part(reg)(t.Context(), r); err == nil || !strings.HasPrefix(err.Error(), "metrics: register: ") {
		t.Errorf("a second time: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := len(gather(t, reg)); n != 0 {
		t.Errorf("%d metrics are left", n)
	}
}

// call calls a handler as a slot does, in a goroutine that may end.
func call(ctx context.Context, h ackfloor.Handler, m *ackfloor.Message) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		_ = h.Handle(ctx, m)
	}()
	<-done
}

type brokenError struct{}

func (*brokenError) Error() string   { return "broken" }
func (*brokenError) Is(error) bool   { panic("a nil pointer") }
func (*brokenError) As(any) bool     { panic("a nil pointer") }
func (e *brokenError) Unwrap() error { return nil }

// Every way in which a call can end has its outcome, and time that passes is what is counted.
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newMetrics(t, metrics.Options{})
		reg := prometheus.NewRegistry()
		s := testutil.Bubble(t)
		s.Events(t, 0)
		r := newRunner(t, s, "a", testutil.Succeed())
		reg.MustRegister(x.Collector(r))
		down := errors.New("down")
		live := t.Context()
		over := func(cause error) context.Context {
			ctx, cancel := context.WithCancelCause(live)
			cancel(cause)
			return ctx
		}
		took := time.Second
		for _, c := range []struct {
			want string
			ctx  context.Context
			h    ackfloor.Handler
		}{
			{"ok", live, testutil.Succeed()},
			{"ok", over(ackfloor.ErrStopping), testutil.Succeed()},
			{"failed", live, testutil.Fail(-1, down)},
			{"failed", over(errors.New("another")), testutil.Fail(-1, down)},
			{"failed", live, testutil.Fail(-1, &brokenError{})},
			{"permanent", live, testutil.Fail(-1, fmt.Errorf("so: %w", ackfloor.Permanent(down)))},
			{"permanent", over(ackfloor.ErrStopping), testutil.Fail(-1, ackfloor.Permanent(down))},
			{"permanent", live, ackfloor.JSON(func(context.Context, int, *ackfloor.Message) error { return nil })},
			{"retry_after", live, testutil.Fail(-1, ackfloor.RetryAfter(time.Second, down))},
			{"paused", live, testutil.Fail(-1, errors.Join(ackfloor.Pause(time.Second, down), ackfloor.RetryAfter(1, down)))},
			{"timed_out", over(ackfloor.ErrHandleTimeout), testutil.Fail(-1, down)},
			{"paused", over(ackfloor.ErrHandleTimeout), testutil.Fail(-1, ackfloor.Pause(time.Second, down))},
			{"interrupted", over(ackfloor.ErrStopping), testutil.Fail(-1, down)},
			{"interrupted", over(fmt.Errorf("so: %w", ackfloor.ErrLeaseLost)), testutil.Fail(-1, ackfloor.Pause(time.Second, down))},
			{"panicked", live, testutil.Panic("at the disco")},
			{"panicked", live, testutil.Goexit()},
			{"panicked", over(ackfloor.ErrStopping), testutil.Fail(-1, &ackfloor.PanicError{Value: 1})},
		} {
			labels := "a " + c.want
			before := gather(t, reg)["ackfloor_handle_duration_seconds"][labels].GetHistogram()
			sleepy := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
				time.Sleep(took)
				return c.h.Handle(ctx, m)
			})
			call(c.ctx, x.Wrap(sleepy), testutil.Message("events.a", "no number"))
			after := gather(t, reg)["ackfloor_handle_duration_seconds"][labels].GetHistogram()
			if after.GetSampleCount() != before.GetSampleCount()+1 || after.GetSampleSum() != before.GetSampleSum()+took.Seconds() {
				t.Errorf("%s: %v after %v", c.want, after, before)
			}
			took += time.Second
		}
	})
}

// How old a message is follows a clock that runs, from when the server stored it; and attempts beyond those told apart are in the sum.
func TestAgeAndAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newMetrics(t, metrics.Options{})
		s := testutil.Bubble(t)
		s.Events(t, 0)
		reg := prometheus.NewRegistry()
		reg.MustRegister(x.Collector(newRunner(t, s, "a", testutil.Succeed())))
		h := x.Wrap(testutil.Succeed())
		start := time.Now()
		for _, attempt := range []int{1, 2, 10, 11, 25} {
			time.Sleep(time.Minute)
			if err := h.Handle(t.Context(), testutil.Message("events.a", nil, testutil.Published(start), testutil.Attempt(attempt))); err != nil {
				t.Error(err)
			}
		}
		now := gather(t, reg)
		if age := now["ackfloor_message_age_seconds"]["a"].GetHistogram(); age.GetSampleSum() != 60*(1+2+3+4+5) || age.GetSampleCount() != 5 {
			t.Errorf("ages: %v", age)
		}
		a := now["ackfloor_handle_attempt"]["a"].GetHistogram()
		if a.GetSampleSum() != 1+2+10+11+25 || a.GetSampleCount() != 5 || a.Bucket[0].GetCumulativeCount() != 1 || a.Bucket[9].GetCumulativeCount() != 3 {
			t.Errorf("attempts: %v", a)
		}
	})
}

// Whatever a message's kind is said to be, the number of series stays what it is.
func TestKindsAreBounded(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 0)
	x := newMetrics(t, metrics.Options{Kind: func(m *ackfloor.Message) string { return m.Subject }, Kinds: []string{"events.a", "events.b", "events.a"}})
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.Collector(newRunner(t, s, "a", testutil.Succeed())))
	h := x.Wrap(testutil.Succeed())
	series := func() (n int) {
		for _, f := range gather(t, reg) {
			n += len(f)
		}
		return n
	}
	before := series()
	for i := range 1000 {
		_ = h.Handle(t.Context(), testutil.Message(fmt.Sprintf("events.%d\xff", i), nil))
	}
	_ = h.Handle(t.Context(), testutil.Message("events.b", nil))
	if after := series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	now := gather(t, reg)["ackfloor_message_age_seconds"]
	if a, b, o := now["a events.a"], now["a events.b"], now["a other"]; len(now) != 3 ||
		a.GetHistogram().GetSampleCount() != 0 || b.GetHistogram().GetSampleCount() != 1 || o.GetHistogram().GetSampleCount() != 1000 {
		t.Errorf("%v", now)
	}
}

// Of many kinds each has its own, as of few.
func TestManyKinds(t *testing.T) {
	s := testutil.Server(t)
	var list []string
	for i := range metrics.MaxKinds - 1 {
		list = append(list, fmt.Sprint("kind", i))
	}
	x := newMetrics(t, metrics.Options{Kind: func(m *ackfloor.Message) string { return m.Subject }, Kinds: append(list, "other")})
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.Collector(newRunner(t, s, "a", testutil.Succeed())))
	for _, k := range append(list, "other", "more") {
		_ = x.Wrap(testutil.Succeed()).Handle(t.Context(), testutil.Message(k, nil))
	}
	now := gather(t, reg)["ackfloor_message_age_seconds"]
	for k, m := range now {
		if n := m.GetHistogram().GetSampleCount(); n != 1 && k != "a other" || k == "a other" && n != 2 {
			t.Errorf("%s: %d calls", k, n)
		}
	}
	if len(now) != metrics.MaxKinds {
		t.Errorf("%d kinds", len(now))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	kind := func(*ackfloor.Message) string { return "" }
	for want, o := range map[string]metrics.Options{
		"Buckets":     {Buckets: []float64{1, 2, 2}},
		"AgeBuckets":  {AgeBuckets: []float64{0}},
		"below 9":     {Buckets: []float64{1e300}},
		"go together": {Kind: kind},
		"and Kinds":   {Kinds: []string{"a"}},
		"up to 100":   {Kind: kind, Kinds: make([]string, 101)},
		"takes text":  {Kind: kind, Kinds: []string{"\xff"}},
	} {
		if _, err := metrics.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestWrapAllocatesNothing(t *testing.T) {
	for _, o := range []metrics.Options{{}, {Kind: kinds, Kinds: []string{"events"}}} {
		h := newMetrics(t, o).Wrap(testutil.Fail(-1, nil))
		m := testutil.Message("events.a", nil)
		_ = h.Handle(t.Context(), m)
		if n := testing.AllocsPerRun(1000, func() { _ = h.Handle(t.Context(), m) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// Scrapes beside calls see counts that only grow.
func TestScrapesBesideCalls(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 5000)
	x := newMetrics(t, metrics.Options{})
	r := newRunner(t, s, "a", x.Wrap(testutil.Succeed()))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(x.Collector(r))
	start(t, r)
	last := make(map[string]uint64)
	for done := false; !done; runtime.Gosched() {
		done = r.Status().Counts.Acked == 5000
		for name, f := range gather(t, reg) {
			for labels, m := range f {
				if h := m.GetHistogram(); h != nil {
					for i, b := range h.Bucket {
						key := fmt.Sprint(name, labels, i)
						if b.GetCumulativeCount() < last[key] || b.GetCumulativeCount() > h.GetSampleCount() {
							t.Fatalf("%s: %d, after %d, of %d", key, b.GetCumulativeCount(), last[key], h.GetSampleCount())
						}
						last[key] = b.GetCumulativeCount()
					}
				}
			}
		}
	}
	if n := gather(t, reg)["ackfloor_message_age_seconds"]["a"].GetHistogram().GetSampleCount(); n != 5000 {
		t.Errorf("%d calls", n)
	}
}

// What waits for a slot is told from what runs.
func TestWaiting(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 4)
	release := make(chan struct{})
	defer close(release)
	r, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "a", Concurrency: 1, Prefetch: 3, Logger: zap.NewNop()}, testutil.Block(release))
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(newMetrics(t, metrics.Options{}).Collector(r))
	start(t, r)
	await(t, "three that wait", func() bool {
		now := gather(t, reg)
		return now.value("ackfloor_held", "a waiting") == 3 && now.value("ackfloor_held", "a running") == 1 && now.value("ackfloor_held_limit", "a") == 4 &&
			now.value("ackfloor_waiting_oldest_seconds", "a") > 0 && now.value("ackfloor_running_oldest_seconds", "a") > 0
	})
}

// What a Look sees replaces what is shown, while somebody else works on the consumer.
func TestLagFollowsTheLooks(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 0)
	x := newMetrics(t, metrics.Options{})
	release := make(chan struct{})
	defer close(release)
	r := newRunner(t, s, "a", testutil.Block(release))
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.Collector(r))
	s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "a", AckWait: 30 * time.Second, MaxAckPending: 2})
	start(t, r)
	await(t, "the start", func() bool { return r.Status().State == worker.StateWorking })
	s.Events(t, 10)
	await(t, "the lag", func() bool {
		if _, err := r.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := gather(t, reg)
		return now.value("ackfloor_pending", "a") == 8 && now.value("ackfloor_ack_pending", "a") == 2 && now.value("ackfloor_ack_floor_age_seconds", "a") > 0
	})
}
