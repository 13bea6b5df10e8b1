package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/admin"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
)

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestOtherHostNamesAreRefused(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{Hosts: []string{"Worker.Example.com", "other:80"}})
	for name, want := range map[string]int{"localhost": 200, "LOCALHOST:8080": 200, "localhost.:1": 200, "127.0.0.1:9": 200, "10.1.2.3": 200, "[::1]:80": 200, "[fe80::1%25eth0]": 200,
		"worker.example.com:8080": 200, "other": 200, "evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "2130706433": 421, "0x7f.1": 421,
		"worker.example.com.evil": 421, "evil.localhost": 421, "localhost:80:90": 421} {
		for _, path := range []string{"/", "/status", "/livez", "/events", "/assets/page.js"} {
			if path == "/events" && want == 200 {
				continue
			}
			if code, body, _ := get(t, x.url+path, host(name)); code != want {
				t.Errorf("Host %s, %s: %d, want %d: %.60s", name, path, code, want, body)
			}
		}
	}
	if got := raw(t, x, "GET http://evil.example/status HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 421 ") {
		t.Errorf("a name in the request line: %.80s", got)
	}
	if got := raw(t, x, "GET /livez HTTP/1.0\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.0 200 ") {
		t.Errorf("a probe without a name: %.80s", got)
	}
}

func TestOtherSitesAreRefused(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{})
	for _, site := range []string{"cross-site", "same-site"} {
		if code, _, _ := get(t, x.url+"/status", header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", "no-cors")); code != 403 {
			t.Errorf("a page of another site (%s) gets %d", site, code)
		}
		if code, _, _ := get(t, x.url+"/", header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")); code != 200 {
			t.Errorf("a link (%s) gets %d", site, code)
		}
		if code, _, _ := get(t, x.url+"/", header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "iframe")); code != 403 {
			t.Errorf("a frame (%s) gets %d", site, code)
		}
	}
}

func TestOnlyGetAndHead(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{Handlers: map[string]http.Handler{"/metrics": http.NotFoundHandler()}})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "FOO"} {
		for _, path := range []string{"/", "/status", "/livez", "/readyz", "/events", "/assets/page.js", "/metrics", "/nothing"} {
			code, _, h := get(t, x.url+path, func(r *http.Request) { r.Method = method })
			if code != http.StatusMethodNotAllowed || h.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
	for _, path := range []string{"/", "/status", "/livez", "/events", "/assets/page.js"} {
		if code, body, h := get(t, x.url+path, func(r *http.Request) { r.Method = http.MethodHead }); code != 200 || body != "" || h.Get("Content-Type") == "" {
			t.Errorf("HEAD %s: %d, %d bytes", path, code, len(body))
		}
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{})
	for _, path := range []string{"/", "/status", "/livez", "/readyz", "/assets/page.css", "/nothing", "/..%2f..%2fetc/passwd"} {
		_, _, h := get(t, x.url+path)
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy lacks %s", path, want)
			}
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" || h.Get("Server") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestPathTricksGetNothing(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{})
	for _, path := range []string{"//", "//evil.example/", "/./", "/../", "/assets", "/assets/", "/assets/../status", "/assets/page.html", "/assets/parts.html", "/assets//page.js",
		"/assets/..%2fpage.html", "/%2e%2e/status", "/status/", "/STATUS", "/status%00", "/livez/x", "/index.html", "/.env", "/debug/pprof/", "/\\evil"} {
		got := raw(t, x, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 404 ") && !strings.HasPrefix(got, "HTTP/1.1 400 ") || strings.Contains(got, "Location:") {
			t.Errorf("%s: %.80s", path, got)
		}
	}
	for _, h := range []string{"Range: bytes=0-3", "Range: bytes=9-1,0-,5-x", "If-None-Match: *", "If-Modified-Since: Fri, 31 Dec 2999 00:00:00 GMT", "Expect: nonsense-continue", "Content-Length: 5"} {
		got := raw(t, x, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+h+"\r\n\r\n12345")
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") && !strings.HasPrefix(got, "HTTP/1.1 417 ") {
			t.Errorf("%s: %.80s", h, got)
		}
	}
}

// raw sends bytes and reads until the server ends the connection.
func raw(t *testing.T, x *rig, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(x.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(15 * time.Second))
	_, _ = io.WriteString(c, request)
	var b bytes.Buffer
	_, _ = b.ReadFrom(c)
	return b.String()
}

func TestHugeRequestsAreRefused(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{})
	big := strings.Repeat("x", 17<<10)
	for what, request := range map[string]string{
		"header": "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + big + "\r\n\r\n", "path": "GET /" + big + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"many headers": "GET /livez HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("A: b\r\n", 5000) + "\r\n",
	} {
		if got := raw(t, x, request); !strings.HasPrefix(got, "HTTP/1.1 431 ") && got != "" {
			t.Errorf("%s: %.80s", what, got)
		}
	}
	began := time.Now()
	body := "GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n" + strings.Repeat("y", 1<<20)
	if got := raw(t, x, body); !strings.HasPrefix(got, "HTTP/1.1 200 ") && got != "" || time.Since(began) > 12*time.Second {
		t.Errorf("a body of 1 GB: %.80s after %v", got, time.Since(began))
	}
}

// A hundred connections that send their headers slowly hold up nobody, and are ended.
func TestSlowHeadersHoldUpNobody(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{})
	ended := make(chan time.Duration, 100)
	for range 100 {
		c, err := net.Dial("tcp", strings.TrimPrefix(x.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: local")
		began := time.Now()
		go func() {
			_ = c.SetReadDeadline(time.Now().Add(15 * time.Second))
			_, _ = io.Copy(io.Discard, c)
			ended <- time.Since(began)
		}()
	}
	for range 20 {
		began := time.Now()
		if code, _, _ := get(t, x.url+"/livez"); code != 200 || time.Since(began) > time.Second {
			t.Fatalf("meanwhile a probe gets %d after %v", code, time.Since(began))
		}
	}
	atOnce := 0
	for range 100 {
		took := <-ended
		if took > 8*time.Second {
			t.Fatalf("a connection was kept for %v", took)
		}
		if took < 3*time.Second {
			atOnce++
		}
	}
	if atOnce < 100-64 {
		t.Errorf("%d of 100 connections were ended at once, want all beyond 64", atOnce)
	}
}

func TestListenersAreBounded(t *testing.T) {
	x := start(t, 1, testutil.Succeed(), admin.Options{})
	var open []*stream
	for range 16 {
		s := listen(t, x.url)
		s.next("parts")
		open = append(open, s)
	}
	code, _, h := get(t, x.url+"/events")
	if code != 503 || h.Get("Retry-After") == "" {
		t.Errorf("the 17th gets %d", code)
	}
	if code, _, _ := get(t, x.url+"/readyz"); code != 200 {
		t.Errorf("meanwhile a probe gets %d", code)
	}
	open[0].close()
	wait(t, "the place of one that has left", func() bool {
		code, _, _ := get(t, x.url+"/events", func(r *http.Request) { r.Method = http.MethodHead })
		return code == 200
	})
}

// narrow makes connections whose buffers hold little, so that a reader who stops is noticed after little.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		_ = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

func TestWhoDoesNotReadIsCutOff(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 40)
	r := newRunner(t, s, "inventory", testutil.Fail(-1, errors.New(strings.Repeat("a long error ", 70))), func(c *worker.Config) { c.RetrySchedule = "100ms" })
	site := admin.Handler(admin.Options{Every: 50 * time.Millisecond}, r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- site.Run(ctx) }()
	defer func() { cancel(); <-ended; <-ended }()
	done := make(chan time.Time, 1)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.ServeHTTP(w, r)
		done <- time.Now()
	}))
	web.Listener = narrow{web.Listener}
	web.Start()
	defer web.Close()
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	c, err := small.DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	select {
	case <-done:
	case <-time.After(8 * time.Second): // the limit of other answers is 10 s
		t.Fatal("a client that does not read keeps its place")
	}
}

// What comes from messages and handlers is text wherever it is shown.
func TestScriptIsText(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>' {{.}} ` + "\u202e\u0007\x1b[31m"
	s := testutil.Server(t)
	s.Events(t, 0)
	subject := `events.<script>alert(3)</script>"'onload=x`
	if _, err := s.JetStream(t).Publish(t.Context(), subject, []byte("<script>p4yl0ad</script>")); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, s, `a<i&"`, ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return ackfloor.Permanent(errors.New(evil)) }))
	site := admin.Handler(admin.Options{}, r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- site.Run(ctx) }()
	defer func() { cancel(); <-ended; <-ended }()
	web := httptest.NewServer(site)
	defer web.Close()
	wait(t, "the failure", func() bool { return len(r.Failures()) == 1 })
	time.Sleep(300 * time.Millisecond)
	events := listen(t, web.URL)
	defer events.close()
	first := events.next("parts")
	_, page, _ := get(t, web.URL+"/")
	_, status, _ := get(t, web.URL+"/status")
	for what, text := range map[string]string{"page": page, "status": status, "events": first} {
		for _, bad := range []string{"<script>alert", "<img src=x", `a<i&`, "p4yl0ad", "\u202e", "\x1b", "\x07"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q in it as it is", what, bad)
			}
		}
		if !strings.Contains(text, "alert(1)") || !strings.Contains(text, "alert(3)") {
			t.Errorf("%s does not show error and subject", what)
		}
	}
}
