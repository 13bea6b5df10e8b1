package worker

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// ask is a pull that is to be sent.
type ask struct {
	place int
	batch int
	epoch uint64 // of the connection on which
	body  []byte
	alive time.Duration // when it is given up unless something comes
}

// askLocked opens a pull for what there is room for, if that is worth a request now. Whoever makes room asks: a message that arrives, a
// handler that ends, the pull loop. The loop alone asks where something has to be waited for or looked at first.
func (r *Runner) askLocked(now time.Duration) (ask, bool) {
	p := &r.pull
	if p.suspect || p.settled > 0 || now < p.notBefore || r.source != nil && r.source.pinElsewhere() {
		return ask{}, false
	}
	n := r.wantedLocked()
	if n == 0 {
		return ask{}, false
	}
	expiry, bytes := r.cfg.PullExpiry, r.cfg.PullBytes
	if p.limits.batch > 0 {
		n = min(n, p.limits.batch)
	}
	if p.limits.expires > 0 {
		expiry = min(expiry, p.limits.expires)
	}
	if p.limits.bytes > 0 {
		bytes = min(bytes, p.limits.bytes)
	}
	if p.alone { // a message larger than a pull asks for: fetch it by itself, whatever its size
		p.alone, n, bytes = false, 1, anySize
		if p.limits.bytes > 0 {
			bytes = 0 // the limit allows no more, and none at all; but then no status tells the pull's end, and it counts as lost
		}
	}
	a := ask{batch: n, epoch: p.epoch, alive: now + expiry + pullMargin}
	for p.pulls[a.place].open {
		a.place++ // roomLocked has seen to it that one is free
	}
	rec := pull{open: true, batch: n, pin: p.pin.ours(), deadline: a.alive}
	if rec.pin != "" {
		p.pin.asked = now
	}
	var heartbeat time.Duration
	if expiry > longPull {
		heartbeat = min(expiry/2, heartbeatMax)
		a.alive = now + 2*heartbeat + pullMargin
		rec.heartbeat = heartbeat
	}
	rec.alive = a.alive
	a.body = pullBody(n, bytes, expiry, heartbeat, p.limits.group, rec.pin)
	p.pulls[a.place] = rec
	if p.open == 0 {
		p.sight = now
	}
	p.open++
	p.asked += n
	return a, true
}

// pullBody is the request of a pull (nats-server 2.15, JSApiConsumerGetNextRequest).
func pullBody(batch, bytes int, expiry, heartbeat time.Duration, group, pin string) []byte {
	b := make([]byte, 0, 160)
	number := func(name string, n int64) {
		if n > 0 {
			b = append(append(append(b, `,"`...), name...), `":`...)
			b = strconv.AppendInt(b, n, 10)
		}
	}
	number("batch", int64(batch))
	number("expires", expiry.Nanoseconds())
	number("max_bytes", int64(bytes))
	number("idle_heartbeat", heartbeat.Nanoseconds())
	if group != "" { // of a pinned consumer; neither has anything in it that JSON would escape
		b = append(append(append(b, `,"group":"`...), group...), '"')
	}
	if pin != "" {
		b = append(append(append(b, `,"id":"`...), pin...), '"')
	}
	b[0] = '{'
	return append(b, '}')
}

// post sends a pull and returns when it is given up unless something comes.
func (r *Runner) post(a ask) time.Duration {
	err := nats.ErrDisconnected
	if r.nc.IsConnected() && r.conf.epoch() == a.epoch { // nats.go would keep it and send it first thing on the new connection, before anything is settled
		err = r.nc.PublishRequest(r.subjects.next, r.pullSubjects[a.place], a.body)
	}
	if err != nil {
		r.endPull(a.place, a.batch)
		if errors.Is(err, nats.ErrConnectionClosed) {
			r.fail(fmt.Errorf("worker: the connection is closed for good: %w", err))
		}
		return r.clock.now() + askAgainWait
	}
	r.pullAlarm.by(a.alive)
	return a.alive
}
