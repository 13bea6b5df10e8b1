package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/ackfloor/ackfloor/testutil/fault"
)

// The mode faults: the same schedules of restarts for every kind of worker, and what became of the messages.

const (
	modeFaults   = "faults"
	faultStream  = "EVENTS"
	faultDurable = "worker"
	faultCrew    = 2 // processes
	faultSlots   = 8 // of each
	faultKeys    = 100
	faultsLimit  = 25 * time.Second // for one run; then nothing breaks any more
	calmLimit    = 20 * time.Second // for what is left then; after that it is given up, and says so
)

// schedule is what breaks while the messages are handled.
type schedule struct {
	name    string
	what    string
	servers int
	part    float64       // of the messages
	work    time.Duration // of a handler
	wait    time.Duration // ack_wait
	old     time.Duration // how long the messages have been there when the workers start
	workers time.Duration // between two restarts of a worker; 0: never
	server  time.Duration // between two stops of the server, or kills of the leader; 0: never
	crash   time.Duration // between two kills of the one server; 0: never
	leader  time.Duration // between two moves of the leader; 0: never
	fewer   []string      // workers that it is not for
}

var schedules = []schedule{
	{name: "restarts", what: "one server; SIGTERM to a worker every 0.7 s and to the server every 1 s; handlers of 2 ms", servers: 1, part: 1,
		work: 2 * time.Millisecond, wait: 5 * time.Second, workers: 700 * time.Millisecond, server: time.Second},
	{name: "slow", what: "one server; handlers of 400 ms on a backlog older than ack_wait, which is 3 s; SIGTERM to the server every 3 s", servers: 1, part: 0.02,
		work: 400 * time.Millisecond, wait: 3 * time.Second, old: 3500 * time.Millisecond, server: 3 * time.Second},
	{name: "crash", what: "one server; killed with SIGKILL every 1 s, SIGTERM to a worker every 0.7 s; handlers of 2 ms", servers: 1, part: 1,
		work: 2 * time.Millisecond, wait: 5 * time.Second, workers: 700 * time.Millisecond, crash: time.Second},
	{name: "leader", what: "three servers, R3; the leader of the consumer moved every 0.5 s, SIGTERM to a worker every 0.7 s; handlers of 2 ms", servers: 3, part: 2,
		work: 2 * time.Millisecond, wait: 5 * time.Second, workers: 700 * time.Millisecond, leader: 500 * time.Millisecond},
	{name: "kill", what: "three servers, R3; the leader of the consumer killed with SIGKILL every 2 s; handlers of 6 ms", servers: 3, part: 0.5,
		work: 6 * time.Millisecond, wait: 5 * time.Second, server: 2 * time.Second},
}

// faultRun is one row.
type faultRun struct {
	tally
	took       time.Duration
	unfinished string // what was left when it was given up; "" for nothing
	counts     fault.Counts
	drains     []time.Duration
	hung, died int
}

func faults(ctx context.Context, _ *bed, opt options, t *table) error {
	var faults []error
	for _, s := range schedules {
		if opt.schedules != nil && !slices.Contains(opt.schedules, s.name) {
			continue
		}
		faults = append(faults, s.table(ctx, opt, t))
	}
	return errors.Join(faults...)
}

// table runs a schedule with every kind of worker, and writes the table.
func (s schedule) table(ctx context.Context, opt options, t *table) error {
	n := max(20, int(float64(opt.faultsN)*s.part))
	t.title("Faults, schedule %q: %s; %d messages, %d processes of %d slots, ack_wait %v", s.name, s.what, n, faultCrew, faultSlots, s.wait)
	t.row("worker", "seed", "lost", "handled again", "took s", "drain median ms", "longest", "hung", "died", "faults", "left")
	var bars []figures.Bar
	var faults []error
	var aims []func()
	for _, w := range faultWorkers() {
		if opt.faultsWho != nil && !slices.Contains(opt.faultsWho, w.name) || slices.Contains(s.fewer, w.name) {
			continue
		}
		most := 0
		for _, seed := range opt.seeds {
			r, err := s.run(ctx, opt, w, seed, n)
			if err != nil {
				err = fmt.Errorf("%s: %s: seed %d: %w", s.name, w.name, seed, err)
				opt.progress("faults: %v", err)
				faults = append(faults, err)
				continue
			}
			t.row(append([]string{w.name, fmt.Sprint(seed)}, r.cells()...)...)
			opt.progress("faults: %s: %s: seed %d: lost %d, again %d, %v, %v, left %q", s.name, w.name, seed, r.lost, r.again, r.took.Round(100*time.Millisecond), r.counts, r.unfinished)
			most = max(most, r.again)
			if w.name[0] == 'a' {
				aims = append(aims, func() {
					t.aim(fmt.Sprintf("%s, %s, seed %d: messages handled again", s.name, w.name, seed), float64(r.again), atMost, 0)
				})
				if r.lost > 0 && r.unfinished == "" {
					t.fault("%s: %s: seed %d: %d messages were lost", s.name, w.name, seed, r.lost)
				}
			}
		}
		bars = append(bars, figures.Bar{Name: w.name, Y: float64(most)})
	}
	t.flush()
	for _, aim := range aims {
		aim()
	}
	t.chart(figures.Chart{Name: "faults-" + s.name, Title: "Handled again: " + s.name, Y: figures.Axis{Label: "messages handled again"}, Bars: bars})
	return errors.Join(faults...)
}

func (r faultRun) cells() []string {
	slices.Sort(r.drains)
	ms := func(i int) string {
		if len(r.drains) == 0 {
			return "-"
		}
		return fmt.Sprint(r.drains[i].Milliseconds())
	}
	left, lost := r.unfinished, fmt.Sprint(r.lost)
	if left == "" {
		left = "-"
	} else {
		lost = "-" // what is left may yet come
	}
	return []string{lost, fmt.Sprint(r.again), fmt.Sprintf("%.1f", r.took.Seconds()), ms(len(r.drains) / 2), ms(max(0, len(r.drains)-1)), fmt.Sprint(r.hung), fmt.Sprint(r.died),
		r.counts.String(), left}
}

// run is one run of one kind of worker.
func (s schedule) run(ctx context.Context, opt options, w faultWorker, seed uint64, n int) (faultRun, error) {
	dir, err := os.MkdirTemp(opt.dir, "ackfloor-bench-")
	if err != nil {
		return faultRun{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	place, err := s.start(opt.server, dir)
	if err != nil {
		return faultRun{}, err
	}
	defer place.end()
	durables, err := place.fill(ctx, s, w, n)
	if err != nil {
		return faultRun{}, err
	}
	journal, err := fault.OpenJournal(filepath.Join(dir, "journal"))
	if err != nil {
		return faultRun{}, err
	}
	defer func() { _ = journal.Close() }()
	if _, err := waited(ctx, s.old); err != nil {
		return faultRun{}, err
	}
	var children []fault.Child
	for i := range faultCrew {
		j := faultJob{worker: w.name, target: target{url: place.url, stream: faultStream, consumer: faultDurable}, slots: faultSlots, work: s.work, wait: s.wait, index: i}
		children = append(children, fault.Child{Name: faultProgram, Env: j.env(), Journal: journal})
	}
	c, err := startCrew(children)
	if err != nil {
		return faultRun{}, err
	}
	defer c.kill()
	r := faultRun{}
	began := time.Now()
	look := time.Time{}
	done := func(fault.Counts) (bool, error) {
		if time.Since(look) < 200*time.Millisecond {
			return false, c.revive()
		}
		look = time.Now()
		r.unfinished = place.left(ctx, durables)
		return r.unfinished == "" || time.Since(began) > faultsLimit, c.revive()
	}
	breaking := s.faults(place, c, durables)
	for i := range breaking {
		breaking[i] = survived(breaking[i])
	}
	r.counts, err = fault.Schedule{Seed: seed, Faults: breaking}.Run(ctx, done)
	if err != nil {
		return r, err
	}
	for calm := time.Now(); r.unfinished != "" && time.Since(calm) < calmLimit; r.unfinished = place.left(ctx, durables) {
		if _, err := waited(ctx, 200*time.Millisecond); err != nil {
			return r, err
		}
	}
	r.took = time.Since(began)
	if err := c.stop(); err != nil {
		return r, err
	}
	r.drains, r.hung, r.died = c.drains, c.hung, c.died
	r.tally, err = tallied(journal, n)
	return r, err
}

// survived is a fault that returns an error where it would panic, as a server does that can't be started again: the other runs go on.
func survived(f fault.Fault) fault.Fault {
	do := f.Do
	f.Do = func(ctx context.Context, draw *rand.Rand) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%v", p)
			}
		}()
		return do(ctx, draw)
	}
	return f
}

// faults are those of the schedule.
func (s schedule) faults(p *place, c *crew, durables []string) (all []fault.Fault) {
	if s.workers > 0 {
		all = append(all, c.restart(s.workers))
	}
	if s.server > 0 && p.one != nil {
		all = append(all, fault.StopServer(p.one, s.server, 200*time.Millisecond))
	}
	if s.crash > 0 {
		all = append(all, fault.KillServer(p.one, s.crash, 200*time.Millisecond))
	}
	for _, name := range durables {
		cluster := fault.Cluster{Servers: p.several, JS: p.js, Stream: faultStream, Consumer: name}
		if s.leader > 0 { // of several durables each is moved as much less often
			all = append(all, cluster.MoveLeader(s.leader*time.Duration(len(durables))))
		}
		if s.server > 0 && p.several != nil {
			return append(all, cluster.KillLeader(s.server, 200*time.Millisecond))
		}
	}
	return all
}
