//go:build unix

package main

import (
	"flag"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"
)

var (
	killMails = flag.Int("kill.mails", 90, "mails of TestKilled")
	killSeed  = flag.Uint64("kill.seed", 1, "seed of the schedule of TestKilled; 0: by the clock")
)

// Two processes of the service are killed with SIGKILL at random moments. Every mail arrives; and of each there are at most as many copies too many as it was reported
// to be a possible duplicate. A longer run: go test ./email -run TestKilled -v -kill.mails 3000 -kill.seed 7
func TestKilled(t *testing.T) {
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	s, js := events(t)
	r := receive(t, func(step, _ string) error {
		if step == "SAID" { // it has the mail and takes its time to say so: the moment in which a death makes a duplicate
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		}
		return nil
	})
	dir := t.TempDir()
	begin := func() *running {
		return start(t, dir, s.URL(), r.url(), "WORKER_HANDLE_TIMEOUT=1s", "WORKER_ACK_WAIT=1s", "WORKER_MAX_ATTEMPTS=100", "WORKER_CONCURRENCY=4", "EMAIL_RATE=30/s")
	}
	all := []*running{begin(), begin()}
	all[0].sees(t, ready)
	all[1].sees(t, ready)
	for i := range *killMails {
		placed(t, js, i+2)
	}
	last := uint64(*killMails + 1)
	killed := 0
	settled := func() bool {
		i := s.Info(t, "EVENTS", "email")
		return i.AckFloor.Stream == last && i.NumAckPending == 0
	}
	began := time.Now()
	for next := time.Now(); !settled(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute+time.Duration(*killMails)*100*time.Millisecond {
			t.Fatalf("not done after %v", time.Since(began))
		}
		if time.Now().After(next) && killed < *killMails/10 {
			i := len(all) - 1 - rng.IntN(2) // one of the two that run
			all[i].kill()
			all[i], all[len(all)-2] = all[len(all)-2], all[i]
			all = append(all, begin())
			killed++
			next = time.Now().Add(time.Duration(200+rng.IntN(600)) * time.Millisecond)
		}
	}
	took := time.Since(began)
	copies, reported := make(map[string]int), make(map[string]int)
	for _, m := range r.got() {
		copies[read(t, m.data).header.Get("Message-Id")]++
	}
	named := regexp.MustCompile(`"msg":"possible duplicate[^\n]*"message_id":"([^"@]*)[^\n]*`)
	for _, p := range all {
		for _, m := range named.FindAllStringSubmatch(p.output(), -1) {
			reported["<"+m[1]+"@example.com>"]++
		}
	}
	twice, doubts := 0, 0
	for id, n := range copies {
		if n-1 > reported[id] {
			t.Errorf("%s came %d times, and was reported %d times", id, n, reported[id])
		}
		twice += n - 1
	}
	for _, n := range reported {
		doubts += n
	}
	if len(copies) != *killMails || letters(t, js) != 0 {
		t.Errorf("%d of %d mails arrived, %d dead letters", len(copies), *killMails, letters(t, js))
	}
	t.Logf("seed %d: %d mails, %d processes killed in %v: %d copies too many, %d possible duplicates reported",
		seed, *killMails, killed, took.Round(time.Second), twice, doubts)
	for _, p := range all[len(all)-2:] {
		p.exits(t, 0)
	}
}
