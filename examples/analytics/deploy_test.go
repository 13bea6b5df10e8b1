package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	unitFile      = "deploy/analytics.service"
	containerFile = "deploy/Dockerfile"
)

func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not installed here")
	}
	if out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=15", unitFile).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUnitHasWhatTheServiceNeeds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{"Type=notify", "NotifyAccess=main", "WatchdogSec=30", "Restart=on-failure", "RestartPreventExitStatus=78", "KillMode=mixed", "TimeoutStopSec=60",
		"LoadCredential=nats.creds:/etc/analytics/nats.creds", "StateDirectory=analytics", "Environment=ANALYTICS_DIR=%S/analytics/files"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s has no line %q", unitFile, want)
		}
	}
}

// The container has the program and nothing else: no shell, so commands are lists; not root; its files where a volume is.
func TestContainerIsTheProgramAlone(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(containerFile)
	if err != nil {
		t.Fatal(err)
	}
	build, last, _ := strings.Cut(string(text), "\nFROM scratch\n")
	if !strings.Contains(build, "CGO_ENABLED=0 go build -trimpath") || last == "" || regexp.MustCompile(`(?m)^(FROM|RUN) `).MatchString(last) {
		t.Errorf("%s is not a static program on nothing", containerFile)
	}
	for line, want := range map[string][]string{`ENTRYPOINT `: {"/analytics"}, `HEALTHCHECK .*CMD `: {"/analytics", "healthcheck"}} {
		var got []string
		m := regexp.MustCompile(`(?m)^` + line + `(\[.*\])$`).FindStringSubmatch(last)
		if m == nil || json.Unmarshal([]byte(m[1]), &got) != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q is %q, want %q", containerFile, line, got, want)
		}
	}
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(last) || !strings.Contains(last, "\nVOLUME /data\n") || !strings.Contains(last, "ANALYTICS_DIR=/data/") {
		t.Errorf("%s: a user by number, and a volume with the files, are missing", containerFile)
	}
}
