package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor/worker"
)

// aliveWait is how long every loop has to go round: one may be in requests to the server, each given up after half a second.
const aliveWait = 2 * time.Second

// serveLive answers whether to restart the process: only its own loops count, never the server.
func (s *Site) serveLive(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), aliveWait)
	defer cancel()
	answers := make(map[*worker.Runner]error, len(s.runners))
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, one := range s.runners { // at the same time: each may take its half second in a request to the server
		all.Go(func() {
			err := one.Alive(ctx)
			mu.Lock()
			answers[one] = err
			mu.Unlock()
		})
	}
	all.Wait()
	s.probe(w, r, func(one *worker.Runner) (bool, string) {
		if err := answers[one]; err != nil {
			return false, err.Error()
		}
		return true, "its loops run"
	})
}

// serveReady answers whether it works. One that drains is not ready; one that stands by is.
func (s *Site) serveReady(w http.ResponseWriter, r *http.Request) {
	s.probe(w, r, func(one *worker.Runner) (bool, string) {
		st := one.Status()
		switch {
		case !st.Ready:
			return false, st.Reason
		case st.Standby:
			return true, "standing by"
		}
		return true, st.State.String()
	})
}

func (s *Site) probe(w http.ResponseWriter, r *http.Request, check func(*worker.Runner) (bool, string)) {
	var all, wrong []string
	for _, one := range s.runners {
		c := one.Config()
		ok, why := check(one)
		sign := "+"
		if !ok {
			sign = "-"
			wrong = append(wrong, fmt.Sprintf("%s on %s: %s", plain(c.Consumer, longName), plain(c.Stream, longName), plain(why, longText)))
		}
		all = append(all, fmt.Sprintf("[%s] %s on %s: %s", sign, plain(c.Consumer, longName), plain(c.Stream, longName), plain(why, longText)))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(wrong) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	switch {
	case r.URL.Query().Has("verbose"):
		fmt.Fprintln(w, strings.Join(all, "\n"))
	case len(wrong) > 0:
		fmt.Fprintln(w, strings.Join(wrong, "\n"))
	default:
		fmt.Fprintln(w, "ok")
	}
}
