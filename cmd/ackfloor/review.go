package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
)

// toUpdate tells whether the consumer is there and is to be changed.
func (k *checker) toUpdate(r right) bool {
	return r.group == "the consumer" && k.consumer != nil && k.cfg.Bind == worker.BindUpdate && len(differences(k.cfg, k.consumer.Config)) > 0
}

// differences lists the fields in which a consumer differs from what the configuration asks for.
func differences(c worker.Config, have jetstream.ConsumerConfig) (out []string) {
	differs := func(is bool, field string, has, want any) {
		if is {
			out = append(out, fmt.Sprintf("%s is %v, the configuration says %v", field, has, want))
		}
	}
	hf, wf := subjects(have), allOf(c.Filter)
	differs(!slices.Equal(slices.Sorted(slices.Values(hf)), slices.Sorted(slices.Values(wf))), "filter_subjects", strings.Join(hf, ","), strings.Join(wf, ","))
	differs(have.AckWait != c.AckWait, "ack_wait", have.AckWait, c.AckWait)
	differs(c.MaxAckPending != 0 && have.MaxAckPending != c.MaxAckPending, "max_ack_pending", have.MaxAckPending, c.MaxAckPending)
	differs(have.MaxDeliver != -1, "max_deliver", have.MaxDeliver, -1)
	differs(len(have.BackOff) > 0, "backoff", have.BackOff, "none")
	differs(pinned(have) != (c.PinnedTTL > 0), "priority_policy", policy(have), map[bool]string{true: "pinned_client", false: "none"}[c.PinnedTTL > 0])
	differs(pinned(have) && c.PinnedTTL > 0 && have.PinnedTTL != c.PinnedTTL, "priority_timeout", have.PinnedTTL, c.PinnedTTL)
	return out
}

// allOf is a filter; without one, every subject.
func allOf(filter []string) []string {
	if len(filter) == 0 {
		return []string{">"}
	}
	return filter
}

func subjects(have jetstream.ConsumerConfig) []string {
	if have.FilterSubject != "" {
		return []string{have.FilterSubject}
	}
	return allOf(have.FilterSubjects)
}

func pinned(have jetstream.ConsumerConfig) bool {
	return have.PriorityPolicy == jetstream.PriorityPolicyPinned
}

func policy(have jetstream.ConsumerConfig) string {
	switch {
	case pinned(have):
		return "pinned_client"
	case len(have.PriorityGroups) > 0:
		return "another (groups " + strings.Join(have.PriorityGroups, ",") + ")"
	}
	return "none"
}

// aboutConsumer tells what of a consumer a worker refuses at its start, and what it warns of.
func aboutConsumer(c worker.Config, i *jetstream.ConsumerInfo) (refused, warned []string) {
	have, updates := i.Config, c.Bind == worker.BindUpdate
	refuse := func(is bool, format string, args ...any) {
		if is {
			refused = append(refused, fmt.Sprintf(format, args...))
		}
	}
	warn := func(is bool, format string, args ...any) {
		if is {
			warned = append(warned, fmt.Sprintf(format, args...))
		}
	}
	for _, d := range differences(c, have) {
		warn(!updates, "%s; WORKER_BIND=update applies it", d)
		warn(updates, "%s, and would be applied", d)
	}
	refuse(have.DeliverSubject != "", "it is a push consumer (deliver_subject %q): a worker pulls, use another name", have.DeliverSubject)
	refuse(have.AckPolicy != jetstream.AckExplicitPolicy, "its ack policy is not explicit, which can't be changed: use another name")
	refuse(have.Durable == "", "it is not durable: its cursor would be lost")
	foreign := slices.DeleteFunc(slices.Clone(subjects(have)), func(s string) bool {
		return slices.ContainsFunc(allOf(c.Filter), func(own string) bool { return wildcard.Covers(own, s) })
	})
	refuse(c.Bind == worker.BindEnsure && len(foreign) > 0,
		"it delivers %s, which WORKER_FILTER (%s) does not name: is it another service's? WORKER_BIND=update changes it, existing takes it", strings.Join(foreign, ", "), strings.Join(c.Filter, ","))
	refuse(!updates && pinned(have) != (c.PinnedTTL > 0), "it is pinned or not, unlike WORKER_PINNED_TTL (%v): WORKER_BIND=update makes it so", c.PinnedTTL)
	refuse(!updates && !pinned(have) && len(have.PriorityGroups) > 0, "it has priority groups (%s): a worker asks without one", strings.Join(have.PriorityGroups, ","))
	refuse(have.AckWait < 100*time.Millisecond && !updates, "its ack_wait is %v: a lease below 100ms can't be kept", have.AckWait)
	most := have.MaxAckPending
	if updates && c.MaxAckPending > 0 {
		most = c.MaxAckPending
	}
	warn(most > 0 && most < 10*c.Concurrency, "max_ack_pending is %d, for %d handlers: messages that wait for a retry count against it; "+
		"raise it with WORKER_MAX_ACK_PENDING and WORKER_BIND=update", most, c.Concurrency)
	warn(have.InactiveThreshold > 0, "inactive_threshold is %v: without a pull for so long it is deleted, and its cursor with it", have.InactiveThreshold)
	warn(have.MemoryStorage, "its state is in memory: a restart of the server loses its cursor")
	warn(have.HeadersOnly, "it delivers headers only: payloads will be empty")
	warn(i.Paused, "it is paused for another %v", i.PauseRemaining)
	return refused, warned
}

// aboutStream tells what of a stream is unwise.
func aboutStream(c worker.Config, i *jetstream.StreamInfo) (warned []string) {
	s := i.Config
	warn := func(is bool, format string, args ...any) {
		if is {
			warned = append(warned, fmt.Sprintf(format, args...))
		}
	}
	if len(s.Subjects) > 0 && s.Mirror == nil && len(s.Sources) == 0 && s.SubjectTransform == nil {
		for _, f := range c.Filter {
			takes := slices.ContainsFunc(s.Subjects, func(own string) bool { return wildcard.Overlap(own, f) })
			warn(!takes, "WORKER_FILTER %q matches none of its subjects (%s): nothing will come", f, strings.Join(s.Subjects, ", "))
		}
	}
	warn(s.Storage == jetstream.MemoryStorage, "it is in memory: a restart of the server loses its messages")
	warn(s.Retention == jetstream.LimitsPolicy && s.Discard == jetstream.DiscardOld && (s.MaxMsgs > 0 || s.MaxBytes > 0 || s.MaxMsgsPerSubject > 0),
		"it discards its oldest messages at its limits, handled or not")
	warn(i.Cluster != nil && i.Cluster.Name != "" && s.Replicas == 1, "it has one replica in a cluster: it is gone while its server is; use 3 where that matters")
	return warned
}
