package deploy

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/nats-io/nats.go/jetstream"
)

// container is a service of compose.yaml as a jail. Where it finds the server and where it is served are other than there.
func container(t *testing.T, s types.ServiceConfig, volumes map[string]string, natsURL string) jail {
	t.Helper()
	m, err := readDockerfile(s.Name)
	if err != nil {
		t.Fatal(err)
	}
	env := m.env
	for k, v := range s.Environment {
		if v != nil {
			env[k] = *v
		}
	}
	env["NATS_URL"] = natsURL
	env["WORKER_HTTP_ADDR"] = strings.Replace(env["WORKER_HTTP_ADDR"], ":8080", freePort(t), 1)
	j := jail{Program: filepath.Join(built(t, s.Name), s.Name), Name: m.entrypoint[0], Dir: m.workdir, Mounts: map[string]string{}}
	for k, v := range env {
		j.Env = append(j.Env, k+"="+v)
	}
	for _, v := range s.Volumes {
		if volumes[v.Source] == "" {
			volumes[v.Source] = t.TempDir() // a volume is made as the folder of the image is: of the same user, and empty
		}
		j.Mounts[v.Target] = volumes[v.Source]
	}
	return j
}

// The three containers of compose.yaml, each as process 1 of an empty root that can't be written to, as no root and without rights: they become healthy,
// do their work, drain at SIGTERM and exit with 0; started again, they go on where they were.
func TestContainersWorkAndDrain(t *testing.T) {
	t.Parallel()
	needJail(t)
	project := composeProject(t)
	srv, js := natsOf(t)
	test := project.Services["nats"].HealthCheck.Test
	_, path, _ := strings.Cut(test[len(test)-1], ":8222")
	if resp, err := http.Get("http://" + srv.MonitorAddr().String() + path); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the healthcheck of nats: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	volumes := map[string]string{}
	for round, handled := range []int{10, 0} {
		running := map[string]*inmate{}
		for _, name := range services {
			j := container(t, project.Services[name], volumes, srv.ClientURL())
			running[name] = j.start(t)
			healthy(t, j, project.Services[name].HealthCheck.Test[2:])
		}
		floors(t, js, map[string]uint64{"analytics": 6, "inventory": 7, "email": 8})
		sum := 0
		for name, p := range running {
			t.Logf("round %d: %s had %d MB at most", round+1, name, p.peak(t))
			p.term(t)
		}
		for _, p := range running {
			sum += p.drained(t)
		}
		if sum != handled {
			t.Errorf("round %d: %d handled, want %d", round+1, sum, handled)
		}
	}
	for volume, want := range map[string]string{"inventory-data": ".ackfloor/inventory.db", "email-data": ".ackfloor/outbox/*", "analytics-data": "files/*.parquet"} {
		if found, _ := filepath.Glob(filepath.Join(volumes[volume], want)); len(found) == 0 {
			t.Errorf("volume %s has no %s", volume, want)
		}
	}
}

// healthy runs the check in a container of its own, which shares the network as it does there.
func healthy(t *testing.T, j jail, args []string) {
	t.Helper()
	j.Args = args
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		p := j.start(t)
		if code := p.code(t); code == 0 {
			return
		} else if time.Since(began) > endLimit {
			t.Fatalf("%s %q exits with %d: %s", j.Name, args, code, p.out)
		}
	}
}

// floors waits until the consumers have come so far.
func floors(t *testing.T, js jetstream.JetStream, want map[string]uint64) {
	t.Helper()
	for name, floor := range want {
		var got uint64
		for began := time.Now(); got < floor; time.Sleep(20 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if c, err := js.Consumer(ctx, "EVENTS", name); err == nil {
				got = c.CachedInfo().AckFloor.Stream
			}
			cancel()
			if time.Since(began) > endLimit {
				t.Fatalf("%s: ack floor %d, want %d", name, got, floor)
			}
		}
	}
}

// A jail is what it says: no root, no right, nothing that can be written to but what is mounted.
func TestJail(t *testing.T) {
	t.Parallel()
	needJail(t)
	folder := t.TempDir()
	program := filepath.Join(folder, "look")
	if err := os.WriteFile(filepath.Join(folder, "look.go"), []byte(looker), 0o600); err != nil {
		t.Fatal(err)
	}
	build(t, folder, program)
	kept := t.TempDir()
	p := jail{Program: program, Name: "/look", Dir: "/data", Mounts: map[string]string{"/data": kept}, Files: map[string]string{"/run/secret": "s"}}.start(t)
	if code := p.code(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.out)
	}
	want := "pid 1 uid 65532 gid 65532\n/: [data look run]\nsecret s\nroot: read-only file system\ndata: <nil>\nmount: operation not permitted\n"
	if got := p.out.String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(kept, "x")); err != nil {
		t.Error(err)
	}
}

const looker = `package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func main() {
	fmt.Println("pid", os.Getpid(), "uid", os.Getuid(), "gid", os.Getgid())
	all, _ := os.ReadDir("/")
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	fmt.Println("/:", names)
	secret, _ := os.ReadFile("/run/secret")
	fmt.Println("secret", string(secret))
	fmt.Println("root:", errors.Unwrap(os.WriteFile("/x", nil, 0o600)))
	fmt.Println("data:", os.WriteFile("/data/x", nil, 0o600))
	fmt.Println("mount:", syscall.Mount("x", "/data", "tmpfs", 0, ""))
}
`
