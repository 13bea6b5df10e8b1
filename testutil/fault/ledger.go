package fault

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const headerKey = "Fault-Key"

// Key is the key of a message that a Ledger with Keys has published, "" for any other: what worker.Config.Key takes.
func Key(m *ackfloor.Message) string { return m.Header.Get(headerKey) }

// Ledger publishes numbered messages and keeps what became of each. The body is the number, counted from 0; the subject is <Subject>.<number>,
// with Keys <Subject>.<key>.<number>. Each message has an id of its own in Nats-Msg-Id, so that one that is published again, as its first
// confirmation got lost, is stored once. Set the fields before the first call of Publish.
type Ledger struct {
	JS         jetstream.JetStream
	Subject    string
	Keys       int           // message i has the key "k<i modulo Keys>"; 0: none
	Publishers int           // goroutines that publish at once; 0 is 16
	Pause      time.Duration // between two messages of a publisher
	Tries      int           // how often a message is published until it is confirmed; 0: until it is, or ctx ends
	Patience   time.Duration // for one confirmation; 0 is 2 s
	Header     nats.Header   // of every message, beside the ledger's own

	once    sync.Once
	run     string // that begins the ids
	next    atomic.Int64
	mu      sync.Mutex
	entries []Entry
}

// Entry is what a Ledger knows of one message.
type Entry struct {
	Number    int
	ID        string // ackfloor.Message.ID of it
	Key       string
	Subject   string
	Confirmed bool      // the server has said that it is stored; else nobody knows
	Sequence  uint64    // in the stream, if confirmed
	At        time.Time // of the confirmation
	Tries     int
	Error     string // of the last try, if not confirmed
}

// Publish publishes n messages more, and returns when each is confirmed or given up. The error is that of ctx. Messages that are given up are no
// error: their entries say so. Several calls at the same time are one after the other in numbers, not in time.
func (l *Ledger) Publish(ctx context.Context, n int) error {
	l.once.Do(func() { l.run = rand.Text()[:10] })
	last := l.next.Add(int64(n))
	next := atomic.Int64{}
	next.Store(last - int64(n))
	var all sync.WaitGroup
	for range cmp.Or(l.Publishers, 16) {
		all.Go(func() {
			for ctx.Err() == nil {
				number := next.Add(1) - 1
				if number >= last {
					return
				}
				l.publish(ctx, int(number))
				rest(ctx, l.Pause)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("fault: publishing %d messages: %w", n, context.Cause(ctx))
	}
	return nil
}

// publish publishes one message until it is confirmed, or given up, and keeps the entry.
func (l *Ledger) publish(ctx context.Context, number int) {
	e := Entry{Number: number, ID: l.run + "-" + strconv.Itoa(number), Subject: l.Subject + "." + strconv.Itoa(number)}
	m := &nats.Msg{Data: []byte(strconv.Itoa(number)), Header: nats.Header{}}
	for name, values := range l.Header {
		m.Header[name] = slices.Clone(values)
	}
	if l.Keys > 0 {
		e.Key = "k" + strconv.Itoa(number%l.Keys)
		e.Subject = l.Subject + "." + e.Key + "." + strconv.Itoa(number)
		m.Header.Set(headerKey, e.Key)
	}
	m.Subject = e.Subject
	m.Header.Set(jetstream.MsgIDHeader, e.ID)
	for ctx.Err() == nil && !e.Confirmed && (l.Tries == 0 || e.Tries < l.Tries) {
		if e.Tries > 0 {
			rest(ctx, 50*time.Millisecond)
		}
		e.Tries++
		ack, err := l.try(ctx, m)
		if err != nil {
			e.Error = err.Error()
			continue
		}
		e.Confirmed, e.Sequence, e.At, e.Error = true, ack.Sequence, time.Now(), ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

func (l *Ledger) try(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(l.Patience, 2*time.Second), errors.New("no confirmation came"))
	defer cancel()
	return l.JS.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Entries returns what is known of every message that was confirmed or given up, by number.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.entries)
	slices.SortFunc(all, func(a, b Entry) int { return a.Number - b.Number })
	return all
}

// Confirmed tells how many messages the server has confirmed so far.
func (l *Ledger) Confirmed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.entries {
		if e.Confirmed {
			n++
		}
	}
	return n
}
