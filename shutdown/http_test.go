package shutdown_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
)

// serve runs h as a part and returns the server's URL, and a function that stops it and returns its error.
func serve(t *testing.T, srv *http.Server, grace time.Duration) (url string, stop func() error) {
	t.Helper()
	address := make(chan string, 1)
	srv.Addr = "127.0.0.1:0"
	srv.BaseContext = func(l net.Listener) context.Context { address <- l.Addr().String(); return context.Background() }
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- shutdown.HTTP("admin", srv, grace).Run(ctx) }()
	select {
	case a := <-address:
		return "http://" + a, func() error { cancel(); return <-result }
	case err := <-result:
		cancel()
		t.Fatalf("it does not serve: %v", err)
		return "", nil
	}
}

// slow answers after d, or when its client is gone. entered tells that a request is in it.
func slow(d time.Duration) (h http.Handler, entered chan struct{}) {
	entered = make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-time.After(d):
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	}), entered
}

func fetch(client *http.Client, url string) <-chan string {
	answer := make(chan string, 1)
	go func() {
		defer client.CloseIdleConnections()
		resp, err := client.Get(url)
		if err != nil {
			answer <- "error: " + err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	return answer
}

func TestHTTPFinishesRequests(t *testing.T) {
	h, entered := slow(200 * time.Millisecond)
	url, stop := serve(t, &http.Server{Handler: h}, 10*time.Second)
	answer := fetch(&http.Client{Transport: &http.Transport{}}, url)
	<-entered
	if err := stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	if got := <-answer; got != "done" {
		t.Errorf("the open request got %q", got)
	}
	if got := <-fetch(&http.Client{Transport: &http.Transport{}}, url); !strings.HasPrefix(got, "error: ") {
		t.Errorf("it answers after its end: %q", got)
	}
}

func TestHTTPCutsOffAfterGrace(t *testing.T) {
	for _, grace := range []time.Duration{100 * time.Millisecond, 0, -1} {
		h, entered := slow(time.Minute)
		url, stop := serve(t, &http.Server{Handler: h}, grace)
		answer := fetch(&http.Client{Transport: &http.Transport{}}, url)
		<-entered
		start := time.Now()
		if err := stop(); err != nil {
			t.Errorf("grace %v: stopped with %v", grace, err)
		}
		if took := time.Since(start); took < grace || took > grace+5*time.Second {
			t.Errorf("grace %v: took %v", grace, took)
		}
		if got := <-answer; !strings.HasPrefix(got, "error: ") {
			t.Errorf("grace %v: the open request got %q", grace, got)
		}
	}
}

func TestHTTPAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	stopped := false
	start := time.Now()
	err = shutdown.Run(t.Context(),
		shutdown.Part{Name: "worker", Run: func(ctx context.Context) error { <-ctx.Done(); stopped = true; return nil }},
		shutdown.HTTP("admin", &http.Server{Addr: taken.Addr().String()}, time.Minute))
	if err == nil || !strings.HasPrefix(err.Error(), "shutdown: admin: listen tcp 127.0.0.1:") || !stopped {
		t.Errorf("error %v, the worker stopped: %v", err, stopped)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v, want at once", took)
	}
}

// A server that its owner closes has finished, which is no error.
func TestHTTPClosedByItsOwner(t *testing.T) {
	srv := &http.Server{}
	_, stop := serve(t, srv, time.Second)
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestHTTPListenerFails(t *testing.T) {
	srv := &http.Server{Addr: "127.0.0.1:0"}
	srv.BaseContext = func(l net.Listener) context.Context { _ = l.Close(); return context.Background() }
	if err := shutdown.HTTP("admin", srv, time.Second).Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("ended with %v, want the listener's error", err)
	}
}

func TestHTTPWithTLS(t *testing.T) {
	// httptest makes the certificate and a client that trusts it.
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	client := other.Client()
	h, _ := slow(0)
	url, stop := serve(t, &http.Server{Handler: h, TLSConfig: other.TLS.Clone()}, time.Second)
	if got := <-fetch(client, strings.Replace(url, "http:", "https:", 1)); got != "done" {
		t.Errorf("over TLS: %q", got)
	}
	if err := stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
}
