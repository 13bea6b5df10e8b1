package worker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/caarlos0/env/v11"
)

const (
	healthcheckWait  = 3 * time.Second
	healthcheckBytes = 4 << 10 // of the answer that are printed
)

// healthcheck asks a worker of the same environment how it is, for containers without a shell: `service healthcheck` asks /livez, which does not depend on the
// server's reachability, so that an outage restarts nothing; `service healthcheck readyz` asks /readyz. It prints the answer and returns 0 if it was 200, 1 if not,
// and 78 where nothing is served.
func healthcheck(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	probe := "livez"
	switch {
	case len(args) == 1 && (args[0] == "livez" || args[0] == "readyz"):
		probe = args[0]
	case len(args) > 0:
		fmt.Fprintf(stderr, "healthcheck takes livez or readyz, not %q\n", strings.Join(args, " "))
		return shutdown.ExitConfig
	}
	addr := env.ToMap(os.Environ())[defaultPrefix+"_HTTP_ADDR"]
	if addr == "" || addr == off || !validAddr(addr) {
		fmt.Fprintf(stderr, "%s_HTTP_ADDR is %q: healthcheck needs the address that the worker serves at, such as 127.0.0.1:8080\n", defaultPrefix, addr)
		return shutdown.ExitConfig
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckWait)
	defer cancel()
	url := "http://" + dialable(addr) + "/" + probe
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return shutdown.ExitFailed
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, // no proxy of the environment: the worker is here
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := plain.Do(req)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return shutdown.ExitFailed
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, healthcheckBytes)) // what came of it is shown; the status decides
	for line := range strings.Lines(string(body)) {
		fmt.Fprintln(stdout, printable(strings.TrimSuffix(line, "\n")))
	}
	if resp.StatusCode != http.StatusOK {
		fmt.Fprintf(stderr, "%s: %s\n", url, resp.Status)
		return shutdown.ExitFailed
	}
	return shutdown.ExitOK
}

// dialable is where to reach what listens on addr here: one that names no interface, or all of them, is reached on the loopback one.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
