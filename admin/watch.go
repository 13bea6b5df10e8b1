package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
)

const (
	askTimeout = 10 * time.Second // for one stream and its consumers: package tape gives each request a limit of its own
	askSlow    = 2 * time.Second  // then the page says that the server does not answer
	idleEvery  = 15 * time.Second // how often the server is asked while nobody looks
	lookFor    = 10 * time.Second // how long somebody counts as looking who has asked for the page or the status
)

const notConnected = "not connected to the server"

// seenTape is a stream as the server described it last.
type seenTape struct {
	Stream  string     `json:"stream"`
	Problem string     `json:"problem,omitempty"` // why tape is old, or is not there
	Tape    *tape.Tape `json:"tape"`              // null before the first answer
}

// streamReader reads one stream, over the connection of a Runner.
type streamReader struct {
	stream string
	nc     *nats.Conn
	reader *tape.Reader
}

// streamReaders makes one for each stream that runners work on; the same name on another connection or in another domain is another stream.
func streamReaders(runners []*worker.Runner) []*streamReader {
	type key struct {
		nc                     *nats.Conn
		stream, domain, prefix string
	}
	consumers := map[key][]string{}
	var order []key
	for _, r := range runners {
		c := r.Config()
		k := key{r.Conn(), c.Stream, c.Connection.Domain, c.Connection.APIPrefix}
		if consumers[k] == nil {
			order = append(order, k)
		}
		consumers[k] = append(consumers[k], c.Consumer)
	}
	var out []*streamReader
	for _, k := range order {
		if js, err := (worker.Connection{Domain: k.domain, APIPrefix: k.prefix}).JetStream(k.nc); err == nil { // worker.New has refused what can't be right
			out = append(out, &streamReader{stream: k.stream, nc: k.nc, reader: tape.NewReader(js, k.stream, consumers[k]...)})
		}
	}
	return out
}

// Run keeps the page live until ctx ends: it asks the server, keeps the history, and tells those who listen. Then it ends their streams, and
// returns nil. It runs once: the only error is that it was called before.
func (s *Site) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("admin: Run was called before on this Site")
	}
	var loops sync.WaitGroup
	loops.Go(func() { s.ask(ctx) })
	loops.Go(func() { s.publish(ctx) })
	loops.Wait()
	s.hub.end(s.render(s.now()))
	return nil
}

// idle is how often the server is asked while nobody looks.
func (s *Site) idle() time.Duration { return max(idleEvery, s.o.Every) }

// look notes that somebody does, and wakes the loop that asks.
func (s *Site) look() {
	s.mu.Lock()
	s.looked = time.Now()
	s.mu.Unlock()
	select {
	case s.viewed <- struct{}{}:
	default:
	}
}

func (s *Site) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hub.listeners() > 0 || time.Since(s.looked) < lookFor
}

// ask is the only one that asks the server anything.
func (s *Site) ask(ctx context.Context) {
	for {
		began := time.Now()
		for i, one := range s.streams {
			s.mu.Lock()
			s.asking[i] = time.Now()
			s.mu.Unlock()
			t, problem := one.read(ctx)
			s.mu.Lock()
			s.asking[i] = time.Time{}
			if t != nil {
				s.tapes[i].Tape = t
			}
			s.tapes[i].Problem, s.cached = problem, nil
			s.mu.Unlock()
		}
		s.hub.asked()
		next := time.NewTimer(s.pause(began))
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				next.Stop()
				return
			case <-next.C:
				waiting = false
			case <-s.viewed:
				next.Reset(s.pause(began))
			}
		}
	}
}

// pause is how long to wait until the server is asked again.
func (s *Site) pause(began time.Time) time.Duration {
	every := s.idle()
	if s.watched() {
		every = s.o.Every
	}
	return max(0, every-time.Since(began))
}

// read asks for the stream, and says what is the matter where there is no answer.
func (r *streamReader) read(ctx context.Context) (*tape.Tape, string) {
	if !r.nc.IsConnected() {
		return nil, notConnected
	}
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	t, err := r.reader.Read(within)
	switch {
	case err == nil:
		return t, ""
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Sprintf("the server has not answered within %v", askTimeout)
	}
	return nil, plain(err.Error(), longText)
}

// publish keeps the history, and renders the page once for all who listen.
func (s *Site) publish(ctx context.Context) {
	points, turns := time.NewTicker(historyStep), time.NewTicker(s.o.Every)
	defer points.Stop()
	defer turns.Stop()
	s.sample(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-points.C:
			s.sample(now)
		case <-turns.C:
			if s.hub.listeners() > 0 {
				s.hub.tell(s.render(s.now()))
			}
		}
	}
}
