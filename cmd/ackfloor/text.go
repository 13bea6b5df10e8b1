package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unsafe holds for what must not reach a terminal from a dead letter: what it obeys (ESC, C1), what moves other text about or hides it
// (right-to-left overrides, zero-width characters), and line breaks in a cell.
func unsafe(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// printable makes one line of text from elsewhere fit for a terminal: what is unsafe is shown as Go would write it, and so are bytes
// that are not UTF-8.
func printable(s string) string { return escaped(s, "") }

// printableText is printable for a text of several lines.
func printableText(s string) string { return escaped(s, "\n\t") }

func escaped(s, allowed string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unsafe) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, s[0])
		case !unsafe(r) || strings.ContainsRune(allowed, r):
			out.WriteString(s[:n])
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		s = s[n:]
	}
	return out.String()
}

// printableJSON does the same for JSON, which escapes some control characters by itself (those below U+0020) and leaves others as they are.
// They can stand in strings only, so the value stays the same.
func printableJSON(b []byte) []byte {
	if !bytes.ContainsFunc(b, func(r rune) bool { return r != '\n' && unsafe(r) }) {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	for _, r := range string(b) { // JSON from encoding/json is valid UTF-8
		switch {
		case r == '\n' || !unsafe(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// userinfo is what stands before the host in a URL: a password, or a token.
var userinfo = regexp.MustCompile(`(://)[^/\s"]*@`)

// shown makes the text of an error fit to be printed: no secrets, and of control characters line breaks and tabs only.
func shown(err error) string {
	return strings.TrimRight(escaped(userinfo.ReplaceAllString(err.Error(), "${1}xxxxx@"), "\n\t"), "\n")
}
