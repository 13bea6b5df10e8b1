package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/ackfloor/ackfloor/worker"
)

// status is what /status serves and the page shows. The names are documented in docs/howto-status-page.md and stay.
type status struct {
	Now     time.Time  `json:"now"`
	Live    bool       `json:"live"`
	Ready   bool       `json:"ready"`
	Process process    `json:"process"`
	Runners []runner   `json:"runners"`
	Tapes   []seenTape `json:"tapes"`
}

// runner is a Runner's part of it.
type runner struct {
	Stream    string       `json:"stream"`
	Consumer  string       `json:"consumer"`
	State     string       `json:"state"`
	Ready     bool         `json:"ready"`
	Reason    string       `json:"reason"`
	Alive     bool         `json:"alive"`
	Connected bool         `json:"connected"`
	Paused    string       `json:"paused"`
	Standby   bool         `json:"standby"`
	Created   bool         `json:"created"`
	Held      held         `json:"held"`
	Counts    counts       `json:"counts"`
	History   historyShown `json:"history"`
	Failures  []failure    `json:"failures"`
	Drift     []drift      `json:"drift"`
	Settings  []setting    `json:"settings"`

	marks []worker.HeldItem // all that is held, for the tape
}

type held struct {
	Waiting       int    `json:"waiting"`
	Running       int    `json:"running"`
	Kept          int    `json:"kept"`
	Behind        int    `json:"behind"`
	Parked        int    `json:"parked"`
	Limit         int    `json:"limit"`
	MaxAckPending int    `json:"max_ack_pending"`
	Oldest        []item `json:"oldest"` // held longest, at most 20
	More          int    `json:"more"`   // that are held beside those
}

type item struct {
	Sequence uint64  `json:"sequence"`
	Subject  string  `json:"subject"`
	Attempt  int     `json:"attempt"`
	State    string  `json:"state"` // running, waiting or kept
	Seconds  float64 `json:"seconds"`
}

// counts are worker.Counts under the names of /status: a field that is added there has to be added here, or nothing compiles.
type counts struct {
	Received           uint64            `json:"received"`
	Redelivered        uint64            `json:"redelivered"`
	Skipped            uint64            `json:"skipped"`
	LeftToAnother      uint64            `json:"left_to_another"`
	Acked              uint64            `json:"acked"`
	Retried            uint64            `json:"retried"`
	DeadLettered       uint64            `json:"dead_lettered"`
	Terminated         uint64            `json:"terminated"`
	Exhausted          uint64            `json:"exhausted"`
	Suspected          uint64            `json:"suspected"`
	DeadLetterFailures uint64            `json:"dead_letter_failures"`
	Pauses             uint64            `json:"pauses"`
	Returned           uint64            `json:"returned"`
	Late               uint64            `json:"late"`
	LeasesLost         uint64            `json:"leases_lost"`
	Panics             uint64            `json:"panics"`
	Resends            uint64            `json:"resends"`
	Unconfirmed        uint64            `json:"unconfirmed"`
	Unknown            uint64            `json:"unknown"`
	Reconnects         uint64            `json:"reconnects"`
	PullErrors         map[string]uint64 `json:"pull_errors"`
}

type failure struct {
	At       time.Time `json:"at"`
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"sequence"`
	Attempt  int       `json:"attempt"`
	Error    string    `json:"error"`
	Reason   string    `json:"reason"`
	Then     string    `json:"then"`
}

type drift struct {
	Field string `json:"field"`
	Have  string `json:"have"`
	Want  string `json:"want"`
}

type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Usage   string `json:"usage"`
	Default bool   `json:"default"`
}

const (
	heldShown = 20
	longName  = 255
	longText  = 1000
	fresh     = 200 * time.Millisecond // how old a status may be: who asks more often gets the same, so that nobody keeps a Runner busy
)

// now is the present status, made at most five times a second for all who ask.
func (s *Site) now() *status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.cached == nil || now.Sub(s.built) > fresh {
		s.cached, s.built = s.build(now), now
	}
	return s.cached
}

// build makes it. s.mu is held.
func (s *Site) build(now time.Time) *status {
	out := &status{Now: now, Live: true, Ready: true, Process: s.process, Runners: []runner{}, Tapes: slices.Clone(s.tapes)}
	for i, one := range s.streams {
		switch asking := s.asking[i]; {
		case !one.nc.IsConnected(): // it was not asked since, perhaps
			out.Tapes[i].Problem = notConnected
		case !asking.IsZero() && now.Sub(asking) > askSlow:
			out.Tapes[i].Problem = fmt.Sprintf("the server has not answered for %d s", int(now.Sub(asking).Seconds()))
		}
	}
	for i, r := range s.runners {
		one := look(r)
		one.History, one.Settings = s.history[i].shown(), s.settings[i]
		out.Live, out.Ready = out.Live && one.Alive, out.Ready && one.Ready
		out.Runners = append(out.Runners, one)
	}
	return out
}

// look asks the Runner itself; nothing here waits for the server.
func look(r *worker.Runner) runner {
	st := r.Status()
	out := runner{Stream: st.Stream, Consumer: st.Consumer, State: st.State.String(), Ready: st.Ready, Reason: plain(st.Reason, longText), Alive: st.Alive,
		Connected: st.Connected, Paused: plain(st.Paused, longText), Standby: st.Standby, Created: st.Created, Counts: counts(st.Counts),
		Held:     held{Waiting: st.Waiting, Running: st.Running, Kept: st.Kept, Behind: st.Behind, Parked: st.Parked, Limit: st.Limit, MaxAckPending: st.MaxAckPending, Oldest: []item{}},
		Failures: []failure{}, Drift: []drift{}, marks: r.Held()}
	slices.SortFunc(out.marks, func(a, b worker.HeldItem) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Sequence, b.Sequence))
	})
	for _, h := range out.marks[:min(heldShown, len(out.marks))] {
		out.Held.Oldest = append(out.Held.Oldest, item{Sequence: h.Sequence, Subject: plain(h.Subject, longName), Attempt: h.Attempt, State: itemState(h), Seconds: h.For.Seconds()})
	}
	out.Held.More = len(out.marks) - len(out.Held.Oldest)
	for _, f := range r.Failures() {
		out.Failures = append(out.Failures, failure{At: f.At, Subject: plain(f.Subject, longName), Sequence: f.Sequence, Attempt: f.Attempt,
			Error: plain(f.Error, longText), Reason: f.Reason, Then: f.Then})
	}
	for _, d := range st.Drift {
		out.Drift = append(out.Drift, drift{d.Field, plain(d.Have, longText), plain(d.Want, longText)})
	}
	return out
}

// settingsOf are those of a Runner, which don't change.
func settingsOf(r *worker.Runner) []setting {
	out := []setting{}
	for _, v := range r.Config().Settings("") {
		out = append(out, setting{v.Name, plain(v.Value, longText), v.Usage, v.Default})
	}
	return out
}

func itemState(h worker.HeldItem) string {
	switch {
	case h.Kept:
		return "kept"
	case h.Running:
		return "running"
	}
	return "waiting"
}

// plain makes a text fit to be shown: one line, bounded, without the control and direction characters with which a text can pose as another.
func plain(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return ' '
		case !unicode.IsPrint(c):
			return unicode.ReplacementChar
		}
		return c
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// serveStatus serves the status as JSON, with an answer of the server that is as new as can be had at once.
func (s *Site) serveStatus(w http.ResponseWriter, r *http.Request) {
	s.freshen(r)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	body, err := json.MarshalIndent(s.now(), "", "  ")
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the status can't be written as JSON")
		return
	}
	_, _ = w.Write(append(body, '\n'))
}

// freshen has the server asked where the last answer is old, and waits a moment for that, so that a look now and then sees no old numbers. While the server is away
// there is nothing to wait for.
func (s *Site) freshen(r *http.Request) {
	asked := s.hub.nextAsked()
	s.mu.Lock()
	old := time.Since(s.looked) > s.o.Every
	s.mu.Unlock()
	old = old && slices.ContainsFunc(s.streams, func(one *streamReader) bool { return one.nc.IsConnected() })
	s.look()
	if !old {
		return
	}
	wait := time.NewTimer(250 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-asked:
	case <-wait.C:
	case <-s.hub.ended:
	case <-r.Context().Done():
	}
}
