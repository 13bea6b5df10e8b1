package shop

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/lockedfile"
)

// These tests work in a folder of their own, which is the process's, so they do not run beside others.

func useAddr(t *testing.T) string {
	t.Helper()
	port, err := testutil.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	t.Setenv(addrVariable, addr)
	t.Chdir(t.TempDir())
	return addr
}

func open(t *testing.T, limit time.Duration) (*natsServer, error) {
	t.Helper()
	return openServer(t.Context(), limit, func(format string, args ...any) { t.Logf(format, args...) })
}

func TestServerStopsWhenTheOthersHaveLeft(t *testing.T) {
	for _, c := range []struct {
		name   string
		leaves time.Duration // 0: it stays
		min    time.Duration // until the server has stopped
		max    time.Duration
	}{
		{"one that leaves", 300 * time.Millisecond, 300 * time.Millisecond, leaveLimit - leaveLook},
		{"one that stays", 0, leaveLimit, leaveLimit + 5*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			useAddr(t)
			s, err := open(t, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			nc, err := nats.Connect(s.url)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			began := time.Now()
			if c.leaves > 0 {
				time.AfterFunc(c.leaves, nc.Close)
			}
			s.close()
			if took := time.Since(began); took < c.min || took > c.max {
				t.Errorf("the server stopped after %v, want %v to %v", took, c.min, c.max)
			}
		})
	}
}

func TestTheFilesHaveOneServer(t *testing.T) {
	useAddr(t)
	if err := os.MkdirAll(filepath.Dir(lockFile), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockedfile.MutexAt(lockFile).Lock()
	if err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	_, err = open(t, 300*time.Millisecond)
	var code *exitError
	if !errors.As(err, &code) || !strings.Contains(err.Error(), lockFile) {
		t.Fatalf("got %v, want an error that names the lock", err)
	}
	if _, err := os.Stat(storeDir); err == nil {
		t.Fatal("a server opened the files while another program held them")
	}
	time.AfterFunc(200*time.Millisecond, unlock)
	s, err := open(t, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
}

func TestAStoreThatIsNone(t *testing.T) {
	useAddr(t)
	if err := os.MkdirAll(filepath.Dir(storeDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(storeDir, nil, 0o600); err != nil { // in the place of the folder
		t.Fatal(err)
	}
	s, err := open(t, 10*time.Second)
	if err == nil {
		s.close()
	}
	var code *exitError
	if !errors.As(err, &code) || !strings.Contains(err.Error(), storeDir) {
		t.Fatalf("got %v, want an error that names the folder", err)
	}
	t.Log(err)
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	useAddr(t)
	if err := os.WriteFile(".ackfloor", nil, 0o600); err != nil { // in the place of the folder: root may write everywhere
		t.Fatal(err)
	}
	var code *exitError
	if _, err := open(t, 10*time.Second); !errors.As(err, &code) {
		t.Fatalf("got %v, want an error with an exit code", err)
	}
}

func TestOpeningEndsWithItsContext(t *testing.T) {
	useAddr(t)
	cause := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := openServer(ctx, time.Minute, func(string, ...any) {}); !errors.Is(err, cause) {
		t.Fatalf("got %v, want the cause", err)
	}
}
