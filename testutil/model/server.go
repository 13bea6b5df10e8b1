package model

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Server is a model of a nats-server with JetStream, one stream and one consumer, which its clients make. See the package's comment.
type Server struct {
	cfg   Config
	made  time.Time
	loops sync.WaitGroup // of its connections

	mu       sync.Mutex
	up       bool
	electing bool // the consumer has no leader
	leader   int
	conns    []*conn // those that are connected
	cons     *consumer
	created  time.Time // the consumer
	clients  []string  // the names of all that asked about it
	stored   []message
	timer    *time.Timer
	late     time.Duration // how much later the answer comes to the settlement that is worked on
}

// New makes a Server, which takes connections. Close ends it.
func New(cfg Config) *Server {
	cfg.Replicas = max(1, cfg.Replicas)
	s := &Server{cfg: cfg, made: time.Now(), up: true}
	s.timer = time.AfterFunc(time.Hour, s.tick)
	s.timer.Stop()
	return s
}

// Close ends the Server, and returns when nothing of it is left.
func (s *Server) Close() {
	s.Stop()
	s.loops.Wait()
}

// Connect connects a client. It reconnects for ever, every 50 ms; opts come after these defaults.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("nats://model:4222", append([]nats.Option{nats.InProcessServer(s), nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond)}, opts...)...)
}

var errDown = errors.New("model: the server is stopped")

// InProcessConn implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		return nil, errDown
	}
	ours, theirs := net.Pipe()
	c := newConn(s, ours)
	s.conns = append(s.conns, c)
	s.loops.Go(c.read)
	s.loops.Go(c.write)
	return theirs, nil
}

// Publish stores a message, whether the server runs or not, and returns its sequence.
func (s *Server) Publish(subject string, data []byte) uint64 {
	s.mu.Lock()
	defer s.unlock()
	return s.store(subject, nil, data)
}

func (s *Server) store(subject string, header, data []byte) uint64 {
	if s.cons == nil || !s.up || s.electing {
		s.stored = append(s.stored, message{seq: uint64(len(s.stored)) + 1, subject: subject, header: header, data: data, stored: time.Now()})
		return uint64(len(s.stored))
	}
	m := s.cons.publish(subject, header, data)
	s.stored = s.cons.messages
	return m.seq
}

// unlock unlocks the server behind whatever may have changed when the consumer has to be looked at next.
func (s *Server) unlock() {
	s.timer.Stop()
	if s.listens() {
		if at := s.cons.due(); !at.IsZero() {
			s.timer.Reset(time.Until(at))
		}
	}
	s.mu.Unlock()
}

// listens tells whether there is a consumer that takes requests now.
func (s *Server) listens() bool { return s.up && !s.electing && s.cons != nil }

func (s *Server) tick() {
	s.mu.Lock()
	defer s.unlock()
	if s.listens() {
		s.cons.tick()
	}
}

// Info is the consumer's state as CONSUMER.INFO tells it; nil while there is no consumer.
func (s *Server) Info() *jetstream.ConsumerInfo {
	s.mu.Lock()
	defer s.unlock()
	if s.cons == nil {
		return nil
	}
	return s.info("")
}

// Pending lists the stream sequences of what is delivered and not settled, in order.
func (s *Server) Pending() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cons == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.cons.pending))
}

// out sends what the consumer puts out.
func (s *Server) out(o out) {
	if o.reply != "" && s.cfg.Delivered != nil {
		s.cfg.Delivered(Delivery{Sequence: o.seq, Count: o.count, Client: s.subscriber(o.to), Reply: o.reply})
	}
	subject := o.subject
	if subject == "" {
		subject = o.to
	}
	if s.late > 0 && o.reply == "" && len(o.header) == 0 { // the answer to a settlement
		time.AfterFunc(s.late, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.send(o.to, subject, o.reply, o.header, o.data)
		})
		return
	}
	s.send(o.to, subject, o.reply, o.header, o.data)
}

// send routes a message to all who subscribe to a subject; they see it under another where it is a delivery. It tells whether there is any.
func (s *Server) send(to, subject, reply string, header, data []byte) (any bool) {
	for _, c := range s.conns {
		any = c.deliver(to, subject, reply, header, data) || any
	}
	return any
}

func (s *Server) subscribed(subject string) bool {
	return slices.ContainsFunc(s.conns, func(c *conn) bool { return c.subscribed(subject) })
}

// subscriber is the name of the client that subscribes to a subject.
func (s *Server) subscriber(subject string) string {
	for _, c := range s.conns {
		if c.subscribed(subject) {
			return c.name
		}
	}
	return ""
}
