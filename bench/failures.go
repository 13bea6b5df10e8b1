package main

import (
	"context"
	"fmt"

	"github.com/ackfloor/ackfloor/deadletter"
)

const modeFailures = "failures"

// trials are the rows, without failures and with, in turn.
func (o options) trials() []trial {
	var out []trial
	for _, work := range o.works {
		for _, build := range o.builds() {
			out = append(out, trial{work, false, build}, trial{work, true, build})
		}
	}
	return out
}

// failures has a worker handle the same stream, once without a failure and once with some, in turn, and counts what became of each message.
func failures(ctx context.Context, b *bed, opt options) (map[string][]run, error) {
	const stream = "FAILURES"
	if err := b.stream(ctx, stream); err != nil {
		return nil, err
	}
	opt.progress("failures: filling the stream with %d messages", opt.failuresN)
	if err := b.fill(ctx, stream, opt.failuresN, bodySize); err != nil {
		return nil, err
	}
	runs := make(map[string][]run)
	for round := range opt.failuresRounds + 1 { // the first is not counted: it reads the stream's files
		for i, t := range opt.trials() {
			if round == 0 && i > 0 {
				break
			}
			r, err := b.trial(ctx, opt, stream, t, round)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				opt.progress("failures: round %d: %-14s %7.0f msgs/s  %v  %s", round, t.label(), r.rate(), r.fates, counted(r))
				runs[t.label()] = append(runs[t.label()], r)
			}
		}
	}
	return runs, nil
}

// trial runs one, with dead letters and records of its own, and looks at these.
func (b *bed) trial(ctx context.Context, opt options, stream string, t trial, round int) (run, error) {
	durable, err := b.durable(ctx, stream, t.name(), 0)
	if err != nil {
		return run{}, err
	}
	name := durable.CachedInfo().Name
	defer b.forget(ctx, stream, name)
	o := order{mode: modeFailures, name: t.name(), build: t.build, n: opt.failuresN, target: b.at(stream, name)}
	r, err := b.turn(ctx, o.profiles(opt, round), durable, nil)
	if err != nil {
		return run{}, err
	}
	letters, stored, err := b.letters(ctx, stream)
	if err != nil {
		return run{}, err
	}
	r.fates = count(r, letters, t.failing)
	r.fates.twice += max(0, stored-len(letters)) // a letter that took the place of another
	r.n = r.fates.good
	for _, made := range []string{stream + "_DLQ", "KV_ackfloor_" + stream} {
		if err := b.js.DeleteStream(ctx, made); err != nil {
			return run{}, err
		}
	}
	return r, nil
}

// letters reads the dead letters. stored is how many have ever been stored.
func (b *bed) letters(ctx context.Context, stream string) (letters []*deadletter.Letter, stored int, err error) {
	s, err := deadletter.Open(ctx, b.nc, stream+"_DLQ", "")
	if err != nil {
		return nil, 0, err
	}
	for l, err := range s.List(ctx, deadletter.Filter{}) {
		if err != nil {
			return nil, 0, err
		}
		letters = append(letters, l)
	}
	dlq, err := b.js.Stream(ctx, stream+"_DLQ")
	if err != nil {
		return nil, 0, err
	}
	return letters, int(dlq.CachedInfo().State.LastSeq), nil
}

// fates is what became of the messages.
type fates struct {
	good  int // handled: a call returned nil
	dead  int // in the dead letters
	calls int // of the handler

	// These have to be 0.
	lost     int // neither handled nor in the dead letters
	again    int // handled more than once
	both     int // handled, and in the dead letters
	twice    int // in the dead letters more than once
	strayed  int // handled though they should have failed, or the other way round, or with another reason than theirs
	attempts int // called more or less often than it takes, or with a wrong number of the attempt, in the call or in the letter
}

func (f fates) faults() int { return f.lost + f.again + f.both + f.twice + f.strayed + f.attempts }

func (f fates) plus(g fates) fates {
	return fates{f.good + g.good, f.dead + g.dead, f.calls + g.calls, f.lost + g.lost, f.again + g.again, f.both + g.both, f.twice + g.twice,
		f.strayed + g.strayed, f.attempts + g.attempts}
}

func (f fates) String() string {
	return fmt.Sprintf("%d handled, %d dead letters, %d calls; lost %d, handled again %d, both %d, dead letters twice %d, strayed %d, attempts wrong %d",
		f.good, f.dead, f.calls, f.lost, f.again, f.both, f.twice, f.strayed, f.attempts)
}

// count tells what became of the messages of a run.
func count(r run, letters []*deadletter.Letter, failing bool) fates {
	f := fates{attempts: int(r.WrongAttempts)}
	of := make(map[uint64][]*deadletter.Letter, len(letters))
	for _, l := range letters {
		of[l.MessageSequence] = append(of[l.MessageSequence], l)
	}
	for i, done := range r.Done {
		seq := uint64(i + 1)
		want, calls, dead := fateOf(seq, failing), int(r.Calls[i]), of[seq]
		delete(of, seq)
		f.calls += calls
		f.good += one(done > 0)
		f.dead += one(len(dead) > 0)
		f.lost += one(done == 0 && len(dead) == 0)
		f.again += one(done > 1)
		f.both += one(done > 0 && len(dead) > 0)
		f.twice += max(0, len(dead)-1)
		f.strayed += one(want.good() != (done > 0) || len(dead) > 0 && dead[0].Reason != want.reason())
		f.attempts += one(calls != want.calls() || len(dead) > 0 && dead[0].Attempts != want.calls())
	}
	f.strayed += len(of) // letters of messages that there are not
	return f
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// reason is that of its dead letter, "" if there is to be none.
func (f fate) reason() string {
	switch f {
	case isPermanent:
		return deadletter.ReasonPermanent
	case panics:
		return deadletter.ReasonExhausted
	}
	return ""
}

// steady is the rate of good messages up to the last call of nine in ten: without the end, when nothing is left but to wait for retries.
func (r run) steady() float64 {
	share := float64(mostOf(int64(len(r.Done)))) / float64(len(r.Done))
	return share * float64(r.n) / r.Most.Sub(r.First).Seconds()
}

// counted is what the worker itself has counted beside, where it is not 0.
func counted(r run) string {
	c, out := r.Counts, ""
	for _, of := range []struct {
		what string
		n    uint64
	}{{"skipped", c.Skipped}, {"late", c.Late}, {"leases lost", c.LeasesLost}, {"resent", c.Resends}, {"unknown", c.Unknown}, {"suspected", c.Suspected},
		{"letters not written", c.DeadLetterFailures}, {"returned", c.Returned}} {
		if of.n > 0 {
			out += fmt.Sprintf("%s %d ", of.what, of.n)
		}
	}
	return out
}

// failuresTable writes medians, and the median of the ratios of each round to the same without failures.
func failuresTable(w *table, opt options, runs map[string][]run) {
	w.title("Failures: %d messages of %d bytes, 5 %% fail once or twice, 1 %% are permanent, 0.1 %% panic; %d attempts, %v between them; %d rounds, medians;\n"+
		"good/s: messages handled a second; x: against the same without failures in the same round", opt.failuresN, bodySize, maxAttempts, retryDelay, opt.failuresRounds)
	w.row("handler", "good", "dead", "calls a good one", "good/s", "x", "to 90 %", "x", "CPU µs/good", "server CPU")
	for _, t := range opt.trials() {
		rs, base := runs[t.label()], runs[trial{t.work, false, t.build}.label()]
		f := rs[0].fates
		w.row(t.label(), fmt.Sprint(f.good), fmt.Sprint(f.dead), fmt.Sprintf("%.3f", float64(f.calls)/float64(f.good)),
			fmt.Sprintf("%.0f", medianOf(rs, run.rate)), times(rs, base, run.rate), fmt.Sprintf("%.0f", medianOf(rs, run.steady)), times(rs, base, run.steady),
			fmt.Sprintf("%.2f", medianOf(rs, func(r run) float64 { return float64(r.Usage.CPU.Microseconds()) / float64(r.n) })),
			fmt.Sprintf("%.2f", medianOf(rs, func(r run) float64 { return float64(r.server.CPU.Microseconds()) / float64(r.n) })))
	}
	w.flush()
	fatesTable(w, opt, runs)
	for _, work := range opt.works {
		some, none := runs[work+"-failing"], runs[work+"-clean"]
		w.aim("good messages a second, some fail, against none, handler "+work, ratio(some, none, run.rate), atLeast, 0.9)
	}
}

// fatesTable writes what must not be, in all rounds together. A figure that is not 0 is a fault of the worker, and the run fails.
func fatesTable(w *table, opt options, runs map[string][]run) {
	w.title("What became of the messages, all rounds together; each figure but the first has to be 0")
	w.row("handler", "messages", "lost", "handled again", "handled and dead", "dead twice", "strayed", "attempts wrong")
	for _, t := range opt.trials() {
		n, sum := 0, fates{}
		for _, r := range runs[t.label()] {
			n, sum = n+len(r.Done), sum.plus(r.fates)
		}
		if sum.faults() > 0 {
			w.fault("failures, %s, all rounds together: %v", t.label(), sum)
		}
		w.row(t.label(), fmt.Sprint(n), fmt.Sprint(sum.lost), fmt.Sprint(sum.again), fmt.Sprint(sum.both),
			fmt.Sprint(sum.twice), fmt.Sprint(sum.strayed), fmt.Sprint(sum.attempts))
	}
	w.flush()
}
