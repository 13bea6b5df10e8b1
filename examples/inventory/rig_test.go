//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

func TestMain(m *testing.M) {
	if os.Getenv("ACKFLOOR_INVENTORY_CHILD") != "" { // the service itself, as a process
		main()
		return
	}
	code := m.Run()
	postgresMu.Lock()
	if postgresStop != nil {
		postgresStop()
	}
	postgresMu.Unlock()
	os.Exit(code)
}

// each runs a test on SQLite and on PostgreSQL, with an environment that names the database.
func each(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, place{dir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, place{dir: t.TempDir(), url: newDatabase(t)}) })
}

// place is where a service has its stock: a folder, and a PostgreSQL where there is a URL.
type place struct{ dir, url string }

var environment sync.Mutex // DATABASE_URL is read from it

// open opens the place's store as the service does.
func (p place) open(t *testing.T) *store {
	t.Helper()
	environment.Lock()
	defer environment.Unlock()
	must(t, os.Setenv("DATABASE_URL", p.url))
	defer func() { _ = os.Unsetenv("DATABASE_URL") }()
	s, err := openStore(t.Context(), p.dir, 20*time.Second, 16, t.Logf)
	must(t, err)
	t.Cleanup(func() { _ = s.close() })
	return s
}

// handler is the service's, on a store.
func handler(s *store) ackfloor.Handler {
	return ackfloor.JSON((&reserver{store: s, queued: func() {}}).handle)
}

var sequences atomic.Uint64

// message is a message of its own with an order.
func message(data any, opts ...testutil.MessageOption) *ackfloor.Message {
	opts = append([]testutil.MessageOption{testutil.Sequence(sequences.Add(1))}, opts...)
	return testutil.Message("events.order_placed", data, opts...)
}

func permanent(err error) bool { _, ok := errors.AsType[*ackfloor.PermanentError](err); return ok }
func paused(err error) bool    { _, ok := errors.AsType[*ackfloor.PauseError](err); return ok }

// number is the answer to a query for one number.
func number(t testing.TB, s *store, query string, args ...any) (n int) {
	t.Helper()
	must(t, s.db.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

func available(t testing.TB, s *store, sku string) int {
	t.Helper()
	return number(t, s, "SELECT available FROM inventory_stock WHERE sku = $1", sku)
}

// outboxOf lists the subjects that wait.
func outboxOf(t testing.TB, s *store) (subjects []string) {
	t.Helper()
	batch, err := s.waiting(t.Context())
	must(t, err)
	for _, e := range batch {
		subjects = append(subjects, strings.TrimPrefix(e.subject, "events."))
	}
	slices.Sort(subjects)
	return subjects
}

// balanced checks that what the shop was supplied with is on the shelf or reserved, of each article.
func balanced(t testing.TB, s *store) {
	t.Helper()
	n := number(t, s, `SELECT COUNT(*) FROM inventory_stock s WHERE supplied <> available +
 (SELECT COALESCE(SUM(quantity), 0) FROM inventory_orders o WHERE o.sku = s.sku AND o.state = 'reserved')`)
	if n != 0 {
		t.Errorf("%d articles whose stock and reservations are not what was supplied", n)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still waiting for %s", limit, what)
		}
	}
}

// The PostgreSQL of the tests: a server of their own, from the programs of the Debian package, for as long as the tests run.
var (
	postgres     = sync.OnceValues(startPostgres)
	postgresMu   sync.Mutex
	postgresStop func()
	databases    atomic.Int32
	errNotHere   = errors.New("it is not installed")
)

// newDatabase makes a database and returns its URL, or skips the test where there is no PostgreSQL.
func newDatabase(t *testing.T) string {
	t.Helper()
	url, err := postgres()
	if errors.Is(err, errNotHere) {
		t.Skip("SKIPPED: PostgreSQL is not installed here (/usr/lib/postgresql)")
	}
	must(t, err)
	db, err := sql.Open("pgx", url+"postgres?sslmode=disable")
	must(t, err)
	defer func() { _ = db.Close() }()
	name := "t" + strconv.Itoa(int(databases.Add(1)))
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE "+name)
	must(t, err)
	return url + name + "?sslmode=disable"
}

func startPostgres() (url string, err error) {
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(versions) == 0 {
		return "", errNotHere
	}
	slices.Sort(versions)
	bin := filepath.Dir(versions[len(versions)-1])
	dir, err := os.MkdirTemp("", "ackfloor-inventory-")
	if err != nil {
		return "", err
	}
	stop := func() { _ = os.RemoveAll(dir) }
	defer func() {
		postgresMu.Lock()
		postgresStop = stop
		postgresMu.Unlock()
	}()
	attributes, err := notRoot(dir)
	if err != nil {
		return "", err
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, attributes
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", "test", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8").CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := testutil.FreePort()
	if err != nil {
		return "", err
	}
	cmd := command("postgres", "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "max_connections=200", "-c", "deadlock_timeout=100ms")
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // at once, and its children with it
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	url = fmt.Sprintf("postgres://test@127.0.0.1:%d/", port)
	db, err := sql.Open("pgx", url+"postgres?sslmode=disable")
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err = db.PingContext(context.Background()); err == nil || time.Now().After(end) {
			return url, err
		}
	}
}

// notRoot says as whom a database server has to run, which refuses to run as root, and gives him the folder.
func notRoot(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return endWithParent(&syscall.SysProcAttr{}), nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return endWithParent(&syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}), os.Chown(dir, uid, gid)
	}
	return nil, errors.New("no user postgres or nobody to run it as")
}
