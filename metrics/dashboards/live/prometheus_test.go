package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var client = &http.Client{Timeout: 10 * time.Second}

// program is the path of prometheus or promtool. Where it is missing the test is skipped, or fails where it is asked for.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("ACKFLOOR_NEED_PROMETHEUS") == "1" {
		t.Fatalf("ACKFLOOR_NEED_PROMETHEUS=1, and %v", err)
	}
	t.Skipf("SKIPPED: alerts and dashboard are not tried, since %s is not installed (Debian: apt-get install prometheus): %v", name, err)
	return ""
}

// server is a Prometheus that the test has started.
type server struct{ url string }

// startPrometheus scrapes every second.
func startPrometheus(t *testing.T, name string, rules []string, services []*service, flags ...string) *server {
	t.Helper()
	dir := t.TempDir()
	var targets, files []string
	for _, s := range services {
		targets = append(targets, strconv.Quote(s.addr))
	}
	for _, r := range rules {
		files = append(files, strconv.Quote(r))
	}
	config := fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
  - job_name: shop
    static_configs: [{targets: [%s]}]
`, strings.Join(files, ", "), strings.Join(targets, ", "))
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	p := launch(t, name, nil, append([]string{program(t, "prometheus"), "--config.file=" + path, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + addr, "--log.level=warn"}, flags...)...)
	s := &server{"http://" + addr}
	await(t, 15*time.Second, name, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("%s ended: %v", name, p.cmd.ProcessState)
		default:
		}
		resp, err := client.Get(s.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return s
}

// ask calls the API; the error is what it says.
func (s *server) ask(path string, params url.Values, data any) error {
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	b, err := fetch(s.url + "/api/v1/" + path + "?" + params.Encode())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// result is what a query returned.
type result struct {
	ResultType string
	Result     []struct {
		Metric map[string]string
	}
}

func (s *server) query(expr string) (result, error) {
	var r result
	err := s.ask("query", url.Values{"query": {expr}}, &r)
	return r, err
}

// queryRange asks for the last seconds, as a panel does.
func (s *server) queryRange(expr string, last time.Duration) (result, error) {
	now := time.Now()
	var r result
	err := s.ask("query_range", url.Values{"query": {expr}, "start": {unix(now.Add(-last))}, "end": {unix(now)}, "step": {"1"}}, &r)
	return r, err
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// rule is an alerting or recording rule as Prometheus has loaded it.
type rule struct {
	Name, Query, Health, LastError, Type string
	Alerts                               []alert
}

type alert struct {
	Labels, Annotations map[string]string
	State               string
}

func (s *server) rules() ([]rule, error) {
	var all struct {
		Groups []struct {
			Rules []rule
		}
	}
	err := s.ask("rules", nil, &all)
	var out []rule
	for _, g := range all.Groups {
		out = append(out, g.Rules...)
	}
	return out, err
}
