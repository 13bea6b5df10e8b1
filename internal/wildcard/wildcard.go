// Package wildcard compares NATS subjects with wildcards.
package wildcard

import "strings"

// Covers tells whether every subject that narrow matches is matched by wide too.
func Covers(wide, narrow string) bool {
	w, n := strings.Split(wide, "."), strings.Split(narrow, ".")
	for i, t := range w {
		switch {
		case t == ">":
			return len(n) > i
		case i >= len(n), n[i] == ">", t != "*" && t != n[i]:
			return false
		}
	}
	return len(w) == len(n)
}

// Overlap tells whether some subject is matched by both. Source of the rule: nats-server 2.15, SubjectsCollide.
func Overlap(a, b string) bool {
	s, t := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(s), len(t)) {
		switch {
		case s[i] == ">" || t[i] == ">":
			return true
		case s[i] != "*" && t[i] != "*" && s[i] != t[i]:
			return false
		}
	}
	return len(s) == len(t)
}
