package model

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// publish takes what a client publishes.
func (s *Server) publish(c *conn, subject, reply string, header, data []byte) {
	switch {
	case strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT."):
		s.request(Request{Client: c.name, Subject: subject, Body: string(data), Pull: true}, reply)
	case strings.HasPrefix(subject, "$JS.ACK."):
		s.request(Request{Client: c.name, Subject: subject, Body: string(data)}, reply)
	case strings.HasPrefix(subject, "$JS.API."):
		s.api(c.name, subject, reply, data)
	default:
		stores := slices.ContainsFunc(s.cfg.Subjects, func(own string) bool { return matches(own, subject) })
		if stores {
			seq := s.store(subject, header, data)
			if reply != "" {
				body, _ := json.Marshal(jetstream.PubAck{Stream: s.cfg.Stream, Sequence: seq})
				s.send(reply, reply, "", nil, body)
			}
		}
		if !s.send(subject, subject, reply, header, data) && !stores {
			s.nobody(reply)
		}
	}
}

// name is the consumer's; empty while there is none.
func (s *Server) name() string {
	if s.cons == nil {
		return ""
	}
	return s.cons.name
}

// hears tells whether the consumer listens on a subject now.
func (s *Server) hears(r Request) bool {
	if !s.listens() {
		return false
	}
	own := s.cfg.Stream + "." + s.cons.name
	return r.Pull && r.Subject == "$JS.API.CONSUMER.MSG.NEXT."+own || !r.Pull && strings.HasPrefix(r.Subject, "$JS.ACK."+own+".")
}

// request gives the consumer a pull or a settlement, with what goes wrong on the way.
func (s *Server) request(r Request, reply string) {
	var f Fault
	if s.cfg.Fault != nil {
		f = s.cfg.Fault(r)
	}
	if f.Nobody || !s.hears(r) {
		s.nobody(reply)
		return
	}
	if f.Lost {
		return
	}
	if r.Pull {
		s.cons.pull(reply, []byte(r.Body))
		return
	}
	if seq, _, ok := sequences(r.Subject); ok && s.cfg.Settled != nil {
		s.cfg.Settled(Settlement{Client: r.Client, Sequence: seq, Reply: r.Subject, Body: r.Body})
	}
	s.late = f.Late
	s.cons.settle(r.Subject, reply, []byte(r.Body))
	s.late = 0
}

// nobody answers for want of anybody who does.
func (s *Server) nobody(reply string) {
	if reply != "" {
		s.send(reply, reply, "", []byte("NATS/1.0 503\r\n\r\n"), nil)
	}
}

// matches tells whether a subject is one of those that a subscription, or a stream, names.
func matches(pattern, subject string) bool {
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		t, restT, moreT := strings.Cut(subject, ".")
		if p == ">" {
			return true
		}
		if p != "*" && p != t || moreP != moreT {
			return false
		}
		if !moreP {
			return true
		}
		pattern, subject = restP, restT
	}
}
