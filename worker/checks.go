package worker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/ackfloor/ackfloor/retry"
	"github.com/nats-io/nats.go/jetstream"
)

// check holds the configuration against the consumer, the stream and the client's limits: what can't work is one error with every
// reason in it, what is only unwise one warning each.
func (r *Runner) check() error {
	refused, warned := review(r.cfg, r.bound)
	if r.source != nil {
		warned = nil // said already, of the Runner whose replays this one handles
	}
	for _, w := range warned {
		r.log.Warn("check: " + printable(w))
	}
	if len(refused) > 0 {
		return &ConfigError{Problems: refused}
	}
	return nil
}

// review is check without its effects.
func review(c Config, b boundConsumer) (refused, warned []string) {
	have := b.info.Config
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			refused = append(refused, fmt.Sprintf(format, args...))
		}
	}
	warn := func(bad bool, format string, args ...any) {
		if bad {
			warned = append(warned, fmt.Sprintf(format, args...))
		}
	}
	refuse(have.DeliverSubject != "", "consumer %q is a push consumer (deliver_subject %q): a worker needs a pull consumer, use another name", c.Consumer, have.DeliverSubject)
	refuse(have.AckPolicy != jetstream.AckExplicitPolicy, "consumer %q has ack policy %s: a worker needs explicit, and it can't be changed on an existing consumer", c.Consumer, policyName(have.AckPolicy))
	refuse(have.Durable == "", "consumer %q is not durable: its cursor would be lost", c.Consumer)
	if f := foreign(c, have); len(f) > 0 && c.Bind == BindEnsure {
		refuse(true, "consumer %q delivers %s, which FILTER (%s) does not name: is it another service's? BIND=update changes its filter, BIND=existing takes it as it is, another CONSUMER makes a new one",
			c.Consumer, strings.Join(f, ", "), strings.Join(c.Filter, ","))
	}
	reviewPinned(c, have, refuse)
	for _, d := range b.drift {
		warn(!b.updated, "consumer %q has drifted: %s; BIND=update applies it%s", c.Consumer, d, orElse(d.fixed))
	}
	reviewTimes(c, have, refuse, warn)
	reviewRoom(c, have, refuse, warn)
	reviewKeeping(c, b, warn)
	return refused, warned
}

type finding func(bad bool, format string, args ...any)

// reviewTimes checks that limits nest: attempts in the lease, handlers in the drain, delays in what the server keeps.
func reviewTimes(c Config, have jetstream.ConsumerConfig, refuse, warn finding) {
	refuse(have.AckWait < 100*time.Millisecond, "ack_wait of consumer %q is %v: a lease that short can't be kept, use 100ms or more", c.Consumer, have.AckWait)
	if b := have.BackOff; len(b) > 0 {
		warn(true, "consumer %q has backoff %v: it replaces ack_wait with its first step and adds to the delay of a retry; BIND=update removes it", c.Consumer, b)
	}
	asShipped := c.DrainTimeout == 25*time.Second && c.HandleTimeout == 5*time.Minute
	warn(c.DrainTimeout < c.HandleTimeout && !asShipped, "DRAIN_TIMEOUT (%v) is below HANDLE_TIMEOUT (%v): a handler that takes its time is interrupted by a stop", c.DrainTimeout, c.HandleTimeout)
	warn(have.MaxDeliver != -1 && have.MaxDeliver <= c.MaxAttempts, "max_deliver of consumer %q is %d: the server gives a message up without a word after so many deliveries, before MAX_ATTEMPTS (%d); use -1",
		c.Consumer, have.MaxDeliver, c.MaxAttempts)
	if c.Retry == nil {
		s, err := retry.Parse(c.RetrySchedule)
		warn(err == nil && strings.Count(c.RetrySchedule, ",")+1 >= c.MaxAttempts && strings.Contains(c.RetrySchedule, ","), "RETRY (%s) lists %d delays, MAX_ATTEMPTS (%d) uses %d of them",
			c.RetrySchedule, strings.Count(c.RetrySchedule, ",")+1, c.MaxAttempts, c.MaxAttempts-1)
		warn(err == nil && s.Max() > 0 && s.Min() < time.Millisecond, "RETRY (%s) has a delay below 1ms: a short outage uses up all attempts at once", c.RetrySchedule)
	}
}

// reviewRoom checks that what is asked for fits into what the consumer grants.
func reviewRoom(c Config, have jetstream.ConsumerConfig, refuse, warn finding) {
	most := have.MaxAckPending
	warn(most > 0 && most < c.Concurrency+c.Prefetch, "max_ack_pending of consumer %q is %d, below CONCURRENCY + PREFETCH (%d + %d): slots will stand idle; raise it with MAX_ACK_PENDING and BIND=update",
		c.Consumer, most, c.Concurrency, c.Prefetch)
	warn(most > 0 && most < 10*c.Concurrency, "max_ack_pending of consumer %q is %d: failed messages that wait for their retry count against it, so %d of them stop all others; with a delay of d that is %d/d failures a second",
		c.Consumer, most, most, most)
	refuse(have.MaxRequestMaxBytes > 0 && have.MaxRequestMaxBytes < 1024, "max_bytes of consumer %q is %d: no message fits", c.Consumer, have.MaxRequestMaxBytes)
	refuse(have.MaxRequestExpires > 0 && have.MaxRequestExpires < 100*time.Millisecond, "max_expires of consumer %q is %v: a pull needs at least 100ms", c.Consumer, have.MaxRequestExpires)
	warn(have.MaxRequestBatch > 0 && have.MaxRequestBatch < c.Concurrency, "max_batch of consumer %q is %d, below CONCURRENCY (%d): more requests than needed", c.Consumer, have.MaxRequestBatch, c.Concurrency)
	warn(have.MaxRequestExpires > 0 && have.MaxRequestExpires < c.PullExpiry, "max_expires of consumer %q is %v, below PULL_EXPIRY (%v): that is used", c.Consumer, have.MaxRequestExpires, c.PullExpiry)
	warn(have.HeadersOnly, "consumer %q delivers headers only: payloads will be empty", c.Consumer)
}

// reviewKeeping warns of what may lose the cursor or messages.
func reviewKeeping(c Config, b boundConsumer, warn finding) {
	have := b.info.Config
	warn(have.InactiveThreshold > 0, "consumer %q has inactive_threshold %v: without a pull for so long the server deletes it, and its cursor with it", c.Consumer, have.InactiveThreshold)
	warn(have.MemoryStorage, "consumer %q keeps its state in memory: a restart of the server loses its cursor", c.Consumer)
	warn(b.info.Paused, "consumer %q is paused for another %v: nothing comes until then", c.Consumer, b.info.PauseRemaining)
	if b.stream == nil {
		return
	}
	s := b.stream.Config
	if len(s.Subjects) > 0 && s.Mirror == nil && len(s.Sources) == 0 && s.SubjectTransform == nil {
		for _, f := range filters(have) {
			warn(!slices.ContainsFunc(s.Subjects, func(own string) bool { return wildcard.Overlap(own, f) }),
				"FILTER %q matches no subject of stream %q (%s): nothing will come", f, c.Stream, strings.Join(s.Subjects, ", "))
		}
	}
	warn(s.Storage == jetstream.MemoryStorage, "stream %q is in memory: a restart of the server loses its messages", c.Stream)
	warn(s.Retention == jetstream.LimitsPolicy && s.Discard == jetstream.DiscardOld && (s.MaxMsgs > 0 || s.MaxBytes > 0 || s.MaxMsgsPerSubject > 0),
		"stream %q discards its oldest messages at its limits, handled or not", c.Stream)
	warn(b.stream.Cluster != nil && b.stream.Cluster.Name != "" && s.Replicas == 1, "stream %q has one replica in a cluster: it is gone while its server is, and a server killed with -9 forgets up to 100 ms of acks; use 3 where that matters", c.Stream)
}

func policyName(p jetstream.AckPolicy) string {
	switch p {
	case jetstream.AckNonePolicy:
		return "none"
	case jetstream.AckAllPolicy:
		return "all"
	}
	return p.String()
}

func orElse(fixed string) string {
	if fixed == "" {
		return ""
	}
	return " but for this one: " + fixed
}

// limitsOf reads the limits that a consumer puts on pulls.
func limitsOf(c jetstream.ConsumerConfig) limits {
	return limits{batch: c.MaxRequestBatch, expires: c.MaxRequestExpires, bytes: c.MaxRequestMaxBytes, capacity: max(0, c.MaxAckPending), waiting: c.MaxWaiting,
		group: pinGroupOf(c), pinnedTTL: c.PinnedTTL}
}
