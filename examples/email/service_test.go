//go:build unix

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

const ready = "working on events.order_placed"

// Nobody is written to about what happened before the service was there; all is written that happens from then on, and each once, also over a restart.
func TestANewServiceStartsWithWhatIsNew(t *testing.T) {
	t.Parallel()
	s, js := events(t)
	r := receive(t, nil)
	dir := t.TempDir()
	first := start(t, dir, s.URL(), r.url())
	first.sees(t, ready)
	floor(t, s, placed(t, js, 2))
	publish(t, js, "events.user_registered", `{"email":"edsger@example.com","user":"edsger"}`)
	publish(t, js, "events.page_loaded", `{}`)
	r.wait(t, 2)
	first.exits(t, 0)
	third := placed(t, js, 3) // while nobody works

	second := start(t, dir, s.URL(), r.url())
	r.wait(t, 3)
	floor(t, s, third)
	second.exits(t, 0)
	var to []string
	for _, m := range r.got() {
		to = append(to, m.to)
	}
	if got := strings.Join(to, " "); got != "ada+2@example.com edsger@example.com ada+3@example.com" {
		t.Errorf("written to %s", got)
	}
	if second.count("(?i)drift|never changed") != 0 {
		t.Error("it complains about where it started")
	}
}

// The eight sample events, and nothing else: a first look has something to show.
func TestOnTheSampleEventsItStartsAtTheFifth(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	dir := t.TempDir()
	p := start(t, dir, s.URL(), "SMTP_FROM=")
	floor(t, s, 8)
	p.exits(t, 0)
	publish(t, s.JetStream(t), "events.stock_reserved", `{}`) // of another service, which changes nothing
	third := start(t, t.TempDir(), s.URL(), "WORKER_CONSUMER=email3", "SMTP_FROM=")
	s.WaitInfo(t, "EVENTS", "email3", soon, "it starts at the fifth too", func(i *jetstream.ConsumerInfo) bool {
		return i.Config.OptStartSeq == 5 && i.AckFloor.Stream == 8
	})
	third.exits(t, 0)
	mails, err := filepath.Glob(filepath.Join(dir, ".ackfloor", "outbox", "*.eml"))
	must(t, err)
	var to []string
	for _, file := range mails {
		data, err := os.ReadFile(file)
		must(t, err)
		to = append(to, read(t, data).to.Address)
	}
	if got := strings.Join(to, " "); got != "grace@example.com linus@example.com edsger@example.com" {
		t.Errorf("written to %s", got)
	}
	if p.count(`outbox: kept \.ackfloor/outbox/EVENTS\.email\.[578]\.\w+\.eml`) != 3 {
		t.Error("it does not say where the mails are")
	}

	// One event more, and a service of another name begins with what is new.
	last := placed(t, s.JetStream(t), 10)
	other := start(t, dir, s.URL(), "WORKER_CONSUMER=email2", "SMTP_FROM=")
	other.sees(t, ready)
	s.WaitInfo(t, "EVENTS", "email2", soon, "it starts at new", func(i *jetstream.ConsumerInfo) bool {
		return i.Config.DeliverPolicy == jetstream.DeliverNewPolicy && i.NumPending == 0 && i.Delivered.Consumer == 0
	})
	other.exits(t, 0)

	// The first one goes on where it was, without a complaint that it would start elsewhere now.
	again := start(t, dir, s.URL(), "SMTP_FROM=")
	floor(t, s, last)
	again.exits(t, 0)
	if again.count("(?i)drift|never changed") != 0 {
		t.Error("it complains about where it started")
	}
}

func TestGreylistingDelaysAMailAndNoOther(t *testing.T) {
	t.Parallel()
	s, js := events(t)
	asked := make(map[string]int) // called under the receiver's session, one connection here
	r := receive(t, func(step, to string) error {
		if step == "RCPT" && to == "ada+2@example.com" {
			if asked[to]++; asked[to] == 1 {
				return says(450, 4, 2, 0, "Greylisted, try again in 2 seconds")
			}
		}
		return nil
	})
	p := start(t, t.TempDir(), s.URL(), r.url(), "WORKER_CONCURRENCY=1")
	p.sees(t, ready)
	began := time.Now()
	placed(t, js, 2)
	last := placed(t, js, 3)
	got := r.wait(t, 2)
	floor(t, s, last)
	if took := time.Since(began); got[0].to != "ada+3@example.com" || got[1].to != "ada+2@example.com" || took < 1900*time.Millisecond {
		t.Errorf("%s, then %s, after %v", got[0].to, got[1].to, took)
	}
	p.sees(t, `#2 .*attempt 1  failed, will be tried again: email: the recipient: the mail server says 450`)
	p.sees(t, `#2 .*attempt 2  mail to ada\+2@example.com`)
	p.exits(t, 0)
}

// A password that is wrong for a while, and a server that is down for a while: all mails wait, none is given up, and no attempt is charged.
func TestAnOutageGivesUpNoMail(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"down": nil, "refused": {"EMAIL_PAUSE=100ms"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, js := events(t)
			r := receive(t, at("AUTH", says(535, 5, 7, 8, "authentication failed for "+password)))
			p := start(t, t.TempDir(), s.URL(), append(env, withPassword(r, password), "WORKER_MAX_ATTEMPTS=2", "WORKER_LOG_LEVEL=debug")...)
			p.sees(t, ready)
			if name == "down" {
				r.now(at("EHLO", errCut))
			}
			var last uint64
			for i := range 20 {
				last = placed(t, js, i+2)
			}
			p.sees(t, `paused`)
			time.Sleep(1500 * time.Millisecond) // a pause or more
			if n := len(r.got()); n != 0 {
				t.Fatalf("%d mails arrived", n)
			}
			r.now(nil)
			r.wait(t, 20)
			floor(t, s, last)
			if n := letters(t, js); n != 0 || p.count("attempt [2-9]") != 0 {
				t.Errorf("%d dead letters, and %d lines of another attempt", n, p.count("attempt [2-9]"))
			}
			p.exits(t, 0)
			for _, secret := range []string{password, "s3cret"} {
				if strings.Contains(p.output(), secret) {
					t.Errorf("the output shows the password")
				}
			}
		})
	}
}

func TestARefusedRecipientIsADeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	s, js := events(t)
	r := receive(t, func(step, to string) error {
		if step == "RCPT" && to == "ada+3@example.com" {
			return says(550, 5, 1, 1, "no such user")
		}
		return nil
	})
	p := start(t, t.TempDir(), s.URL(), r.url())
	p.sees(t, ready)
	for i := range 2 {
		placed(t, js, i+2)
	}
	last := publish(t, js, "events.order_placed", `{"email":"ada@example.com\r\nBcc: eve@example.com"}`)
	floor(t, s, last)
	if n := letters(t, js); n != 2 || len(r.got()) != 1 {
		t.Errorf("%d dead letters, %d mails", n, len(r.got()))
	}
	p.sees(t, `#3 .*refused: email: the recipient: the mail server says 550 5.1.1 no such user`)
	p.exits(t, 0)
}

// The stop's grace ends while the server is thinking about a mail. It is handed back, reported, and sent by the next process: at most as often as it was reported.
func TestAStopInTheMiddleOfAMailLosesNone(t *testing.T) {
	t.Parallel()
	s, js := events(t)
	there := make(chan struct{}, 10)
	r := receive(t, func(step, _ string) error {
		if step == "END" {
			there <- struct{}{}
			return errHang
		}
		return nil
	})
	dir := t.TempDir()
	p := start(t, dir, s.URL(), r.url(), "WORKER_DRAIN_TIMEOUT=300ms")
	p.sees(t, ready)
	last := placed(t, js, 2)
	<-there
	p.exits(t, shutdown.ExitGraceEnded)
	p.sees(t, "possible duplicate: all of the mail was sent")
	p.sees(t, "mails that may have been sent twice: 1;")

	r.now(nil)
	again := start(t, dir, s.URL(), r.url())
	floor(t, s, last)
	if got := r.got(); len(got) != 1 {
		t.Errorf("%d mails", len(got))
	}
	again.exits(t, 0)
}

func TestTheRateHolds(t *testing.T) {
	t.Parallel()
	s, js := events(t)
	var times []time.Time
	r := receive(t, func(step, _ string) error {
		if step == "MAIL" {
			times = append(times, time.Now())
		}
		return nil
	})
	p := start(t, t.TempDir(), s.URL(), r.url(), "EMAIL_RATE=20/s", "WORKER_CONCURRENCY=1")
	p.sees(t, ready)
	var last uint64
	for i := range 31 {
		last = placed(t, js, i+2)
	}
	floor(t, s, last)
	p.exits(t, 0)
	if took := times[30].Sub(times[0]); took < 1400*time.Millisecond || len(times) != 31 {
		t.Errorf("%d mails in %v, which is more than 20 a second", len(times), took)
	}
}

func TestWrongSettingsEndIt(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	p := start(t, t.TempDir(), s.URL(), "SMTP_URL=smtp://shop:s3cret@mail.example.com?starttls=never")
	select {
	case <-p.done:
	case <-time.After(soon):
		t.Fatal("it runs")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != shutdown.ExitConfig || p.count("s3cret") != 0 || p.count("starttls=required") != 1 {
		t.Errorf("exit code %d:\n%s", code, p.output())
	}
}

// The demo's receiver: what it keeps, and where it ends.
func TestTheOutboxListensOnThisMachineOnlyAndEndsLast(t *testing.T) {
	t.Parallel()
	box, err := openOutbox(filepath.Join(t.TempDir(), "outbox"), func(string, ...any) {})
	must(t, err)
	if host, _, _ := net.SplitHostPort(box.server().addr); host != "127.0.0.1" {
		t.Errorf("it listens on %s", host)
	}
	m := &mailer{pool: &pool{server: box.server()}, from: shopAddress, limit: time.Minute}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- box.run(ctx) }()
	l, err := write(shopAddress, customer{Email: "ada@example.com", Order: "1"}, order(3, nil))
	must(t, err)
	for range 2 {
		must(t, m.pool.send(t.Context(), l))
	}
	l.data = []byte(strings.Replace(string(l.data), l.id, "../../../x@y", 1))
	if f := m.pool.send(t.Context(), l); outcome(f.(*failure).verdict(pause)) != "permanent" {
		t.Errorf("a name that leaves the folder: %v", f)
	}
	m.pool.end(time.Time{}, true)
	stop()
	must(t, <-ended)
	mails, _ := filepath.Glob(filepath.Join(box.dir, "*"))
	if len(mails) != 1 {
		t.Fatalf("%q, want one file for a mail that came twice", mails)
	}
	data, err := os.ReadFile(mails[0])
	must(t, err)
	if r := read(t, data); r.subject != "Your order 1" {
		t.Errorf("%+v", r)
	}
	if i, err := os.Stat(mails[0]); err != nil || i.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read it: %v, %v", i.Mode(), err)
	}
}

// Eight events of somebody's own are not the sample events: what is in a stream of that length is not to be written about either.
func TestEightEventsOfSomebodyElseAreThePast(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 8)
	r := receive(t, nil)
	p := start(t, t.TempDir(), s.URL(), r.url(), "WORKER_FILTER=events.>")
	p.sees(t, "working on events")
	s.WaitInfo(t, "EVENTS", "email", soon, "it starts at new", func(i *jetstream.ConsumerInfo) bool {
		return i.Config.DeliverPolicy == jetstream.DeliverNewPolicy && i.NumPending == 0
	})
	p.exits(t, 0)
	if len(r.got()) != 0 {
		t.Error("it wrote")
	}
}
