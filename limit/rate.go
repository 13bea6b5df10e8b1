package limit

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ackfloor/ackfloor"
	"golang.org/x/time/rate"
)

// Rate lets as many messages through as l allows: with rate.NewLimiter(50, 10) 50 a second, and 10 at once after a time of rest. Messages pass in the
// order in which they come to the gate. One gate, or several with one limiter, may serve several Runners, which then share it. l may be changed while it is used, which
// holds from the next message on.
//
// It returns a *ConfigError where l is nil, or its limit or its burst is not above 0, so that nothing would ever pass. Where the limit or the burst is set to 0 later,
// messages are answered with a Pause of a second, so that the worker pulls nothing until it is set to something again.
func Rate(l *rate.Limiter) (Gate, error) { return RateBy(l, nil) }

// RateBy is Rate with messages that count differently: one of weight n takes n of what l allows. With the weight Bytes, a rate.NewLimiter(1<<20, 4<<20)
// lets a megabyte a second through. A weight of 0 or less passes at once; one above the burst can never pass: it is a failure of its message for good, ackfloor.Permanent
// around a *WeightError. weight is called from several goroutines at once; nil means 1 each.
func RateBy(l *rate.Limiter, weight func(*ackfloor.Message) int) (Gate, error) {
	var f faults
	if l == nil {
		f = append(f, "the limiter is nil: make one with rate.NewLimiter")
	} else {
		f.limiter(l.Limit(), l.Burst())
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return newPaced(l, weight), nil
}

// Bytes is the weight of a message for RateBy and KeyConfig that limits bytes: its payload's, headers not counted, and 1 at the least.
func Bytes(m *ackfloor.Message) int { return max(1, len(m.Data)) }

// WeightError says that a message weighs more than the burst of the limit, so that it could never pass.
type WeightError struct{ Weight, Burst int }

func (e *WeightError) Error() string {
	return fmt.Sprintf("limit: the message weighs %d, the burst is %d: it can never pass", e.Weight, e.Burst)
}

// limiter checks what nothing could ever pass; a limit may be rate.Inf, and then the burst means nothing.
func (f *faults) limiter(l rate.Limit, burst int) {
	f.check(l > 0, "Limit", float64(l), "messages a second, above 0, or rate.Inf: with this one nothing would ever pass") // NaN is not above 0
	f.check(burst > 0 || l == rate.Inf, "Burst", burst, "a whole number from 1: with this one nothing would ever pass")
}

// paced is the Gate that Rate makes. One message at a time takes from the limiter and waits for that; the others wait for their turn to. If all of them took at once, those who
// then give up would leave a debt: a rate.Reservation that is cancelled gives nothing back for which others stand behind it.
type paced struct {
	l      *rate.Limiter
	weight func(*ackfloor.Message) int
	turn   chan struct{} // has room for one; who waits to send is served in order
}

func newPaced(l *rate.Limiter, weight func(*ackfloor.Message) int) *paced {
	return &paced{l, weight, make(chan struct{}, 1)}
}

// Enter implements Gate.
func (p *paced) Enter(ctx context.Context, m *ackfloor.Message) (func(error), error) {
	n := weigh(p.weight, m)
	if n == 0 {
		return nil, nil
	}
	return nil, p.pass(ctx, n)
}

// pass waits until n may be taken, and takes it.
func (p *paced) pass(ctx context.Context, n int) error {
	select {
	case p.turn <- struct{}{}:
	default:
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() { <-p.turn }()
	now := time.Now()
	r, wait, err := reserve(p.l, now, n)
	if err != nil || wait == 0 {
		return err
	}
	if err := sleep(ctx, wait); err != nil {
		r.Cancel()
		return err
	}
	return nil
}

func weigh(weight func(*ackfloor.Message) int, m *ackfloor.Message) int {
	if weight == nil {
		return 1
	}
	return max(0, weight(m))
}

const (
	stoppedPause = time.Second                // of a limiter that was set to let nothing through
	endless      = 100 * 365 * 24 * time.Hour // a wait that is as good as none that ends
)

// reserve takes n from a limiter and tells how long to wait for it.
func reserve(l *rate.Limiter, now time.Time, n int) (r *rate.Reservation, wait time.Duration, err error) {
	r = l.ReserveN(now, n)
	if wait = r.DelayFrom(now); wait < endless {
		return r, wait, nil
	}
	r.CancelAt(now) // else those who come later would wait behind it, also once the limit is another
	if limit, burst := l.Limit(), l.Burst(); !(limit > 0) || burst < 1 && limit != rate.Inf {
		return r, 0, ackfloor.Pause(stoppedPause, fmt.Errorf("limit: nothing may pass: the limit is %v, the burst %d", float64(limit), burst))
	} else if n > burst {
		return r, 0, ackfloor.Permanent(&WeightError{n, burst})
	}
	return r, 0, fmt.Errorf("limit: the message would wait for more than %d years", int(math.Round(endless.Hours()/24/365)))
}

// sleep waits, and returns the cause of ctx's end where that comes first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
