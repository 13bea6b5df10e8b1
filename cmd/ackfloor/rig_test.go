//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
)

// The program under test is this test binary, called by another name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ackfloor": main})
}

const limit = 20 * time.Second // for what takes a moment; long, since the machine may be busy

// TestScripts runs testdata/*.txtar, each against a server of its own. Beside what testscript has they know the commands of rig.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			testscript.Run(t, testscript.Params{Files: []string{file}, Setup: r.setup, Cmds: r.commands(), RequireExplicitExec: true})
		})
	}
}

// rig is a server with dead letters.
type rig struct {
	server *testutil.S
	nc     *nats.Conn
	js     jetstream.JetStream

	natsCommand string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{server: testutil.Server(t), natsCommand: testutil.NatsCommand(t)}
	r.nc = r.server.Conn(t)
	r.js = r.server.JetStream(t)
	return r
}

func (r *rig) setup(env *testscript.Env) error {
	env.Setenv("NATS_URL", r.server.URL())
	env.Setenv("TZ", "UTC")
	env.Setenv("TERM", "xterm-256color")
	return nil
}

func (r *rig) commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"letters": r.letters, "settle": r.settle, "tty": tty, "code": code, "replays": r.replays, "fields": fields, "nats": r.nats,
		"forge": r.forge, "clean": clean, "narrow": narrow, "normal": normal, "tabless": tabless, "watched": r.watched,
		"three": r.three,
	}
}

// seed is a letter in a script: a line of JSON, with the names that --json has. What it leaves out is made up.
func seed(line []byte) (deadletter.Letter, string, error) {
	in := letterJSON{Stream: "EVENTS", Consumer: "orders", Subject: "events.order_placed", Reason: deadletter.ReasonExhausted, Error: "no stock", Attempts: 5,
		Deliveries: 6, Host: "host-1", Version: "v1.2.3", Published: time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)}
	if err := json.Unmarshal(line, &in); err != nil {
		return deadletter.Letter{}, "", err
	}
	in.FirstFailed, in.LastFailed = in.Published.Add(time.Second), in.Published.Add(time.Minute)
	l := deadletter.Letter{Stream: in.Stream, Consumer: in.Consumer, Subject: in.Subject, MessageSequence: in.MessageSequence, Published: in.Published,
		Header: in.Header, Data: in.DataBase64, Deliveries: in.Deliveries, Attempts: in.Attempts, Reason: in.Reason, Error: in.Error,
		FirstFailed: in.FirstFailed, LastFailed: in.LastFailed, Host: in.Host, Version: in.Version, Replays: in.Replays, ReplayOf: in.ReplayOf}
	if in.Data != nil {
		l.Data = []byte(*in.Data)
	}
	return l, in.Stream + suffix, nil
}

// letters FILE [STREAM] writes letters into the dead-letter stream of their stream, or into the one given, which it makes.
func (r *rig) letters(ts *testscript.TestScript, neg bool, args []string) {
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		l, name, err := seed([]byte(line))
		ts.Check(err)
		if len(args) > 1 {
			name = args[1]
		}
		ts.Check(r.write(name, &l))
	}
}

func (r *rig) write(name string, l *deadletter.Letter) error {
	cfg := deadletter.Config{Name: name, Stream: l.Stream, Consumer: l.Consumer, Create: true, Update: true, MaxBytes: 64 << 20}
	ctx, cancel := contextWithin(limit)
	defer cancel()
	if _, err := deadletter.Prepare(ctx, r.nc, cfg); err != nil {
		return err
	}
	return deadletter.NewWriter(r.nc, cfg).Write(ctx, l)
}

// forge FILE publishes messages as they stand in the lines of JSON: subject, header, data or data_base64. That is how somebody puts something
// among the letters that no worker wrote.
func (r *rig) forge(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := contextWithin(limit)
	defer cancel()
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var in letterJSON
		ts.Check(json.Unmarshal([]byte(line), &in))
		m := &nats.Msg{Subject: in.Subject, Header: in.Header, Data: in.DataBase64}
		if in.Data != nil {
			m.Data = []byte(*in.Data)
		}
		_, err := r.js.PublishMsg(ctx, m)
		ts.Check(err)
	}
}

// settle STREAM CONSUMER WORD... does to the replays that wait what a worker would: each in turn is handled, or has failed.
func (r *rig) settle(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(r.settleReplays(args[0], args[1], args[2:]...))
}

func (r *rig) settleReplays(stream, consumer string, words ...string) error {
	ctx, cancel := contextWithin(limit)
	defer cancel()
	c, err := r.js.CreateOrUpdateConsumer(ctx, stream+suffix, jetstream.ConsumerConfig{Durable: deadletter.ReplayConsumer(stream, consumer),
		FilterSubject: deadletter.ReplayFilter(stream, consumer), AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	for _, word := range words {
		m, err := c.Next(jetstream.FetchMaxWait(limit))
		if err != nil {
			return err
		}
		l, err := deadletter.ReadReplay(m.Subject(), m.Headers(), m.Data())
		if err != nil {
			return err
		}
		if word == "failed" {
			l.Error = "still no stock"
			if err := r.write(stream+suffix, l); err != nil {
				return err
			}
		}
		if err := m.DoubleAck(ctx); err != nil {
			return err
		}
	}
	return nil
}

// replays STREAM WANT waits until so many replays are stored, and fails if there are more.
func (r *rig) replays(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := contextWithin(limit)
	defer cancel()
	s, err := r.js.Stream(ctx, args[0]+suffix)
	ts.Check(err)
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	for {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter("replay.>"))
		ts.Check(err) // also when the time is over
		got := len(info.State.Subjects)
		if got == want {
			return
		}
		if got > want {
			ts.Fatalf("%d replays are stored, not %d", got, want)
		}
	}
}

// nats ARG... is the nats command, as a witness; its output can be compared like that of exec.
func (r *rig) nats(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec(r.natsCommand, append([]string{"--server", r.server.URL()}, args...)...))
}

// watched STREAM waits until somebody has looked four times at a stream, and so has had the answer to the third look: a watch has begun.
func (r *rig) watched(ts *testscript.TestScript, neg bool, args []string) {
	sub, err := r.nc.SubscribeSync("$JS.API.STREAM.INFO." + args[0])
	ts.Check(err)
	defer func() { _ = sub.Unsubscribe() }()
	for range 4 {
		_, err := sub.NextMsg(limit)
		ts.Check(err)
	}
}

// command is the program as a process of its own.
func (r *rig) command(args ...string) *exec.Cmd {
	cmd := exec.Command("ackfloor", append([]string{"dead-letters"}, args...)...)
	cmd.Env = []string{"NATS_URL=" + r.server.URL(), "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	return cmd
}

// many writes n letters.
func (r *rig) many(t *testing.T, n int) {
	t.Helper()
	l, name, err := seed([]byte(`{"message_sequence": 1, "data": "{}"}`))
	if err == nil {
		err = r.write(name, &l)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := deadletter.NewWriter(r.nc, deadletter.Config{Name: name})
	for seq := 2; seq <= n; seq++ {
		l.MessageSequence = uint64(seq)
		if err := w.Write(t.Context(), &l); err != nil {
			t.Fatal(err)
		}
	}
}

// stored counts the replays that were ever stored, one that took another's place too.
func (r *rig) stored(t *testing.T, letters int) int {
	t.Helper()
	s, err := r.js.Stream(t.Context(), "EVENTS_DLQ")
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.LastSeq) - letters
}
