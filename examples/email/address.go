package main

import (
	"errors"
	"fmt"
	netmail "net/mail"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

const (
	longestAddress = 254 // what fits between the angle brackets of RCPT TO (RFC 5321, 4.5.3.1.3)
	longestHeader  = 200 // runes of what goes from an event into a header
)

// domains maps what a user may write to what the DNS knows (UTS 46), and refuses what no domain can be.
var domains = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.VerifyDNSLength(true))

// parseAddress reads one address, with or without a name. Its domain comes back in ASCII (xn--…), which every mail server knows. utf8 says that what
// is before the @ is not ASCII, which only servers with SMTPUTF8 can take. An address with a line break, which would be another header or another
// command, is an error, also where it was hidden in an encoded word or in quotes.
func parseAddress(text string) (address *netmail.Address, utf8 bool, err error) {
	a, err := netmail.ParseAddress(text)
	if err != nil {
		return nil, false, err
	}
	if err := clean("the name", a.Name); err != nil {
		return nil, false, err
	}
	if err := clean("the address", a.Address); err != nil {
		return nil, false, err
	}
	at := strings.LastIndexByte(a.Address, '@')
	local, domain := a.Address[:at], a.Address[at+1:]
	if domain, err = domains.ToASCII(domain); err != nil {
		return nil, false, fmt.Errorf("the domain: %w", err)
	}
	a.Address = local + "@" + domain
	if len(a.Address) > longestAddress {
		return nil, false, errors.New("it is too long")
	}
	return a, !ascii(local), nil
}

// clean holds for a text that may go into a header.
func clean(what, text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s has a line break or another control character in it", what)
	}
	if n := len([]rune(text)); n > longestHeader && what != "the address" {
		return fmt.Errorf("%s has %d characters, more than %d", what, n, longestHeader)
	}
	return nil
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

// path is an address as MAIL and RCPT take it: in angle brackets, what is before the @ in quotes where it must be.
func path(a *netmail.Address) string { return (&netmail.Address{Address: a.Address}).String() }
