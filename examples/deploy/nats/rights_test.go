//go:build unix

package nats

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// fewer is a user of a service who lacks one right.
type fewer struct {
	service   string
	name      string
	missing   string
	subscribe bool
}

// lacking makes a user with a password for each right of each service, who lacks that one.
func lacking(o *server.Options) (users []fewer) {
	for service := range services {
		var full *server.Permissions
		for _, u := range o.Nkeys {
			if slices.Contains(u.Permissions.Subscribe.Allow, "_INBOX_"+service+".>") {
				full = u.Permissions
			}
		}
		add := func(missing string, subscribe bool, p *server.Permissions) {
			u := fewer{service, fmt.Sprint("u", len(users)), missing, subscribe}
			users = append(users, u)
			o.Users = append(o.Users, &server.User{Username: u.name, Password: "p", Permissions: p})
		}
		for i, subject := range full.Publish.Allow {
			add(subject, false, &server.Permissions{Publish: &server.SubjectPermission{Allow: slices.Delete(slices.Clone(full.Publish.Allow), i, i+1)}, Subscribe: full.Subscribe})
		}
		for i, subject := range full.Subscribe.Allow {
			add(subject, true, &server.Permissions{Publish: full.Publish, Subscribe: &server.SubjectPermission{Allow: append(slices.Delete(slices.Clone(full.Subscribe.Allow), i, i+1), "nothing")}})
		}
	}
	return users
}

// commandsIn are the arguments of the commands in nats.conf, as a shell takes them, by consumer.
func commandsIn(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ *# ackfloor permissions (.*--consumer (\S+) .*)$`).FindAllStringSubmatch(string(text), -1) {
		out[m[2]] = m[1]
	}
	return out
}

// No right in nats.conf is too many: without any one of them check names it. What it does not try, the service itself names in its log.
func TestEveryRightIsNeeded(t *testing.T) {
	var users []fewer
	p := newPlace(t, func(o *server.Options) { users = lacking(o) })
	p.setUp(t)
	p.publishSamples(t)
	commands := commandsIn(t)
	if len(users) < 40 || len(commands) != len(services) {
		t.Fatalf("%d users, %d commands", len(users), len(commands))
	}
	program(t, "ackfloor")
	var notTried []fewer
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, u := range users {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", "ackfloor check "+commands[u.service])
			cmd.Env = append(withoutNkey(p.env(u.service)), "NATS_USER="+u.name, "NATS_PASSWORD=p", "PATH="+outputs+":"+os.Getenv("PATH"), "HOME="+p.dir)
			out, _ := cmd.CombinedOutput()
			said := fmt.Sprintf("denied: allow %q to %s", u.missing, map[bool]string{true: "subscribe", false: "publish"}[u.subscribe])
			switch {
			case strings.Contains(string(out), "not tried publish "+u.missing+":"):
				mu.Lock()
				notTried = append(notTried, u)
				mu.Unlock()
			case !strings.Contains(string(out), said) || strings.HasPrefix(u.missing, "_INBOX") != strings.Contains(string(out), "nothing else can be tried"):
				t.Errorf("%s without %s:\n%s", u.service, u.missing, out)
			}
		})
	}
	all.Wait()
	if len(notTried) != 2 {
		t.Fatalf("not tried: %v", notTried)
	}
	orders := map[string]string{
		"events.stock_reserved.*": `{"order_id":"3001","sku":"mug","quantity":1,"email":"ada@example.com"}`,
		"events.stock_rejected.*": `{"order_id":"3002","sku":"teapot","quantity":1000,"email":"ada@example.com"}`,
	}
	for _, u := range notTried { // the sample orders are reserved by the first of them
		p.place(t, orders[u.missing])
		s := p.startAs(t, u)
		s.sees(t, `(?i)permissions violation for publish to \\*"`+regexp.QuoteMeta(strings.TrimSuffix(u.missing, "*")))
		s.stop(t)
	}
}

// withoutNkey leaves the nkey out of an environment: the user has a password instead.
func withoutNkey(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "NATS_NKEY=") })
}
