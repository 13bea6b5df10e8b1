package ackfloor

import (
	"strings"
)

// KeyBySubject makes a function for worker.Config.Key that takes a token of the subject as the key: 1 is the first token, -1 the last. A subject with fewer
// tokens has no key.
func KeyBySubject(token int) func(*Message) string {
	return func(m *Message) string {
		tokens := strings.Split(m.Subject, ".")
		switch {
		case token > 0 && token <= len(tokens):
			return tokens[token-1]
		case token < 0 && -token <= len(tokens):
			return tokens[len(tokens)+token]
		}
		return ""
	}
}

// KeyByHeader makes a function for worker.Config.Key that takes the first value of a header as the key. The name is compared as it is, with upper and
// lower case told apart, as the server does. A message without the header has no key.
func KeyByHeader(name string) func(*Message) string {
	return func(m *Message) string {
		if values := m.Header[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
}
