//go:build unix

package main

import (
	"debug/elf"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var deployBuild = flag.Bool("deploy.build", false, "TestTheContainerIsOneProgram builds the program as the container does, for Linux, and looks whether it is static")

const (
	unitFile      = "deploy/inventory.service"
	containerFile = "deploy/Dockerfile"
)

func TestTheUnitIsHardened(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not installed here")
	}
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--no-pager", "--threshold=15", unitFile).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTheUnitSaysWhatTheServiceNeeds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(unitFile)
	must(t, err)
	for _, want := range []string{"Type=notify", "NotifyAccess=main", "WatchdogSec=30", "Restart=on-failure", "RestartPreventExitStatus=78", "KillMode=mixed",
		"TimeoutStopSec=60", "LoadCredential=nats.creds:/etc/inventory/nats.creds", "Environment=NATS_CREDS=%d/nats.creds", "StateDirectory=inventory"} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("%s has no line %q", unitFile, want)
		}
	}
}

// The last stage is one program on nothing, not as root, and what it runs needs no shell.
func TestTheContainerIsOneProgram(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(containerFile)
	must(t, err)
	_, last, ok := strings.Cut(string(text), "\nFROM scratch\n")
	if !ok || strings.Contains(last, "\nFROM ") || strings.Contains(last, "\nRUN ") {
		t.Fatalf("%s: the last stage is not from scratch", containerFile)
	}
	for line, want := range map[string][]string{`ENTRYPOINT (.*)`: {"/inventory"}, `HEALTHCHECK .*CMD (.*)`: {"/inventory", "healthcheck"}} {
		m := regexp.MustCompile(`(?m)^` + line + `$`).FindStringSubmatch(last)
		var got []string
		if m == nil || json.Unmarshal([]byte(m[1]), &got) != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %s is %q, want %q in exec form", containerFile, line, got, want)
		}
	}
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(last) {
		t.Errorf("%s: it does not run as a user with a number other than 0", containerFile)
	}
	if !*deployBuild {
		t.Log("the program is built and looked at with -deploy.build, which takes minutes the first time")
		return
	}
	// The program that its RUN line builds has no interpreter, as a dynamic one would.
	build := regexp.MustCompile(`CGO_ENABLED=0 go (build -trimpath) `).FindStringSubmatch(string(text))
	if build == nil {
		t.Fatalf("%s does not build without C and without paths", containerFile)
	}
	path := filepath.Join(t.TempDir(), "inventory")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := elf.Open(path)
	must(t, err)
	defer func() { _ = program.Close() }()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it is not static")
		}
	}
}
