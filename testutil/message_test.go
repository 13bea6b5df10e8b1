package testutil

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

func TestMessageDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Message("orders.new", "body")
		if m.Subject != "orders.new" || string(m.Data) != "body" || m.Stream != "TEST" || m.Consumer != "test" ||
			m.Sequence != 1 || m.Attempt != 1 || !m.Published.Equal(time.Now()) || m.Header != nil {
			t.Errorf("%+v", m)
		}
	})
}

func TestMessageOptions(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	m := Message("x", nil, Header(nats.MsgIdHdr, "id-1"), Header("k", "v"), Header("k", "w"), Sequence(7), Attempt(3),
		Published(at), Stream("S"), Consumer("C"))
	if m.ID() != "id-1" || strings.Join(m.Header["k"], " ") != "v w" {
		t.Errorf("header %v, ID %q", m.Header, m.ID())
	}
	if m.Sequence != 7 || m.Attempt != 3 || !m.Published.Equal(at) || m.Stream != "S" || m.Consumer != "C" {
		t.Errorf("%+v", m)
	}
}

func TestMessageData(t *testing.T) {
	for _, c := range []struct {
		data any
		want string
	}{
		{nil, ""},
		{"text", "text"},
		{[]byte("bytes"), "bytes"},
		{struct{ N int }{5}, `{"N":5}`},
		{[]string{"a"}, `["a"]`},
		{7, "7"},
	} {
		if got := string(Message("x", c.data).Data); got != c.want {
			t.Errorf("%#v became %q, want %q", c.data, got, c.want)
		}
	}
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "chan int") {
			t.Errorf("a channel: it said %q", said)
		}
	}()
	Message("x", make(chan int))
}
