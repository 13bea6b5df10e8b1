package admin

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// quiet is where net/http writes what clients do wrong: a flood of that must not fill the worker's log.
var quiet = log.New(io.Discard, "", 0)

// connLimit bounds the connections of a server. When all are taken, the oldest one on which no request is being answered makes room: one that waits for its
// next request, or sends its first one slowly. Where all are busy it is the oldest of those:
// a page that is open connects again, and one that asks without reading does not keep a probe out. So a probe gets through whoever holds connections open.
type connLimit struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]*connUse
	last uint64
}

type connUse struct {
	number uint64 // in the order of arrival
	busy   bool   // a request is being answered
}

// before tells whether it makes room before another one does.
func (u *connUse) before(other *connUse) bool {
	if u.busy != other.busy {
		return other.busy
	}
	return u.number < other.number
}

type connKey struct{}

// limited makes srv keep to most connections.
func limited(srv *http.Server, most int) {
	l := &connLimit{most: most, open: map[net.Conn]*connUse{}}
	srv.ConnState = l.changed
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	h := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(net.Conn)
		l.use(c, true)
		defer l.use(c, false)
		h.ServeHTTP(w, r)
	})
}

// changed is called by net/http, on a new connection before anything is read from it.
func (l *connLimit) changed(c net.Conn, to http.ConnState) {
	switch to {
	case http.StateNew:
		if victim := l.add(c); victim != nil {
			_ = victim.Close()
		}
	case http.StateClosed, http.StateHijacked:
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, c)
	}
}

func (l *connLimit) add(c net.Conn) (victim net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		for other, use := range l.open {
			if victim == nil || use.before(l.open[victim]) {
				victim = other
			}
		}
		delete(l.open, victim)
	}
	l.last++
	l.open[c] = &connUse{number: l.last}
	return victim
}

func (l *connLimit) use(c net.Conn, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if use := l.open[c]; use != nil {
		use.busy = busy
	}
}
