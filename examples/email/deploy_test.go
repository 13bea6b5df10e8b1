package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const unit = "deploy/email.service"

func TestTheUnitIsHardened(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not on this machine, so nobody looked at ", unit)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=15", "--no-pager", unit).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(lines[len(lines)-1])
}

// systemd-analyze verify wants the program to be there, so it is given another one.
func TestTheUnitIsUnderstood(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not on this machine, so nobody looked at ", unit)
	}
	text, err := os.ReadFile(unit)
	must(t, err)
	copied := filepath.Join(t.TempDir(), "email.service")
	must(t, os.WriteFile(copied, []byte(strings.Replace(string(text), "/usr/local/bin/email", "/bin/true", 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", copied).CombinedOutput()
	if err != nil || strings.Contains(string(out), "email.service:") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTheUnitStopsAndRestartsAsItShould(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(unit)
	must(t, err)
	for _, line := range []string{"Type=notify", "NotifyAccess=main", "WatchdogSec=30", "Restart=on-failure", "RestartPreventExitStatus=78", "KillMode=mixed",
		"TimeoutStopSec=70", "LoadCredential=nats.creds:/etc/email/nats.creds", "LoadCredential=smtp-url:/etc/email/smtp-url", "DynamicUser=yes"} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}

func TestTheImageIsSmallAndItsUserIsNotRoot(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("deploy/Dockerfile")
	must(t, err)
	for _, pattern := range []string{`CGO_ENABLED=0 go build -trimpath`, `(?m)^FROM scratch$`, `(?m)^USER 65532:65532$`, `(?m)^ENTRYPOINT \["/email"\]$`,
		`(?m)^HEALTHCHECK .* CMD \["/email", "healthcheck"\]$`} {
		if !regexp.MustCompile(pattern).Match(text) {
			t.Errorf("no %s", pattern)
		}
	}
}

// What README.md says of the variables is what the code does.
func TestTheReadmeHasTheDefaults(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	must(t, err)
	code, err := os.ReadFile("main.go")
	must(t, err)
	rows := regexp.MustCompile(`"(WORKER_[A-Z_]+)": +"([^"]+)"`).FindAllStringSubmatch(string(code), -1)
	if len(rows) != 6 {
		t.Fatalf("main.go sets %q", rows)
	}
	for _, r := range append(rows, []string{"", "EMAIL_RATE", "`" + defaultRate + "`"}, []string{"", "EMAIL_PAUSE", "`" + defaultPause + "`"}) {
		if row := "| `" + r[1] + "` | " + r[2] + " |"; !strings.Contains(string(readme), row) {
			t.Errorf("README.md has no %s", row)
		}
	}
}
