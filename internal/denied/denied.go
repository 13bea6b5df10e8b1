// Package denied reads what a server says of a request that it denied: it does not answer it, and reports it beside and late. nats.go keeps the last report of
// a connection in LastError. Source: nats-server 2.15, client.go pubPermissionViolation, processSub; seen.
package denied

import (
	"errors"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
)

var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// Of tells which subject err, the last one of a connection, says is denied, and whether to publish to it, or else to subscribe. It returns false where err is of
// another kind.
func Of(err error) (subject string, publish, ok bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", false, false
	}
	m := violation.FindStringSubmatch(err.Error())
	if m == nil {
		return "", false, false
	}
	return m[2], strings.EqualFold(m[1], "publish"), true
}

// Inboxes is what the inboxes of a connection begin with, with the dot at its end.
func Inboxes(nc *nats.Conn) string {
	inbox := strings.TrimSuffix(nc.NewInbox(), ".") // <prefix>.<unique>
	return inbox[:strings.LastIndexByte(inbox, '.')+1]
}
