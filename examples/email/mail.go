package main

import (
	"cmp"
	"context"
	"fmt"
	"net/mail"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
)

// customer is what a mail needs of the payloads of events.order_placed and events.user_registered.
type customer struct {
	Email string `json:"email"`
	Order string `json:"order_id"`
	User  string `json:"user"`
}

// send writes a mail, for now on the screen only. An address that is none stays none, so it is Permanent.
func send(_ context.Context, c customer, m *ackfloor.Message) error {
	to, err := mail.ParseAddress(c.Email)
	if err != nil {
		return ackfloor.Permanent(fmt.Errorf("the address %q: %w", c.Email, err))
	}
	shop.Show(m, "mail to %s: %s", to.Address, subject(c, m))
	return nil
}

func subject(c customer, m *ackfloor.Message) string {
	if m.Subject == "events.user_registered" {
		return "Welcome, " + cmp.Or(c.User, "customer")
	}
	return "Your order " + cmp.Or(c.Order, m.ID())
}
