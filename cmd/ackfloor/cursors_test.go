//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
)

// three makes eight messages, and three services at three positions. Of the six that billing was given the fourth and the sixth are outstanding.
func (r *rig) three(ts *testscript.TestScript, neg bool, args []string) { ts.Check(r.threeServices()) }

func (r *rig) threeServices() error {
	ctx, cancel := contextWithin(limit)
	defer cancel()
	if _, err := r.js.CreateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}}); err != nil {
		return err
	}
	for range 8 {
		if _, err := r.js.Publish(ctx, "events.user_registered", []byte(`{"user":"0195a1"}`)); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		name  string
		fetch int
		leave []uint64
	}{{"audit", 8, nil}, {"billing", 6, []uint64{4, 6}}, {"email", 2, nil}} {
		if err := r.settleMessages("EVENTS", c.name, c.fetch, c.leave...); err != nil {
			return err
		}
	}
	return nil
}

// settleMessages is a service that fetches n messages and acknowledges them, but for those of the sequences to leave.
func (r *rig) settleMessages(stream, name string, n int, leave ...uint64) error {
	ctx, cancel := contextWithin(limit)
	defer cancel()
	c, err := r.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour})
	if err != nil {
		return err
	}
	for range n {
		m, err := c.Next(jetstream.FetchMaxWait(limit))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if slices.Contains(leave, meta.Sequence.Stream) {
			continue
		}
		if err := m.DoubleAck(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cursors is the command as a process of its own.
func (r *rig) cursors(args ...string) *exec.Cmd {
	cmd := r.command()
	cmd.Args = append([]string{"ackfloor", "cursors"}, args...)
	cmd.Env = append(cmd.Env, "TZ=UTC", "TERM=xterm-256color")
	return cmd
}

// The commands in the document are run, and print what it shows.
func TestCommandsInCursorsDoc(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	if ran := runBlocks(t, r, readFile(t, howtoCursors)); ran < 3 {
		t.Errorf("only %d commands", ran)
	}
}

// The document lists the fields of --json, and no others.
func TestFieldsInCursorsDoc(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readFile(t, howtoCursors), "<!-- fields:")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	var documented, fields []string
	for line := range strings.Lines(table) {
		if names, ok := strings.CutPrefix(line, "| `"); ok {
			names, _, _ = strings.Cut(names, "` |")
			documented = append(documented, strings.Split(names, "`, `")...)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[tape.Tape](), reflect.TypeFor[tape.Cursor]()} {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, name)
		}
	}
	slices.Sort(documented)
	slices.Sort(fields)
	if !slices.Equal(documented, fields) {
		t.Errorf("documented\n%v\nfields\n%v", documented, fields)
	}
}

// The nats command is the witness of every number: behind three services on a stream of more than a thousand messages, with redeliveries and a pull that waits.
func TestNumbersAreThoseOfNats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	r.server.Events(t, 1200)
	billing, err := r.js.Consumer(t.Context(), "EVENTS", "billing")
	if err != nil {
		t.Fatal(err)
	}
	batch, err := billing.Fetch(20, jetstream.FetchMaxWait(limit))
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() { // handed back, and delivered again
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	for again := 0; again < 20; { // a pull may overtake what was handed back before it
		m, err := billing.Next(jetstream.FetchMaxWait(limit))
		if err != nil {
			t.Fatal(err)
		}
		if meta, err := m.Metadata(); err == nil && meta.NumDelivered > 1 {
			again++
		}
	}
	audit, err := r.js.Consumer(t.Context(), "EVENTS", "audit")
	if err != nil {
		t.Fatal(err)
	}
	for range 1200 { // through, so that a pull waits
		m, err := audit.Next(jetstream.FetchMaxWait(limit))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	waiting, err := audit.Fetch(1, jetstream.FetchMaxWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // ends the pull
		if _, err := r.js.Publish(t.Context(), "events.last", nil); err != nil {
			t.Error(err)
		}
		for range waiting.Messages() {
		}
	}()
	for end := time.Now().Add(limit); ; { // until acks have arrived and the pull is there
		info, err := audit.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.NumWaiting == 1 && info.NumAckPending == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", info)
		}
	}
	code, out := outcome(t, r.cursors("EVENTS", "--json"))
	var shown tape.Tape
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != 0 || len(shown.Cursors) != 3 {
		t.Fatalf("%d %v\n%s", code, err, out)
	}
	for _, c := range shown.Cursors {
		said, err := exec.Command(r.natsCommand, "--server", r.server.URL(), "consumer", "info", "EVENTS", c.Consumer).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		for words, number := range map[string]uint64{
			`Last Delivered Message: .*Stream sequence: ([\d,]+)`: c.Delivered,
			`Acknowledgment Floor: .*Stream sequence: ([\d,]+)`:   c.AckFloor,
			`Outstanding Acks: ([\d,]+)`:                          uint64(c.Outstanding),
			`Outstanding Acks: .* maximum ([\d,]+)`:               uint64(c.MaxAckPending),
			`Redelivered Messages: ([\d,]+)`:                      uint64(c.Redelivered),
			`Unprocessed Messages: ([\d,]+)`:                      c.Unprocessed,
			`Waiting Pulls: ([\d,]+)`:                             uint64(c.WaitingPulls),
		} {
			m := regexp.MustCompile(`(?m)^ *` + words).FindSubmatch(said)
			if m == nil || strings.ReplaceAll(string(m[1]), ",", "") != strconv.FormatUint(number, 10) {
				t.Errorf("%s: %s is %d here, and %q there\n%s", c.Consumer, words, number, m, said)
			}
		}
	}
	if b := shown.Cursors[1]; b.Outstanding < 22 || b.Redelivered != 20 || shown.Cursors[0].WaitingPulls != 1 {
		t.Errorf("the test does not show what it is for: %+v", shown.Cursors)
	}
}

// The rights that the document lists are enough, and where one is missing its subject is named.
func TestRightsOfCursors(t *testing.T) {
	t.Parallel()
	doc := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^    (all|named|subscribe): +(.*)$`).FindAllStringSubmatch(readFile(t, howtoCursors), -1) {
		doc[m[1]] = strings.Split(m[2], ", ")
	}
	user := func(name string, publish []string) *server.User {
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: doc["subscribe"]}}}
	}
	s := testutil.Server(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "p"}, user("all", doc["all"]), user("named", doc["named"]), user("nobody", []string{"nothing"})}
	})
	login := nats.UserInfo("admin", "p")
	s.Login(login)
	r := &rig{server: s, nc: s.Conn(t, login), js: s.JetStream(t, login)}
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		says string
		user string
		args []string
	}{
		{0, "billing          3 ", "all", []string{"EVENTS"}},
		{0, "email          2 ", "named", []string{"EVENTS", "--consumer", "email"}},
		{1, `consumer "billing": nats: permissions violation: the user may not publish to "$JS.API.CONSUMER.INFO.EVENTS.billing"`, "named", []string{"EVENTS", "--consumer", "email", "--consumer", "billing"}},
		{0, `may not publish to "$JS.API.CONSUMER.LIST.EVENTS"`, "named", []string{"EVENTS"}},
		{69, `may not publish to "$JS.API.STREAM.INFO.EVENTS"`, "nobody", []string{"EVENTS"}},
	} {
		cmd := r.cursors(c.args...)
		cmd.Env = append(cmd.Env, "NATS_USER="+c.user, "NATS_PASSWORD=p", "NATS_INBOX_PREFIX=_INBOX_person")
		if code, out := outcome(t, cmd); code != c.code || !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(c.says), " ")) {
			t.Errorf("%s %v: exit code %d, not %d, or it does not say %q:\n%s", c.user, c.args, code, c.code, c.says, out)
		}
	}
}

// lipgloss, which knows how wide characters are, is the witness for the widths that internal/tape finds.
func TestNoPictureIsWiderThanItsTerminal(t *testing.T) {
	t.Parallel()
	shown := &tape.Tape{Stream: "日本語", First: 1, Last: 40, Messages: 40, Partial: "e\u0301\u0301 🙂🙂🙂🙂 " + strings.Repeat("長い", 50)}
	for i, name := range []string{"\x1b[2J", "日本語の消費者", "🙂🙂❤️👩‍👩‍👧", "e\u0301\u0301", "ﾊﾝｶｸ", "ｆｕｌｌ", "한국어", "ไทย", "עברית", "➜✔⌚", strings.Repeat("long-", 20)} {
		shown.Cursors = append(shown.Cursors, tape.Cursor{Consumer: name, Filter: []string{name}, Delivered: uint64(i * 3), AckFloor: uint64(i), Outstanding: 1, Durable: true, Pull: true})
	}
	for width := 20; width <= 200; width++ {
		var out bytes.Buffer
		if err := shown.Text(&out, tape.TextOptions{Width: width, Color: width%2 == 0}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Fatalf("%d columns, not %d: %q", w, width, line)
			}
		}
	}
}

func TestLocalesThatSpeakUTF8(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, true}, {map[string]string{"LANG": "de_DE.UTF-8"}, true}, {map[string]string{"LANG": "C.utf8"}, true}, {map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"}, false}, {map[string]string{"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "de_DE.ISO-8859-1"}, false},
	} {
		if got := speaksUTF8(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}
