//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats-server/v2/server"
)

// permissionsOf runs the command with nothing in the environment but what is given.
func permissionsOf(t *testing.T, env []string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command("ackfloor", append([]string{"permissions"}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	return outcome(t, cmd)
}

// nats-server reads the block as it is printed, and finds in it the subjects that --format json lists.
func TestPermissionsAreReadByTheServer(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--bind", "existing", "--dead-letter", "off", "--records", "off"},
		{"--filter", "events.a,events.b", "--pinned", "--admin", "--once", "marks", "--publish", "events.stock_reserved.*"},
		{"--filter", "events.>", "--bind", "update", "--domain", "hub", "--inbox-prefix", "_IN.orders"},
		{"--prefix", "JS.shop.API", "--replays=false", "--consumer", `o"d`},
	} {
		args = append([]string{"--stream", "EVENTS", "--consumer", "orders"}, args...)
		code, printed := permissionsOf(t, nil, args...)
		file := filepath.Join(t.TempDir(), "nats.conf")
		conf := "authorization { users: [ { user: u, password: p,\n" + printed + "} ] }\n"
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := server.ProcessConfigFile(file)
		if err != nil || code != 0 {
			t.Fatalf("%d %v\n%s", code, err, conf)
		}
		code, out := permissionsOf(t, nil, append(args, "--format", "json")...)
		var j permissionsJSON
		if err := json.Unmarshal([]byte(out), &j); err != nil || code != 0 {
			t.Fatalf("%d %v\n%s", code, err, out)
		}
		got, want := o.Users[0].Permissions, j.Permissions
		if !slices.Equal(got.Publish.Allow, want.Publish.Allow) || !slices.Equal(got.Subscribe.Allow, want.Subscribe.Allow) || len(j.Why)+1 != len(got.Publish.Allow)+len(got.Subscribe.Allow) { // workers hear what they tell
			t.Errorf("%v: the server reads\n%q\n%q\nthe list is\n%q\n%q", args, got.Publish.Allow, got.Subscribe.Allow, want.Publish.Allow, want.Subscribe.Allow)
		}
	}
}

// The advisories that the list has are those that the server publishes.
func TestPermissionsForAdvisories(t *testing.T) {
	t.Parallel()
	want := []string{"_IN.>", server.JSAdvisoryConsumerLeaderElectedPre + ".S.C", "ackfloor.settled.S.C.*"}
	cfg := worker.Config{Stream: "S", Consumer: "C", DeadLetter: off, Connection: worker.Connection{InboxPrefix: "_IN"}}
	if got := subjectsOf(listens(cfg, wants{replays: true})); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	cfg.Connection.APIPrefix = "JS.shop.API" // of another account
	if got := subjectsOf(listens(cfg, wants{})); !slices.Equal(got, slices.Delete(want, 1, 2)) {
		t.Errorf("with a prefix %q", got)
	}
}

// Only what a configuration uses is in the list.
func TestPermissionsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	least := worker.Config{Stream: "S", Consumer: "C", Bind: worker.BindExisting, DeadLetter: off, Records: off}
	base := []string{"$JS.API.CONSUMER.INFO.S.C", "$JS.API.CONSUMER.MSG.NEXT.S.C", "$JS.ACK.S.C.>", "ackfloor.settled.S.C.*"}
	for name, c := range map[string]struct {
		change func(*worker.Config, *wants)
		want   []string // besides base
	}{
		"least":    {func(*worker.Config, *wants) {}, nil},
		"pinned":   {func(c *worker.Config, _ *wants) { c.PinnedTTL = 1e10 }, []string{"$JS.API.CONSUMER.UNPIN.S.C"}},
		"ensure":   {func(c *worker.Config, _ *wants) { c.Bind = worker.BindEnsure }, []string{"$JS.API.CONSUMER.CREATE.S.C", "$JS.API.STREAM.INFO.S"}},
		"filtered": {func(c *worker.Config, _ *wants) { c.Bind, c.Filter = worker.BindEnsure, []string{"a.*"} }, []string{"$JS.API.CONSUMER.CREATE.S.C.a.*", "$JS.API.STREAM.INFO.S"}},
		"records": {func(c *worker.Config, _ *wants) { c.Records, c.Consumer = "b", "C" },
			[]string{"$JS.API.STREAM.INFO.KV_b", "$JS.API.DIRECT.GET.KV_b.$KV.b.S.C.>", "$KV.b.S.C.>"}},
		"letters": {func(c *worker.Config, _ *wants) { c.DeadLetter = "D" },
			[]string{"$JS.API.STREAM.INFO.S", "dlq.S.C.>", "$JS.API.STREAM.INFO.D", "$JS.API.DIRECT.GET.D.dlq.S.C.>"}},
		"replays without letters": {func(_ *worker.Config, w *wants) { w.replays = true }, nil},
		"admin":                   {func(_ *worker.Config, w *wants) { w.admin = true }, []string{"$JS.API.STREAM.INFO.S", "$JS.API.CONSUMER.LIST.S"}},
		"reads":                   {func(_ *worker.Config, w *wants) { w.read = []string{"a.*"} }, []string{"$JS.API.DIRECT.GET.S.a.*"}},
		"twice":                   {func(_ *worker.Config, w *wants) { w.publish = []string{"x", "x"} }, []string{"x"}},
	} {
		cfg, w := least, wants{}
		c.change(&cfg, &w)
		got, want := subjectsOf(rights(cfg, w)), slices.Concat(base, c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}

// Without --from-env the environment does not matter; with it, it does, below the flags. Files of the environment need not be here.
func TestPermissionsFromEnv(t *testing.T) {
	t.Parallel()
	env := []string{"WORKER_STREAM=ORDERS", "WORKER_CONSUMER=shop", "WORKER_BIND=existing", "NATS_CREDS=/nowhere/shop.creds", "WORKER_DEAD_LETTER=off"}
	for _, c := range []struct {
		code      int
		says, not string
		args      []string
	}{
		{0, "CONSUMER.INFO.ORDERS.shop", "dlq.", []string{"--from-env"}},
		{0, "CONSUMER.INFO.ORDERS.audit", ".shop", []string{"--from-env", "--consumer", "audit"}},
		{0, "dlq.EVENTS.orders.>", "shop", []string{"--stream", "EVENTS", "--consumer", "orders"}},
		{64, "WORKER_CONSUMER is", "allow", []string{"--stream", "EVENTS"}},
		{78, `WORKER_BIND is "never"`, "allow", []string{"--from-env", "--bind", "never"}},
		{64, `--format is "yaml"`, "allow", []string{"--from-env", "--format", "yaml"}},
	} {
		if code, out := permissionsOf(t, env, c.args...); code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, c.not) {
			t.Errorf("%v: %d, not %d, or not %q, or %q:\n%s", c.args, code, c.code, c.says, c.not, out)
		}
	}
}

const howtoPermissions = "../../docs/howto-permissions.md"

// The commands in the document are run, and print what it shows; it lists every flag, and the verdicts.
func TestCommandsInPermissionsDoc(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	doc := readFile(t, howtoPermissions)
	if ran := runBlocks(t, r, doc); ran < 2 {
		t.Errorf("only %d commands", ran)
	}
	root := (&command{screen: &screen{out: &bytes.Buffer{}}}).root()
	cmd, _, err := root.Find([]string{"permissions"})
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`(?m)^ +(--[a-z-]+)`).FindAllStringSubmatch(cmd.LocalFlags().FlagUsages(), -1)
	if len(flags) < 12 {
		t.Fatalf("only the flags %q", flags)
	}
	for _, f := range flags {
		if !strings.Contains(doc, f[1]) {
			t.Errorf("%s is not in the document", f[1])
		}
	}
	for _, v := range []verdict{good, unwise, bad, notTried} {
		if !strings.Contains(doc, "| `"+string(v)+"` |") {
			t.Errorf("%q is not in the document", v)
		}
	}
}

// The examples of --help are in order: those of permissions print something, and check takes the flags of its own.
func TestExamplesOfPermissionsAndCheck(t *testing.T) {
	t.Parallel()
	root := (&command{screen: &screen{out: &bytes.Buffer{}}}).root()
	for _, name := range []string{"permissions", "check"} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(cmd.Example), "\n")
		if len(lines) < 3 {
			t.Errorf("%s: %d examples", name, len(lines))
		}
		for _, line := range lines {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " | ")
			sh := exec.Command("sh", "-c", line)
			sh.Env = []string{"PATH=" + os.Getenv("PATH"), "WORKER_STREAM=EVENTS", "WORKER_CONSUMER=orders", "NATS_URL=nats://127.0.0.1:1"}
			want := 0
			if name == "check" { // there is no server
				sh.Args[2] += " --timeout 100ms"
				want = 69
			}
			if code, out := outcome(t, sh); code != want || !strings.Contains(out, map[string]string{"permissions": "allow", "check": "was not available"}[name]) {
				t.Errorf("%s: %d\n%s", line, code, out)
			}
		}
	}
}
