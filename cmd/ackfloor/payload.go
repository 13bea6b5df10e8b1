package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	shownBytes = 64 << 10 // of a payload, at the most, where it is shown to a person
	jsonDepth  = 64       // deeper JSON is not indented: the blanks would be more than the payload, by any factor
)

// describePayload shows a payload to a person: JSON indented, other text as it is, anything else as a hex dump; what would do something to a
// terminal is escaped. kind names which.
func describePayload(data []byte) (kind, text string) {
	rest := ""
	if len(data) > shownBytes {
		rest = fmt.Sprintf("… and %d bytes more: --raw writes all of them\n", len(data)-shownBytes)
	}
	head := data[:min(len(data), shownBytes)]
	var out bytes.Buffer
	switch {
	case len(data) == 0:
		return "empty", ""
	case rest == "" && utf8.Valid(data) && depth(data) <= jsonDepth && json.Indent(&out, bytes.TrimSpace(data), "", "  ") == nil:
		return "JSON", line(string(printableJSON(out.Bytes())))
	case isText(data):
		for !utf8.Valid(head) { // a character that the limit cuts in two
			head = head[:len(head)-1]
		}
		return "text", line(printableText(string(head))) + rest
	}
	return "binary", hex.Dump(head) + rest
}

// isText holds for UTF-8 without control characters other than line breaks and tabs.
func isText(data []byte) bool {
	return utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\r\n\t", r) })
}

// line ends s with a line break.
func line(s string) string { return strings.TrimSuffix(s, "\n") + "\n" }

// depth is how deep brackets of b nest at the most, whether it is JSON or not.
func depth(b []byte) int {
	now, most := 0, 0
	for _, c := range b {
		switch c {
		case '{', '[':
			now++
			most = max(most, now)
		case '}', ']':
			now--
		}
	}
	return most
}
