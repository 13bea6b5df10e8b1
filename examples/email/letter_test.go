package main

import (
	"errors"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

var shopAddress = &netmail.Address{Name: "Shop", Address: "shop@example.com"}

func order(seq uint64, data any) *ackfloor.Message {
	return testutil.Message("events.order_placed", data, testutil.Stream("EVENTS"), testutil.Consumer("email"), testutil.Sequence(seq),
		testutil.Published(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)))
}

func user(data any) *ackfloor.Message {
	return testutil.Message("events.user_registered", data, testutil.Stream("EVENTS"), testutil.Consumer("email"), testutil.Sequence(8))
}

func TestALetterHasTextAndHTMLAndIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	l, err := write(shopAddress, customer{Email: "Ada Löwe <ada@example.com>", Order: "1001", SKU: `<b>"mug" & Söhne</b>`, Quantity: 2}, order(3, nil))
	must(t, err)
	r := read(t, l.data)
	if r.subject != "Your order 1001" || r.to.Name != "Ada Löwe" || r.to.Address != "ada@example.com" {
		t.Errorf("subject %q, to %v", r.subject, r.to)
	}
	if from, err := netmail.ParseAddress(r.header.Get("From")); err != nil || *from != *shopAddress {
		t.Errorf("from %v, %v", from, err)
	}
	if at, err := r.header.Date(); err != nil || !at.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("date %v, %v: not that of the event", at, err)
	}
	if r.header.Get("Auto-Submitted") != "auto-generated" || r.header.Get("Message-Id") != "<"+l.id+">" {
		t.Errorf("headers %v", r.header)
	}
	if !strings.Contains(r.text, "\n  2 x <b>\"mug\" & Söhne</b>\n") {
		t.Errorf("text %q", r.text)
	}
	if strings.Contains(r.html, "<b>") || !strings.Contains(r.html, "<li>2 &times; &lt;b&gt;&#34;mug&#34; &amp; Söhne&lt;/b&gt;</li>") {
		t.Errorf("html %q", r.html)
	}
}

func TestAWelcome(t *testing.T) {
	t.Parallel()
	l, err := write(shopAddress, customer{Email: "edsger@example.com", User: "edsger 水"}, user(nil))
	must(t, err)
	r := read(t, l.data)
	if r.subject != "Welcome, edsger 水" || !strings.Contains(r.text, "Welcome, edsger 水.") || !strings.Contains(r.html, "<strong>edsger 水</strong>") {
		t.Errorf("%+v", r)
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	if got := subject(customer{Order: "1001"}, order(9, nil)); got != "Your order 1001" {
		t.Errorf("an order: %q", got)
	}
	if got := subject(customer{}, order(9, nil)); got != "Your order EVENTS:9" {
		t.Errorf("an order without a number: %q", got)
	}
	if got := subject(customer{}, user(nil)); got != "Welcome, customer" {
		t.Errorf("a user without a name: %q", got)
	}
}

func TestALetterIsTheSameEachTimeAndAnotherForEachMessage(t *testing.T) {
	t.Parallel()
	c := customer{Email: "ada@example.com", Order: "1001"}
	one, err := write(shopAddress, c, order(3, nil))
	must(t, err)
	again := order(3, nil)
	again.Attempt = 4
	two, err := write(shopAddress, c, again)
	must(t, err)
	if string(one.data) != string(two.data) {
		t.Errorf("the second attempt sends another mail:\n%s\n%s", one.data, two.data)
	}
	seen := map[string]bool{one.id: true}
	for name, change := range map[string]func(*ackfloor.Message){
		"sequence":        func(m *ackfloor.Message) { m.Sequence = 4 },
		"stream made new": func(m *ackfloor.Message) { m.Published = m.Published.Add(time.Nanosecond) },
		"stream":          func(m *ackfloor.Message) { m.Stream = "OTHER" },
		"consumer":        func(m *ackfloor.Message) { m.Consumer = "email2" },
		"odd name":        func(m *ackfloor.Message) { m.Stream = "a@b>" },
	} {
		m := order(3, nil)
		change(m)
		l, err := write(shopAddress, c, m)
		must(t, err)
		if seen[l.id] {
			t.Errorf("%s: %s was there before", name, l.id)
		}
		seen[l.id] = true
		if _, err := netmail.ParseAddress("<" + l.id + ">"); err != nil {
			t.Errorf("%s: %s is no Message-ID: %v", name, l.id, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		path string // "": refused
		utf8 bool
	}{
		"ada@example.com":                    {"<ada@example.com>", false},
		"Ada <ada@example.com>":              {"<ada@example.com>", false},
		"ada@bücher.example":                 {"<ada@xn--bcher-kva.example>", false},
		"ada@BÜCHER.example":                 {"<ada@xn--bcher-kva.example>", false},
		"jörg@example.com":                   {"<jörg@example.com>", true},
		"用户@例子.example":                      {"<用户@xn--fsqu00a.example>", true},
		`"a b"@example.com`:                  {`<"a b"@example.com>`, false},
		`"x> SIZE=1 <"@example.com`:          {`<"x> SIZE=1 <"@example.com>`, false},
		"":                                   {},
		"ada":                                {},
		"ada@":                               {},
		"ada@exa mple.com":                   {},
		"ada@[127.0.0.1]":                    {},
		"ada@example.com, grace@example.com": {},
		"ada@example.com\r\nBcc: eve@example.com":            {},
		"Ada\r\nBcc: eve@example.com <ada@example.com>":      {},
		"=?utf-8?q?Ada=0D=0ABcc:_eve?= <ada@example.com>":    {},
		"\"Ada\nBcc: eve@example.com\" <ada@example.com>":    {},
		"\"a\\\r\nRCPT TO:<eve@example.com>\"@example.com":   {},
		"\"a\\\x00\"@example.com":                            {},
		strings.Repeat("a", 250) + "@example.com":            {},
		strings.Repeat("A", 201) + " <ada@example.com>":      {},
		"ada@" + strings.Repeat("a", 64) + ".example":        {},
		"ada@example.com\u0085RCPT TO:<eve@example.com>":     {},
		"ada@exa\u2028mple.com":                              {},
		"group: ada@example.com, grace@example.com;":         {},
		"ada@example.com>\r\nRCPT TO:<eve@example.com":       {},
		"Ada (a\r\n comment) <ada@example.com>":              {path: "<ada@example.com>"}, // a folded comment, which goes nowhere
		"ada@example.com (\r\n\r\nDATA\r\nfrom a comment\r)": {},
	} {
		a, utf8, err := parseAddress(text)
		switch {
		case err != nil && want.path != "":
			t.Errorf("%q: %v", text, err)
		case err == nil && (path(a) != want.path || utf8 != want.utf8):
			t.Errorf("%q: %s, utf8 %v; want %q, %v", text, path(a), utf8, want.path, want.utf8)
		}
		if err == nil && strings.ContainsAny(path(a)+a.String(), "\r\n\x00") {
			t.Errorf("%q: a line break gets through: %q", text, a.String())
		}
	}
}

// A customer's text that would be another header, or another command, is refused for good, and nothing is sent.
func TestInjectionsAreRefusedAndNeverSent(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
	for _, msg := range []*ackfloor.Message{
		order(1, `{"email":"ada@example.com\r\nBcc: eve@example.com"}`),
		order(1, `{"email":"=?utf-8?q?A=0D=0ABcc:_eve@example.com?= <ada@example.com>"}`),
		order(1, `{"email":"ada@example.com","order_id":"1\r\nBcc: eve@example.com"}`),
		order(1, `{"email":"ada@example.com","order_id":"1\nBcc: eve@example.com"}`),
		order(1, `{"email":"ada@example.com","order_id":"1\rBcc: eve@example.com"}`),
		order(1, `{"email":"ada@example.com","order_id":"1\u0000"}`),
		order(1, `{"email":"ada@example.com","sku":"mug\r\n.\r\nMAIL FROM:<eve@example.com>"}`),
		user(`{"email":"ada@example.com","user":"ada\r\nBcc: eve@example.com"}`),
		user(`{"email":"ada@example.com","user":"` + strings.Repeat("a", 201) + `"}`),
		order(1, `{"email":"ada@example.com, grace@example.com","order_id":"1"}`),
		order(1, `{"order_id":"1001"}`),
		order(1, `{"email":["ada@example.com"]}`),
		order(1, `{"email":"ada"}`),
	} {
		err := ackfloor.JSON(m.send).Handle(t.Context(), msg)
		if _, ok := errors.AsType[*ackfloor.PermanentError](err); !ok {
			t.Errorf("%s: %v, want it refused for good", msg.Data, err)
		}
	}
	if n := len(r.got()); n != 0 || r.sessions != 0 {
		t.Errorf("%d mails on %d connections, want none", n, r.sessions)
	}
}

// What stands on a line of its own as a dot, or as a command, in a mail's text, stays text.
func TestTheTextCannotEndTheMail(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
	l, err := write(shopAddress, customer{Email: "ada@example.com", Order: "1"}, order(1, nil))
	must(t, err)
	l.data = append(l.data, "\r\n.\r\nQUIT\r\n..\r\n.x\r\n"...)
	must(t, m.pool.send(t.Context(), l))
	if got := r.got(); len(got) != 1 || string(got[0].data) != string(l.data) {
		t.Errorf("it came as %+v", got)
	}
}
