package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	htmltemplate "html/template"
	netmail "net/mail"
	"strconv"
	"strings"
	texttemplate "text/template"

	"github.com/ackfloor/ackfloor"
	"github.com/wneessen/go-mail"
)

//go:embed templates
var files embed.FS

// What comes from an event is escaped in HTML by html/template. In text there is nothing to escape.
var (
	texts = texttemplate.Must(texttemplate.ParseFS(files, "templates/*.txt"))
	pages = htmltemplate.Must(htmltemplate.ParseFS(files, "templates/*.html"))
)

// customer is what a mail needs of the payloads of events.order_placed and events.user_registered.
type customer struct {
	Email    string `json:"email"`
	Order    string `json:"order_id"`
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
	User     string `json:"user"`
}

// letter is a mail that is ready to be sent: the same bytes each time that it is written for one message.
type letter struct {
	id       string // its Message-ID, without angle brackets
	from, to *netmail.Address
	utf8     bool // its address needs SMTPUTF8
	subject  string
	data     []byte
}

// write writes the mail for a message. An error says that there is none that could be sent, now or later.
func write(from *netmail.Address, c customer, m *ackfloor.Message) (*letter, error) {
	to, utf8, err := parseAddress(c.Email)
	if err != nil {
		return nil, fmt.Errorf("the address %q: %w", c.Email, err)
	}
	for what, text := range map[string]string{"the order's number": c.Order, "the user's name": c.User, "the article": c.SKU} {
		if err := clean(what, text); err != nil {
			return nil, err
		}
	}
	l := &letter{id: messageID(m, domain(from)), from: from, to: to, utf8: utf8, subject: subject(c, m)}
	sum := sha256.Sum256([]byte(l.id))
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent(), mail.WithBoundary(hex.EncodeToString(sum[:16])))
	msg.FromMailAddress(from)
	msg.ToMailAddress(to)
	msg.Subject(l.subject)
	msg.SetMessageIDWithValue(l.id)
	msg.SetDateWithValue(m.Published.UTC())
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // so that absence notes don't answer it (RFC 3834)
	name := "order"
	if registered(m) {
		name = "welcome"
	}
	facts := struct {
		customer
		Number, Name, Shop string
	}{c, cmp.Or(c.Order, m.ID()), cmp.Or(c.User, "customer"), cmp.Or(from.Name, from.Address)}
	if err := msg.SetBodyTextTemplate(texts.Lookup(name+".txt"), facts); err != nil {
		return nil, err
	}
	if err := msg.AddAlternativeHTMLTemplate(pages.Lookup(name+".html"), facts); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, err
	}
	l.data = out.Bytes()
	return l, nil
}

func registered(m *ackfloor.Message) bool { return strings.HasSuffix(m.Subject, ".user_registered") }

func subject(c customer, m *ackfloor.Message) string {
	if registered(m) {
		return "Welcome, " + cmp.Or(c.User, "customer")
	}
	return "Your order " + cmp.Or(c.Order, m.ID())
}

// messageID names the mail for a message: by stream, consumer, sequence and the time at which the stream stored it, so that it is the same in each attempt and
// in each process, and another one when a stream was made anew. A mailbox that knows it may drop the second copy.
func messageID(m *ackfloor.Message, domain string) string {
	id := strings.Join([]string{plain(m.Stream), plain(m.Consumer), strconv.FormatUint(m.Sequence, 10), strconv.FormatInt(m.Published.UnixNano(), 36)}, ".")
	if domain == "" {
		return id
	}
	return id + "@" + domain
}

// plain is a name as it may stand in a Message-ID and in the name of a file.
func plain(name string) string {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return "x" + hex.EncodeToString([]byte(name))
		}
	}
	return cmp.Or(name, "x")
}

func domain(a *netmail.Address) string { return a.Address[strings.LastIndexByte(a.Address, '@')+1:] }
