//go:build unix

package nats

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	soon = 20 * time.Second // for what takes a moment; long, since the machine may be busy
	poll = 10 * time.Millisecond
)

// services are the three, with where the eight sample events leave their floors.
var services = map[string]uint64{"inventory": 7, "email": 8, "analytics": 6}

var outputs string // what this process builds; TestMain removes it

func TestMain(m *testing.M) {
	var err error
	if outputs, err = os.MkdirTemp("", "ackfloor-nats-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(outputs)
	os.Exit(code)
}

// programs builds the services, the command, ca and operator, once.
var programs = sync.OnceValue(func() error {
	args := []string{"build", "-o", outputs + string(filepath.Separator), "github.com/ackfloor/ackfloor/cmd/ackfloor", "github.com/ackfloor/ackfloor/examples/deploy/nats/ca",
		"github.com/ackfloor/ackfloor/examples/deploy/nats/operator"}
	for name := range services {
		args = append(args, "github.com/ackfloor/ackfloor/examples/"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return nil
})

// program is a program that was built.
func program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	if err := programs(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(outputs, name), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	return cmd
}

// keysIn makes the keys of all users in the folder keys of dir.
func keysIn(t *testing.T, dir string) {
	t.Helper()
	cmd := program(t, "ca", "inventory", "email", "analytics", "shop", "admin", "observer")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ca: %v\n%s", err, out)
	}
}

// place is a folder with keys, and a server.
type place struct {
	dir     string
	options *server.Options
	url     string
	creds   bool // users have credentials; else an nkey
}

// variants are the two ways in which a server may know its users.
var variants = map[string]func(*testing.T) place{"nkeys": func(t *testing.T) place { return newPlace(t) }, "operator": newOperatorPlace}

// newPlace starts the server of nats.conf. change changes what the users may do.
func newPlace(t *testing.T, change ...func(o *server.Options)) place {
	t.Helper()
	p := place{dir: t.TempDir()}
	keysIn(t, p.dir)
	p.serve(t, p.moved(t, "nats.conf"), change...)
	return p
}

// newOperatorPlace starts the server of nats-operator.conf.
func newOperatorPlace(t *testing.T) place {
	t.Helper()
	p := place{dir: t.TempDir(), creds: true}
	keysIn(t, p.dir)
	cmd := program(t, "operator", "-conf", p.moved(t, "nats.conf"))
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("operator: %v\n%s", err, out)
	}
	p.serve(t, p.moved(t, "nats-operator.conf"))
	return p
}

// moved copies a configuration: paths begin where the server was started, which is another folder here.
func (p place) moved(t *testing.T, conf string) (file string) {
	t.Helper()
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(p.dir, conf)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), `_file: "keys/`, `_file: "`+p.dir+"/keys/")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serve starts the server.
func (p *place) serve(t *testing.T, conf string, change ...func(o *server.Options)) {
	t.Helper()
	o, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, filepath.Join(p.dir, "data"), true, true
	o.JetStreamMaxStore, o.SyncAlways = 4<<30, false // faster; what is tested here is who may do what
	for _, f := range change {
		f(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(soon) {
		t.Fatal("the server takes no connections")
	}
	p.options, p.url = o, "tls://"+s.Addr().String()
}

// key is a file in the folder of the keys.
func (p place) key(file string) string { return filepath.Join(p.dir, "keys", file) }

// env are the variables by which a user connects.
func (p place) env(user string) []string {
	env := []string{"NATS_URL=" + p.url, "NATS_CA=" + p.key("ca.pem"), "NATS_CERT=" + p.key(user+".pem"), "NATS_KEY=" + p.key(user+".key"), "NATS_INBOX_PREFIX=_INBOX_" + user}
	if p.creds {
		return append(env, "NATS_CREDS="+p.key(user+".creds"))
	}
	return append(env, "NATS_NKEY="+p.key(user+".nk"))
}

// who is the option by which a user says who it is.
func (p place) who(t *testing.T, user string) nats.Option {
	t.Helper()
	if p.creds {
		return nats.UserCredentials(p.key(user + ".creds"))
	}
	seed, err := nats.NkeyOptionFromSeed(p.key(user + ".nk"))
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// conn is a connection of a user.
func (p place) conn(t *testing.T, user string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(p.url, p.who(t, user), nats.RootCAs(p.key("ca.pem")), nats.ClientCert(p.key(user+".pem"), p.key(user+".key")), nats.CustomInboxPrefix("_INBOX_"+user),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// setUp runs setup.sh.
func (p place) setUp(t *testing.T) {
	t.Helper()
	cmd := exec.Command("./setup.sh")
	cmd.Env = append(p.env("admin"), "NATS="+testutil.NatsCommand(t), "PATH="+os.Getenv("PATH"), "HOME="+p.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("setup.sh: %v\n%s", err, out)
	}
}

// service is one of the three as a process.
type service struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	out  bytes.Buffer
	done chan struct{}
}

func (s *service) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

func (s *service) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// start starts a service as its user.
func (p place) start(t *testing.T, name string) *service {
	t.Helper()
	return p.startIn(t, name, p.env(name))
}

// startAs starts a service as a user who lacks a right.
func (p place) startAs(t *testing.T, u fewer) *service {
	t.Helper()
	return p.startIn(t, u.service, append(withoutNkey(p.env(u.service)), "NATS_USER="+u.name, "NATS_PASSWORD=p"))
}

func (p place) startIn(t *testing.T, name string, env []string) *service {
	t.Helper()
	s := &service{cmd: program(t, name), done: make(chan struct{})}
	s.cmd.Dir = t.TempDir()
	s.cmd.Env = append(append(s.cmd.Env, env...), "WORKER_BIND=existing", "WORKER_LOG_LEVEL=info")
	s.cmd.Stdout, s.cmd.Stderr = s, s
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	return s
}

// sees waits until a service has written something.
func (s *service) sees(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(soon); !re.MatchString(s.output()); time.Sleep(poll) {
		if time.Now().After(end) {
			t.Fatalf("it does not say %q:\n%s", pattern, s.output())
		}
	}
}

// stop ends a service, and fails where it does not end with 0.
func (s *service) stop(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(soon):
		t.Fatalf("it does not end:\n%s", s.output())
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ends with %d:\n%s", code, s.output())
	}
}
