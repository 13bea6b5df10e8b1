package worker

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
)

// With real processes: a message that ends its process is convicted after few deaths, and the others are handled.
func TestPoisonInRealProcesses(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 100)
	out := filepath.Join(t.TempDir(), "out")
	deaths := 0
	for {
		k := spawn(t, "main", s.URL(), out, "POISON=42", "WORK=5ms", "WORKER_ACK_WAIT=500ms", "WORKER_EXIT_WHEN_IDLE=true")
		code, _ := k.exit(20 * time.Second)
		if code == 0 {
			break
		}
		if code != 137 {
			t.Fatalf("exit code %d", code)
		}
		if deaths++; deaths > 5 {
			t.Fatalf("%d deaths", deaths)
		}
	}
	r := newRig(t, s, -1)
	letters := r.letters()
	if len(letters) != 1 || letters[0].MessageSequence != 42 || letters[0].Reason != deadletter.ReasonCrash || letters[0].Deliveries <= deaths {
		t.Errorf("after %d deaths %d letters, the first says %+v", deaths, len(letters), letters[0])
	}
	if n := len(events(t, out, "end")); n != 99 {
		t.Errorf("%d of 99 others handled", n)
	}
	r.floor(100, 5*time.Second)
}

// With real processes: stopped (SIGSTOP) in every attempt, so that no code of theirs runs, until a worker finds the message used up.
func TestStoppedOnEveryAttempt(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 1)
	out := filepath.Join(t.TempDir(), "out")
	started := func() int { return events(t, out, "start")[1] }
	r := newRig(t, s, -1)
	for attempt := 1; attempt <= 6; attempt++ {
		k := spawn(t, "main", s.URL(), out, "WORK=1m", "WORKER_ACK_WAIT=500ms", "WORKER_CONCURRENCY=1")
		over := false
		for deadline := time.Now().Add(10 * time.Second); started() < attempt && !over; time.Sleep(20 * time.Millisecond) {
			if attempt > 1 {
				over = s.Info(t, rigStream, rigConsumer).NumAckPending == 0
			}
			if time.Now().After(deadline) {
				t.Fatalf("after 10s attempt %d has not begun", attempt)
			}
		}
		if over {
			if attempt != 6 {
				t.Errorf("given up after %d attempts", attempt-1)
			}
			break
		}
		k.signal(syscall.SIGSTOP)
	}
	letters := r.awaitLetters(1, 10*time.Second)
	if l := letters[0]; l.MessageSequence != 1 || l.Reason != deadletter.ReasonCrash || l.Deliveries < 5 || l.Subject != "events.0" || len(letters) != 1 {
		t.Errorf("%d letters, the first says %+v", len(letters), l)
	}
}
