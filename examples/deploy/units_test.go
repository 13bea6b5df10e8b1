//go:build unix

package deploy

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
)

// unitOf reads a service's unit with the parser of go-systemd: what each option of [Service] says, in order.
func unitOf(t *testing.T, name string) map[string][]string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", name, "deploy", name+".service"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	options, err := unit.DeserializeOptions(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, o := range options {
		if o.Section == "Service" {
			out[o.Name] = append(out[o.Name], o.Value)
		}
	}
	return out
}

// unitEnv is what the unit sets, with folders of the test for %S and %d.
func unitEnv(u map[string][]string, state, credentials string) map[string]string {
	env := map[string]string{}
	for _, line := range u["Environment"] {
		k, v, _ := strings.Cut(line, "=")
		env[k] = strings.NewReplacer("%S", state, "%d", credentials).Replace(v)
	}
	return env
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, name := range services {
		u := unitOf(t, name)
		for option, want := range map[string]string{"Type": "notify", "NotifyAccess": "main", "Restart": "on-failure", "RestartPreventExitStatus": "78", "KillMode": "mixed",
			"ExecStart": "/usr/local/bin/" + name, "StateDirectory": name, "WorkingDirectory": "%S/" + name} {
			if got := u[option]; !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %s=%q, want %q", name, option, got, want)
			}
		}
		env := unitEnv(u, "%S", "%d")
		for _, p := range envProblems(name, env) {
			t.Errorf("%s: %s", name, p)
		}
		for k, v := range env { // each credential that is named is loaded
			if file, ok := strings.CutPrefix(v, "%d/"); ok && !slices.ContainsFunc(u["LoadCredential"], func(l string) bool { return strings.HasPrefix(l, file+":") }) {
				t.Errorf("%s: %s is the credential %s, which is not loaded", name, k, file)
			}
		}
		stop, err := time.ParseDuration(u["TimeoutStopSec"][0] + "s")
		if need := drainTimeout(name, env) + afterDrain; err != nil || stop < need {
			t.Errorf("%s: TimeoutStopSec=%v, want %v at least", name, stop, need)
		}
		if start, err := time.ParseDuration(u["TimeoutStartSec"][0] + "s"); err != nil || start <= time.Minute {
			t.Errorf("%s: TimeoutStartSec=%v: it waits a minute for the server", name, start)
		}
	}
}

// The real programs speak to systemd's socket as their units have it: ready when the consumer is bound, with a status, the watchdog fed, stopping at SIGTERM.
func TestServicesNotify(t *testing.T) {
	t.Parallel()
	server, _ := natsOf(t)
	for _, name := range services {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket, said := notifySocket(t)
			state, u := t.TempDir(), unitOf(t, name)
			dir := filepath.Join(state, name) // StateDirectory
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			out := &lockedBuffer{}
			cmd := exec.Command(filepath.Join(built(t, name), name))
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
			cmd.Env = []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=1000000", "NATS_URL=" + server.ClientURL(), "NATS_TOKEN=" + token}
			for k, v := range unitEnv(u, state, "") {
				if !strings.HasPrefix(v, "/") || strings.HasPrefix(v, state) { // no credentials here: the server has a token
					cmd.Env = append(cmd.Env, k+"="+v)
				}
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			ready := said(t, "READY=1")
			if !strings.Contains(ready, "STATUS=working") {
				t.Errorf("ready with %q", ready)
			}
			said(t, "WATCHDOG=1")
			said(t, "WATCHDOG=1")
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			said(t, "STOPPING=1")
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			case <-time.After(endLimit):
				t.Errorf("it did not end: %s", out)
			}
		})
	}
}

// notifySocket is systemd's side. said waits for a message with a line.
func notifySocket(t *testing.T) (path string, said func(t *testing.T, line string) string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return path, func(t *testing.T, line string) string {
		t.Helper()
		var all []string
		_ = conn.SetReadDeadline(time.Now().Add(endLimit))
		for b := make([]byte, 64<<10); ; {
			n, err := conn.Read(b)
			if err != nil {
				t.Fatalf("no %s: %v; it said %q", line, err, all)
			}
			all = append(all, string(b[:n]))
			if slices.Contains(strings.Split(string(b[:n]), "\n"), line) {
				return string(b[:n])
			}
		}
	}
}
