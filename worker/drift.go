package worker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/nats-io/nats.go/jetstream"
)

// Drift is one field in which an existing consumer differs from the configuration.
type Drift struct {
	Field string // as the server names it: ack_wait, filter_subjects, max_ack_pending …
	Have  string // the consumer's
	Want  string // the configuration's

	fixed string // why an update can't change it; "" where it can
	apply func(*jetstream.ConsumerConfig)
}

func (d Drift) String() string {
	return fmt.Sprintf("%s is %s, the configuration says %s", d.Field, d.Have, d.Want)
}

// wanted is the consumer that a configuration asks for. max_deliver stays unlimited: the server would drop a message
// that reaches it without a word; the worker counts attempts itself.
func wanted(c Config) jetstream.ConsumerConfig {
	s, _ := parseStart(c.Start)
	cfg := jetstream.ConsumerConfig{
		Durable:       c.Consumer,
		DeliverPolicy: s.policy,
		OptStartSeq:   s.seq,
		OptStartTime:  s.time,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: c.MaxAckPending,
	}
	setFilters(&cfg, c.Filter)
	setPinned(&cfg, c.PinnedTTL)
	return cfg
}

func setFilters(cfg *jetstream.ConsumerConfig, subjects []string) {
	cfg.FilterSubject, cfg.FilterSubjects = "", nil
	switch {
	case len(subjects) == 1 && subjects[0] == ">":
	case len(subjects) == 1:
		cfg.FilterSubject = subjects[0]
	case len(subjects) > 1:
		cfg.FilterSubjects = subjects
	}
}

// filters lists a consumer's filter, whichever field it is in.
func filters(c jetstream.ConsumerConfig) []string {
	if c.FilterSubject != "" {
		return []string{c.FilterSubject}
	}
	return c.FilterSubjects
}

// drift compares a consumer with what the configuration asks for, field by field.
func drift(c Config, have jetstream.ConsumerConfig) []Drift {
	want := wanted(c)
	var out []Drift
	differs := func(ok bool, field string, h, w any, apply func(*jetstream.ConsumerConfig)) {
		if !ok {
			out = append(out, Drift{Field: field, Have: fmt.Sprint(h), Want: fmt.Sprint(w), apply: apply})
		}
	}
	hf, wf := slices.Sorted(slices.Values(filters(have))), slices.Sorted(slices.Values(filters(want)))
	differs(slices.Equal(hf, wf) || all(hf) && all(wf), "filter_subjects", shownFilter(hf), shownFilter(wf), func(n *jetstream.ConsumerConfig) { setFilters(n, c.Filter) })
	differs(have.AckWait == want.AckWait, "ack_wait", have.AckWait, want.AckWait, func(n *jetstream.ConsumerConfig) { n.AckWait = want.AckWait })
	differs(want.MaxAckPending == 0 || have.MaxAckPending == want.MaxAckPending, "max_ack_pending", have.MaxAckPending, want.MaxAckPending,
		func(n *jetstream.ConsumerConfig) { n.MaxAckPending = want.MaxAckPending })
	differs(have.MaxDeliver == -1, "max_deliver", have.MaxDeliver, -1, func(n *jetstream.ConsumerConfig) { n.MaxDeliver = -1 })
	differs(len(have.BackOff) == 0, "backoff", have.BackOff, "none", func(n *jetstream.ConsumerConfig) { n.BackOff = nil })
	differs(have.PriorityPolicy == want.PriorityPolicy, "priority_policy", priorityName(have.PriorityPolicy), priorityName(want.PriorityPolicy), func(n *jetstream.ConsumerConfig) { setPinned(n, c.PinnedTTL) })
	differs(have.PriorityPolicy != want.PriorityPolicy || have.PinnedTTL == want.PinnedTTL, "priority_timeout", have.PinnedTTL, want.PinnedTTL, func(n *jetstream.ConsumerConfig) { setPinned(n, c.PinnedTTL) })
	if c.Start != "" {
		h, w := startOf(have).String(), startOf(want).String()
		if h != w {
			out = append(out, Drift{Field: "deliver_policy", Have: h, Want: w,
				fixed: "the start of an existing consumer is never changed, its cursor would be lost; unset START, or use another consumer name"})
		}
	}
	return out
}

func all(filter []string) bool {
	return len(filter) == 0 || len(filter) == 1 && filter[0] == ">"
}

func shownFilter(f []string) string {
	if len(f) == 0 {
		return "none"
	}
	return strings.Join(f, ",")
}

// foreign lists the subjects that a consumer delivers and the configuration did not ask for.
func foreign(c Config, have jetstream.ConsumerConfig) []string {
	if all(c.Filter) {
		return nil
	}
	got := filters(have)
	if len(got) == 0 {
		return []string{"every subject of the stream"}
	}
	var out []string
	for _, f := range got {
		if !slices.ContainsFunc(c.Filter, func(w string) bool { return wildcard.Covers(w, f) }) {
			out = append(out, f)
		}
	}
	return out
}
