package worker

import (
	"regexp"
	"strings"
)

// userinfo is what stands before the host in a URL: user:password, or a token.
var userinfo = regexp.MustCompile(`(://)[^/\s"]*@`)

// bareUserinfo is the same in an address without a scheme, which nats.go accepts too.
var bareUserinfo = regexp.MustCompile(`(^|[\s,"])[^/\s,"@]+@([^\s,"@]+:\d+)`)

// redact hides passwords and tokens in a text that may hold URLs: the parse errors of nats.go print them whole, and
// ConnectedUrlRedacted prints tokens (nats.go 1.55).
func redact(s string) string {
	s = userinfo.ReplaceAllString(s, "${1}xxxxx@")
	return bareUserinfo.ReplaceAllString(s, "${1}xxxxx@${2}")
}

// scheme is where an address of a list begins.
var scheme = regexp.MustCompile(`(?:^|,)\s*[a-zA-Z][a-zA-Z0-9+.-]*://`)

// redactURL is redact for a value that is known to be addresses, as NATS_URL is: whatever a password holds (slashes, commas, quotes,
// spaces, none of which a URL may), nothing between a scheme and the last @ behind it is shown. Where in doubt it hides a host too.
func redactURL(list string) string {
	var out strings.Builder
	hide := func(address string) {
		if i := strings.LastIndexByte(address, '@'); i >= 0 {
			out.WriteString("xxxxx")
			address = address[i:]
		}
		out.WriteString(address)
	}
	from := 0
	for _, at := range scheme.FindAllStringIndex(list, -1) {
		hide(list[from:at[0]])
		out.WriteString(list[at[0]:at[1]])
		from = at[1]
	}
	hide(list[from:])
	return out.String()
}

// redacted is an error whose text is fit to be shown, and which is still what it was for errors.Is and errors.As.
type redacted struct{ err error }

func (e redacted) Error() string { return redact(e.err.Error()) }
func (e redacted) Unwrap() error { return e.err }
