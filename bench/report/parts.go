package main

import "time"

// part is one mode of bench with the numbers that fit into the whole.
type part struct {
	mode  string
	takes time.Duration // about, with nothing else running
	args  []string
	quick []string // the same with small numbers
	says  string   // in front of its tables on the page
}

// parts are in the order of the page, which is that in which they are measured: what matters most comes first.
var parts = []part{
	{
		mode: "faults", takes: 635 * time.Second,
		args:  []string{"-seeds", "6"},
		quick: []string{"-faults-n", "400", "-schedules", "restarts", "-workers", "consume-drain,ackfloor"},
		says: `The same schedule of restarts for every kind of worker, drawn from a seed: each is two processes that are started again after every fault, as a supervisor does, on a server, or three, in processes of
their own. A message is handled again when a handler returned nil for it a second time. It is lost when none ever did, though everything else is settled. *hung* are the stops that took more than 20 s, *died* the
processes that ended by themselves. What is not finished after 25 s has nothing broken any more, and 20 s to end; *left* is what it left then.

By hand means nats.go as its documentation shows it: ` + "`Consume`" + `, and a goroutine for each slot. Every peer is used as its own documentation says, with a connection that reconnects for ever.`,
	},
	{
		mode: "throughput", takes: 100 * time.Second,
		args:  []string{"-rounds", "9"},
		quick: []string{"-n", "2000", "-rounds", "1"},
		says: `A handler that does nothing, so that nothing is seen but what the library and the server cost. The rate counts from the first message to when the server has everything settled, so an ack that did not arrive does
not count. Read the ratios (x): they are taken within a round.`,
	},
	{
		mode: "latency", takes: 75 * time.Second,
		args:  []string{"-latency-rounds", "3", "-latency-for", "3s"},
		quick: []string{"-latency-rounds", "1", "-latency-for", "200ms"},
		says:  `From the publisher to the first line of the handler, by the clock of this machine; single messages, each of them alone.`,
	},
	{
		mode: "memory", takes: 40 * time.Second,
		quick: []string{"-memory-n", "3000"},
		says:  `Resident memory, and what is left of the heap after a collection, while the messages go through.`,
	},
	{
		mode: "batches", takes: 80 * time.Second,
		args:  []string{"-batches-n", "100000", "-batches-rounds", "3"},
		quick: []string{"-batches-n", "2000", "-batches-rounds", "1"},
		says:  `Rows into SQLite, where a transaction for each message costs more than everything else.`,
	},
	{
		mode: "runners", takes: 25 * time.Second,
		quick: []string{"-lasting", "100ms"},
		says:  `Many workers in one process, on one connection.`,
	},
	{
		mode: "held", takes: 45 * time.Second,
		args:  []string{"-lasting", "1500ms"},
		quick: []string{"-lasting", "50ms"},
		says:  `What leases cost: every message that is held is stamped every third of ack_wait.`,
	},
	{
		mode: "growth", takes: 230 * time.Second,
		quick: []string{"-lasting", "50ms", "-growth-n", "10000", "-processes", "2", "-ends"},
		says: `One thing grows, all else stays. *What limits it* is read off the measured figures: whether the handlers were busy all the time, whether the cores of the machine were, or one core of the server or the worker;
where none of that is so, the time passes in waiting.`,
	},
	{
		mode: "scaling", takes: 150 * time.Second,
		args:  []string{"-lasting", "1s"},
		quick: []string{"-lasting", "50ms", "-ends"},
		says:  `More than one server, more than one consumer, and a long way between: [SCALING.md](SCALING.md) says what to make of it. All servers and workers share the machine, so what a further server costs is seen, and what it brings is not.`,
	},
	{
		mode: "keys", takes: 95 * time.Second,
		args:  []string{"-keys-n", "10000"},
		quick: []string{"-keys-n", "50"},
		says:  `Order by key against the best that is possible: the time of all handlers together, divided by the keys or the slots, whichever are fewer.`,
	},
	{
		mode: "failures", takes: 90 * time.Second,
		args:  []string{"-failures-n", "50000", "-failures-rounds", "3"},
		quick: []string{"-failures-n", "2000", "-failures-rounds", "1", "-handlers", "wait"},
		says: `What failures cost: attempts that are counted, retries, dead letters. A failure takes a record, a negative acknowledgment and a delivery more, and a message that is given up a dead letter, which all have to be written
down: with handlers that do nothing this is most of the work. With handlers of 2 ms, as a worker's are, the slots are the limit, and of them the further calls take what they must.`,
	},
	{
		mode: "drain", takes: 30 * time.Second,
		args:  []string{"-drains", "10"},
		quick: []string{"-drains", "1"},
		says:  `How long a worker takes to stop that has nothing to do. It reads its open pull to the end, since a pull that is left while it is being served costs deliveries.`,
	},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.mode)
	}
	return names
}

// saysOf is the text of a mode, "" for one that is not among the parts.
func saysOf(mode string) string {
	for _, p := range parts {
		if p.mode == mode {
			return p.says
		}
	}
	return ""
}
