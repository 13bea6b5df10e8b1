package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"
)

// Server is a nats-server in a process of its own: *testutil.P, or a *testutil.PC's Server(i).
type Server interface {
	Stop()                          // by SIGTERM, waited for
	Kill()                          // by SIGKILL, waited for
	Start()                         // again, on the same port and with the same store
	Signal(sig os.Signal)           //
	Ended(limit time.Duration) bool // waits until it has ended by itself
}

// StopServer is a fault: the server is told to end by SIGTERM, is away for about as long as down, and is started again.
func StopServer(s Server, every, down time.Duration) Fault {
	return away("stop of the server", s, every, down, func() error { s.Stop(); return nil })
}

// KillServer is a fault: the server is killed with SIGKILL, is away for about as long as down, and is started again.
func KillServer(s Server, every, down time.Duration) Fault {
	return away("kill -9 of the server", s, every, down, func() error { s.Kill(); return nil })
}

// LameDuck is a fault: the server goes into lame duck mode, in which it closes its connections one by one, ends, is away for about as long as
// down, and is started again. How long that takes is up to its configuration, and by default two minutes: set lame_duck_grace_period, whose
// default is 10 s.
func LameDuck(s Server, every, down time.Duration) Fault {
	return away("lame duck mode of the server", s, every, down, func() error {
		sig, err := lameDuckSignal()
		if err != nil {
			return err
		}
		s.Signal(sig)
		if !s.Ended(5 * time.Minute) {
			return errors.New("the server has not ended")
		}
		return nil
	})
}

func away(name string, s Server, every, down time.Duration, end func() error) Fault {
	return Fault{Name: name, Every: every, Of: s, Do: func(ctx context.Context, draw *rand.Rand) error {
		d := about(draw, down)
		if err := end(); err != nil {
			return err
		}
		rest(ctx, d)
		s.Start()
		return nil
	}}
}

// HangServer is a fault: the server stands still, by SIGSTOP, about as long as d, and goes on. Its connections stay open meanwhile.
func HangServer(s Server, every, d time.Duration) Fault {
	return Fault{Name: "SIGSTOP of the server", Every: every, Of: s, Do: func(ctx context.Context, draw *rand.Rand) error {
		d := about(draw, d)
		stop, cont, err := hangSignals()
		if err != nil {
			return err
		}
		s.Signal(stop)
		rest(ctx, d)
		s.Signal(cont)
		return nil
	}}
}
