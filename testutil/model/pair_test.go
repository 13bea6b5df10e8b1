package model_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/model"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A script is a list of operations, separated by semicolons, which are done on a real server and on the model, at the same virtual times:
//
//	publish 3 [500]               messages, of so many bytes
//	pull 2 [1s] [bytes=N] [nowait] [beat=1s]   the inbox gets the next number, from 1
//	ack 1, wpi 1, term 1, next 1, junk 1, nak 1 [1s]   the n-th delivery that came, of all pulls; where there are fewer, some other
//	beyond 7                      ack a message that was not delivered
//	forget 1                      end the subscription to an inbox
//	sleep 1s
//	restart 1s                    the server, which is down so long
//
// An ack wait has an odd length and each operation takes a microsecond, so that no two things that a script causes happen at the same time: what the
// server does first then is chance.
const oddWait = 2*time.Second + 300*time.Microsecond

// pair are a real server and the model in one bubble.
type pair struct {
	began time.Time
	sides [2]*side
	pulls int
	acks  int
}

// side is one of the two.
type side struct {
	name  string
	nc    *nats.Conn
	stop  func()
	start func()
	info  func() *jetstream.ConsumerInfo
	inbox map[int]*nats.Subscription
	in    chan *nats.Msg
	sent  []string // the replies of the deliveries that came
	log   []string // what came on pulls, and
	said  []string // what answered settlements
}

// newPair starts both. It has to be called in a bubble.
func newPair(t *testing.T, cfg jetstream.ConsumerConfig) *pair {
	t.Helper()
	p := &pair{began: time.Now()}
	cfg.Durable, cfg.AckPolicy = "D", jetstream.AckExplicitPolicy
	real := testutil.Bubble(t)
	real.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	m := model.New(model.Config{Stream: "EVENTS", Subjects: []string{"events.>"}})
	t.Cleanup(m.Close)
	nc, err := m.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	p.sides[0] = &side{name: "nats-server", nc: real.Conn(t), stop: real.Stop, start: real.Start}
	p.sides[1] = &side{name: "the model", nc: nc, stop: m.Stop, start: m.Start}
	for _, s := range p.sides {
		s.inbox, s.in = map[int]*nats.Subscription{}, make(chan *nats.Msg, 10000)
		js, err := jetstream.New(s.nc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateConsumer(t.Context(), "EVENTS", cfg); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		s.info = func() *jetstream.ConsumerInfo {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			c, err := js.Consumer(ctx, "EVENTS", "D")
			if err != nil {
				return nil
			}
			return c.CachedInfo()
		}
		if _, err := s.nc.ChanSubscribe("said.>", s.in); err != nil {
			t.Fatal(err)
		}
		go p.read(s)
		t.Cleanup(func() { close(s.in) })
	}
	synctest.Wait()
	return p
}

// read notes what a client sees, with the time.
func (p *pair) read(s *side) {
	for m := range s.in {
		at := time.Since(p.began)
		line := fmt.Sprintf("%v %s", at, m.Sub.Subject)
		switch {
		case strings.HasPrefix(m.Subject, "said."):
			s.said = append(s.said, fmt.Sprintf("%v %s %q %q", at, m.Subject, m.Header.Get("Status"), m.Data))
			continue
		case m.Reply != "":
			s.sent = append(s.sent, m.Reply)
			line += fmt.Sprintf(" %s %s %d bytes", m.Subject, m.Reply, len(m.Data))
		default:
			line += fmt.Sprintf(" %v %q", m.Header, m.Data)
		}
		s.log = append(s.log, line)
	}
}

// do does one operation on both sides, and returns an error where it does not know it.
func (p *pair) do(op string) error {
	defer synctest.Wait()
	defer time.Sleep(time.Microsecond)
	word := strings.Fields(op)
	n, _ := strconv.Atoi(word[min(1, len(word)-1)])
	d, _ := time.ParseDuration(word[len(word)-1])
	switch word[0] {
	case "sleep":
		time.Sleep(d)
		return nil
	case "restart":
		p.restart(d)
		return nil
	case "pull":
		p.pulls++
	case "publish":
		size := 1
		if len(word) > 2 {
			size, _ = strconv.Atoi(word[2])
		}
		for range n {
			for _, s := range p.sides {
				_ = s.nc.Publish("events.x", make([]byte, size))
			}
			synctest.Wait()
		}
		return nil
	default:
		p.acks++
	}
	for _, s := range p.sides {
		if err := p.doOn(s, word, n, d); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) doOn(s *side, word []string, n int, d time.Duration) error {
	body := map[string]string{"ack": "+ACK", "wpi": "+WPI", "term": "+TERM bad", "next": "+NXT", "junk": "+WHAT", "nak": "-NAK", "beyond": ""}
	switch word[0] {
	case "pull":
		inbox := fmt.Sprint("in.", p.pulls)
		sub, err := s.nc.ChanSubscribe(inbox, s.in)
		if err != nil {
			return err
		}
		s.inbox[p.pulls] = sub
		return s.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.EVENTS.D", inbox, pullBody(word))
	case "forget":
		if sub := s.inbox[n]; sub != nil {
			_ = sub.Unsubscribe()
			delete(s.inbox, n)
		}
		return nil
	}
	text, ok := body[word[0]]
	if !ok {
		return fmt.Errorf("%q is no operation", word[0])
	}
	reply := fmt.Sprint("said.", p.acks)
	if word[0] == "beyond" {
		return s.nc.PublishRequest(fmt.Sprintf("$JS.ACK.EVENTS.D.1.%d.%d.0.0", n, n), reply, nil)
	}
	if n = n % (len(s.sent) + 1); n == 0 {
		return nil
	}
	if word[0] == "nak" && d > 0 {
		text += fmt.Sprintf(" {\"delay\":%d}", d.Nanoseconds())
	}
	return s.nc.PublishRequest(s.sent[n-1], reply, []byte(text))
}

// pullBody is the body of a pull.
func pullBody(word []string) []byte {
	var out strings.Builder
	out.WriteString(`{"batch":` + word[1])
	for _, w := range word[2:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "bytes":
			out.WriteString(`,"max_bytes":` + value)
		case "nowait":
			out.WriteString(`,"no_wait":true`)
		case "beat":
			d, _ := time.ParseDuration(value)
			fmt.Fprintf(&out, `,"idle_heartbeat":%d`, d.Nanoseconds())
		default:
			d, _ := time.ParseDuration(w)
			fmt.Fprintf(&out, `,"expires":%d`, d.Nanoseconds())
		}
	}
	return []byte(out.String() + "}")
}

// restart restarts both servers at the same time, and waits until the clients are connected again.
func (p *pair) restart(down time.Duration) {
	both := func(f func(*side)) {
		done := make(chan struct{}, 2)
		for _, s := range p.sides {
			go func() { f(s); done <- struct{}{} }()
		}
		<-done
		<-done
	}
	both(func(s *side) { s.stop() })
	time.Sleep(down)
	both(func(s *side) { s.start() })
	for range 10000 {
		time.Sleep(time.Millisecond)
		if p.sides[0].nc.IsConnected() && p.sides[1].nc.IsConnected() {
			return
		}
	}
}

// differ tells what the two sides have shown otherwise; "" where nothing.
func (p *pair) differ() string {
	synctest.Wait()
	for _, part := range []func(*side) []string{pulled, func(s *side) []string { return s.said }, state} {
		a, b := part(p.sides[0]), part(p.sides[1])
		if !slices.Equal(a, b) {
			return fmt.Sprintf("nats-server:\n\t%s\nthe model:\n\t%s", strings.Join(a, "\n\t"), strings.Join(b, "\n\t"))
		}
	}
	return ""
}

// pulled is what came on pulls. A server that stops tells its pulls in the order of a map.
func pulled(s *side) []string {
	lines := slices.Clone(s.log)
	stops := func(l string) bool { return strings.Contains(l, "Server Shutdown") }
	for i := range lines {
		for j := i; j > 0 && stops(lines[j]) && stops(lines[j-1]) && lines[j] < lines[j-1]; j-- {
			lines[j], lines[j-1] = lines[j-1], lines[j]
		}
	}
	return lines
}

// state is what CONSUMER.INFO says.
func state(s *side) []string {
	i := s.info()
	if i == nil {
		return []string{"no info"}
	}
	return []string{fmt.Sprintf("delivered %d/%d, floor %d/%d, ack pending %d, redelivered %d, pending %d, waiting %d", i.Delivered.Stream, i.Delivered.Consumer,
		i.AckFloor.Stream, i.AckFloor.Consumer, i.NumAckPending, i.NumRedelivered, i.NumPending, i.NumWaiting)}
}

// play runs a script on both sides in a bubble. It returns what they have shown otherwise, behind which operation, and what came from the server.
func play(t *testing.T, cfg jetstream.ConsumerConfig, script string) (differ string, seen []string) {
	t.Helper()
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, cfg)
		var done []string
		for op := range strings.SplitSeq(script, ";") {
			if op = strings.TrimSpace(op); op == "" {
				continue
			}
			done = append(done, op)
			err := p.do(op)
			if err != nil {
				differ = err.Error()
			} else {
				differ = p.differ()
			}
			if differ != "" {
				differ = "behind " + strings.Join(done, "; ") + "\n" + differ
				break
			}
		}
		s := p.sides[0]
		synctest.Wait()
		seen = append(append(pulled(s), s.said...), state(s)...)
	})
	return differ, seen
}
