package worker

import (
	"context"
	"errors"
	"strings"

	"github.com/ackfloor/ackfloor/internal/denied"
	"github.com/nats-io/nats.go"
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

// behind does something that the server does not answer, and tells what it says of it: nil is nothing, *PermissionError that it is denied. A denial is reported
// beside, and behind a flush it has been.
func (r *Runner) behind(subject string, publish bool, do func() error) error {
	for range 3 {
		before := r.nc.LastError()
		if err := do(); err != nil {
			return err // the connection is closed: others tell
		}
		r.at("ask")
		flush, cancel := context.WithTimeout(r.values, requestWait)
		err := r.nc.FlushWithContext(flush)
		cancel()
		said := r.nc.LastError()
		about, publishing, isDenied := denied.Of(said)
		switch {
		case err == nil && said == before:
			return nil
		case isDenied && publishing == publish && about == subject:
			return &PermissionError{Publish: publish, Subject: subject, Allow: subject, Err: said}
		}
	}
	return errNotSaid
}

// listen subscribes to a subject, where that is allowed, or it is not known (errNotSaid). unsubscribe may be called in any case: a subscription that was denied would be
// denied anew after each reconnect.
func (r *Runner) listen(subject string, f nats.MsgHandler) (unsubscribe func(), err error) {
	var s *nats.Subscription
	unsubscribe = func() {
		if s != nil {
			_ = s.Unsubscribe()
		}
	}
	err = r.behind(subject, false, func() (err error) {
		unsubscribe()
		s, err = r.nc.Subscribe(subject, f)
		return err
	})
	if err != nil && !errors.Is(err, errNotSaid) {
		unsubscribe()
		return func() {}, err
	}
	return unsubscribe, err
}

var errNotSaid = errors.New("worker: it is not known whether the server allows it") // another user of the connection was denied something, or there is no connection
