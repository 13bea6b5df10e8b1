package worker

import (
	"errors"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// A server that was killed with -9 has forgotten up to 100 ms of deliveries and acks of a stream without replicas (measured; the state of a consumer is written
// behind them), and a new leader what its predecessor delivered last: they hand those messages out again, as if for the first time. The worker that has settled
// or holds one knows it, others don't. So behind a reconnect or a change of leader, while nobody pulls, the workers of a consumer tell one another what they
// have settled lately and what they hold, in messages of core NATS that nothing stores. What another has settled is acknowledged when it comes; what another
// holds is left to it.
//
// Nothing rests on that: where such a word is lost, a message is handled once more, as without it.

// Each hears what is told to all, and what is told to itself: everything would be told to everybody as often as there are workers, were the answers for all.
const (
	othersSubject = "ackfloor.settled." // and stream, consumer, and who is told
	toAll         = "all"
)

const (
	tellBack  = time.Second           // what was settled so long before a connection broke is told: the server has forgotten less
	tellSoon  = 20 * time.Millisecond // how long a worker that starts waits for what others tell, and how often one that ends looks whether it may
	tellAgain = settleFirst           // how often it looks whether what was held at a reconnect is settled by now, and tells that too:
	tellFor   = 5 * time.Second       // for so long. An ack of what the server has forgotten, and not delivered again yet, is lost
)

// others is what a Runner tells other workers of its consumer. Below alarm, buffer.mu guards it.
type others struct {
	subject string // with a dot at its end; "": nothing is told, nor heard; set before the loops run
	me      string
	alarm   *alarm
	down    bool                // the connection is lost
	lost    time.Duration       // when it was, or when settling began where it was not
	asked   time.Duration       // when settling began
	ask     bool                // everything is to be told, and the others asked for the same: they may have told before we listened
	heard   bool                // there are others
	acks    bool                // the server may have forgotten some: see forgotten.go
	held    map[uint64]struct{} // of what was held then, the sequences of those that were not settled when it was last told
}

// watchOthers begins to listen to the other workers, and asks what they know. Without the right to it a worker does without.
func (r *Runner) watchOthers() (end func()) {
	o := &r.others
	subject := othersSubject + r.cfg.Stream + "." + r.cfg.Consumer + "."
	if r.source != nil || r.stores(subject+toAll) {
		return func() {}
	}
	o.me = r.answers[strings.LastIndexByte(r.answers, '.')+1:]
	hear := r.guarded("others", r.onTold)
	unsubscribeAll, err := r.listen(subject+toAll, hear)
	unsubscribe := func() {}
	if err == nil || errors.Is(err, errNotSaid) {
		unsubscribe, err = r.listen(subject+o.me, hear)
	}
	if err == nil || errors.Is(err, errNotSaid) {
		o.subject = subject
		err = r.behind(subject+toAll, true, func() error { return r.tellOthers(toAll, word{Ask: true}) })
	}
	var denied *PermissionError
	if errors.As(err, &denied) {
		r.log.Warn("workers of the consumer can't tell one another what they have settled: what a server forgets that is killed may be handled twice",
			zap.String("allow_publish_and_subscribe", subject+"*"))
	}
	end = func() { unsubscribeAll(); unsubscribe() }
	if err != nil && !errors.Is(err, errNotSaid) {
		end()
		o.subject = ""
		return func() {}
	}
	return end
}

// stores tells whether the Runner's own stream would store what is published to a subject.
func (r *Runner) stores(subject string) bool {
	if r.bound.stream == nil {
		return false
	}
	for _, s := range r.bound.stream.Config.Subjects {
		if wildcard.Overlap(s, subject) {
			return true
		}
	}
	return false
}

// lostConnection is called when the connection is lost.
func (r *Runner) lostConnection(now time.Duration) {
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	if o := &r.others; !o.down {
		o.down, o.lost = true, now
	}
}

// askOthers tells the other workers everything, and has them do the same. It is called behind a reconnect or a change of leader.
func (r *Runner) askOthers(now time.Duration) {
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	o := &r.others
	if !o.down && now > o.asked+tellBack { // else it is the same reconnect still
		o.lost = now
	}
	o.acks = o.acks || o.down
	o.down, o.asked, o.ask = false, now, true
	o.alarm.by(now)
}

// tendOthers tells what there is to tell, and acknowledges once more what the server may have forgotten.
func (r *Runner) tendOthers(now time.Duration) time.Duration {
	r.buf.mu.Lock()
	o := &r.others
	recent := o.recent(now)
	w := word{Ask: o.ask, Forgot: recent}
	acks, since := o.acks, o.since(now)
	o.ask, o.acks = false, false
	if w.Ask {
		w.Settled, w.Held = r.buf.toTellLocked(since, now)
		o.held = make(map[uint64]struct{}, len(w.Held))
		for _, f := range w.Held {
			o.held[f.seq] = struct{}{}
		}
	}
	w.Settled = append(w.Settled, r.buf.settledSinceLocked(o.held, now)...)
	next := never
	if len(o.held) > 0 && recent {
		next = now + tellAgain
	} else {
		o.held = nil
	}
	r.buf.mu.Unlock()
	if w.Ask || len(w.Settled) > 0 {
		_ = r.tellOthers(toAll, w)
	}
	if acks && recent && !r.tendForgotten(since, now) {
		next = r.clock.now() + nobodyWait
		r.buf.mu.Lock()
		o.acks = true
		r.buf.mu.Unlock()
	}
	return next
}

// recent tells whether the server may have forgotten something a moment ago.
func (o *others) recent(now time.Duration) bool { return o.asked > 0 && now < o.asked+tellFor }

// since is from when on what was settled is told.
func (o *others) since(now time.Duration) time.Duration {
	if o.recent(now) {
		return o.lost - tellBack
	}
	return now - tellBack
}

// tellLast is called by a worker that ends. It tells what was settled last, since nobody can ask any more if the server is killed just then. Where it has just been
// killed, the worker stays for a moment: until it is connected again, and the others are and have asked.
func (r *Runner) tellLast(graceEnd time.Duration) {
	tick := time.NewTicker(tellSoon)
	defer tick.Stop()
	for told := false; r.failed() == nil && r.clock.now() < graceEnd; <-tick.C {
		r.buf.mu.Lock()
		now, o := r.clock.now(), &r.others
		settled, _ := r.buf.toTellLocked(now-tellBack, now)
		back, stay := !o.down && r.nc.IsConnected(), o.heard && now < o.asked+settleFirst
		if !back {
			stay = o.heard && now < o.lost+tellBack
		}
		r.buf.mu.Unlock()
		if back && !told && len(settled) > 0 {
			told = r.tellOthers(toAll, word{Settled: settled, Last: true, Forgot: o.recent(now)}) == nil
		}
		if !stay {
			return
		}
	}
}

// tellOthers publishes a word, in parts where it is long.
func (r *Runner) tellOthers(whom string, w word) error {
	if r.others.subject == "" {
		return nil
	}
	w.From, w.Created = r.others.me, r.bound.info.Created
	for _, part := range w.parts() {
		if err := r.nc.Publish(r.others.subject+whom, part); err != nil {
			return err
		}
	}
	return nil
}

// onTold takes in what another worker tells, and answers it where it asks.
func (r *Runner) onTold(m *nats.Msg) {
	r.at("told")
	w, ok := readWord(m.Data)
	if !ok || w.From == r.others.me || !w.Created.Equal(r.bound.info.Created) {
		return
	}
	by := anotherWorker
	if w.Last {
		by = endedWorker
	}
	now := r.clock.now()
	b := r.buf
	var answer word
	b.mu.Lock()
	r.others.heard = true
	if w.Forgot { // else a consumer that somebody resets, to have messages handled anew, would look the same
		b.toldUntil = now + forgotFor
	}
	settled := b.hearSettledLocked(w.Settled, by, now)
	if r.cfg.Key == nil && r.cfg.PinnedTTL == 0 { // what is left to another would be overtaken
		b.hearHeldLocked(w.Held, now, r.leaseTime())
	}
	if w.Ask {
		answer.Forgot = r.others.recent(now)
		answer.Settled, answer.Held = b.toTellLocked(r.others.since(now), now)
	}
	b.mu.Unlock()
	if w.Ask && len(answer.Settled)+len(answer.Held) > 0 {
		_ = r.tellOthers(w.From, answer)
	}
	for _, d := range settled {
		r.counters.skipped.Add(1)
		r.tell(d, d.reply, verdict{kind: acked}, now)
	}
}

// listenBeside listens to what comes beside the messages: from new leaders, and from other workers.
func (r *Runner) listenBeside() (end func()) {
	leader, others := r.watchLeader(), r.watchOthers()
	return func() { leader(); others() }
}
