//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// watched is what was seen of a service over HTTP while it worked, was stopped, killed and started.
type watched struct {
	answered map[string]int // by path
	pids     map[float64]bool
	counted  bool // its metrics have counted messages
	cursors  int  // on its page, at the most
}

var pageOf = regexp.MustCompile(`status page of (\w+) +(http://\S+)`)

// watchPages asks the three services for everything that they serve, again and again, until over is closed. One that is stopped does not answer; one that answers says the right things.
func watchPages(t *testing.T, printed *output, over chan struct{}) map[string]*watched {
	seen := make(map[string]*watched)
	client := &http.Client{Timeout: 5 * time.Second}
	for {
		select {
		case <-over:
			return seen
		case <-time.After(200 * time.Millisecond):
		}
		for _, m := range pageOf.FindAllStringSubmatch(printed.String(), -1) {
			w := seen[m[1]]
			if w == nil {
				w = &watched{answered: make(map[string]int), pids: make(map[float64]bool)}
				seen[m[1]] = w
			}
			for _, path := range []string{"/", "/status", "/livez", "/readyz", "/metrics"} {
				resp, err := client.Get(m[2] + path)
				if err != nil {
					continue // it is away
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || path == "/readyz" && resp.StatusCode == http.StatusServiceUnavailable {
					continue
				}
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s: %s: %d %.200s", m[1], path, resp.StatusCode, body)
					continue
				}
				w.answered[path]++
				w.see(t, path, string(body))
			}
		}
	}
}

func (w *watched) see(t *testing.T, path, body string) {
	switch path {
	case "/":
		w.cursors = max(w.cursors, strings.Count(body, "unprocessed")+strings.Count(body, "all processed"))
	case "/status":
		var s struct {
			Process struct {
				Pid float64 `json:"pid"`
			} `json:"process"`
		}
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Errorf("/status: %v", err)
		}
		w.pids[s.Process.Pid] = true
	case "/metrics":
		w.counted = w.counted || regexp.MustCompile(`(?m)^ackfloor_messages_total\{.*outcome="acked".*\} [1-9]`).MatchString(body)
	}
}

// checkPages tells whether enough was seen.
func checkPages(t *testing.T, seen map[string]*watched) {
	t.Helper()
	if len(seen) != len(services) {
		t.Fatalf("the pages of %d services", len(seen))
	}
	for name, w := range seen {
		for path, n := range map[string]int{"/": 5, "/status": 5, "/livez": 5, "/readyz": 5, "/metrics": 5} {
			if w.answered[path] < n {
				t.Errorf("%s answered %d times at %s", name, w.answered[path], path)
			}
		}
		lives := 2 // stopped or killed, and started again
		if name == "analytics" {
			lives = 1
		}
		if len(w.pids) != lives || !w.counted || w.cursors < len(services) {
			t.Errorf("%s: %d processes, want %d; counted: %v; %d cursors on its page", name, len(w.pids), lives, w.counted, w.cursors)
		}
	}
}
