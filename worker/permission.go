package worker

import (
	"strings"

	"github.com/ackfloor/ackfloor/internal/denied"
)

// denied tells whether the server's last word on this connection was that a subject is denied which the Runner needs: the one given, an
// ack, or an inbox. It is asked where an answer stays away.
func (r *Runner) denied(subject string) *PermissionError {
	err := r.nc.LastError()
	about, publish, ok := denied.Of(err)
	if !ok {
		return nil
	}
	denial := &PermissionError{Publish: publish, Subject: about, Err: err}
	inboxes := denied.Inboxes(r.nc)
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
