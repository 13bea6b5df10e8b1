package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	listenersMost = 16
	eventTimeout  = 5 * time.Second  // for one event to be taken: who reads slower is cut off
	heartbeat     = 10 * time.Second // so that a client that is gone is noticed, and one that is there knows that we are
	streamMost    = 30 * time.Minute // then the client connects again: what is only half gone does not keep its place for ever
)

// hub tells those who listen when there is something new. No event waits for anybody: who is late gets the newest.
type hub struct {
	ended chan struct{} // closed when nothing comes any more

	mu       sync.Mutex
	count    int
	latest   *rendered
	next     chan struct{} // closed when latest is replaced
	answered chan struct{} // closed when the server was asked once more
}

func newHub() *hub {
	return &hub{ended: make(chan struct{}), next: make(chan struct{}), answered: make(chan struct{})}
}

func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count >= listenersMost {
		return false
	}
	h.count++
	return true
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
}

func (h *hub) listeners() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

func (h *hub) tell(r *rendered) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latest = r
	close(h.next)
	h.next = make(chan struct{})
}

func (h *hub) end(last *rendered) {
	h.tell(last)
	close(h.ended)
}

func (h *hub) wait() (latest *rendered, next <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest, h.next
}

func (h *hub) asked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.answered)
	h.answered = make(chan struct{})
}

func (h *hub) nextAsked() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered
}

// serveEvents sends the parts of the page as they change, until the client goes or Run ends.
func (s *Site) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !s.hub.join() {
		w.Header().Set("Retry-After", "15")
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d listen already: that many may", listenersMost))
		return
	}
	defer s.hub.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not wait for more
	if r.Method == http.MethodHead {
		return
	}
	s.look()
	out := &eventStream{w: w, answer: http.NewResponseController(w)}
	if out.hello() != nil || out.parts(s.render(s.now())) != nil {
		return
	}
	s.follow(r, out)
}

func (s *Site) follow(r *http.Request, out *eventStream) {
	beat, most := time.NewTicker(heartbeat), time.NewTimer(streamMost)
	defer beat.Stop()
	defer most.Stop()
	_, next := s.hub.wait()
	for {
		var err error
		select {
		case <-r.Context().Done():
			return
		case <-most.C:
			return
		case <-s.hub.ended:
			if latest, _ := s.hub.wait(); out.parts(latest) == nil {
				_ = out.write("event: end\ndata: {}\n\n")
			}
			return
		case <-beat.C:
			err = out.write(": here\n\n")
		case <-next:
			var latest *rendered
			if latest, next = s.hub.wait(); latest != nil {
				err = out.parts(latest)
			}
		}
		if err != nil {
			return
		}
	}
}

// eventStream writes to one client.
type eventStream struct {
	w      http.ResponseWriter
	answer *http.ResponseController
	sent   map[string]string // by part
}

// hello tells which scripts and styles belong to what comes: a page of another version loads itself again.
func (e *eventStream) hello() error {
	return e.write(fmt.Sprintf("retry: 1000\nevent: hello\ndata: {\"assets\":%q}\n\n", assetsVersion))
}

// parts sends those that have changed since they were sent to this client.
func (e *eventStream) parts(r *rendered) error {
	changed := map[string]string{}
	for id, html := range r.parts {
		if had, ok := e.sent[id]; !ok || had != html {
			changed[id] = html
		}
	}
	if len(changed) == 0 {
		return nil
	}
	body, err := json.Marshal(changed) // one line, whatever is in it
	if err != nil {
		return err
	}
	e.sent = r.parts
	return e.write("event: parts\ndata: " + string(body) + "\n\n")
}

func (e *eventStream) write(text string) error {
	_ = e.answer.SetWriteDeadline(time.Now().Add(eventTimeout))
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.answer.Flush()
}
