package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

// mainTable is the table that stands on the page first, and in README.md.
func mainTable(results []figures.Result) string {
	var b strings.Builder
	b.WriteString("| | nats.go by hand | watermill-nats | pcgroups | Ackfloor | aim |\n|---|---:|---:|---:|---:|---:|\n")
	rows := 0
	row := func(what, hand, watermill, groups, ours, aim string) {
		if hand+watermill+groups+ours == "" {
			return // not measured
		}
		rows++
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", what, orDash(hand), orDash(watermill), orDash(groups), orDash(ours), aim)
	}
	for _, s := range []struct{ name, what string }{
		{"restarts", "handled again: workers and server restarted"},
		{"slow", "handled again: slow handlers on a backlog, server restarted"},
		{"crash", "handled again: the server killed with -9, without replicas; workers restarted"},
		{"leader", "handled again: three servers, the leader moved"},
		{"kill", "handled again: three servers, the leader killed with -9"},
	} {
		t := tableOf(results, "faults", fmt.Sprintf("schedule %q", s.name))
		row(s.what, again(t, "consume-drain"), again(t, "watermill"), again(t, "pcgroups"), again(t, "ackfloor"), "0")
	}
	rates := tableOf(results, "throughput", "Throughput")
	row("messages a second, handlers do nothing", value(rates, "consume", "msgs/s"), value(rates, "watermill", "msgs/s"), "", value(rates, "ackfloor-confirm", "msgs/s"), "")
	row("the same against `Consume` with plain acks", value(rates, "consume", "x"), value(rates, "watermill", "x"), "", value(rates, "ackfloor-confirm", "x"), "≥ 1")
	row("the same, in order of 10,000 keys", "", "", "", value(rates, "ackfloor-keyed", "x"), "≥ 0.8")
	far := tableOf(results, "scaling", "A long way")
	row("messages a second behind a round trip of 5 ms, max_ack_pending 1,000", trip(far, "consume"), "", "", trip(far, "ackfloor"), "")
	row("allocations a message", value(rates, "consume", "allocs/msg"), value(rates, "watermill", "allocs/msg"), "", value(rates, "ackfloor-confirm", "allocs/msg"), "≤ 5")
	one := tableOf(results, "scaling", "Partitions")
	row("order of partitions, 16 of them, messages a second", "", "", partition(one, "16", "pcgroups, max_ack_pending 1"), partition(one, "16", "Runners"), "")
	rows5 := tableOf(results, "batches", "Batches")
	row("rows a second into SQLite, batches of 1,000", value(rows5, "index on subject and time: Consume by hand, plain acks", "rows/s"), "", "", value(rows5, "index on subject and time: a worker of batches, one slot", "rows/s"), "")
	row("the same against a transaction for each message", "1", "", "", aimed(results, "batches", "against a transaction for each message, index on subject and time"), "≥ 3")
	latency := tableOf(results, "latency", "Latency")
	row("one message, p50 / p99 in µs", pair(latency, "consume"), pair(latency, "watermill"), "", pair(latency, "ackfloor-confirm"), "p99 ≤ by hand")
	memory := tableOf(results, "memory", "Memory")
	row("resident MB after a tenth / all of the messages", grown(memory, "consume"), grown(memory, "watermill"), "", grown(memory, "ackfloor-confirm"), "flat")
	many := tableOf(results, "runners", "Runners")
	row("100 workers in one process: MB, % of a core when idle", "", "", "", joined(value(many, "100", "peak RSS MB"), value(many, "100", "idle: % of a core")), "")
	holding := tableOf(results, "held", "held by handlers")
	row("1,000 messages held: % of a core", value(holding, "consume-held", "CPU %"), "", "", value(holding, "ackfloor", "CPU %"), "< 2")
	if rows == 0 {
		return "Nothing was measured yet.\n"
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// tableOf is the table of a mode whose title has a text in it; nil without one.
func tableOf(results []figures.Result, mode, text string) *figures.Table {
	for _, r := range results {
		for _, t := range r.Tables {
			if r.Mode == mode && strings.Contains(t.Title, text) {
				return t
			}
		}
	}
	return nil
}

// value is the cell of the first row and the first column of those names, "" without one.
func value(t *figures.Table, row, column string) string {
	if t == nil {
		return ""
	}
	at := slices.Index(t.Header, column)
	for _, cells := range t.Rows {
		if cells[0] == row && at >= 0 && at < len(cells) {
			return cells[at]
		}
	}
	return ""
}

// again are the messages handled again in a schedule, of all seeds: "0", "12 to 40", with what was not finished.
func again(t *figures.Table, worker string) string {
	if t == nil {
		return ""
	}
	at, left := slices.Index(t.Header, "handled again"), slices.Index(t.Header, "left")
	var all []int
	unfinished := 0
	for _, cells := range t.Rows {
		if n, err := strconv.Atoi(cells[at]); err == nil && cells[0] == worker {
			all = append(all, n)
			if cells[left] != "-" {
				unfinished++
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	text := fmt.Sprint(slices.Min(all))
	if least, most := slices.Min(all), slices.Max(all); least != most {
		text = fmt.Sprintf("%d to %d", least, most)
	}
	if worker == "ackfloor" {
		text = "**" + text + "**"
	}
	if unfinished > 0 {
		text += ", not finished"
	}
	return text
}

// partition is the rate of a way to work with so many partitions, of handlers that do nothing.
func partition(t *figures.Table, parts, who string) string {
	if t == nil {
		return ""
	}
	for _, cells := range t.Rows {
		if cells[0] == parts && strings.HasPrefix(cells[1], who) && cells[2] == "0s" {
			return cells[slices.Index(t.Header, "msgs/s")]
		}
	}
	return ""
}

// trip is the rate behind a round trip of 5 ms with the server's default of max_ack_pending.
func trip(t *figures.Table, who string) string {
	if t == nil {
		return ""
	}
	for _, cells := range t.Rows {
		if cells[0] == "5ms" && cells[1] == who && cells[2] == "1000" {
			return cells[slices.Index(t.Header, "msgs/s")]
		}
	}
	return ""
}

// aimed is what was measured for an aim.
func aimed(results []figures.Result, mode, text string) string {
	for _, r := range results {
		for _, t := range r.Tables {
			for _, a := range t.Aims {
				if r.Mode == mode && strings.Contains(a.What, text) {
					return number(a.Got)
				}
			}
		}
	}
	return ""
}

func pair(t *figures.Table, row string) string {
	return joined(value(t, row, "p50"), value(t, row, "p99"))
}

func grown(t *figures.Table, row string) string {
	return joined(value(t, row, "RSS 10 %"), value(t, row, "100 %"))
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return ""
	}
	return a + " / " + b
}
