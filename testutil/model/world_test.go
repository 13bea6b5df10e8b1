package model_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil/model"
	"github.com/nats-io/nats.go"
)

// A plan is what happens to Runners and to the model that they work on: words on how the world is, then operations, separated by semicolons.
//
//	seed=7           decides what handlers do
//	replicas=3       or 1
//	ackwait=5s       of the consumer
//	maxpending=100   its max_ack_pending
//	slots=4          of a Runner
//	latency=2ms      of what the server sends
//	grace=5s         of a stop
//	mode=plain       or keys, in order of a key; or batches
//
//	publish 10       messages
//	start a          a Runner of this name; where one is still stopping, when it has ended
//	stop a           tells it to stop, and does not wait
//	kill a           closes its connection for good
//	cut a 100ms      cuts its connection; what is sent in so long before is lost
//	restart 500ms    the server, which is down so long
//	move 200ms       the consumer's leader; nobody listens for so long
//	lose 3, nobody 3, late 3   the next settlements are lost, answered with 503, or answered 700 ms late
//	losepulls 3      the next pulls are lost
//	sleep 300ms
type world struct {
	t    *testing.T
	m    *model.Server
	conf map[string]string
	wait time.Duration // ack_wait
	end  context.Context
	over context.CancelFunc

	published uint64 // the last message's sequence

	mu       sync.Mutex
	problems []string
	lose     []model.Fault        // of the next settlements
	losePull int                  // of the next pulls
	workers  map[string]*worked   // the last of each name
	all      map[string]*worked   // by the name of their connection
	done     map[uint64]int       // how often a handler returned nil, by stream sequence
	bad      map[uint64]bool      // a handler said that it fails for good
	calls    map[uint64]int       // of handlers
	sure     map[uint64]time.Time // when it was confirmed to a worker that a message is acknowledged or terminated
	sent     map[string]bool      // whether a verdict was sent, by the reply subject of a delivery
	verdicts map[string]string    // by the reply subject of a delivery
	holder   map[uint64]holding   // who has the newest delivery
	floor    uint64               // the highest ack floor that was seen
	rough    bool                 // something happened behind which messages may be handled twice
	running  map[string]struct{}  // sequences in handlers, by worker
	crowded  bool                 // two workers ran at the same time
	upset    time.Time            // when the server stopped, or began to move the leader, last
}

// holding is a delivery in a worker's hands.
type holding struct {
	w        *worked
	reply    string
	at       time.Time
	doubtful bool // it may never have come
}

// problem notes what must not be.
func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problemLocked(format, args...)
}

func (w *world) problemLocked(format string, args ...any) {
	if len(w.problems) < 10 {
		w.problems = append(w.problems, fmt.Sprintf("at %v: ", time.Since(epoch))+fmt.Sprintf(format, args...))
	}
}

// epoch is when a bubble's time begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// run carries a plan out in a bubble and returns what was wrong.
func run(t *testing.T, plan string) (problems []string) {
	t.Helper()
	runtime.GC() // nats.go keeps timers in a pool: see testutil.Bubble
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan)
		defer func() {
			w.over()
			w.m.Close()
			for _, x := range w.all {
				x.nc.Close()
				<-x.done
			}
			problems = w.problems
		}()
		for op := range strings.SplitSeq(plan, ";") {
			if word := strings.Fields(op); len(word) > 0 && !strings.Contains(word[0], "=") {
				w.do(word)
				w.look()
			}
		}
		w.finish()
	})
	return problems
}

func newWorld(t *testing.T, plan string) *world {
	conf := map[string]string{"seed": "1", "replicas": "1", "ackwait": "5s", "maxpending": "100", "slots": "4", "latency": "0s", "grace": "5s", "mode": "plain"}
	w := &world{t: t, conf: conf,
		workers: map[string]*worked{}, all: map[string]*worked{}, done: map[uint64]int{}, bad: map[uint64]bool{}, calls: map[uint64]int{},
		sure: map[uint64]time.Time{}, sent: map[string]bool{}, verdicts: map[string]string{}, holder: map[uint64]holding{}, running: map[string]struct{}{}}
	for op := range strings.SplitSeq(plan, ";") {
		for word := range strings.FieldsSeq(op) {
			if name, value, ok := strings.Cut(word, "="); ok {
				w.conf[name] = value
			}
		}
	}
	w.wait = w.span("ackwait")
	w.end, w.over = context.WithCancel(context.Background())
	w.m = model.New(model.Config{Stream: "EVENTS", Subjects: []string{"events.>"}, Replicas: w.number("replicas"), Latency: w.span("latency"),
		Delivered: w.delivered, Settled: w.settled, Fault: w.fault})
	return w
}

func (w *world) number(name string) int {
	n, err := strconv.Atoi(w.conf[name])
	if err != nil {
		w.t.Errorf("plan: %s=%s", name, w.conf[name])
	}
	return n
}

func (w *world) span(name string) time.Duration {
	d, err := time.ParseDuration(w.conf[name])
	if err != nil {
		w.t.Errorf("plan: %s=%s", name, w.conf[name])
	}
	return d
}

// do does one operation.
func (w *world) do(word []string) {
	last := word[len(word)-1]
	n, _ := strconv.Atoi(last)
	d, _ := time.ParseDuration(last)
	switch word[0] {
	case "publish":
		for range n {
			w.published = w.m.Publish("events.x", []byte("x"))
		}
	case "start":
		w.start(last)
	case "stop":
		if x := w.workers[last]; x != nil {
			x.tell()
		}
	case "kill":
		if x := w.workers[last]; x != nil {
			w.mu.Lock()
			x.killed, w.rough = true, true
			w.mu.Unlock()
			x.nc.Close()
		}
	case "cut":
		if x := w.workers[word[1]]; x != nil {
			w.mu.Lock()
			x.disturbed, w.rough = time.Now().Add(d+time.Second), true
			w.mu.Unlock()
			w.m.Cut(x.name, d)
		}
	case "restart":
		began := time.Now()
		w.m.Stop()
		w.upsetNow(began)
		time.Sleep(d)
		w.m.Start()
	case "move":
		if w.number("replicas") > 1 {
			w.m.MoveLeader(d)
			w.upsetNow(time.Now().Add(time.Hour))
		}
	case "lose", "nobody", "late":
		w.mu.Lock()
		f := map[string]model.Fault{"lose": {Lost: true}, "nobody": {Nobody: true}, "late": {Late: 700 * time.Millisecond}}[word[0]]
		if w.number("replicas") > 1 || word[0] == "late" { // on one server the acks of one connection do not get lost one by one
			w.lose = append(w.lose, slices.Repeat([]model.Fault{f}, n)...)
		}
		w.mu.Unlock()
	case "losepulls":
		w.mu.Lock()
		w.losePull += n
		w.mu.Unlock()
	case "sleep":
		time.Sleep(d)
	default:
		w.t.Errorf("%q is no operation", word[0])
	}
	time.Sleep(time.Microsecond)
}

// upsetNow says that what was under way to workers, or was sent since then, may not have come.
func (w *world) upsetNow(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.upset = time.Now()
	for seq, h := range w.holder {
		if h.at.After(since.Add(-time.Millisecond - 2*w.span("latency"))) {
			h.doubtful = true
			w.holder[seq] = h
		}
	}
}

// finish lets all be handled, stops everybody, and looks at what is left.
func (w *world) finish() {
	w.mu.Lock()
	w.lose, w.losePull = nil, 0
	w.mu.Unlock()
	if len(w.workers) == 0 || !slices.ContainsFunc(slices.Collect(maps.Values(w.workers)), (*worked).works) {
		w.start("z")
	}
	limit := time.Now().Add(5 * time.Minute)
	for !w.settledAll() {
		if time.Now().After(limit) {
			w.problem("not all is settled 5m behind the last operation: %v", describe(w.m.Info()))
			break
		}
		time.Sleep(50 * time.Millisecond)
		w.look()
	}
	for _, x := range w.workers {
		x.tell()
	}
	for _, x := range w.all {
		select {
		case <-x.done:
		case <-time.After(time.Minute):
			w.problem("%s has not ended a minute behind its stop", x.name)
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq := uint64(1); seq <= w.published; seq++ {
		if w.done[seq] == 0 && !w.bad[seq] {
			w.problemLocked("message %d was skipped", seq)
		}
		if n := w.done[seq]; n > 1 && !w.rough {
			w.problemLocked("message %d was handled %d times, though nothing was lost", seq, n)
		}
	}
}

func (w *world) settledAll() bool {
	i := w.m.Info()
	return i != nil && i.NumAckPending == 0 && i.AckFloor.Stream == w.published
}

// look checks the ack floor: it never goes back, and what is below it was handled, or given up.
func (w *world) look() {
	i := w.m.Info()
	if i == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.AckFloor.Stream < w.floor {
		w.problemLocked("the ack floor went from %d to %d", w.floor, i.AckFloor.Stream)
	}
	for seq := w.floor + 1; seq <= i.AckFloor.Stream; seq++ {
		if w.done[seq] == 0 && !w.bad[seq] {
			w.problemLocked("the ack floor is %d, but message %d was not handled", i.AckFloor.Stream, seq)
		}
	}
	w.floor = i.AckFloor.Stream
}

// start starts a worker of a name, when the last of that name has ended.
func (w *world) start(name string) {
	if x := w.workers[name]; x != nil {
		if x.works() {
			return
		}
		<-x.done
	}
	for other, x := range w.workers {
		select {
		case <-x.done:
		default:
			w.mu.Lock()
			w.crowded = w.crowded || other != name
			w.mu.Unlock()
		}
	}
	full := fmt.Sprint(name, len(w.all)+1)
	var nc *nats.Conn
	for {
		var err error
		if nc, err = w.m.Connect(nats.Name(full), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.workers[name] = w.work(full, nc)
}
