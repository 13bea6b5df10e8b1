package testutil

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

const natsCommandVersion = "0.5.0"

// ServerBinary returns the path of a nats-server binary of the version that is linked into the test. The first call on a
// machine builds it with the go command, which takes about half a minute and downloads nothing that the module does not have;
// it is kept in the user's cache directory, under ackfloor-testutil.
func ServerBinary(t testing.TB) string {
	t.Helper()
	return tool(t, "nats-server", "github.com/nats-io/nats-server/v2", server.VERSION)
}

// NatsCommand returns the path of the nats command line tool (natscli). The first call on a machine downloads and builds it
// with the go command; it is kept in the user's cache directory, under ackfloor-testutil.
func NatsCommand(t testing.TB) string {
	t.Helper()
	return tool(t, "nats", "github.com/nats-io/natscli/nats", natsCommandVersion)
}

var building sync.Mutex // one build at a time in this process; others race harmlessly, see build

func tool(t testing.TB, name, path, version string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("testutil: no directory to keep %s in: %v", name, err)
	}
	dir := filepath.Join(cache, "ackfloor-testutil", version)
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	binary := filepath.Join(dir, name)
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	t.Logf("testutil: building %s %s, once", name, version)
	if err := build(dir, name, path+"@v"+version); err != nil {
		t.Fatalf("testutil: building %s %s: %v", name, version, err)
	}
	return binary
}

// build installs into a directory of its own and moves the result into place, so that a binary that is there is whole, also
// when several test processes build it at once.
func build(dir, name, module string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	cmd := exec.Command("go", "install", module)
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "GOBIN="+tmp, "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off", "GOOS=", "GOARCH=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name))
}
