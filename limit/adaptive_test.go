package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/testutil"
)

// service is what handlers call: with more calls at once than it has workers each takes that much longer.
type service struct {
	workers, running, most atomic.Int64
	slots                  sync.WaitGroup
	stop                   chan struct{}
}

// use has n slots call it, one call after another, until the test ends; answer says what a call returns.
func use(t *testing.T, a *limit.Adaptive, n int, workers int64, answer func(*service) error) *service {
	s := &service{stop: make(chan struct{})}
	s.workers.Store(workers)
	for i := range n {
		s.slots.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for {
				select {
				case <-s.stop:
					return
				default:
				}
				leave, err := a.Enter(t.Context(), testutil.Message("events.x", nil))
				if err != nil {
					return
				}
				running := s.running.Add(1)
				s.most.Store(max(s.most.Load(), running))
				takes := 40 + 20*random.Float64()
				time.Sleep(time.Duration(takes * float64(time.Millisecond) * max(1, float64(running)/float64(s.workers.Load()))))
				s.running.Add(-1)
				leave(answer(s))
			}
		})
	}
	t.Cleanup(s.end)
	return s
}

func (s *service) end() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.slots.Wait()
}

func always(err error) func(*service) error { return func(*service) error { return err } }

// watch looks at the limit every second, and returns the lowest and the highest that it saw.
func watch(a *limit.Adaptive, d time.Duration) (low, high int) {
	low = math.MaxInt
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		n := a.Status().Limit
		low, high = min(low, n), max(high, n)
	}
	return low, high
}

func adaptive(t *testing.T, c limit.AdaptiveConfig) *limit.Adaptive {
	t.Helper()
	return must[*limit.Adaptive](t)(limit.NewAdaptive(c))
}

// The limit rises while latency does not, comes down when it grows, and never leaves its bounds.
func TestLimitFollowsLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Min: 4, Max: 40, Initial: 10})
		s := use(t, a, 64, 1000, always(nil))
		time.Sleep(time.Minute)
		if n := a.Status().Limit; n != 40 {
			t.Errorf("a minute of room for all, and the limit is %d", n)
		}
		s.workers.Store(8)
		if low, _ := watch(a, time.Minute); low > 20 || low < 4 {
			t.Errorf("with room for 8 it went to %d", low)
		}
		if low, high := watch(a, 2*time.Minute); low < 4 || high > 40 {
			t.Errorf("it went from %d to %d", low, high)
		}
		if most := s.most.Load(); most > 40 {
			t.Errorf("%d at once", most)
		}
	})
}

// When capacity that was lost comes back the limit goes up at once, a step a window, whatever it had learned of the time between.
func TestLimitComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Min: 2, Max: 64, Initial: 16})
		s := use(t, a, 64, 16, always(nil))
		time.Sleep(time.Minute)
		s.workers.Store(4)
		time.Sleep(time.Minute)
		before := a.Status().Limit
		s.workers.Store(40)
		low, high := watch(a, time.Minute)
		if before > 24 || low < before-3 || high < before+40 && high < 45 {
			t.Errorf("with room for 4 it is %d; with room for 40 it went from %d to %d", before, low, high)
		}
	})
}

// Before there are enough samples nothing moves, however long it takes.
func TestWithoutSamplesTheLimitStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Max: 40, Initial: 10, Samples: 10_000})
		s := use(t, a, 12, 1, always(nil))
		if low, high := watch(a, time.Minute); low != 10 || high != 10 {
			t.Errorf("it went from %d to %d", low, high)
		}
		if most := s.most.Load(); most != 10 {
			t.Errorf("%d at once", most)
		}
	})
}

// Errors that come at once look like health to a limiter of latency; here they lower the limit to Min, and it comes back when they have gone.
func TestLimitFollowsErrors(t *testing.T) {
	for name, answer := range map[string]error{"an error": errDown, "a timeout": context.DeadlineExceeded, "the network's": fmt.Errorf("call: %w", os.ErrDeadlineExceeded)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				a := adaptive(t, limit.AdaptiveConfig{Min: 2, Max: 32, Initial: 16})
				use(t, a, 32, 1000, func(*service) error {
					if down.Load() {
						return answer
					}
					return nil
				})
				time.Sleep(20 * time.Second)
				if n := a.Status().Limit; n != 32 {
					t.Errorf("before: %d", n)
				}
				down.Store(true)
				time.Sleep(5 * time.Second)
				if n := a.Status().Limit; n != 2 {
					t.Errorf("5 s of nothing but errors, and the limit is %d", n)
				}
				down.Store(false)
				time.Sleep(5 * time.Second)
				if n := a.Status().Limit; n < 4 || n > 12 {
					t.Errorf("5 s behind it: %d", n)
				}
				time.Sleep(time.Minute)
				if n := a.Status().Limit; n != 32 {
					t.Errorf("a minute behind it: %d", n)
				}
			})
		})
	}
}

// A service that refuses what is too much for it: the limit swings around what it takes, and nearly all calls are taken.
func TestLimitFindsWhatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken, refused atomic.Int64
		a := adaptive(t, limit.AdaptiveConfig{Max: 64, Initial: 64})
		s := use(t, a, 64, 1000, func(s *service) error {
			if s.running.Load() >= 20 {
				refused.Add(1)
				return errDown
			}
			taken.Add(1)
			return nil
		})
		time.Sleep(30 * time.Second)
		taken.Store(0)
		refused.Store(0)
		low, high := watch(a, 2*time.Minute)
		if low < 8 || high > 30 {
			t.Errorf("it went from %d to %d with room for 20", low, high)
		}
		if share := float64(refused.Load()) / float64(refused.Load()+taken.Load()); share > 0.05 {
			t.Errorf("%.3f of all were refused", share)
		}
		s.end()
	})
}

// What was under way together counts once: it lowers the limit to 70 % of what ran, and no further, however many fail. And it does not rise
// again by what runs far below it.
func TestOneWaveCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Min: 2, Max: 64, Initial: 64})
		for _, want := range []struct{ running, limit int }{{64, 44}, {20, 14}, {14, 9}, {9, 9}, {9, 6}, {6, 6}, {6, 4}, {4, 4}, {4, 4}, {4, 2}} {
			var leave []func(error)
			for range want.running {
				l, err := a.Enter(t.Context(), testutil.Message("events.x", nil))
				if err != nil {
					t.Fatal(err)
				}
				leave = append(leave, l)
			}
			time.Sleep(100 * time.Millisecond)
			for _, l := range leave {
				l(errDown)
			}
			if n := a.Status().Limit; n != want.limit {
				t.Errorf("%d failed at once: the limit is %d, want %d", want.running, n, want.limit)
			}
		}
		s := use(t, a, 1, 1000, always(nil))
		if low, high := watch(a, time.Minute); low != 2 || high != 2 {
			t.Errorf("with one at once it went from %d to %d", low, high)
		}
		s.end()
		use(t, a, 2, 1000, always(nil))
		if _, high := watch(a, 10*time.Second); high < 3 {
			t.Error("with two at once it stays")
		}
	})
}

// What says nothing of overload moves nothing: marked errors, Pause, handlers that were interrupted; and a few errors among many.
func TestWhatIsNoOverload(t *testing.T) {
	ended := func(cause error) context.Context {
		ctx, end := context.WithCancelCause(t.Context())
		end(fmt.Errorf("drain: %w", cause))
		return ctx
	}
	errRow := errors.New("no such row")
	own := func(err error) bool { return limit.Overload(err) && !errors.Is(err, errRow) }
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		err     error
		lowered bool
	}{
		{"permanent", t.Context(), fmt.Errorf("bad: %w", ackfloor.Permanent(context.DeadlineExceeded)), false},
		{"retry after", t.Context(), ackfloor.RetryAfter(time.Second, errDown), false},
		{"pause", t.Context(), fmt.Errorf("out: %w", ackfloor.Pause(time.Second, errDown)), false},
		{"own errors", t.Context(), fmt.Errorf("read: %w", errRow), false},
		{"stopping", ended(ackfloor.ErrStopping), context.Canceled, false},
		{"stopping, with another error", ended(ackfloor.ErrStopping), errDown, false},
		{"lease lost", ended(ackfloor.ErrLeaseLost), errDown, false},
		{"the handle timeout", ended(ackfloor.ErrHandleTimeout), errDown, true},
		{"an http client's timeout", t.Context(), httpTimeout(), true},
		{"another", t.Context(), errDown, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := adaptive(t, limit.AdaptiveConfig{Max: 16, Initial: 16, Overload: own})
				m := testutil.Message("events.x", nil)
				for range 20 {
					var leave []func(error)
					for range 16 {
						l, err := a.Enter(tc.ctx, m) // which looks at the context only where it has to wait
						if err != nil {
							t.Fatal(err)
						}
						leave = append(leave, l)
						if a.Status().Running == a.Status().Limit {
							break
						}
					}
					time.Sleep(100 * time.Millisecond)
					for _, l := range leave {
						l(tc.err)
					}
				}
				if st := a.Status(); st.Running != 0 || (st.Limit < 16) != tc.lowered {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

func httpTimeout() error {
	client := http.Client{Timeout: time.Nanosecond}
	_, err := client.Get("http://127.0.0.1:1/")
	return err
}

// Few errors among many lower nothing.
func TestFewErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		a := adaptive(t, limit.AdaptiveConfig{Max: 16, Initial: 16})
		use(t, a, 16, 1000, func(*service) error {
			if n.Add(1)%20 == 0 {
				return errDown
			}
			return nil
		})
		if low, _ := watch(a, time.Minute); low < 16 {
			t.Errorf("one in twenty fails, and the limit went to %d", low)
		}
	})
}

// Interrupted and marked answers are no samples of latency: with nothing else the limit stays where it was.
func TestNoSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Max: 64, Initial: 16})
		use(t, a, 64, 1000, always(ackfloor.Permanent(errDown)))
		if low, high := watch(a, time.Minute); low != 16 || high != 16 {
			t.Errorf("it went from %d to %d", low, high)
		}
	})
}

// Quiet hours bring the limit down to what they could show, so that a burst does not begin with a number that was never tried.
func TestIdleLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Max: 64, Initial: 64})
		s := use(t, a, 2, 1000, always(nil))
		time.Sleep(10 * time.Minute)
		if n := a.Status().Limit; n > 10 {
			t.Errorf("two at once for ten minutes, and the limit is %d", n)
		}
		s.end()
		before := a.Status().Limit
		time.Sleep(10 * time.Hour)
		use(t, a, 64, 1000, always(nil))
		time.Sleep(time.Second / 2)
		if n := a.Status().Limit; n < before || n > before+1 {
			t.Errorf("it was %d, and after ten idle hours is %d", before, n)
		}
		time.Sleep(70 * time.Second)
		if n := a.Status().Limit; n != 64 {
			t.Errorf("with 64 at once it is %d", n)
		}
	})
}

// Fixed at run time: the limit holds from that moment on, more come in where it is higher, and following begins anew behind it.
func TestUseFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Max: 32, Initial: 4, Fixed: 10})
		s := use(t, a, 64, 1000, always(nil))
		time.Sleep(10 * time.Millisecond)
		if st := a.Status(); st != (limit.AdaptiveStatus{Limit: 4, Running: 4, Waiting: 60}) {
			t.Errorf("%+v", st)
		}
		a.UseFixed(true)
		if st := a.Status(); st != (limit.AdaptiveStatus{Limit: 10, Running: 10, Waiting: 54, Fixed: true}) {
			t.Errorf("%+v", st)
		}
		if low, high := watch(a, time.Minute); low != 10 || high != 10 || s.most.Load() != 10 {
			t.Errorf("fixed, it went from %d to %d, with %d at once", low, high, s.most.Load())
		}
		a.UseFixed(false)
		a.UseFixed(false)
		if n := a.Status().Limit; n != 4 {
			t.Errorf("it begins with %d", n)
		}
		time.Sleep(time.Minute)
		if st := a.Status(); st.Limit != 32 || st.Fixed || st.Err != nil {
			t.Errorf("%+v", st)
		}
		s.end()
		if st := a.Status(); st.Running+st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Those who came first go first, and who gives up leaves no gap, also at the moment in which its turn comes.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Max: 1})
		m := testutil.Message("events.x", nil)
		leave, err := a.Enter(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var passed []int
		var all sync.WaitGroup
		for i := range 9 {
			ctx, cancel := context.WithCancelCause(t.Context())
			if i%3 == 1 {
				time.AfterFunc(time.Duration(i)*time.Second, func() { cancel(ackfloor.ErrStopping) }) // 4 and 7 as their turn comes
			}
			all.Go(func() {
				defer cancel(nil)
				leave, err := a.Enter(ctx, m)
				if err != nil {
					if err != ackfloor.ErrStopping || i%3 != 1 {
						t.Errorf("%d: %v", i, err)
					}
					return
				}
				mu.Lock()
				passed = append(passed, i)
				mu.Unlock()
				time.Sleep(time.Second)
				leave(nil)
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		leave(nil)
		all.Wait()
		for i := 1; i < len(passed); i++ {
			if passed[i] < passed[i-1] {
				t.Errorf("passed: %v", passed)
			}
		}
		if st := a.Status(); st.Running+st.Waiting != 0 || len(passed) < 6 {
			t.Errorf("%+v, passed %v", st, passed)
		}
	})
}

// Calls that take no time, by a clock that stands still, are no samples, and the limit stays sound.
func TestNoTimeAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adaptive(t, limit.AdaptiveConfig{Max: 16, Initial: 8})
		for range 3000 {
			leave, err := a.Enter(t.Context(), testutil.Message("events.x", nil))
			if err != nil {
				t.Fatal(err)
			}
			leave(nil)
			time.Sleep(time.Millisecond)
		}
		if st := a.Status(); st.Limit != 8 || st.Fixed {
			t.Errorf("%+v", st)
		}
	})
}

func TestAdaptiveFaults(t *testing.T) {
	_, err := limit.NewAdaptive(limit.AdaptiveConfig{Min: 5, Max: 3, Initial: 9, Fixed: -1, Window: time.Minute, Samples: 5, Errors: math.NaN()})
	faulty(t, err, "Max is 3", "Initial is 9", "Fixed is -1", "Window is 1m0s", "Samples is 5", "Errors is NaN")
	for _, tc := range []struct {
		c    limit.AdaptiveConfig
		want int
	}{{limit.AdaptiveConfig{}, 16}, {limit.AdaptiveConfig{Max: 4}, 4}, {limit.AdaptiveConfig{Min: 100}, 100}, {limit.AdaptiveConfig{Initial: 3}, 3}, {limit.AdaptiveConfig{Initial: 300}, 300}} {
		if got := adaptive(t, tc.c).Status().Limit; got != tc.want {
			t.Errorf("%+v begins with %d", tc.c, got)
		}
	}
}
