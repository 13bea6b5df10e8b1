package model_test

import (
	"strings"
	"testing"
)

// Plans that failed once: of the Runner, or of one in which a fault had been seeded to see whether the random plans find it. Each is run a few times, since what
// goroutines do first is chance.
var regressions = []struct{ name, plan string }{
	{"a stop right behind a change of leader keeps what it holds", // it was stamped too late to take it off the new leader's queue
		"replicas=3 ackwait=5s maxpending=100 slots=1 latency=0s seed=70; publish 29; sleep 40s; start a; sleep 20ms; move 50ms; stop a"},
	{"what is held is stamped before the leader changes", // seeded: the first stamp behind a third of ack_wait
		"replicas=3 ackwait=30s maxpending=1000 slots=4 latency=0s seed=127; publish 28; sleep 40s; start a; start b; start c; move 240ms; late 8"},
	{"what is held is stamped before the leader changes, while others wait", // seeded: the same
		"replicas=3 ackwait=8s maxpending=100 slots=2 latency=2ms seed=812; publish 93; sleep 40s; start a; start b; start c; sleep 340ms; move 20ms"},
	{"settlements that met no leader are sent again", // seeded: they are not
		"replicas=3 ackwait=30s maxpending=1000 slots=4 latency=2ms seed=97; publish 108; start a; start b; move 500ms; sleep 190ms; losepulls 1; sleep 1040ms; late 11; move 60ms; " +
			"sleep 670ms; stop b; publish 30"},
	{"what a worker has settled it does not handle again when it comes again", // seeded: it does
		"replicas=3 ackwait=1s maxpending=5 slots=2 latency=20ms seed=122; publish 33; start a; restart 520ms; sleep 280ms; start c; kill b; lose 200; publish 23; start a; sleep 1010ms"},
	{"settlements that were lost with a connection are sent again", // seeded: they are not
		"replicas=1 ackwait=8s maxpending=100 slots=4 latency=2ms seed=2; publish 1; sleep 40s; start a; start b; sleep 10ms; publish 4; cut a 500ms"},
	{"what was terminated in vain is acknowledged when it comes again", // seeded: settlements are not sent again
		"replicas=1 ackwait=30s maxpending=100 slots=16 latency=0s seed=729; publish 1; sleep 40s; start a; publish 7; publish 4; cut a 30ms"},
	{"a stop reads its open pull to the end", // seeded: it unsubscribes
		"replicas=1 ackwait=5s maxpending=100 slots=1 latency=20ms seed=1; publish 15; sleep 40s; start a; start b; sleep 80ms; stop a"},
	{"a stop reads its open pull to the end, and settles what came on it", // seeded: it unsubscribes
		"replicas=1 ackwait=5s maxpending=100 slots=16 latency=2ms seed=6; publish 27; sleep 40s; start a; sleep 550ms; publish 2; stop a"},
	{"a message is acknowledged behind its handler", // seeded: before
		"replicas=1 ackwait=5s maxpending=100 slots=4 latency=0s seed=2; publish 2; sleep 40s; start a; start a"},
	{"a retry that meets a change of leader", // its NAK is answered with 503, and is not worth sending again when its delay has passed
		"replicas=3 ackwait=30s maxpending=100 slots=16 latency=0s seed=13; publish 134; sleep 40s; start a; move 20ms"},
	{"what waits elsewhere, when its lease was lost there, may be handled though it is confirmed", // acks and stamps were lost
		"replicas=3 ackwait=1s maxpending=100 slots=2 latency=2ms seed=3; publish 4; start a; start b; publish 23; sleep 20ms; lose 212; start c; restart 160ms; publish 24; sleep 790ms"},
	{"a worker that starts as the leader changes, and one that is not told of it", // what was held for a moment only may be handled twice
		"replicas=3 ackwait=5s maxpending=5 slots=1 latency=0s seed=387; publish 24; sleep 40s; start a; start b; publish 12; start c; sleep 20ms; move 10ms"},
	{"an answer that comes after its NAK was given up", // confirmed what had taken its place by then
		"replicas=3 ackwait=8s maxpending=100 slots=16 latency=0s grace=5s seed=790; publish 82; sleep 40s; start a; start b; late 1; sleep 300ms; stop a; sleep 320ms; sleep 20ms; late 1; " +
			"move 500ms; start a"},
	{"a return whose answer is late", // it was sent again, and taken from who had the message by then
		"replicas=1 ackwait=8s maxpending=5 slots=2 latency=2ms grace=300ms mode=keys seed=1; publish 92; sleep 40s; start a; start b; restart 160ms; late 2; stop a; sleep 970ms; start c; late 4; stop b; " +
			"sleep 880ms; start b"},
	{"a stop at the moment in which the server stops", // what came back on a pull that was ended, and was handed back, counted as unconfirmed
		"replicas=1 ackwait=5s maxpending=5 slots=4 latency=0s grace=5s mode=keys seed=1000; publish 61; sleep 40s; start a; start b; sleep 20ms; start b; sleep 20ms; publish 1; start a; start a; " +
			"sleep 400ms; losepulls 2; publish 8; stop b; publish 16; publish 39; sleep 470ms; start c; restart 970ms; start a"},
	{"a worker that is told of the new leader by its advisory only", // seeded: it is not
		"replicas=3 ackwait=30s maxpending=100 slots=1 latency=2ms seed=409; publish 120; sleep 40s; start a; start b; publish 13; sleep 20ms; move 10ms; start c; publish 1; move 40ms; publish 4"},
	{"a restart just as the first messages come",
		"replicas=3 ackwait=8s maxpending=1000 slots=1 latency=0s seed=67; publish 1; start a; restart 650ms; move 430ms; move 130ms; publish 10; move 470ms"},
}

func TestRegressions(t *testing.T) {
	for _, r := range regressions {
		t.Run(r.name, func(t *testing.T) {
			for range 5 {
				if problems := run(t, r.plan); len(problems) > 0 {
					t.Fatalf("%s\n%s", r.plan, strings.Join(problems, "\n"))
				}
			}
		})
	}
}
