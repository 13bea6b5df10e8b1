package worker

import (
	"errors"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
)

// violation is how the server reports what it denied, beside and late: the request itself just gets no answer. nats.go keeps
// the last one in LastError. Source: nats-server 2.15, client.go pubPermissionViolation, processSub; seen.
var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// denied tells whether the server's last word on this connection was that a subject is denied which the Runner needs: the one given, an
// ack, or an inbox. It is asked where an answer stays away.
func (r *Runner) denied(subject string) *PermissionError {
	err := r.nc.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	m := violation.FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	denial := &PermissionError{Publish: strings.EqualFold(m[1], "publish"), Subject: m[2], Err: err}
	inboxes := strings.TrimSuffix(r.nc.NewInbox(), ".") // <prefix>.<unique>
	inboxes = inboxes[:strings.LastIndexByte(inboxes, '.')+1]
	switch acks := strings.TrimSuffix(r.subjects.acks, ">"); {
	case denial.Publish && denial.Subject == subject:
		denial.Allow = subject
	case denial.Publish && strings.HasPrefix(denial.Subject, acks):
		denial.Allow = r.subjects.acks
	case denial.Publish && strings.HasPrefix(denial.Subject, "$JS.ACK.") && strings.Contains(denial.Subject, "."+r.cfg.Stream+"."+r.cfg.Consumer+"."):
		denial.Allow = "$JS.ACK.*.*." + r.cfg.Stream + "." + r.cfg.Consumer + ".>" // the form with a domain
	case !denial.Publish && strings.HasPrefix(denial.Subject, inboxes):
		denial.Allow = inboxes + ">"
	default:
		return nil
	}
	return denial
}
