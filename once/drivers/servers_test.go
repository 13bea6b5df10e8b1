//go:build unix

package drivers

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// dbServer is a database server that runs while this process does.
type dbServer struct {
	driver string
	port   int
	dsn    func(name string) string
	cmd    *exec.Cmd
	err    error // why there is none
}

var (
	postgres = sync.OnceValue(startPostgres)
	maria    = sync.OnceValue(startMaria)

	mu      sync.Mutex
	started []*dbServer
	folders []string
)

func postgresServer(t *testing.T) *dbServer { return ready(t, "PostgreSQL", postgres()) }
func mariaServer(t *testing.T) *dbServer    { return ready(t, "MariaDB", maria()) }

func ready(t *testing.T, name string, s *dbServer) *dbServer {
	t.Helper()
	switch {
	case s.err == errNotHere:
		t.Skipf("SKIPPED: %s is not installed here", name)
	case s.err != nil:
		t.Fatalf("%s: %v", name, s.err)
	}
	return s
}

var errNotHere = fmt.Errorf("it is not installed")

// stopServers ends what was started.
func stopServers() {
	mu.Lock()
	defer mu.Unlock()
	for _, s := range started {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // at once, and its children with it; to MariaDB it means nothing
		time.AfterFunc(3*time.Second, func() { _ = s.cmd.Process.Kill() })
		if s.driver == "mysql" {
			_ = s.cmd.Process.Kill()
		}
		_ = s.cmd.Wait()
	}
	for _, dir := range folders {
		_ = os.RemoveAll(dir)
	}
}

func (s *dbServer) exec(t *testing.T, query string) {
	t.Helper()
	db, err := sql.Open(s.driver, s.dsn(map[string]string{"pgx": "postgres", "mysql": "mysql"}[s.driver]))
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(context.WithoutCancel(t.Context()), query) // also in a clean-up
	must(t, err)
}

func startPostgres() *dbServer {
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(versions) == 0 {
		return &dbServer{err: errNotHere}
	}
	slices.Sort(versions)
	bin := filepath.Dir(versions[len(versions)-1])
	s := &dbServer{driver: "pgx", port: freePort()}
	s.dsn = func(name string) string {
		return fmt.Sprintf("postgres://test@127.0.0.1:%d/%s?sslmode=disable", s.port, name)
	}
	dir, cred, err := folder()
	if err != nil {
		return &dbServer{err: err}
	}
	data := filepath.Join(dir, "data")
	return s.start(cred, dir, []string{filepath.Join(bin, "initdb"), "-D", data, "-U", "test", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"},
		[]string{filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "fsync=off", "-c", "max_connections=200"}, "postgres")
}

func startMaria() *dbServer {
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		server = "/usr/sbin/mariadbd"
	}
	install, err := exec.LookPath("mariadb-install-db")
	if _, missing := os.Stat(server); missing != nil || err != nil {
		return &dbServer{err: errNotHere}
	}
	s := &dbServer{driver: "mysql", port: freePort()}
	s.dsn = func(name string) string { return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s", s.port, name) }
	dir, cred, err := folder()
	if err != nil {
		return &dbServer{err: err}
	}
	data := filepath.Join(dir, "data")
	return s.start(cred, dir, []string{install, "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db"},
		[]string{server, "--no-defaults", "--datadir=" + data, "--port=" + strconv.Itoa(s.port), "--bind-address=127.0.0.1",
			"--socket=" + filepath.Join(dir, "socket"), "--innodb-flush-log-at-trx-commit=0", "--pid-file=" + filepath.Join(dir, "pid")}, "mysql")
}

// start makes a database's files, starts its server and waits until it answers.
func (s *dbServer) start(cred *syscall.Credential, dir string, install, serve []string, name string) *dbServer {
	command := func(args []string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.SysProcAttr = dir, endWithParent(cred)
		return cmd
	}
	if out, err := command(install).CombinedOutput(); err != nil {
		return &dbServer{err: fmt.Errorf("%v: %w\n%s", install, err, out)}
	}
	s.cmd = command(serve)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return &dbServer{err: err}
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return &dbServer{err: err}
	}
	mu.Lock()
	started = append(started, s)
	mu.Unlock()
	db, err := sql.Open(s.driver, s.dsn(name))
	if err != nil {
		return &dbServer{err: err}
	}
	defer db.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err = db.Ping(); err == nil {
			return s
		}
		if time.Now().After(end) {
			out, _ := os.ReadFile(log.Name())
			return &dbServer{err: fmt.Errorf("it does not answer: %w\n%s", err, out)}
		}
	}
}

// folder makes a folder for a server's files, and says as whom it must run: database servers refuse to run as root.
func folder() (string, *syscall.Credential, error) {
	dir, err := os.MkdirTemp("", "ackfloor-once-")
	if err != nil {
		return "", nil, err
	}
	mu.Lock()
	folders = append(folders, dir)
	mu.Unlock()
	if os.Getuid() != 0 {
		return dir, nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
	}
	return "", nil, fmt.Errorf("no user postgres or nobody to run it as")
}

func freePort() int {
	port, _ := testutil.FreePort() // 0 is seen by who can't listen there
	return port
}
