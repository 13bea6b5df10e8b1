package metrics

import (
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/internal/outcome"
	dto "github.com/prometheus/client_model/go"
)

// series are what is observed of the calls of one kind of message.
type series struct {
	took     [outcome.Count]*histogram
	age      *histogram
	attempts [attemptsMost + 1]atomic.Uint64 // by attempt; the last place has the later ones
	later    atomic.Uint64                   // the sum of those
}

const attemptsMost = 10 // attempts that are told apart: MaxAttempts by default

func newSeries(took, age *scale) *series {
	s := &series{age: newHistogram(age)}
	for o := range s.took {
		s.took[o] = newHistogram(took)
	}
	return s
}

// arrived observes a call that begins, at a time in Unix nanoseconds.
func (s *series) arrived(m *ackfloor.Message, now int64) {
	s.age.observe(time.Duration(now - m.Published.UnixNano()))
	if m.Attempt <= attemptsMost {
		s.attempts[max(0, m.Attempt-1)].Add(1)
		return
	}
	s.attempts[attemptsMost].Add(1)
	s.later.Add(uint64(m.Attempt))
}

// readAttempts makes a classic histogram.
func (s *series) readAttempts() *dto.Histogram {
	out := &dto.Histogram{}
	var count, sum uint64
	for i := range attemptsMost {
		n := s.attempts[i].Load()
		count += n
		sum += n * uint64(i+1)
		out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: new(float64(i + 1)), CumulativeCount: new(count)})
	}
	out.SampleCount = new(count + s.attempts[attemptsMost].Load())
	out.SampleSum = new(float64(sum + s.later.Load()))
	return out
}
