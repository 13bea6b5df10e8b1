package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// stopTells is how long a server goes on behind the word to its pulls that it stops: it takes requests, and delivers on those pulls too (nats-server 2.15,
// signalPullConsumers).
const stopTells = 50 * time.Millisecond

// Stop ends the server as SIGTERM does, and returns when it has ended: open pulls are told, where the consumer has no replica, and then all connections
// are closed. The state is kept. It does nothing to one that is stopped.
func (s *Server) Stop() {
	if s.tellPulls() {
		<-time.After(stopTells)
	}
	s.mu.Lock()
	defer s.unlock()
	if !s.up {
		return
	}
	for _, c := range s.conns {
		c.end()
	}
	s.conns = nil
	if s.cons != nil {
		s.cons.restart(true)
	}
	s.up = false
}

// tellPulls tells the open pulls that the server stops, and returns whether there are any.
func (s *Server) tellPulls() bool {
	s.mu.Lock()
	defer s.unlock()
	if !s.listens() || s.cfg.Replicas > 1 {
		return false
	}
	for _, p := range s.cons.pulls {
		s.cons.status(p.inbox, "409 Server Shutdown", p.left, p.bytes)
	}
	return len(s.cons.pulls) > 0
}

// Start starts a server that was stopped.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.unlock()
	if s.up {
		return
	}
	s.up = true
	s.listen()
}

// MoveLeader moves the consumer's leader: for so long nobody listens, nor answers what is asked about the consumer. Then the new leader begins with what is
// stored, and tells the pulls that were open. It returns at once. It does nothing while one moves, or where the consumer has one replica.
func (s *Server) MoveLeader(gap time.Duration) {
	s.mu.Lock()
	defer s.unlock()
	if !s.listens() || s.cfg.Replicas == 1 {
		return
	}
	s.electing = true
	var open []string
	for _, p := range s.cons.pulls {
		open = append(open, p.inbox)
	}
	s.cons.restart(false)
	time.AfterFunc(gap, func() { s.elected(open) })
}

func (s *Server) elected(open []string) {
	s.mu.Lock()
	defer s.unlock()
	s.electing = false
	s.leader++
	if !s.up {
		return
	}
	s.advise()
	s.listen()
	for _, inbox := range open {
		s.cons.out(out{to: inbox, header: []byte("NATS/1.0 409 Leadership Change\r\n\r\n")})
	}
}

// advise says who leads the consumer now, which goes out before that takes requests.
func (s *Server) advise() {
	if s.cons == nil {
		return
	}
	consumer := s.cons.name
	subject := "$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED." + s.cfg.Stream + "." + consumer
	about, err := json.Marshal(map[string]string{"type": "io.nats.jetstream.advisory.v1.consumer_leader_elected", "stream": s.cfg.Stream, "consumer": consumer, "leader": s.leaderName()})
	if err != nil {
		panic(err)
	}
	s.send(subject, subject, "", nil, about)
}

// listen has the consumer take requests again, and deliver what was published meanwhile.
func (s *Server) listen() {
	if s.cons == nil || s.electing {
		return
	}
	s.cons.messages = s.stored
	s.cons.begin()
}

// Cut cuts the connection of the client of a name, after a time in which whatever is sent over it, either way, is lost. It returns at once.
func (s *Server) Cut(name string, after time.Duration) {
	s.mu.Lock()
	defer s.unlock()
	for _, c := range slices.Clone(s.conns) {
		if c.name != name {
			continue
		}
		if c.deaf = true; !c.greeted { // nats.go holds its lock until it is, in which no virtual time passes
			s.drop(c)
			continue
		}
		time.AfterFunc(after, func() {
			s.mu.Lock()
			defer s.unlock()
			s.drop(c)
		})
	}
}

// drop forgets a connection.
func (s *Server) drop(c *conn) {
	c.end()
	s.conns = slices.DeleteFunc(s.conns, func(o *conn) bool { return o == c })
}

// leaderName names the server that leads the consumer.
func (s *Server) leaderName() string { return fmt.Sprint("n", s.leader%s.cfg.Replicas) }
