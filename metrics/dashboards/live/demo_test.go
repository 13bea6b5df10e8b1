package live

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

var pageOf = regexp.MustCompile(`status page of (\w+) +http://(\S+)`)

// The dashboard shows the three example services while the demo has traffic on them, stops one, kills one, and restarts their server.
func TestDemo(t *testing.T) {
	t.Parallel()
	program(t, "prometheus")
	bin := t.TempDir()
	build := []string{"build", "-o", bin + string(filepath.Separator)}
	for _, name := range []string{"demo", "inventory", "email", "analytics"} {
		build = append(build, "github.com/ackfloor/ackfloor/examples/"+name)
	}
	if out, err := exec.CommandContext(t.Context(), "go", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	demo := launch(t, "the demo", nil, filepath.Join(bin, "demo"), "-plain", "-rate", "60", "-bin", bin, "-dir", filepath.Join(t.TempDir(), "demo"))
	var shop []*service
	await(t, 60*time.Second, "the demo to say where the pages are", func() bool {
		shop = nil
		for _, m := range pageOf.FindAllStringSubmatch(demo.output(), -1) {
			shop = append(shop, &service{consumer: m[1], addr: m[2]})
		}
		return len(shop) == 3
	})
	s := startPrometheus(t, "Prometheus beside the demo", []string{absolute(t, rulesFile)}, shop)
	await(t, 60*time.Second, "the server to be restarted, and everything to go on", func() bool {
		back, err := s.query(`count(ackfloor_reconnects_total > 0 and on (instance) ackfloor_connected == 1)`)
		return err == nil && len(back.Result) > 0
	})
	checkPanels(t, "beside the demo", s, "Calls that were not good") // of which there are none
	rules, err := s.rules()
	if err != nil || len(rules) < 30 {
		t.Errorf("%v, %d rules", err, len(rules))
	}
	for _, r := range rules {
		if r.Health == "err" {
			t.Errorf("%s: %s", r.Name, r.LastError)
		}
	}
	select {
	case <-demo.ended:
	case <-time.After(60 * time.Second):
		t.Fatal("the demo does not end")
	}
	if code := demo.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the demo ended with %d", code)
	}
}
