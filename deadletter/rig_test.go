package deadletter

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	config = Config{Name: "ORDERS_DLQ", Stream: "ORDERS", Consumer: "inventory"}
	then   = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
)

// rig is a server with a dead-letter stream, as Prepare makes it, a Writer and a Store.
type rig struct {
	*testutil.S
	t  *testing.T
	nc *nats.Conn
	js jetstream.JetStream
	w  *Writer
	s  *Store
}

func newRig(t *testing.T, change ...func(*jetstream.StreamConfig)) *rig {
	t.Helper()
	return rigOn(t, testutil.Server(t), change...)
}

func rigOn(t *testing.T, s *testutil.S, change ...func(*jetstream.StreamConfig)) *rig {
	t.Helper()
	c, err := config.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	stream := c.wanted()
	for _, f := range change {
		f(&stream)
	}
	s.Stream(t, stream)
	return s2rig(t, s, s.Conn(t))
}

func s2rig(t *testing.T, s *testutil.S, nc *nats.Conn) *rig {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{S: s, t: t, nc: nc, js: js, w: NewWriter(nc, config), s: &Store{c: newClient(nc, config.Name, "")}}
}

// locked is a connection of a user who may publish what is given and read the answers, and nothing else.
func lockedServer(t *testing.T, publish ...string) (*testutil.S, func() *nats.Conn) {
	t.Helper()
	s := testutil.Server(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "a"}, {Username: "worker", Password: "w", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_D.>"}}}}}
	})
	s.Login(nats.UserInfo("admin", "a"))
	return s, func() *nats.Conn {
		return s.Conn(t, nats.UserInfo("worker", "w"), nats.CustomInboxPrefix("_INBOX_D"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	}
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

// sample is a letter of message seq.
func sample(seq uint64, change ...func(*Letter)) *Letter {
	l := &Letter{
		Subject: "orders.new", Stream: "ORDERS", Consumer: "inventory", MessageSequence: seq, Published: then.Add(time.Duration(seq) * time.Second),
		Header: nats.Header{"Content-Type": {"application/json"}}, Data: []byte(`{"id":1}`), Deliveries: 12, Attempts: 10, Reason: ReasonExhausted,
		Error: "inventory: no such item", FirstFailed: then.Add(time.Hour), LastFailed: then.Add(2 * time.Hour), Host: "web-1", Version: "v1.2.3",
	}
	for _, f := range change {
		f(l)
	}
	return l
}

func (r *rig) write(l *Letter) {
	r.t.Helper()
	if err := r.w.Write(r.ctx(), l); err != nil {
		r.t.Fatalf("writing %q %d: %v", l.Stream, l.MessageSequence, err)
	}
}

func (r *rig) list(f Filter) []*Letter {
	r.t.Helper()
	var out []*Letter
	for l, err := range r.s.List(r.ctx(), f) {
		if err != nil {
			r.t.Fatalf("listing %+v: %v", f, err)
		}
		out = append(out, l)
	}
	return out
}

// subjects are those of all messages that the stream has, in order.
func (r *rig) subjects() []string {
	r.t.Helper()
	var out []string
	for m, err := range r.s.c.walk(r.ctx(), ">", from{}, r.info().State.LastSeq, true) {
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, m.subject)
	}
	return out
}

func (r *rig) info() *jetstream.StreamInfo {
	r.t.Helper()
	stream, err := r.js.Stream(r.ctx(), config.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := stream.Info(r.ctx(), jetstream.WithSubjectFilter(">"), jetstream.WithDeletedDetails(true))
	if err != nil {
		r.t.Fatal(err)
	}
	return info
}

// same compares what a letter must keep of a message and of its failure.
func same(t *testing.T, got, want *Letter) {
	t.Helper()
	a, b := *got, *want
	for _, l := range []*Letter{&a, &b} {
		l.Sequence, l.Stored, l.State, l.at, l.tail = 0, time.Time{}, "", place{}, nil
		if len(l.Data) == 0 {
			l.Data = nil
		}
		l.Header = maps.Clone(l.Header)
		for k, vs := range l.Header {
			l.Header[k] = slices.Clone(vs)
			if len(vs) == 0 {
				l.Header[k] = nil
			}
		}
		if len(l.Header) == 0 {
			l.Header = nil
		}
		l.Published, l.FirstFailed, l.LastFailed = l.Published.UTC(), l.FirstFailed.UTC(), l.LastFailed.UTC()
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("not what went in:\n got %s\nwant %s", short(a), short(b))
	}
}

func short(l Letter) string {
	var b strings.Builder
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			s := strings.ReplaceAll(strings.TrimSpace(reflectString(v.Field(i).Interface())), "\n", `\n`)
			if len(s) > 300 {
				s = s[:300] + "…"
			}
			b.WriteString("\n  " + v.Type().Field(i).Name + ": " + s)
		}
	}
	return b.String()
}
