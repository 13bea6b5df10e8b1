package worker

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/shutdown"
)

// healthcheck asks the address of the environment, the probe that is named, and exits with what came of it.
func TestHealthcheck(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/livez":
			_, _ = w.Write([]byte("ok\n"))
		case "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("not connected\x1b[2J\n" + strings.Repeat("x", 1<<20)))
		}
	}))
	defer srv.Close()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // a proxy is not asked
	for _, tc := range []struct {
		addr string
		args []string
		code int
		out  string
	}{
		{"127.0.0.1:" + port, nil, shutdown.ExitOK, "ok\n"},
		{":" + port, nil, shutdown.ExitOK, "ok\n"},
		{"0.0.0.0:" + port, []string{"livez"}, shutdown.ExitOK, "ok\n"},
		{"127.0.0.1:" + port, []string{"readyz"}, shutdown.ExitFailed, "not connected\\x1b[2J\n"},
		{"127.0.0.1:1", nil, shutdown.ExitFailed, ""},
		{"off", nil, shutdown.ExitConfig, ""},
		{"", nil, shutdown.ExitConfig, ""},
		{"nonsense", nil, shutdown.ExitConfig, ""},
		{"127.0.0.1:" + port, []string{"status"}, shutdown.ExitConfig, ""},
		{"127.0.0.1:" + port, []string{"livez", "readyz"}, shutdown.ExitConfig, ""},
	} {
		t.Setenv("WORKER_HTTP_ADDR", tc.addr)
		var out, errs bytes.Buffer
		code := run(single(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil })), append([]string{"healthcheck"}, tc.args...), &out, &errs, nil)
		if code != tc.code || !strings.HasPrefix(out.String(), tc.out) || out.Len() > 2*healthcheckBytes || (code == 0) != (errs.Len() == 0) {
			t.Errorf("%q %v: code %d, %.100q, %q", tc.addr, tc.args, code, out.String(), errs.String())
		}
	}
	if got := dialable("[::]:80"); got != "[::1]:80" {
		t.Errorf("[::]:80 is reached at %s", got)
	}
}
