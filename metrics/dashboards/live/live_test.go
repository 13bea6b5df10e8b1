package live

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// Three services under load, of which one is restarted, one is killed and started again, and whose server is restarted; and some that are in trouble, each
// in its own way. Every query of the dashboard has an answer, by classic and by native histograms; every alert can be asked for, and is provoked; and none fires for the three.
func TestLive(t *testing.T) {
	t.Parallel()
	program(t, "promtool")
	program(t, "prometheus")
	nats := testutil.Server(t)
	nats.Events(t, 0)
	load := newLoad(t, nats, "events.inventory", "events.email", "events.analytics")
	var shop []*service
	for _, consumer := range []string{"inventory", "email", "analytics"} {
		shop = append(shop, newService(t, nats.URL(), consumer, "WORKER_RETRY=200ms,2s"))
	}
	hard := newTroubles(t)
	all := append(slices.Clone(shop), hard.services...)
	classic := startPrometheus(t, "Prometheus", []string{absolute(t, rulesFile), quickened(t)}, all)
	native := startPrometheus(t, "Prometheus with native histograms", []string{absolute(t, rulesFile)}, all, "--enable-feature=native-histograms")
	bin := tools(t)
	for _, s := range shop {
		s.start(t)
	}
	for _, s := range []*server{classic, native} { // a Prometheus looks for its targets every five seconds
		await(t, 15*time.Second, "the first scrapes", func() bool {
			r, err := s.query("up")
			return err == nil && len(r.Result) == len(all)
		})
	}
	seen := watch(t, classic)

	hard.begin(t)
	load.fast()
	time.Sleep(3 * time.Second)
	shop[0].stop(t, syscall.SIGTERM)
	shop[0].start(t)
	shop[1].stop(t, syscall.SIGKILL)
	shop[1].start(t)
	time.Sleep(time.Second)
	nats.Restart()
	hard.worsen(t)
	checkMetrics(t, shop[2])

	checkCommands(t, bin, nats.URL(), shop[1])
	seen.await(t, wanted(t, classic))
	for by, s := range map[string]*server{"classic": classic, "native": native} {
		checkPanels(t, by, s)
		checkRules(t, by, s)
	}
	for _, s := range shop {
		if names := seen.of("Ackfloor", s.consumer); len(names) > 0 {
			t.Errorf("%s: false alarms: %v", s.consumer, names)
		}
	}
	for _, c := range []struct {
		what string
		s    *server
		expr string
	}{
		{"counters begin at zero again", classic, `resets(ackfloor_deliveries_total{consumer_name=~"inventory|email"}[2m]) > 0`},
		{"and what they count goes on", classic, `increase(ackfloor_deliveries_total{consumer_name=~"inventory|email"}[2m]) > 0`},
		{"the server's restart was seen", classic, `ackfloor_reconnects_total{consumer_name="analytics"} > 0`},
		{"histograms are classic ones", classic, `ackfloor_message_age_seconds_bucket unless on () ackfloor_message_age_seconds`},
		{"histograms are native ones", native, `ackfloor_message_age_seconds unless on () ackfloor_message_age_seconds_bucket`},
	} {
		if r, err := c.s.query(c.expr); err != nil || len(r.Result) == 0 {
			t.Errorf("%s: %v, %d series of %s", c.what, err, len(r.Result), c.expr)
		}
	}
}

// wanted are the quickened alerts, all of them.
func wanted(t *testing.T, s *server) []string {
	t.Helper()
	rules, err := s.rules()
	if err != nil || len(rules) < 40 {
		t.Fatalf("%v, %d rules", err, len(rules))
	}
	var out []string
	for _, r := range rules {
		if r.Type == "alerting" && strings.HasPrefix(r.Name, "Quick") {
			out = append(out, r.Name)
		}
	}
	return out
}

// checkPanels asks for every query of the dashboard. Panels that may be empty are named.
func checkPanels(t *testing.T, by string, s *server, empty ...string) {
	t.Helper()
	for _, q := range dashboard(t) {
		var r result
		var err error
		if q.instant {
			r, err = s.query(q.expr)
		} else {
			r, err = s.queryRange(q.expr, 20*time.Second)
		}
		if err != nil || len(r.Result) == 0 && !slices.Contains(empty, q.panel) {
			t.Errorf("%s: panel %q: %v, %d series of %s", by, q.panel, err, len(r.Result), q.expr)
		}
	}
}

// checkRules asks for each rule by itself. What is recorded is there; what alerts may have nothing to say.
func checkRules(t *testing.T, by string, s *server) {
	t.Helper()
	rules, err := s.rules()
	if err != nil || len(rules) < 30 {
		t.Errorf("%s: %v, %d rules", by, err, len(rules))
	}
	for _, r := range rules {
		if r.Health != "ok" {
			t.Errorf("%s: %s: %s %s", by, r.Name, r.Health, r.LastError)
		}
		got, err := s.query(r.Query)
		if err != nil || got.ResultType != "vector" {
			t.Errorf("%s: %s: %v, a %q", by, r.Name, err, got.ResultType)
		}
		if r.Type == "recording" && len(got.Result) == 0 {
			t.Errorf("%s: %s records nothing", by, r.Name)
		}
	}
}

// sightings are the alerts that fired while a test ran.
type sightings struct {
	mu    sync.Mutex
	fired map[string]map[string]alert // by name and consumer
	stop  chan struct{}
	ended chan struct{}
}

// watch looks at the alerts of a Prometheus until the test ends.
func watch(t *testing.T, s *server) *sightings {
	x := &sightings{fired: make(map[string]map[string]alert), stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(x.ended)
		for {
			rules, _ := s.rules() // one look of many
			for _, r := range rules {
				for _, a := range r.Alerts {
					x.saw(r.Name, a)
				}
			}
			select {
			case <-x.stop:
				return
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { close(x.stop); <-x.ended })
	return x
}

func (x *sightings) saw(name string, a alert) {
	if a.State != "firing" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fired[name] == nil {
		x.fired[name] = make(map[string]alert)
	}
	x.fired[name][a.Labels["consumer_name"]] = a
}

// await waits until each of the alerts has fired for the one that was provoked, and reads its texts.
func (x *sightings) await(t *testing.T, names []string) {
	t.Helper()
	missing := func() (out []string) {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, n := range names {
			if _, ok := x.fired[n][provoked[n]]; !ok {
				out = append(out, fmt.Sprintf("%s of %s", n, provoked[n]))
			}
		}
		return out
	}
	for end := time.Now().Add(time.Minute); len(missing()) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("these did not fire: %s", strings.Join(missing(), ", "))
			break
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, by := range x.fired {
		for _, a := range by {
			for key, text := range a.Annotations {
				if strings.Contains(text, "error expanding") || strings.Contains(text, "<no value>") || strings.Contains(text, "{{") || text == "" {
					t.Errorf("%s: %s: %q", name, key, text)
				}
			}
		}
	}
}

// of are the alerts that fired for a consumer.
func (x *sightings) of(prefix, consumer string) (out []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, by := range x.fired {
		if _, ok := by[consumer]; ok && strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out
}
