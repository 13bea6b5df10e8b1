package model_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil/model"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// worked is a Runner at work.
type worked struct {
	w         *world
	name      string // of its connection
	nc        *nats.Conn
	stop      context.CancelFunc
	done      chan struct{} // closed when Run has returned
	told      time.Time     // to stop; zero: not yet. These are guarded by world.mu:
	ended     bool
	killed    bool
	disturbed time.Time            // until then what it sends or gets may have been lost
	active    int                  // handlers
	handled   []uint64             // its handlers returned nil
	returns   map[uint64]time.Time // when the last handler of a message returned, whatever it said
}

// endMore is how much longer than the grace a stop may take: 3 s for confirmations, a last look, some moments.
const endMore = 5 * time.Second

func (w *world) work(name string, nc *nats.Conn) *worked {
	x := &worked{w: w, name: name, nc: nc, done: make(chan struct{}), returns: map[uint64]time.Time{}}
	w.mu.Lock()
	w.all[name] = x
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(w.end)
	x.stop = cancel
	r, err := x.runner()
	if err != nil {
		w.t.Error(err)
		close(x.done)
		return x
	}
	r.OnSettled(x.confirmed)
	go func() {
		defer close(x.done)
		x.returned(r.Run(ctx))
	}()
	return x
}

// runner makes one that works in the plan's way.
func (x *worked) runner() (*worker.Runner, error) {
	w := x.w
	cfg := worker.Config{Stream: "EVENTS", Consumer: "D", AckWait: w.wait, MaxAckPending: w.number("maxpending"), Concurrency: w.number("slots"),
		MaxAttempts: 1000, RetrySchedule: "50ms..2s", DrainTimeout: w.span("grace"), StartupTimeout: time.Minute, DeadLetter: "off", Records: "off",
		Logger: zap.NewNop()}
	switch w.conf["mode"] {
	case "keys":
		cfg.Key = func(m *ackfloor.Message) string { return w.key(m.Sequence) }
	case "batches":
		cfg.BatchSize, cfg.BatchLinger = 5, 20*time.Millisecond
		return worker.NewBatch(x.nc, cfg, ackfloor.BatchHandlerFunc(x.handleBatch))
	}
	return worker.New(x.nc, cfg, ackfloor.HandlerFunc(x.handle))
}

// key is that of a message, where they are kept in order by it: one in seven has none.
func (w *world) key(seq uint64) string {
	if seq%keys == 0 {
		return ""
	}
	return fmt.Sprint(seq % keys)
}

const keys = 7

func (x *worked) works() bool {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	return x.told.IsZero() && !x.ended && !x.killed
}

// tell tells it to stop.
func (x *worked) tell() {
	x.w.mu.Lock()
	if x.told.IsZero() {
		x.told = time.Now()
	}
	x.w.mu.Unlock()
	x.stop()
}

// returned checks how Run ended, and when.
func (x *worked) returned(err error) {
	w := x.w
	pending := w.m.Pending()
	w.mu.Lock()
	defer w.mu.Unlock()
	x.ended = true
	var drain *worker.DrainError
	switch {
	case x.killed:
		return
	case err != nil && !errors.As(err, &drain):
		w.problemLocked("%s: Run returned %v", x.name, err)
	case x.told.IsZero():
		w.problemLocked("%s: Run returned though it was not told to stop: %v", x.name, err)
	case time.Since(x.told) > w.span("grace")+endMore:
		w.problemLocked("%s: Run returned %v behind the stop", x.name, time.Since(x.told))
	}
	if err != nil {
		if drain != nil && drain.Unconfirmed > 0 {
			w.rough = true // what is not confirmed may come again
			if x.told.After(w.upset.Add(5*time.Second)) && x.told.After(x.disturbed.Add(5*time.Second)) {
				w.problemLocked("%s: %d settlements are not confirmed, though the server was there", x.name, drain.Unconfirmed)
			}
		}
		return
	}
	for _, seq := range x.handled {
		if slices.Contains(pending, seq) && w.done[seq] == 1 {
			w.problemLocked("%s: a clean stop, but message %d is not acknowledged", x.name, seq)
		}
	}
	for _, seq := range pending {
		if h := w.holder[seq]; h.w == x && !w.sent[h.reply] && h.at.After(x.disturbed) && w.quiet(h.at) {
			w.problemLocked("%s: a clean stop, but message %d was delivered to it %v ago and is neither settled nor handed back", x.name, seq, time.Since(h.at))
		}
	}
}

// confirmed is told what the server has confirmed.
func (x *worked) confirmed(s worker.Settled) {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	if !s.Confirmed.IsZero() && s.Kind != "nak" {
		x.w.sure[s.Sequence] = s.Confirmed
	}
}

// roll draws a number below n for a message's call, always the same for a seed.
func (w *world) roll(seq uint64, call int, what string, n uint32) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, w.conf["seed"], " ", seq, " ", call, " ", what)
	return h.Sum32() >> 8 % n
}

// handle is the handler: it takes from nothing to two seconds, and may fail three times.
func (x *worked) handle(ctx context.Context, m *ackfloor.Message) error {
	x.enter(1)
	defer x.enter(-1)
	call := x.begin(m.Sequence)
	defer x.end(m.Sequence)
	if err := pause(ctx, x.w.takes(m.Sequence, call)); err != nil {
		return err
	}
	return x.outcome(m.Sequence, call)
}

// handleBatch is the handler of batches: it takes as long as the slowest of them. What panics in a batch has failed by itself.
func (x *worked) handleBatch(ctx context.Context, b *ackfloor.Batch) error {
	x.enter(1)
	defer x.enter(-1)
	calls := make([]int, len(b.Messages))
	var most time.Duration
	for i, m := range b.Messages {
		calls[i] = x.begin(m.Sequence)
		defer x.end(m.Sequence)
		most = max(most, x.w.takes(m.Sequence, calls[i]))
	}
	if err := pause(ctx, most); err != nil {
		return err
	}
	for i, m := range b.Messages {
		func() {
			defer func() {
				if recover() != nil {
					b.Fail(i, errWork)
				}
			}()
			b.Fail(i, x.outcome(m.Sequence, calls[i]))
		}()
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// takes is how long a call does.
func (w *world) takes(seq uint64, call int) time.Duration {
	took := []time.Duration{0, 0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second}
	return took[w.roll(seq, call, "took", uint32(len(took)))] + time.Duration(w.roll(seq, call, "more", 1000))*time.Microsecond
}

// enter counts the handlers that run.
func (x *worked) enter(n int) {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	if x.active += n; x.active > x.w.number("slots") {
		x.w.problemLocked("%s: %d handlers run", x.name, x.active)
	}
}

// begin checks that a message may be handled now, and returns which of its calls this is, from 1.
func (x *worked) begin(seq uint64) (call int) {
	w := x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[seq]++
	if slices.Contains(x.handled, seq) {
		w.problemLocked("%s: message %d is handled, but it has done so before", x.name, seq)
	}
	before, sure := w.sure[seq]
	mayWait := w.rough // here, since its lease was lost where it was settled
	if sure && (!mayWait || w.holder[seq].at.After(before)) {
		w.problemLocked("%s: message %d is handled, but it was confirmed before that it is settled", x.name, seq)
	}
	key := fmt.Sprint(x.name, " ", seq)
	if _, twice := w.running[key]; twice {
		w.problemLocked("%s: message %d is in two handlers", x.name, seq)
	}
	w.running[key] = struct{}{}
	if w.conf["mode"] == "keys" && !w.crowded && !w.rough && w.key(seq) != "" {
		for s := seq; s > keys; {
			if s -= keys; w.done[s] == 0 && !w.bad[s] {
				w.problemLocked("%s: message %d is handled before %d, which has the same key", x.name, seq, s)
			}
		}
	}
	return w.calls[seq]
}

func (x *worked) end(seq uint64) {
	w := x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, fmt.Sprint(x.name, " ", seq))
	x.returns[seq] = time.Now()
}

var errWork = errors.New("it failed")

func (x *worked) outcome(seq uint64, call int) error {
	w := x.w
	luck := w.roll(seq, call, "luck", 100)
	if call > 3 {
		luck = 99
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case luck < 2 && w.done[seq] == 0:
		w.bad[seq] = true
		return ackfloor.Permanent(errWork)
	case luck < 8:
		return errWork
	case luck < 12:
		return ackfloor.RetryAfter(time.Duration(w.roll(seq, call, "after", 3000))*time.Millisecond, errWork)
	case luck < 14:
		panic("bad luck")
	}
	w.done[seq]++
	x.handled = append(x.handled, seq)
	return nil
}

// fault is asked what goes wrong with a request.
func (w *world) fault(r model.Request) (f model.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Pull {
		if w.losePull > 0 {
			w.losePull--
			f.Lost = true
		}
		return f
	}
	if w.kind(r.Body) != "" {
		w.sent[r.Subject] = true
	}
	if len(w.lose) > 0 {
		f, w.lose = w.lose[0], w.lose[1:]
		w.rough = w.rough || f.Lost || f.Nobody
		if x := w.all[r.Client]; x != nil {
			x.disturbed = time.Now().Add(time.Second)
		}
	}
	return f
}

// delivered is told of each delivery. What a worker holds must not be given away: it is stamped before a change of leader, or a restart, could forget who has it.
func (w *world) delivered(d model.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	h, held := w.holder[d.Sequence]
	held = held && w.wait >= 5*time.Second // a shorter ack_wait may end while a server is away
	held = held && !h.doubtful && h.at.After(h.w.disturbed)
	held = held && !w.sent[h.reply] && !h.w.ended && !h.w.killed && h.w.returns[d.Sequence].Before(h.at)
	if held && d.Count > 1 {
		age := now.Sub(h.at)
		if w.upset.After(h.at) { // what was held for a moment when the server stopped, or the leader changed, may come again
			age = w.upset.Sub(h.at)
		}
		if age > stamped+2*w.span("latency") {
			w.problemLocked("message %d is delivered to %s, but %s has held it for %v", d.Sequence, d.Client, h.w.name, age)
		}
	}
	w.holder[d.Sequence] = holding{w: w.all[d.Client], reply: d.Reply, at: now}
}

// stamped is how long a message is held at the most before its lease is stored.
const stamped = 300 * time.Millisecond

// quiet tells whether nothing that was under way since then was lost with a connection, or a leader.
func (w *world) quiet(since time.Time) bool { return since.After(w.upset) }

// settled is told of each settlement.
func (w *world) settled(s model.Settlement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := w.kind(s.Body)
	switch {
	case kind == "":
		return
	case kind == "ack" && w.done[s.Sequence] == 0 && !w.bad[s.Sequence]: // one that was terminated and comes again all the same is acknowledged
		w.problemLocked("message %d is acknowledged, but no handler has returned nil", s.Sequence)
	case kind == "term" && !w.bad[s.Sequence]:
		w.problemLocked("message %d is terminated, but no handler said so", s.Sequence)
	}
	if before := w.verdicts[s.Reply]; before != "" && before != kind {
		w.problemLocked("message %d: a delivery (%s) has two verdicts, %s and %s", s.Sequence, s.Reply, before, kind)
	}
	w.verdicts[s.Reply] = kind
}

// kind is the verdict that a body says: ack, nak or term; "" where it is a stamp. A NAK that comes back behind a whole ack_wait is one too, which also takes
// the message off the queue of a server that has forgotten who holds it.
func (w *world) kind(body string) string {
	switch {
	case body == "+WPI", body == fmt.Sprintf(`-NAK {"delay":%d}`, w.wait.Nanoseconds()):
		return ""
	case strings.HasPrefix(body, "-NAK"):
		return "nak"
	case strings.HasPrefix(body, "+TERM"):
		return "term"
	}
	return "ack"
}

func describe(i *jetstream.ConsumerInfo) string {
	if i == nil {
		return "there is no consumer"
	}
	return fmt.Sprintf("delivered %d, floor %d, ack pending %d, pending %d", i.Delivered.Stream, i.AckFloor.Stream, i.NumAckPending, i.NumPending)
}
