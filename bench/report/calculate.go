package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

// costs are what one message costs, as it was measured here.
type costs struct {
	worker, single, replicated float64 // CPU µs: of the worker; of one server; of three servers together with three replicas
	rate, rate3                float64 // messages a second of one consumer, with one replica and with three
	latency                    float64 // µs from publish to handler, p50
}

const (
	handlerTime = 0.010 // s, of the handlers in the table
	payload     = 1024  // bytes of the messages in the table
	processOf   = 64    // slots of a process in the table
)

// costsOf reads them from the table of replicas.
func costsOf(results []figures.Result) (costs, bool) {
	t := tableOf(results, "scaling", "Replicas")
	if t == nil {
		return costs{}, false
	}
	ok := true
	get := func(site, column string) float64 {
		at := slices.Index(t.Header, column)
		for _, row := range t.Rows {
			if at > 0 && strings.HasSuffix(row[0], site) && row[1] == "ackfloor" {
				v, err := strconv.ParseFloat(row[at], 64)
				ok = ok && err == nil && v > 0
				return v
			}
		}
		ok = false
		return 0
	}
	c := costs{
		worker: get("one server, R1", "CPU µs/msg"), single: get("one server, R1", "servers CPU µs/msg"), replicated: get("three servers, R3", "servers CPU µs/msg"),
		rate: get("one server, R1", "msgs/s"), rate3: get("three servers, R3", "msgs/s"), latency: get("one server, R1", "p50 µs"),
	}
	return c, ok
}

// calculated is what it takes for some rates, by the formulae of docs/SCALING.md.
func calculated(results []figures.Result) string {
	c, ok := costsOf(results)
	if !ok {
		return "Not measured yet.\n"
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("Measured: %s µs of a worker's CPU a message, %s µs of the server's (R1), %s µs of three servers together (R3); one consumer %s messages a second (R1) and %s (R3), all of it on one machine.",
		number(c.worker), number(c.single), number(c.replicated), thousands(c.rate), thousands(c.rate3))
	p("")
	p("| messages a second | slots | processes of %d slots | worker cores | server cores, R1 | server cores, R3, together | consumers (partitions), R1 / R3 | max_ack_pending, all together | MiB/s written, R1 / R3 |", processOf)
	p("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, rate := range []float64{1_000, 10_000, 100_000, 1_000_000} {
		slots := math.Ceil(rate * handlerTime)
		p("| %s | %s | %s | %s | %s | %s | %.0f / %.0f | %s | %s / %s |", thousands(rate), thousands(slots), thousands(math.Ceil(slots/processOf)),
			number(rate*c.worker/1e6), number(rate*c.single/1e6), number(rate*c.replicated/1e6), consumers(rate, c.rate), consumers(rate, c.rate3),
			thousands(math.Ceil(rate*(handlerTime+c.latency/1e6)*2)), number(rate*payload/(1<<20)), number(3*rate*payload/(1<<20)))
	}
	p("")
	p("For handlers of %.0f ms that wait, and messages of %d bytes. Cores are those that are busy: leave as many again for publishers, peaks and the loss of a server.", 1000*handlerTime, payload)
	return b.String()
}

// consumers is how many it takes for a rate, each at no more than two thirds of what one reached.
func consumers(rate, one float64) float64 { return math.Ceil(rate / (one * 2 / 3)) }

// thousands writes a whole number with its thousands apart.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
