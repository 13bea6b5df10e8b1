package limit

import "time"

const (
	errorCalls = 10  // calls of a window without which it says nothing of errors
	errorDown  = 0.7 // of what ran, where too many failed
	errorUp    = 0.1 // of the ceiling, a window without errors of overload
)

// errorLimit is what errors allow: it goes down by a share and comes back slowly, as TCP does with a lost packet.
type errorLimit struct {
	ceiling float64 // handlers at once
	round   uint64  // grows when it is lowered: what began before says nothing of what is now

	began time.Time // of the window; zero before its first call
	calls int
	over  int // of these, the ones with an error of overload
	most  int // that ran at once
}

// count takes in a call that has ended, and sets the ceiling at the end of a window.
func (e *errorLimit) count(cfg AdaptiveConfig, s sign, c *call, running, limit int) {
	if s == neutral || c.round != e.round {
		return
	}
	now := time.Now()
	if e.calls == 0 {
		e.began = now
	}
	e.calls++
	if s != good {
		e.over++
	}
	e.most = max(e.most, running)
	if e.calls < errorCalls || now.Sub(e.began) < cfg.Window && e.over < errorCalls {
		return
	}
	switch {
	case float64(e.over) >= cfg.Errors*float64(e.calls):
		e.ceiling = max(float64(cfg.Min), errorDown*float64(min(e.most, limit)))
		e.round++
	case now.Sub(e.began) < cfg.Window:
		return // many fail, but of many more
	case e.over == 0 && e.most >= int(e.ceiling): // it was used: else nobody knows whether more would do
		e.ceiling = min(float64(cfg.Max), e.ceiling+max(1, errorUp*e.ceiling))
	}
	e.calls, e.over, e.most = 0, 0, 0
}
