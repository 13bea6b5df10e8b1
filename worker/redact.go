package worker

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// userinfo is what stands before the host in a URL: user:password, or a token.
var userinfo = regexp.MustCompile(`(://)[^/\s"]*@`)

// bareUserinfo is the same in an address without a scheme, which nats.go accepts too.
var bareUserinfo = regexp.MustCompile(`(^|[\s,"])[^/\s,"@]+@([^\s,"@]+:\d+)`)

// redact hides passwords and tokens in a text that may hold URLs: the parse errors of nats.go print them whole, and
// ConnectedUrlRedacted prints tokens (nats.go 1.55).
func redact(s string) string {
	if !strings.Contains(s, "@") { // as in most errors: the two searches took 6 % of a worker's CPU where 7 % of the calls failed
		return s
	}
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

// printable escapes control characters, the ones that a terminal obeys and JSON leaves alone (DEL, U+0080 to U+009F) too: subjects and
// errors come from elsewhere.
func printable(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// shown makes a text from elsewhere fit for a log: without secrets, without control characters.
func shown(s string) string { return printable(redact(s)) }

// redacted is an error whose text is fit to be shown, and which is still what it was for errors.Is and errors.As.
type redacted struct{ err error }

func (e redacted) Error() string { return redact(e.err.Error()) }
func (e redacted) Unwrap() error { return e.err }
