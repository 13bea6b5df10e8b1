package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault is something that breaks, again and again.
type Fault struct {
	Name  string        // in the counts and in the journal
	Every time.Duration // from the end of one to the beginning of the next: between half and one and a half times as long
	Most  int           // it happens at most so often; 0: as often as there is time
	// Of is what breaks, as a pointer: two faults of the same thing never happen at the same time, and a fifth of Every lies between them. nil is a thing of its own.
	Of any
	// Do breaks something, mends it, and returns when it is mended. What it decides it draws from draw. A fault that found nothing to break
	// returns ErrMissed, and is not counted; any other error ends the schedule. When ctx ends it mends at once.
	Do func(ctx context.Context, draw *rand.Rand) error
}

// ErrMissed says that there was nothing to break, as with a leader during an election.
var ErrMissed = errors.New("fault: there was nothing to break")

// Schedule breaks things until something is done.
type Schedule struct {
	Seed    uint64                           // of what is decided: which, when, how long. 0: by the clock
	Log     func(format string, args ...any) // where the seed is told, as t.Logf; nil: nowhere
	Journal *Journal                         // where faults are written down; nil: nowhere
	Faults  []Fault                          // each goes its own way, at the same time as the others
}

// Counts are how often each fault happened, by name.
type Counts map[string]int

// String lists the counts: "kill of a worker 3, stop of the server 2".
func (c Counts) String() string {
	if len(c) == 0 {
		return "no faults"
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		all = append(all, fmt.Sprintf("%s %d", name, c[name]))
	}
	return strings.Join(all, ", ")
}

// Run breaks things until done says true, which is asked every 20 ms and told what has happened so far, or ctx ends. Then what is broken is
// mended, and Run returns. The error is that of a fault or of done, or ctx's cause when it ended before all was done.
//
// For one seed the decisions of each fault are the same in every run: the pauses, the victims, how long each is down. What these meet depends on the machine.
func (s Schedule) Run(ctx context.Context, done func(Counts) (bool, error)) (Counts, error) {
	if s.Seed == 0 {
		s.Seed = uint64(time.Now().UnixNano())
	}
	if s.Log != nil {
		s.Log("seed %d", s.Seed)
	}
	breaking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	counts, things := Counts{}, map[any]chan struct{}{}
	var all sync.WaitGroup
	for i, f := range s.Faults {
		thing := things[f.Of]
		if thing == nil || f.Of == nil {
			thing = make(chan struct{}, 1)
			things[f.Of] = thing
		}
		draw := rand.New(rand.NewPCG(s.Seed, uint64(i)))
		all.Go(func() {
			for n := 0; f.Most == 0 || n < f.Most; {
				rest(breaking, about(draw, f.Every))
				if breaking.Err() != nil {
					return
				}
				err := s.once(breaking, f, thing, draw)
				if err == nil {
					n++
					mu.Lock()
					counts[f.Name]++
					mu.Unlock()
				} else if !errors.Is(err, ErrMissed) {
					stop(fmt.Errorf("fault: %s: %w", f.Name, err))
					return
				}
			}
		})
	}
	err := until(breaking, func() (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return done(maps.Clone(counts))
	})
	stop(nil)
	all.Wait()
	return counts, err
}

// once has a fault happen, unless the schedule ended while another one had the thing.
func (s Schedule) once(ctx context.Context, f Fault, thing chan struct{}, draw *rand.Rand) error {
	select {
	case thing <- struct{}{}:
		defer func() { <-thing }()
	case <-ctx.Done():
		return ErrMissed
	}
	if s.Journal != nil {
		_ = s.Journal.write(Event{Kind: KindFault, Name: f.Name})
	}
	err := f.Do(ctx, draw)
	if s.Journal != nil {
		_ = s.Journal.write(Event{Kind: KindHeal, Name: f.Name})
	}
	rest(ctx, f.Every/5)
	return err
}

// until asks done until it says true, or fails, or ctx ends.
func until(ctx context.Context, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		rest(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// about draws a time between half of d and one and a half of it.
func about(draw *rand.Rand, d time.Duration) time.Duration {
	return time.Duration((0.5 + draw.Float64()) * float64(d))
}
