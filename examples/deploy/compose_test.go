package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeProject reads compose.yaml as docker compose does: it is checked against the specification's schema, variables are put in, and what hangs together is
// checked.
func composeProject(t *testing.T) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"compose.yaml"}, cli.WithEnv([]string{"NATS_TOKEN=" + token}), cli.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeWantsAToken(t *testing.T) {
	t.Parallel()
	o, err := cli.NewProjectOptions([]string{"compose.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.LoadProject(t.Context()); err == nil || !strings.Contains(err.Error(), "NATS_TOKEN") {
		t.Errorf("without NATS_TOKEN: %v", err)
	}
}

func TestComposeFile(t *testing.T) {
	t.Parallel()
	p := composeProject(t)
	if got, want := slices.Sorted(slices.Values(p.ServiceNames())), []string{"analytics", "email", "inventory", "nats"}; !slices.Equal(got, want) {
		t.Fatalf("services %q, want %q", got, want)
	}
	if got := deref(p.Services["nats"].Environment)["NATS_TOKEN"]; got != os.Getenv("NATS_TOKEN") { // with which the tests run nats.conf
		t.Errorf("the server is given the token %s, want it in quotes", got)
	}
	for name, s := range p.Services {
		for _, what := range composeProblems(p, s) {
			t.Errorf("%s: %s", name, what)
		}
	}
}

func composeProblems(p *types.Project, s types.ServiceConfig) (out []string) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	bad(s.ReadOnly, "its root can be written to")
	bad(slices.Equal(s.CapDrop, []string{"ALL"}) && len(s.CapAdd) == 0 && !s.Privileged, "it keeps capabilities")
	bad(slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "it may gain privileges")
	bad(pinned(s.Image), "image %q: which version?", s.Image)
	bad(s.MemLimit > 0, "its memory has no limit")
	bad(s.HealthCheck != nil && len(s.HealthCheck.Test) > 1 && s.HealthCheck.Test[0] == "CMD", "it has no healthcheck in exec form")
	for _, port := range s.Ports {
		bad(port.HostIP == "127.0.0.1", "port %s is open to the network of this machine", port.Published)
	}
	for _, v := range s.Volumes {
		_, declared := p.Volumes[v.Source]
		_, err := os.Stat(v.Source)
		bad(declared || v.Type == types.VolumeTypeBind && err == nil && v.ReadOnly, "volume %s is not there, or not read only", v.Source)
	}
	if s.Name == "nats" {
		return out
	}
	m, err := readDockerfile(s.Name)
	if err != nil {
		return append(out, err.Error())
	}
	context, _ := filepath.Abs(repository)
	bad(s.Build != nil && filepath.Clean(s.Build.Context) == context, "it is not built from the top folder")
	if s.Build != nil {
		_, err := os.Stat(filepath.Join(repository, s.Build.Dockerfile))
		bad(err == nil, "dockerfile: %v", err)
	}
	bad(slices.Equal(s.HealthCheck.Test, m.healthcheck), "healthcheck %q, and %q in the image", s.HealthCheck.Test, m.healthcheck)
	bad(s.DependsOn["nats"].Condition == types.ServiceConditionHealthy, "it does not wait for a server that works")
	bad(s.Entrypoint == nil && s.Command == nil && s.User == "", "it runs something else than its image says")
	grace := drainTimeout(s.Name, deref(s.Environment)) + afterDrain
	bad(s.StopGracePeriod != nil && time.Duration(*s.StopGracePeriod) >= grace, "stop_grace_period %v, want at least %v", s.StopGracePeriod, grace)
	var mounted bool
	for _, v := range s.Volumes {
		mounted = mounted || v.Target == m.workdir
	}
	bad(mounted, "what it keeps in %s is lost with the container", m.workdir)
	bad(memoryFits(deref(s.Environment)["GOMEMLIMIT"], int64(s.MemLimit)), "GOMEMLIMIT %s does not fit mem_limit %d", deref(s.Environment)["GOMEMLIMIT"], s.MemLimit)
	return append(out, envProblems(s.Name, deref(s.Environment))...)
}

func deref(env types.MappingWithEquals) map[string]string {
	out := map[string]string{}
	for k, v := range env {
		if v != nil {
			out[k] = *v
		}
	}
	return out
}

// The checks find what they are there for.
func TestComposeChecks(t *testing.T) {
	t.Parallel()
	for what, broken := range map[string]func(*types.ServiceConfig){
		"can be written to":     func(s *types.ServiceConfig) { s.ReadOnly = false },
		"keeps capabilities":    func(s *types.ServiceConfig) { s.CapDrop = nil },
		"gain privileges":       func(s *types.ServiceConfig) { s.SecurityOpt = nil },
		"which version":         func(s *types.ServiceConfig) { s.Image = "shop/email:latest" },
		"memory has no limit":   func(s *types.ServiceConfig) { s.MemLimit = 0 },
		"open to the network":   func(s *types.ServiceConfig) { s.Ports[0].HostIP = "" },
		"volume other is not":   func(s *types.ServiceConfig) { s.Volumes[0].Source = "other" },
		"healthcheck":           func(s *types.ServiceConfig) { s.HealthCheck.Test[1] = "/inventory" },
		"does not wait":         func(s *types.ServiceConfig) { s.DependsOn = nil },
		"stop_grace_period":     func(s *types.ServiceConfig) { *s.StopGracePeriod = types.Duration(35 * time.Second) },
		"is lost":               func(s *types.ServiceConfig) { s.Volumes[0].Target = "/other" },
		"WORKER_CONSUMMER":      func(s *types.ServiceConfig) { s.Environment["WORKER_CONSUMMER"] = new("email") },
		"EMAIL_RAT ":            func(s *types.ServiceConfig) { s.Environment["EMAIL_RAT"] = new("10/s") },
		"GOMEMLIMIT 300MiB":     func(s *types.ServiceConfig) { s.Environment["GOMEMLIMIT"] = new("300MiB") },
		"runs something else":   func(s *types.ServiceConfig) { s.User = "root" },
		"not built from the to": func(s *types.ServiceConfig) { s.Build.Context = "." },
	} {
		p := composeProject(t)
		s := p.Services["email"]
		broken(&s)
		if got := strings.Join(composeProblems(p, s), "\n"); !strings.Contains(got, what) {
			t.Errorf("%s: found %q", what, got)
		}
	}
}
