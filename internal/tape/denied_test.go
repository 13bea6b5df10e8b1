package tape

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// users gives a server an admin, and a person who may publish what is allowed.
func users(allow ...string) func(*server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "p"}, {Username: "person", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: allow}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}}}
	}
}

var admin, person = nats.UserInfo("admin", "p"), nats.UserInfo("person", "p")

func TestADeniedListFallsBackToTheOwnConsumers(t *testing.T) {
	s := testutil.Server(t, users("$JS.API.STREAM.INFO.EVENTS", "$JS.API.CONSUMER.INFO.EVENTS.email", "$JS.API.CONSUMER.INFO.EVENTS.none"))
	s.Login(admin)
	three(t, s)
	begun := time.Now()
	tape := read(t, NewReader(s.JetStream(t, person), "EVENTS", "email", "billing", "none"))
	if took := time.Since(begun); took > infoWait/2 {
		t.Errorf("it waited %v for answers that are denied", took)
	}
	if tape.Last != 8 || !slices.Equal(names(tape), []string{"billing", "email", "none"}) {
		t.Errorf("%+v", tape)
	}
	if !strings.Contains(tape.Partial, `not every consumer is known`) || !strings.Contains(tape.Partial, `may not publish to "$JS.API.CONSUMER.LIST.EVENTS"`) {
		t.Errorf("Partial: %q", tape.Partial)
	}
	if c := of(t, tape, "email"); c.Error != "" || c.Delivered != 2 || c.Unprocessed != 6 {
		t.Errorf("%+v", c)
	}
	if c := of(t, tape, "billing"); !strings.Contains(c.Error, `may not publish to "$JS.API.CONSUMER.INFO.EVENTS.billing"`) {
		t.Errorf("%+v", c)
	}
	if c := of(t, tape, "none"); c.Error != "there is no such consumer" {
		t.Errorf("%+v", c)
	}
}

func TestDeniedEndsLeaveTheCursors(t *testing.T) {
	s := testutil.Server(t, users("$JS.API.CONSUMER.LIST.EVENTS"))
	s.Login(admin)
	three(t, s)
	tape := read(t, NewReader(s.JetStream(t, person), "EVENTS"))
	if tape.Last != 0 || !slices.Equal(names(tape), []string{"audit", "billing", "email"}) || of(t, tape, "billing").AckFloor != 3 {
		t.Errorf("%+v", tape)
	}
	if !strings.Contains(tape.Partial, `the ends of the stream are not known: `) || !strings.Contains(tape.Partial, "STREAM.INFO.EVENTS") {
		t.Errorf("Partial: %q", tape.Partial)
	}
	var text strings.Builder
	if err := tape.Text(&text, TextOptions{ASCII: true}); err != nil || !strings.Contains(text.String(), "billing  # # o o o . .\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestNothingAtAllIsAnError(t *testing.T) {
	s := testutil.Server(t, users("nothing"))
	s.Login(admin)
	three(t, s)
	begun := time.Now()
	_, err := NewReader(s.JetStream(t, person), "EVENTS", "email").Read(t.Context())
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "$JS.API.STREAM.INFO.EVENTS") || time.Since(begun) > infoWait/2 {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	s = testutil.Server(t, users("$JS.API.>"))
	_, err = NewReader(s.JetStream(t, person, nats.CustomInboxPrefix("_ELSEWHERE")), "EVENTS").Read(t.Context())
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `subscribe to "_ELSEWHERE.>"`) {
		t.Errorf("inbox: %v", err)
	}
}

func TestWhatIsDeniedIsAskedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t, users("$JS.API.STREAM.INFO.EVENTS", "$JS.API.CONSUMER.INFO.EVENTS.email"))
		s.Login(admin)
		three(t, s)
		var denials atomic.Int32
		js := s.JetStream(t, person, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { denials.Add(1) }))
		r := NewReader(js, "EVENTS", "email")
		for second := range 180 {
			if tape := read(t, r); of(t, tape, "email").Delivered != 2 || tape.Partial == "" {
				t.Errorf("%+v", tape)
			}
			synctest.Wait()
			if want := int32(second/60 + 1); denials.Load() != want {
				t.Fatalf("after %d s it has asked %d times, not %d", second, denials.Load(), want)
			}
			time.Sleep(time.Second)
		}
	})
}
