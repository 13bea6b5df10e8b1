package admin

import (
	"net/http"
	"net/netip"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
)

// Site is the status page of one or more Runners, with its probes, as a handler. It may be mounted below a prefix with http.StripPrefix, one that ends with a slash.
// Run has to run for the page to be live.
type Site struct {
	o        Options
	runners  []*worker.Runner
	log      *zap.Logger
	process  process
	hosts    []string
	own      map[string]http.HandlerFunc
	streams  []*streamReader
	settings [][]setting // for each of runners

	renders renders
	hub     *hub
	ran     atomic.Bool   // Run was called
	viewed  chan struct{} // wakes the loop that asks the server: somebody looks

	mu      sync.Mutex  // what is below
	looked  time.Time   // when somebody looked last
	tapes   []seenTape  // as of the last answers
	asking  []time.Time // since when the server is asked, for each of streams; zero while it is not
	history []*history  // for each of runners
	cached  *status
	built   time.Time // when cached was
}

// Handler makes the status page of runners, and of those in o, for a server of the program's own:
//
//	site := admin.Handler(admin.Options{Hosts: []string{"worker.example.com"}}, runner)
//	go site.Run(ctx)
//	mux.Handle("/worker/", http.StripPrefix("/worker", site))
//
// Runners that are in both are shown once. Whoever runs it gives the server a ReadHeaderTimeout, and keeps it from the world: it asks for no password.
func Handler(o Options, runners ...*worker.Runner) *Site {
	s := &Site{o: o, log: o.Logger, process: thisProcess(), hub: newHub(), viewed: make(chan struct{}, 1)}
	for _, r := range append(slices.Clone(runners), o.Runners...) {
		if r != nil && !slices.Contains(s.runners, r) {
			s.runners = append(s.runners, r)
			s.history, s.settings = append(s.history, &history{}), append(s.settings, settingsOf(r))
		}
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if s.o.Every <= 0 {
		s.o.Every = time.Second
	}
	for _, h := range o.Hosts {
		s.hosts = append(s.hosts, bare(h))
	}
	s.streams = streamReaders(s.runners)
	s.asking = make([]time.Time, len(s.streams))
	for _, one := range s.streams {
		s.tapes = append(s.tapes, seenTape{Stream: one.stream, Problem: "the server was not asked yet"})
	}
	s.own = map[string]http.HandlerFunc{"/": s.servePage, "/events": s.serveEvents, "/status": s.serveStatus, "/livez": s.serveLive, "/readyz": s.serveReady}
	for name, a := range assets {
		s.own["/assets/"+name] = a.serve
	}
	return s
}

// answerTimeout is how long an answer may take to be read. handlerTimeout is that of Options.Handlers: a profile takes its time.
const (
	answerTimeout  = 10 * time.Second
	handlerTimeout = time.Minute
)

// ServeHTTP answers GET and HEAD, and only to those who name this host.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range guards {
		h.Set(name, value)
	}
	switch {
	case !s.hostAllowed(r.Host):
		refuse(w, http.StatusMisdirectedRequest, "this host name is not let in: see Options.Hosts of package admin")
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "GET and HEAD only: nothing here changes anything")
		return
	case foreign(r):
		refuse(w, http.StatusForbidden, "not from the page of another site")
		return
	}
	answer := http.NewResponseController(w)
	if own, ok := s.own[r.URL.Path]; ok {
		_ = answer.SetWriteDeadline(time.Now().Add(answerTimeout)) // where the server of a user can't, its own deadlines hold
		own(w, r)
		return
	}
	if theirs := s.handler(r.URL.Path); theirs != nil {
		_ = answer.SetWriteDeadline(time.Now().Add(handlerTimeout))
		theirs.ServeHTTP(w, r)
		return
	}
	refuse(w, http.StatusNotFound, "there is nothing here")
}

// guards are the headers of every answer. A script can't run but ours, no other site can show or read the page, and nothing of it is stored.
var guards = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
}

// hostAllowed keeps out names that somebody else may have pointed here. A request without a name is of no browser: HTTP/1.0 probes send such.
func (s *Site) hostAllowed(host string) bool {
	host = bare(host)
	if host == "" || host == "localhost" || slices.Contains(s.hosts, host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// foreign holds for what the page of another site asks for by itself, as browsers tell. Following a link is fine.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "" || site == "none" || site == "same-origin" {
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// handler is the one of Options.Handlers for a path: of that very path, or the nearest above it that ends with a slash.
func (s *Site) handler(p string) http.Handler {
	if h := s.o.Handlers[p]; h != nil {
		return h
	}
	if p == "" || path.Clean(p) != strings.TrimSuffix(p, "/") {
		return nil
	}
	for at := strings.LastIndexByte(p, '/'); at > 0; at = strings.LastIndexByte(p[:at], '/') {
		if h := s.o.Handlers[p[:at+1]]; h != nil {
			return h
		}
	}
	return nil
}

func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(why + "\n"))
}

// process is what there is to know of this one.
type process struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Program string    `json:"program"` // the import path of its main package
	Version string    `json:"version"` // of its module, as the go command stamped it
	Go      string    `json:"go"`
	Started time.Time `json:"started"` // when the Site was made
}

func thisProcess() process {
	p := process{PID: os.Getpid(), Started: time.Now()}
	p.Host, _ = os.Hostname()
	if b, ok := debug.ReadBuildInfo(); ok {
		p.Program, p.Version, p.Go = b.Path, b.Main.Version, b.GoVersion
	}
	return p
}
