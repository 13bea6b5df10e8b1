package worker

import (
	"regexp"
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
