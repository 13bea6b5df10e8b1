package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/worker"
	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

const (
	lookEvery     = time.Second            // how often it is looked what the Runners do
	statusEvery   = 5 * time.Second        // how often STATUS is said anew while only its numbers change
	lookWait      = 500 * time.Millisecond // for the server to tell the cursors
	shortWatchdog = 5 * time.Second        // below which a server that does not answer may cost a feeding
	extension     = 10 * time.Second       // by which a start or a stop is extended, every other second
	stopMargin    = 15 * time.Second       // behind the grace, for what is settled and confirmed then
)

// Notify is a part of worker.Main that tells systemd of its Runner. The error is that of a socket that can't be written to when the worker is ready: the unit would
// wait for that in vain.
func Notify(ctx context.Context, r *worker.Runner) error { return For(r)(ctx) }

// For is Notify for a program with a main of its own, and for several Runners of one process: it is ready when all are, and alive while all are. It runs until ctx ends, which has
// to be behind the drain; package shutdown sees to that order.
func For(runners ...*worker.Runner) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if os.Getenv("NOTIFY_SOCKET") == "" || len(runners) == 0 {
			<-ctx.Done()
			return nil
		}
		watchdog, err := daemon.SdWatchdogEnabled(false) // false: children that a handler starts may see the variables
		if err != nil {
			return fmt.Errorf("systemd: WATCHDOG_USEC or WATCHDOG_PID: %w", err)
		}
		n := &notifier{runners: runners, watchdog: watchdog}
		if watchdog > 0 && watchdog < shortWatchdog {
			n.log().Warn("WatchdogSec is short: a loop may be in a request to the server for half a second", zap.Duration("watchdog", watchdog), zap.Duration("at_least", shortWatchdog))
		}
		return n.run(ctx)
	}
}

// notifier follows the Runners of a process.
type notifier struct {
	runners  []*worker.Runner
	watchdog time.Duration // 0: none is asked for

	began    time.Time
	ready    bool
	stopping time.Time // when the first of them began to drain
	status   string    // said last
	said     time.Time
	looked   time.Time // when the cursors were asked for last
	extended time.Time // when time was asked for last
	fed      time.Time // when WATCHDOG was said last
	failing  bool      // a message could not be sent, and that was logged
}

func (n *notifier) run(ctx context.Context) error {
	n.began = time.Now()
	every := lookEvery
	if n.watchdog > 0 {
		every = min(every, n.watchdog/4)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := n.tell(ctx, time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if err := n.tell(ctx, time.Now()); err != nil { // what it did since it was looked at last
				return err
			}
			_ = n.send("STOPPING=1\nSTATUS=stopped: " + n.words())
			return nil
		case <-ticker.C:
		}
	}
}

// tell says what is new.
func (n *notifier) tell(ctx context.Context, now time.Time) error {
	var lines []string
	if !n.ready && n.all(worker.StateWorking) { // also when it has ended since, having found nothing to do
		if err := n.send("READY=1\nSTATUS=" + n.words()); err != nil {
			return err
		}
		n.ready = true
	}
	if n.stopping.IsZero() && n.all(worker.StateDraining) { // one alone may have ended because it was idle
		n.stopping = now
		lines = append(lines, "STOPPING=1")
	}
	if n.watchdog > 0 && now.Sub(n.fed) >= n.watchdog/3 && n.alive(ctx) {
		lines = append(lines, "WATCHDOG=1")
		n.fed = now
	}
	if more := n.extend(now); more != "" {
		lines = append(lines, more)
	}
	// Numbers change all the time; what is done, seldom, and that is said at once.
	if words := n.words(); words != n.status && (now.Sub(n.said) >= statusEvery || len(lines) > 0 || kind(words) != kind(n.status)) {
		lines = append(lines, "STATUS="+words)
		n.status, n.said = words, now
	}
	if len(lines) > 0 {
		_ = n.send(strings.Join(lines, "\n")) // logged; what counts is said again
	}
	if now.Sub(n.looked) >= statusEvery { // behind what must not wait for a server
		n.looked = now
		n.look(ctx)
	}
	return nil
}

// extend asks for more time while the start waits for a server within its limit, and while handlers run within the grace of a drain.
func (n *notifier) extend(now time.Time) string {
	c := n.runners[0].Config()
	for _, r := range n.runners[1:] {
		c.StartupTimeout, c.DrainTimeout = max(c.StartupTimeout, r.Config().StartupTimeout), max(c.DrainTimeout, r.Config().DrainTimeout)
	}
	starting := !n.ready && n.stopping.IsZero() && now.Sub(n.began) < c.StartupTimeout
	draining := !n.stopping.IsZero() && now.Sub(n.stopping) < c.DrainTimeout+stopMargin
	if !starting && !draining || now.Sub(n.extended) < 2*time.Second {
		return ""
	}
	n.extended = now
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds())
}

// alive tells whether every loop of every Runner goes round.
func (n *notifier) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.watchdog/2)
	defer cancel()
	hung := make(chan error, len(n.runners))
	for _, r := range n.runners {
		go func() { hung <- r.Alive(ctx) }()
	}
	alive := true
	for range n.runners {
		if err := <-hung; err != nil {
			n.log().Error("systemd's watchdog is not fed", zap.Error(err))
			alive = false
		}
	}
	return alive
}

// look asks where the consumers stand, for the numbers of the status. What does not answer keeps the ones that it had.
func (n *notifier) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	for _, r := range n.runners {
		if s := r.Status(); s.State == worker.StateWorking && s.Connected {
			_, _ = r.Look(ctx)
		}
	}
}

// all tells whether every Runner is in a state, or a later one.
func (n *notifier) all(state worker.State) bool {
	for _, r := range n.runners {
		if r.Status().State < state {
			return false
		}
	}
	return true
}

func (n *notifier) log() *zap.Logger {
	if l := n.runners[0].Config().Logger; l != nil {
		return l
	}
	return zap.NewNop()
}

// send writes to the socket. What goes wrong is logged when it begins.
func (n *notifier) send(state string) error {
	_, err := daemon.SdNotify(false, state)
	if err != nil && !n.failing {
		n.log().Warn("systemd can't be told", zap.Error(err))
	}
	n.failing = err != nil
	if err != nil {
		return errors.Join(errors.New("systemd: NOTIFY_SOCKET"), err)
	}
	return nil
}
