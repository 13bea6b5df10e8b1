package worker

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	restartSeed     = flag.Uint64("restart.seed", 1, "seed of the restart tests' schedule; 0: by the clock")
	restartMessages = flag.Int("restart.messages", 20000, "messages of the restart tests")
)

// The restart test: two worker processes and the server are restarted at random while 20,000 messages are handled. Nothing may be lost, and
// after clean stops nothing handled twice. Run it with a seed of your own:
//
//	go test ./worker -run TestRestarts -restart.seed 7 -v
func TestRestarts(t *testing.T) {
	for name, tc := range map[string]schedule{
		"SIGTERM of workers and server": {workers: syscall.SIGTERM, server: true, allowed: func(int) int { return 0 }},
		// Where workers come back further apart than they wait for one another, some may be handled again; it was about a thousand before they told one another.
		"SIGTERM of workers, SIGKILL of the server": {workers: syscall.SIGTERM, server: true, crash: true, allowed: func(int) int { return 2 * restartSlots }},
		"SIGKILL of workers":                        {workers: syscall.SIGKILL, allowed: func(kills int) int { return kills * restartSlots }},
	} {
		t.Run(name, func(t *testing.T) { tc.run(t) })
	}
	for name := range modes {
		if name != "plain" {
			tc := schedule{workers: syscall.SIGTERM, server: true, mode: name, allowed: func(int) int { return 0 }}
			t.Run("SIGTERM of workers and server, "+name, func(t *testing.T) { tc.run(t) })
		}
	}
}

// notYet is the exit of a worker that a SIGTERM ended before it listened for one: it held nothing yet.
const notYet = -int(syscall.SIGTERM)

const restartSlots = 8 // handlers at once of each worker

type schedule struct {
	workers syscall.Signal      // what restarts a worker, every 0.5 to 0.9 s
	mode    string              // how the workers work; "" is one by one, and else it is a quarter of the messages, each for longer
	server  bool                // the server is restarted too, every 0.8 to 1.2 s
	crash   bool                // it is killed with SIGKILL instead
	allowed func(kills int) int // messages that may be handled again
}

func (sc schedule) run(t *testing.T) {
	seed := *restartSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	server := testutil.ServerProcess(t)
	n, work := uint64(*restartMessages), "WORK=2ms"
	if sc.mode != "" {
		n, work = n/4, "WORK=10ms"
	}
	server.Events(t, int(n))
	server.Consumer(t, rigStream, wanted(Config{Consumer: rigConsumer, AckWait: 5 * time.Second}))
	out := filepath.Join(t.TempDir(), "out")
	start := func() *kid {
		return spawn(t, "main", server.URL(), out, work, "WORKER_CONCURRENCY=8", "WORKER_ACK_WAIT=5s", "WORKER_LOG_LEVEL=warn", "MODE="+sc.mode)
	}
	kids := []*kid{start(), start()}
	restarts, serverRestarts := 0, 0
	between := func(ms int) time.Time { return time.Now().Add(time.Duration(ms-200+rng.IntN(400)) * time.Millisecond) }
	nextWorker, nextServer := between(700), between(1000)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not done after two minutes: %d of %d handled", len(events(t, out, "end")), n)
		}
		if time.Now().After(nextWorker) {
			i := rng.IntN(len(kids))
			kids[i].signal(sc.workers)
			if code, took := kids[i].exit(20 * time.Second); sc.workers == syscall.SIGTERM && (code != 0 && code != notYet || took > 5*time.Second) {
				t.Fatalf("a worker ended with code %d after %v", code, took)
			}
			kids[i] = start()
			restarts++
			nextWorker = between(700)
		}
		if sc.server && time.Now().After(nextServer) {
			if sc.crash {
				server.Kill()
			} else {
				server.Stop()
			}
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			server.Start()
			serverRestarts++
			nextServer = between(1000)
		}
		if len(events(t, out, "end")) == int(n) {
			break
		}
	}
	server.WaitInfo(t, rigStream, rigConsumer, 15*time.Second, "all settled", func(i *jetstream.ConsumerInfo) bool {
		return i.AckFloor.Stream == n && i.NumAckPending == 0 && i.NumPending == 0
	})
	again := 0
	for _, c := range events(t, out, "end") {
		again += c - 1
	}
	t.Logf("lost 0, handled again %d, workers restarted %d times, the server %d times", again, restarts, serverRestarts)
	if again > sc.allowed(restarts) {
		t.Errorf("%d messages were handled again, %d are allowed", again, sc.allowed(restarts))
	}
	if restarts < 3 || sc.server && serverRestarts < 2 {
		t.Errorf("the schedule restarted too little to show anything")
	}
	for _, k := range kids {
		k.signal(syscall.SIGTERM)
	}
	for _, k := range kids {
		if code, _ := k.exit(10 * time.Second); code != 0 && code != notYet {
			t.Errorf("a worker ended with code %d", code)
		}
	}
}
