package tape

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable makes a name fit for one line of a terminal: what a terminal obeys, or what hides or turns text, is shown as Go would write it, and so are bytes that are
// not UTF-8; with ascii all that is not ASCII.
func printable(s string, ascii bool) string {
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, s[0])
		case !unicode.IsPrint(r):
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		case ascii && r >= utf8.RuneSelf:
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			out.WriteString(s[:n])
		}
		s = s[n:]
	}
	return out.String()
}

// wide are the characters that take two columns, roughly: scripts of East Asia, full-width forms, pictures.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x23e9, 0x23f3, 1}, {0x25fd, 0x27bf, 1}, {0x2b1b, 0x2b55, 1}, {0x2e80, 0xa4cf, 1},
		{0xa960, 0xa97f, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe10, 0xfe6f, 1}, {0xff00, 0xff60, 1}, {0xffe0, 0xffe6, 1}},
	R32: []unicode.Range32{{0x16fe0, 0x18cff, 1}, {0x1af00, 0x1b2ff, 1}, {0x1f000, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
}

// columnsOf is how many columns a character takes at the most. Marks that are drawn over another one take none.
func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// width is how many columns a printable text takes.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

// pad fills a text up with spaces.
func pad(s string, w int) string {
	return s + strings.Repeat(" ", max(0, w-width(s)))
}

// cut shortens a text to so many columns, and shows that it did.
func (d *drawing) cut(s string, w int) string {
	if width(s) <= w {
		return s
	}
	end := "…"
	if d.ASCII {
		end = "~"
	}
	return prefix(s, w-1) + end
}

// prefix is as much of a text as fits into so many columns.
func prefix(s string, w int) string {
	for i, r := range s {
		if w -= columnsOf(r); w < 0 {
			return s[:i]
		}
	}
	return s
}

// Wrap breaks a printable text into lines of at most o.Width columns, between words where it can.
func Wrap(text string, o TextOptions) string {
	return strings.Join(wrap(strings.Fields(text), " ", max(o.Width, 20)), "\n")
}

// wrap puts parts into lines of at most w columns. A part that is longer is broken between its words, and a word inside.
func wrap(parts []string, between string, w int) []string {
	var lines []string
	line := ""
	next := func() {
		if line != "" {
			lines = append(lines, line)
		}
		line = ""
	}
	for _, part := range parts {
		if line != "" && width(line+between+part) <= w {
			line += between + part
			continue
		}
		next()
		if words := strings.Fields(part); width(part) > w && len(words) > 1 {
			lines = append(lines, wrap(words, " ", w)...)
			continue
		}
		for width(part) > w {
			head := prefix(part, w)
			lines = append(lines, head)
			part = part[len(head):]
		}
		line = part
	}
	next()
	return lines
}
