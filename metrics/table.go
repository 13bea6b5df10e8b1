package metrics

import (
	"slices"

	"github.com/ackfloor/ackfloor/internal/outcome"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/prometheus/client_golang/prometheus"
)

// family is a metric as the reference shows it, and how it is read. The tables below are all metrics that there are.
type family struct {
	name   string // behind the namespace
	kind   string // counter, gauge or histogram
	unit   string
	help   string
	label  string   // beside stream_name and consumer_name; "" without one
	values []string // that the label takes, nil where they are told in the help
	read   func(s *snapshot) float64
	each   func(s *snapshot, emit func(value string, v float64)) // instead of read, with a label
}

const namespace = "ackfloor"

// snapshot is what one scrape reads.
type snapshot struct {
	worker.Status
	standing      standing
	oldestWaiting float64 // seconds
	oldestRunning float64
	draining      float64
	concurrency   int
	handleTimeout float64
	drainTimeout  float64
}

const (
	counter   = "counter"
	gauge     = "gauge"
	histo     = "histogram"
	messages  = "messages"
	seconds   = "seconds"
	boolean   = "0 or 1"
	times     = "times"
	sequence  = "stream sequence"
	responses = "settlements"
)

func (f family) valueType() prometheus.ValueType {
	if f.kind == counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// pullErrors are the kinds that are there from the start, so that the first error of a kind is a change.
var pullErrors = []string{"lost", "nobody", "too_large", "limit", "max_waiting", "pin", "unknown"}

// counts are read from Status().Counts.
var counts = []family{
	{name: "messages_total", kind: counter, unit: messages, label: "outcome",
		values: []string{"acked", "retried", "dead_lettered", "terminated", "returned", "unconfirmed"},
		help:   "Messages by what became of them. Those that are unconfirmed are counted by what was sent, too: the server never answered, and they come back.",
		each: func(s *snapshot, emit func(string, float64)) {
			c := &s.Counts
			emit("acked", float64(c.Acked))
			emit("retried", float64(c.Retried))
			emit("dead_lettered", float64(c.DeadLettered))
			emit("terminated", float64(c.Terminated))
			emit("returned", float64(c.Returned))
			emit("unconfirmed", float64(c.Unknown))
		}},
	{name: "deliveries_total", kind: counter, unit: messages, help: "Deliveries that were taken in.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Received) }},
	{name: "redeliveries_total", kind: counter, unit: messages, help: "Deliveries, taken in or skipped, that the server had made before.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Redelivered) }},
	{name: "redeliveries_skipped_total", kind: counter, unit: messages,
		help: "Deliveries of messages that this process had settled, or another one that told so: acknowledged, not handled again.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Skipped) }},
	{name: "deliveries_left_total", kind: counter, unit: messages,
		help: "Deliveries of messages that another process holds, which a server that was killed does not know any more: left to that process.",
		read: func(s *snapshot) float64 { return float64(s.Counts.LeftToAnother) }},
	{name: "attempts_exhausted_total", kind: counter, unit: messages, help: "Messages that were given up because their attempts were used up.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Exhausted) }},
	{name: "suspects_given_up_total", kind: counter, unit: messages,
		help: "Messages that went to the dead letters because they are suspected of killing their process.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Suspected) }},
	{name: "dead_letter_failures_total", kind: counter, unit: times, help: "Times that a dead letter could not be written. Its message is kept meanwhile.",
		read: func(s *snapshot) float64 { return float64(s.Counts.DeadLetterFailures) }},
	{name: "pauses_total", kind: counter, unit: times, help: "Answers of handlers that asked for a pause.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Pauses) }},
	{name: "panics_total", kind: counter, unit: times, help: "Handlers that panicked, or ended their goroutine.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Panics) }},
	{name: "leases_lost_total", kind: counter, unit: messages, help: "Leases that could not be kept: another worker may have the message.",
		read: func(s *snapshot) float64 { return float64(s.Counts.LeasesLost) }},
	{name: "messages_late_total", kind: counter, unit: messages, help: "Messages that were settled, or dropped, after their lease was lost.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Late) }},
	{name: "settlement_resends_total", kind: counter, unit: responses, help: "Settlements that were sent again for want of a confirmation.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Resends) }},
	{name: "reconnects_total", kind: counter, unit: times, help: "Times that the connection was made again.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Reconnects) }},
	{name: "pull_errors_total", kind: counter, unit: times, label: "kind", values: pullErrors,
		help: "Pulls that ended with an error: lost, without an answer in time; nobody, no responders; too_large, limit, max_waiting, pin, as the server says.",
		each: func(s *snapshot, emit func(string, float64)) {
			for _, kind := range pullErrors {
				emit(kind, float64(s.Counts.PullErrors[kind]))
			}
			for kind, n := range s.Counts.PullErrors {
				if !slices.Contains(pullErrors, kind) {
					emit(kind, float64(n))
				}
			}
		}},
}

// states are read from the rest of Status, and from Held.
var states = []family{
	{name: "held", kind: gauge, unit: messages, label: "state", values: []string{"waiting", "running", "kept"},
		help: "Messages that are held: waiting for a slot, running in a handler, or kept behind it until something is written down, or for their retry.",
		each: func(s *snapshot, emit func(string, float64)) {
			emit("waiting", float64(s.Waiting))
			emit("running", float64(s.Running))
			emit("kept", float64(s.Kept))
		}},
	{name: "held_limit", kind: gauge, unit: messages, help: "Messages that may be held: concurrency and prefetch.",
		read: func(s *snapshot) float64 { return float64(s.Limit) }},
	{name: "concurrency", kind: gauge, unit: "calls", help: "Calls of the handler at once, at the most. For a handler of batches a call is a batch.",
		read: func(s *snapshot) float64 { return float64(s.concurrency) }},
	{name: "behind", kind: gauge, unit: messages, help: "Messages of those waiting that wait for another one of their key.",
		read: func(s *snapshot) float64 { return float64(s.Behind) }},
	{name: "ack_pending_limit", kind: gauge, unit: messages, help: "The consumer's max_ack_pending; 0: no limit.",
		read: func(s *snapshot) float64 { return float64(s.MaxAckPending) }},
	{name: "parked", kind: gauge, unit: messages, help: "Failed messages of this process that wait at the server for their retry. They count against max_ack_pending.",
		read: func(s *snapshot) float64 { return float64(s.Parked) }},
	{name: "waiting_oldest_seconds", kind: gauge, unit: seconds, help: "How long the message that waits longest for a slot has waited.",
		read: func(s *snapshot) float64 { return s.oldestWaiting }},
	{name: "running_oldest_seconds", kind: gauge, unit: seconds, help: "How long the handler that runs longest has run.",
		read: func(s *snapshot) float64 { return s.oldestRunning }},
	{name: "handle_timeout_seconds", kind: gauge, unit: seconds, help: "How long a handler may run, before its context ends.",
		read: func(s *snapshot) float64 { return s.handleTimeout }},
	{name: "settlements_unconfirmed", kind: gauge, unit: responses, help: "Settlements that wait for their confirmation now.",
		read: func(s *snapshot) float64 { return float64(s.Counts.Unconfirmed) }},
	{name: "connected", kind: gauge, unit: boolean, help: "Whether there is a connection to the server.",
		read: func(s *snapshot) float64 { return truth(s.Connected) }},
	{name: "ready", kind: gauge, unit: boolean, help: "Whether the worker is bound and connected, and its pulls are answered.",
		read: func(s *snapshot) float64 { return truth(s.Ready) }},
	{name: "alive", kind: gauge, unit: boolean, help: "Whether the worker goes on, or has ended as it should: 0 once it has failed. A loop that hangs shows at /livez.",
		read: func(s *snapshot) float64 { return truth(s.Alive) }},
	{name: "paused", kind: gauge, unit: boolean, help: "Whether nothing is pulled and nothing started, because a handler asked for a pause.",
		read: func(s *snapshot) float64 { return truth(s.Paused != "") }},
	{name: "draining", kind: gauge, unit: boolean, help: "Whether the worker was told to stop, and finishes what it holds.",
		read: func(s *snapshot) float64 { return truth(s.State == worker.StateDraining) }},
	{name: "draining_seconds", kind: gauge, unit: seconds, help: "How long it was seen to be draining. 0 when it is not.",
		read: func(s *snapshot) float64 { return s.draining }},
	{name: "drain_timeout_seconds", kind: gauge, unit: seconds, help: "How long handlers may go on when the worker was told to stop.",
		read: func(s *snapshot) float64 { return s.drainTimeout }},
}

// lags are where the consumer stands, as the Runner saw it last. They are missing before it has.
var lags = []family{
	{name: "ack_floor_stream_sequence", kind: gauge, unit: sequence, help: "Stream sequence up to which everything is settled.",
		read: func(s *snapshot) float64 { return float64(s.standing.AckFloor) }},
	{name: "ack_floor_age_seconds", kind: gauge, unit: seconds, help: "How long the ack floor was not seen to move, while something was pending. 0 when nothing is.",
		read: func(s *snapshot) float64 { return s.standing.floorAge.Seconds() }},
	{name: "delivered_stream_sequence", kind: gauge, unit: sequence, help: "Stream sequence of the last message that was delivered for the first time.",
		read: func(s *snapshot) float64 { return float64(s.standing.Delivered) }},
	{name: "pending", kind: gauge, unit: messages, help: "Messages of the consumer that were not delivered yet.",
		read: func(s *snapshot) float64 { return float64(s.standing.Pending) }},
	{name: "ack_pending", kind: gauge, unit: messages, help: "Messages of the consumer that were delivered, to all workers, and are not settled.",
		read: func(s *snapshot) float64 { return float64(s.standing.AckPending) }},
	{name: "ack_pending_redelivered", kind: gauge, unit: messages, help: "Messages of the consumer that were delivered more than once, and are not settled.",
		read: func(s *snapshot) float64 { return float64(s.standing.Redelivered) }},
	{name: "look_age_seconds", kind: gauge, unit: seconds, help: "How long ago the worker saw where the consumer stands.",
		read: func(s *snapshot) float64 { return s.standing.lookAge.Seconds() }},
}

// observed are the histograms of Wrap. They are missing where it is not used.
var observed = []family{
	{name: "handle_duration_seconds", kind: histo, unit: seconds, label: "outcome", values: outcome.Names[:],
		help: "How long calls of the handler took, by how they ended."},
	{name: "message_age_seconds", kind: histo, unit: seconds,
		help: "How old messages were when the handler was called: since they were published, by the server's clock."},
	{name: "handle_attempt", kind: histo, unit: "attempts", help: "Which attempt of its message a call of the handler was."},
}

var buildInfo = family{name: "build_info", kind: gauge, unit: "always 1", help: "The versions of this module and of Go, as labels version and goversion."}
