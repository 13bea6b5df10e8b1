package worker

import (
	"container/heap"
	"sync"
	"time"

	"go.uber.org/zap"
)

// parked are the failed messages that wait for their retry at the server, as far as this Runner gave them back. Each counts against
// max_ack_pending until it comes back, so many of them, or long delays, stop all others (nats-server 2.15: a delayed NAK stays pending).
type parked struct {
	mu   sync.Mutex
	due  dues
	said time.Duration // when it was warned of last, or 0
}

type dues []time.Duration

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i] < d[j] }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(time.Duration)) }
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// count is how many there are now.
func (p *parked) count(now time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.countLocked(now)
}

func (p *parked) countLocked(now time.Duration) int {
	for len(p.due) > 0 && p.due[0] <= now {
		heap.Pop(&p.due)
	}
	return len(p.due)
}

// park counts a message that comes back after delay. Past half of max_ack_pending it warns, once a minute.
func (r *Runner) park(now, delay time.Duration) {
	if delay <= 0 {
		return
	}
	r.pull.mu.Lock()
	capacity := r.pull.limits.capacity
	r.pull.mu.Unlock()
	p := &r.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	heap.Push(&p.due, now+delay)
	n := p.countLocked(now)
	if capacity == 0 || 2*n <= capacity || p.said != 0 && now < p.said+sayAgain {
		return
	}
	p.said = max(now, 1)
	r.log.Warn("failed messages that wait for their retry fill up max_ack_pending: at the limit no others come",
		zap.Int("parked", n), zap.Int("max_ack_pending", capacity), zap.Duration("delay", delay))
}
