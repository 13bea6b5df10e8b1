package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/admin"
	"github.com/ackfloor/ackfloor/testutil"
)

// stream is a client of /events.
type stream struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	close func()
}

func listen(t *testing.T, url string) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", nil)
	transport := &http.Transport{}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	s := &stream{t: t, resp: resp, lines: lines, close: func() { cancel(); resp.Body.Close(); transport.CloseIdleConnections() }}
	t.Cleanup(s.close)
	return s
}

// next waits for an event of a kind and returns its data.
func (s *stream) next(kind string) string {
	s.t.Helper()
	for found := false; s.lines.Scan(); {
		line := s.lines.Text()
		if found && strings.HasPrefix(line, "data: ") {
			return strings.TrimPrefix(line, "data: ")
		}
		found = line == "event: "+kind
	}
	s.t.Fatalf("the stream ended before an event %q: %v", kind, s.lines.Err())
	return ""
}

func TestEventsFollowTheWorker(t *testing.T) {
	x := start(t, 3, testutil.Succeed(), admin.Options{})
	s := listen(t, x.url)
	if hello := s.next("hello"); !strings.Contains(hello, "assets") {
		t.Errorf("hello: %s", hello)
	}
	parts := func() map[string]string {
		t.Helper()
		var p map[string]string
		if err := json.Unmarshal([]byte(s.next("parts")), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := parts()
	if len(first) != 6 || !strings.Contains(first["settings"], "WORKER_STREAM") {
		t.Errorf("the first event has %d parts", len(first))
	}
	x.server.Events(t, 5)
	for limit := time.Now().Add(10 * time.Second); ; {
		p := parts()
		if _, ok := p["settings"]; ok {
			t.Fatal("what has not changed is sent again")
		}
		if strings.Contains(p["tape"], "acknowledgment floor 8") {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the tape has not moved: %s", p["tape"])
		}
	}
}

// The server is asked once for all who look, and seldom while nobody does.
func TestServerIsAskedOnceForAll(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{Every: 300 * time.Millisecond})
	wait(t, "the worker to be ready", func() bool { code, _, _ := get(t, x.url+"/readyz"); return code == 200 })
	asked := 0
	sub, err := x.server.Conn(t).SubscribeSync("$JS.API.STREAM.INFO.EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	count := func(d time.Duration) int {
		asked = 0
		for limit := time.Now().Add(d); ; asked++ {
			if _, err := sub.NextMsg(time.Until(limit)); err != nil {
				return asked
			}
		}
	}
	if n := count(2 * time.Second); n > 1 {
		t.Errorf("while nobody looks the server is asked %d times in 2 s", n)
	}
	for range 10 {
		listen(t, x.url).next("parts")
	}
	count(time.Millisecond)
	if n := count(3 * time.Second); n < 6 || n > 12 {
		t.Errorf("while ten look the server is asked %d times in 3 s, want about 10", n)
	}
}

// The limits of a request and of an answer are not those of a stream: it goes on past both.
func TestEventsOutliveTheLimits(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{})
	s := listen(t, x.url)
	for began := time.Now(); time.Since(began) < 12*time.Second; {
		s.next("parts")
	}
}
