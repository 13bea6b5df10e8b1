package deploy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// image is what a Dockerfile says, as far as it matters for running it.
type image struct {
	stages      []instructions.Stage
	runs        []string          // the commands of the build stage
	env         map[string]string // of the last stage
	workdir     string
	user        string
	entrypoint  []string
	healthcheck []string
	stop        string
	volumes     []string
	warnings    []string // of BuildKit's own linter
}

func dockerfile(service string) string { return filepath.Join("..", service, "deploy", "Dockerfile") }

// readDockerfile reads a file with the parser that docker build has, and its linter.
func readDockerfile(service string) (image, error) {
	var m image
	text, err := os.ReadFile(dockerfile(service))
	if err != nil {
		return m, err
	}
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return m, fmt.Errorf("%s: %w", service, err)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, what string, _ []parser.Range) {
		m.warnings = append(m.warnings, rule+": "+what)
	}})
	stages, _, err := instructions.Parse(tree.AST, lint)
	if err != nil {
		return m, fmt.Errorf("%s: %w", service, err)
	}
	m.stages, m.env = stages, map[string]string{}
	for _, c := range stages[0].Commands {
		if run, ok := c.(*instructions.RunCommand); ok {
			m.runs = append(m.runs, strings.Join(run.CmdLine, " "))
		}
	}
	for _, c := range stages[len(stages)-1].Commands {
		m.take(c)
	}
	return m, nil
}

func (m *image) take(c instructions.Command) {
	switch c := c.(type) {
	case *instructions.EnvCommand:
		for _, kv := range c.Env {
			m.env[kv.Key] = kv.Value
		}
	case *instructions.WorkdirCommand:
		m.workdir = c.Path
	case *instructions.UserCommand:
		m.user = c.User
	case *instructions.EntrypointCommand:
		m.entrypoint = c.CmdLine
		if c.PrependShell {
			m.entrypoint = append([]string{"/bin/sh", "-c"}, c.CmdLine...)
		}
	case *instructions.HealthCheckCommand:
		m.healthcheck = c.Health.Test
	case *instructions.StopSignalCommand:
		m.stop = c.Signal
	case *instructions.VolumeCommand:
		m.volumes = append(m.volumes, c.Volumes...)
	}
}

// An image is one static program on nothing, which runs as nobody in particular and gets the signals itself.
func TestDockerfiles(t *testing.T) {
	t.Parallel()
	for _, name := range services {
		m, err := readDockerfile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range m.warnings {
			t.Errorf("%s: %s", name, w)
		}
		for _, p := range problems(name, m) {
			t.Errorf("%s: %s", name, p)
		}
	}
}

var numeric = regexp.MustCompile(`^(\d+):(\d+)$`)

func problems(name string, m image) (out []string) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	last := m.stages[len(m.stages)-1]
	bad(len(m.stages) == 2, "%d stages, want a build and what is left of it", len(m.stages))
	bad(last.BaseName == "scratch", "the last stage is from %q, not from scratch", last.BaseName)
	base := m.stages[0].BaseName
	bad(strings.Contains(base, ":") && !strings.HasSuffix(base, ":latest"), "the build is from %q: which version?", base)
	for _, c := range last.Commands {
		bad(c.Name() != "run" && c.Name() != "add", "the last stage has %s: there is nothing that could run", strings.ToUpper(c.Name()))
		copied, ok := c.(*instructions.CopyCommand)
		bad(!ok || copied.From != "", "the last stage copies %v from the context", c)
	}
	builds := slices.DeleteFunc(slices.Clone(m.runs), func(r string) bool { return !strings.Contains(r, "go build") })
	bad(len(builds) == 1, "%d builds", len(builds))
	for _, b := range builds {
		for _, want := range []string{"CGO_ENABLED=0 ", " -trimpath ", "GOWORK=off "} {
			bad(strings.Contains(b, want), "%q has no %s", b, strings.TrimSpace(want))
		}
	}
	ids := numeric.FindStringSubmatch(m.user)
	bad(ids != nil, "user %q: Kubernetes can't tell of a name whether it is root", m.user)
	for _, id := range ids {
		n, _ := strconv.Atoi(id)
		bad(id == m.user || n >= 1000, "user %q is a privileged one", m.user)
	}
	bad(slices.Equal(m.entrypoint, []string{"/" + name}), "entrypoint %q, want the program itself, in exec form: a shell would keep the signal", m.entrypoint)
	bad(slices.Equal(m.healthcheck, []string{"CMD", "/" + name, "healthcheck"}), "healthcheck %q", m.healthcheck)
	bad(m.stop == "SIGTERM" || m.stop == "", "it is stopped with %s", m.stop)
	bad(m.workdir == "/data", "it works in %q; compose.yaml and kubernetes/ mount /data", m.workdir)
	bad(m.env["WORKER_HTTP_ADDR"] != "", "WORKER_HTTP_ADDR is not set: the healthcheck asks there")
	return out
}

// The checks find what they are there for.
func TestDockerfileChecks(t *testing.T) {
	t.Parallel()
	for what, broken := range map[string]func(*image){
		"not from scratch":       func(m *image) { m.stages[1].BaseName = "alpine:3" },
		"which version":          func(m *image) { m.stages[0].BaseName = "golang" },
		"Kubernetes can't tell":  func(m *image) { m.user = "nobody" },
		"privileged":             func(m *image) { m.user = "0:0" },
		"in exec form":           func(m *image) { m.entrypoint = []string{"/bin/sh", "-c", "/email"} },
		"has no CGO_ENABLED=0":   func(m *image) { m.runs = []string{"GOWORK=off go build -trimpath -o /email ./email"} },
		"has no -trimpath":       func(m *image) { m.runs = []string{"GOWORK=off CGO_ENABLED=0 go build -o /email ./email"} },
		"healthcheck":            func(m *image) { m.healthcheck = nil },
		"it is stopped with":     func(m *image) { m.stop = "SIGKILL" },
		"WORKER_HTTP_ADDR is no": func(m *image) { delete(m.env, "WORKER_HTTP_ADDR") },
	} {
		m, err := readDockerfile("email")
		if err != nil {
			t.Fatal(err)
		}
		broken(&m)
		if got := strings.Join(problems("email", m), "\n"); !strings.Contains(got, what) {
			t.Errorf("%s: found %q", what, got)
		}
	}
}
