//go:build unix

package nats

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// A token ends while its service works: the service waits until a new one is in its place, and goes on by itself, with nothing left out.
func TestTokenThatEnds(t *testing.T) {
	p := newOperatorPlace(t)
	p.setUp(t)
	file := p.key("inventory.creds")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.shorten(t, file, good, 6*time.Second)
	p.place(t, `{"order_id":"4001","sku":"mug","quantity":1,"email":"ada@example.com"}`)
	s := p.start(t, "inventory")
	s.sees(t, `4001`)
	s.sees(t, `(?i)disconnected`)
	p.place(t, `{"order_id":"4002","sku":"mug","quantity":1,"email":"ada@example.com"}`)
	time.Sleep(time.Second)
	if strings.Contains(s.output(), "4002") {
		t.Error("it works without a token")
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s.sees(t, `(?i)reconnected`)
	s.sees(t, `4002`)
	s.stop(t)
}

// shorten writes credentials anew, with a token that ends soon.
func (p place) shorten(t *testing.T, file string, creds []byte, valid time.Duration) {
	t.Helper()
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	user, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(p.key("account.seed"))
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil {
		t.Fatal(err)
	}
	user.Expires = time.Now().Add(valid).Unix()
	if token, err = user.Encode(account); err != nil {
		t.Fatal(err)
	}
	pair, err := jwt.ParseDecoratedUserNKey(creds)
	if err != nil {
		t.Fatal(err)
	}
	own, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(token, own)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
