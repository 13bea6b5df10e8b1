//go:build unix

package nats

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// samples are the eight events that the examples begin with.
var samples = []struct{ subject, data string }{
	{"events.page_loaded", `{"page":"/home","visitor":"v1"}`},
	{"events.input_changed", `{"field":"search","visitor":"v1"}`},
	{"events.order_placed", `{"order_id":"1001","sku":"mug","quantity":2,"email":"ada@example.com"}`},
	{"events.page_loaded", `{"page":"/teapots","visitor":"v2"}`},
	{"events.order_placed", `{"order_id":"1002","sku":"teapot","quantity":1,"email":"grace@example.com"}`},
	{"events.input_changed", `{"field":"email","visitor":"v3"}`},
	{"events.order_placed", `{"order_id":"1003","sku":"mug","quantity":4,"email":"linus@example.com"}`},
	{"events.user_registered", `{"user":"edsger","email":"edsger@example.com"}`},
}

func (p place) publishSamples(t *testing.T) {
	t.Helper()
	js, err := jetstream.New(p.conn(t, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range samples {
		if _, err := js.Publish(t.Context(), e.subject, []byte(e.data)); err != nil {
			t.Fatal(err)
		}
	}
}

// place places an order.
func (p place) place(t *testing.T, order string) {
	t.Helper()
	js, err := jetstream.New(p.conn(t, "shop"))
	if err == nil {
		_, err = js.Publish(t.Context(), "events.order_placed", []byte(order))
	}
	if err != nil {
		t.Fatal(err)
	}
}

type cursors struct {
	Cursors []struct {
		Consumer string `json:"consumer"`
		AckFloor uint64 `json:"ack_floor"`
	} `json:"cursors"`
}

// floors asks ackfloor cursors, as the observer.
func (p place) floors(t *testing.T) map[string]uint64 {
	t.Helper()
	cmd := program(t, "ackfloor", "cursors", "EVENTS", "--json")
	cmd.Env = append(cmd.Env, p.env("observer")...)
	out, err := cmd.Output()
	var c cursors
	if err == nil {
		err = json.Unmarshal(out, &c)
	}
	if err != nil {
		t.Fatalf("ackfloor cursors: %v\n%s", err, out)
	}
	all := map[string]uint64{}
	for _, one := range c.Cursors {
		all[one.Consumer] = one.AckFloor
	}
	return all
}

// The three services, each as its own user over TLS, come to their floors on the eight sample events, and the server denies them nothing. A refused order becomes a dead letter.
func TestThreeServicesWithTheirRights(t *testing.T) {
	for name, start := range variants {
		t.Run(name, func(t *testing.T) { start(t).threeServices(t) })
	}
}

func (p place) threeServices(t *testing.T) {
	t.Helper()
	p.setUp(t)
	p.publishSamples(t)
	running := map[string]*service{}
	for name := range services {
		running[name] = p.start(t, name)
	}
	for end := time.Now().Add(soon); ; time.Sleep(10 * poll) {
		got, ok := p.floors(t), true
		for name, floor := range services {
			ok = ok && got[name] == floor
		}
		if ok {
			break
		}
		if time.Now().After(end) {
			for name, s := range running {
				t.Logf("%s:\n%s", name, s.output())
			}
			t.Fatalf("the floors are %v", got)
		}
	}
	p.place(t, `{"order_id":"2002","sku":"teapot","quantity":100,"email":"ada@example.com"}`)
	running["inventory"].sees(t, `refused: order "2002"`)
	admin, err := jetstream.NewWithAPIPrefix(p.conn(t, "admin"), "$JS.API")
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]uint64{"events.stock_reserved.>": 3, "events.stock_rejected.>": 1}
	for end := time.Now().Add(soon); ; time.Sleep(poll) {
		stream, err := admin.Stream(t.Context(), "EVENTS")
		if err != nil {
			t.Fatal(err)
		}
		missing := ""
		for filter, n := range events {
			info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(filter))
			if err != nil {
				t.Fatal(err)
			}
			if uint64(len(info.State.Subjects)) != n {
				missing = filter
			}
		}
		letters, err := admin.Stream(t.Context(), "EVENTS_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		if missing == "" && letters.CachedInfo().State.Msgs == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s, or the dead letter, is missing:\n%s", missing, running["inventory"].output())
		}
	}
	for name, s := range running {
		s.stop(t)
		if out := s.output(); strings.Contains(strings.ToLower(out), "permission") || strings.Contains(out, "allow") || strings.Contains(out, "attempts are counted by the server") {
			t.Errorf("%s was denied something:\n%s", name, out)
		}
	}
}

// Who has no certificate, or one of another authority, or neither nkey nor token that is known, does not come in; and nobody may do another's work.
func TestWhoIsNobody(t *testing.T) {
	for name, start := range variants {
		t.Run(name, func(t *testing.T) { start(t).nobody(t, start(t)) })
	}
}

// nobody tries to come in with less than a user has, or with what another place takes.
func (p place) nobody(t *testing.T, other place) {
	t.Helper()
	cert := func(of place) nats.Option { return nats.ClientCert(of.key("email.pem"), of.key("email.key")) }
	for name, options := range map[string][]nats.Option{
		"no certificate":         {nats.RootCAs(p.key("ca.pem")), p.who(t, "email")},
		"another's certificate":  {nats.RootCAs(p.key("ca.pem")), cert(other), p.who(t, "email")},
		"no nkey and no token":   {nats.RootCAs(p.key("ca.pem")), cert(p)},
		"an unknown one":         {nats.RootCAs(p.key("ca.pem")), cert(p), other.who(t, "email")},
		"a server that is false": {nats.RootCAs(other.key("ca.pem")), cert(p), p.who(t, "email")},
	} {
		if nc, err := nats.Connect(p.url, options...); err == nil {
			nc.Close()
			t.Errorf("%s: it comes in", name)
		}
	}
	p.setUp(t)
	cmd := program(t, "ackfloor", "check", "--stream", "EVENTS", "--consumer", "inventory", "--bind", "existing")
	cmd.Env = append(cmd.Env, p.env("email")...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `allow "$JS.API.CONSUMER.INFO.EVENTS.inventory"`) {
		t.Errorf("email may do what is inventory's: %v\n%s", err, out)
	}
}

// A block of nats.conf is what the command above it prints.
func TestBlocksAreThoseOfTheCommand(t *testing.T) {
	text, err := os.ReadFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	conf := regexp.MustCompile(`(?m)^      `).ReplaceAllString(string(text), "")
	commands := regexp.MustCompile(`(?m)^# (ackfloor permissions .*)\n`).FindAllStringSubmatchIndex(conf, -1)
	if len(commands) != len(services) {
		t.Fatalf("%d commands", len(commands))
	}
	for _, at := range commands {
		line := conf[at[2]:at[3]]
		program(t, "ackfloor")
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = []string{"PATH=" + outputs + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		printed, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(conf[at[1]:], string(printed)) {
			t.Errorf("%s: %v, it prints\n%s\nthe file has\n%.2000s", line, err, printed, conf[at[1]:])
		}
	}
}

// The two configurations differ in how the server knows its users, and in nothing else.
func TestConfigurationsAreTheSameServer(t *testing.T) {
	comments := regexp.MustCompile(`(?m)^#.*\n`)
	read := func(file, users string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		conf, _, found := strings.Cut(comments.ReplaceAllString(string(text), ""), users)
		if !found {
			t.Fatalf("%s has no %s", file, users)
		}
		return conf
	}
	if a, b := read("nats.conf", `include "keys/nkeys.conf"`), read("nats-operator.conf", `include "keys/operator.conf"`); a != b {
		t.Errorf("nats.conf has\n%s\nnats-operator.conf has\n%s", a, b)
	}
}
