//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
)

const (
	howto        = "../../docs/howto-dead-letters.md"
	howtoCursors = "../../docs/howto-cursors.md"
)

func readDoc(t *testing.T) string { return readFile(t, howto) }

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The letters that the document speaks of.
const docLetters = `{"message_sequence": 17, "attempts": 10, "deliveries": 11, "error": "inventory: connection refused", "data": "{\"order\": 17, \"n\": 2}",` +
	` "header": {"Nats-Msg-Id": ["order-17"]}}
{"message_sequence": 21, "attempts": 1, "deliveries": 1, "reason": "undecodable", "error": "unexpected end of JSON input", "data": "{\"order\":"}
{"message_sequence": 30, "attempts": 1, "deliveries": 1, "reason": "permanent", "error": "no such mailbox", "consumer": "email",` +
	` "subject": "events.user_registered", "data": "{}"}
`

// Every command in the console blocks of the document is run, in order, and prints what the document shows.
func TestCommandsInDoc(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.Events(t, 1)
	for line := range strings.Lines(docLetters) {
		l, name, err := seed([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.write(name, &l); err != nil {
			t.Fatal(err)
		}
	}
	w, err := worker.New(r.server.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "orders", DeadLetterBytes: 64 << 20, Logger: zap.NewNop()},
		ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	defer working.Wait()
	defer stop()

	if ran := runBlocks(t, r, readDoc(t)); ran < 10 {
		t.Errorf("only %d commands", ran)
	}
}

// runBlocks runs the commands in the console blocks of a document, in order, and compares what they print with what it shows.
func runBlocks(t *testing.T, r *rig, doc string) (ran int) {
	t.Helper()
	for _, block := range regexp.MustCompile("(?ms)^```console\n(.*?)^```").FindAllStringSubmatch(doc, -1) {
		for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, shown, _ := strings.Cut(step, "\n")
			cmd := exec.Command("sh", "-c", command)
			cmd.Env = []string{"NATS_URL=" + r.server.URL(), "PATH=" + os.Getenv("PATH"), "TZ=UTC"}
			_, out := outcome(t, cmd)
			if !sameAsShown(shown, out) {
				t.Fatalf("$ %s\nthe document shows\n%s\nthe command prints\n%s", command, shown, out)
			}
			ran++
		}
	}
	return ran
}

var changing = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( UTC \([\ddhms]+ ago\)|Z)?`)

// sameAsShown compares an output with what a document shows: times differ, and ... stands for anything within a line.
func sameAsShown(shown, out string) bool {
	normal := func(s string) string { return strings.TrimSpace(changing.ReplaceAllString(s, "TIME")) }
	re := strings.ReplaceAll(regexp.QuoteMeta(normal(shown)), `\.\.\.`, `.*`)
	return regexp.MustCompile(`\A` + re + `\z`).MatchString(normal(out))
}

// Commands that are only shown are at least ones that there are, with flags that there are. Those of --help are checked too.
func TestCommandLinesParse(t *testing.T) {
	t.Parallel()
	lines := regexp.MustCompile(`(?m)^    (?:source <\()?(ackfloor [^>)\n]*)`).FindAllStringSubmatch(readDoc(t)+readFile(t, howtoCursors), -1)
	root := (&command{screen: &screen{out: &bytes.Buffer{}}}).root()
	letters, _, err := root.Find([]string{"dead-letters"})
	if err != nil {
		t.Fatal(err)
	}
	cursors, _, err := root.Find([]string{"cursors"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(letters.Commands(), cursors) {
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " | ")
			line, _, _ = strings.Cut(line, " > ")
			lines = append(lines, []string{"", line})
		}
	}
	if len(lines) < 15 {
		t.Fatalf("only %d commands", len(lines))
	}
	for _, l := range lines {
		l[1], _, _ = strings.Cut(l[1], " | ")
		words, err := exec.Command("sh", "-c", `printf '%s\n' `+strings.TrimPrefix(l[1], "ackfloor")).Output()
		if err != nil {
			t.Fatal(err)
		}
		root := (&command{screen: &screen{out: &bytes.Buffer{}}}).root()
		root.InitDefaultCompletionCmd()
		cmd, rest, err := root.Find(strings.Split(strings.TrimSpace(string(words)), "\n"))
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || cmd == root {
			t.Errorf("%s: %v", l[1], err)
		}
	}
}

// The document lists the fields of --json, and no others, and the exit codes that --help lists.
func TestReferenceInDoc(t *testing.T) {
	t.Parallel()
	doc := readDoc(t)
	_, table, _ := strings.Cut(doc, "<!-- fields:")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	var documented, fields []string
	for line := range strings.Lines(table) {
		if names, ok := strings.CutPrefix(line, "| `"); ok {
			names, _, _ = strings.Cut(names, "` |")
			documented = append(documented, strings.Split(names, "`, `")...)
		}
	}
	for f := range reflect.TypeFor[letterJSON]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	slices.Sort(documented)
	slices.Sort(fields)
	if !slices.Equal(documented, fields) {
		t.Errorf("documented\n%v\nfields\n%v", documented, fields)
	}
	for line := range strings.Lines(exitCodes) {
		if code := strings.Fields(line)[0]; code != "Exit" && !regexp.MustCompile(`(?m)^\| `+code+`[ ,]`).MatchString(doc) {
			t.Errorf("exit code %s is not in the document", code)
		}
	}
	for _, reason := range append(slices.Clone(reasons), states...) {
		if !strings.Contains(doc, fmt.Sprintf("| `%s` |", reason)) {
			t.Errorf("%q is not in the document", reason)
		}
	}
}

// rightsOfDoc reads the subjects that the document says are to be allowed.
func rightsOfDoc(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^    (look|replay|remove|subscribe): +(.*)$`).FindAllStringSubmatch(readDoc(t), -1) {
		out[m[1]] = strings.Split(m[2], ", ")
	}
	if len(out) != 4 {
		t.Fatalf("rights in the document: %v", out)
	}
	return out
}
