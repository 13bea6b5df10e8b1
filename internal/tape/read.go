package tape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Reader reads one stream again and again. It remembers what the user may not ask, and the numbers of the last answers. It may be used by several goroutines:
// one Read waits for the other.
type Reader struct {
	nc     *nats.Conn
	prefix string // of the API, with its dot
	stream string
	own    []string
	only   bool // the own consumers and no others

	turn chan struct{} // holds one value while a Read is under way; it guards what is below

	known  map[string]answer      // the last of each consumer that is on the tape
	state  *jetstream.StreamState // the last answer of the stream
	denied map[string]denial      // by subject
}

// answer is what a consumer answered, and when.
type answer struct {
	info jetstream.ConsumerInfo
	at   time.Time
}

// denial is a request that the server did not let through.
type denial struct {
	err error
	at  time.Time
}

// deniedFor is how long a denied request is not made again: the server logs each, and rights change seldom.
const deniedFor = time.Minute

// zerosFor is how long zeros do not count: a leader that stops answers so for a moment, or there is another soon.
const zerosFor = 10 * time.Second

// NewReader makes a Reader of the stream that js can see, in its domain or under its API prefix. own are consumers to ask for by name where the user may not list
// them all; they are on the tape always, with an Error where they are not there.
func NewReader(js jetstream.JetStream, stream string, own ...string) *Reader {
	own = slices.Clone(own)
	slices.Sort(own)
	return &Reader{nc: js.Conn(), prefix: prefixOf(js.Options()), stream: stream, own: slices.Compact(own), turn: make(chan struct{}, 1),
		known: map[string]answer{}, denied: map[string]denial{}}
}

// Only makes the Reader ask for its own consumers by name and for no others. It is called before the first Read.
func (r *Reader) Only() *Reader {
	r.only = true
	return r
}

// prefixOf is what the subjects of the API begin with.
func prefixOf(o jetstream.JetStreamOptions) string {
	switch {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	}
	return jetstream.DefaultAPIPrefix
}

// Read asks the server. The error is of the context, or says that nothing at all could be read; it wraps jetstream.ErrStreamNotFound, nats.ErrPermissionViolation,
// nats.ErrNoResponders or nats.ErrTimeout where it is one of these. A consumer that answers with zeros (a leader about to stop: Created is
// zero) keeps its last numbers, for 10 s without an Error. What the user may not ask is asked again at most once a minute.
func (r *Reader) Read(ctx context.Context) (*Tape, error) {
	if !named(r.stream) {
		return nil, fmt.Errorf("tape: %q is no name of a stream", r.stream)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("tape: stream %q: %w", r.stream, context.Cause(ctx))
	}
	t := &Tape{Stream: r.stream, Cursors: []Cursor{}, Seen: time.Now()}
	noEnds := r.ends(ctx, t)
	if errors.Is(noEnds, jetstream.ErrStreamNotFound) {
		clear(r.known)
		r.state = nil
		return nil, fmt.Errorf("tape: stream %q: %w", r.stream, noEnds)
	}
	noList := r.cursors(ctx, t)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("tape: stream %q: %w", r.stream, context.Cause(ctx))
	}
	fresh := slices.ContainsFunc(t.Cursors, func(c Cursor) bool { return c.Error == "" })
	if noEnds != nil && !fresh && (noList != nil || r.only) {
		return nil, fmt.Errorf("tape: stream %q: %w", r.stream, cmp.Or(noEnds, noList))
	}
	var why []string
	if noEnds != nil {
		why = append(why, r.ofLast("the ends of the stream are not known", r.state != nil)+": "+noEnds.Error())
	}
	if noList != nil {
		why = append(why, "not every consumer is known: "+noList.Error())
	}
	t.Partial = strings.Join(why, "; ")
	return t, nil
}

// ofLast says of what could not be read whether it is shown as it was.
func (r *Reader) ofLast(unknown string, before bool) string {
	if before {
		return unknown + " now, those of before are shown"
	}
	return unknown
}

// ends reads where the stream begins and ends. It returns why it could not.
func (r *Reader) ends(ctx context.Context, t *Tape) error {
	var answer struct{ State jetstream.StreamState }
	err := r.ask(ctx, "STREAM.INFO."+r.stream, nil, &answer)
	if err == nil {
		r.state = &answer.State
		if s := answer.State; s.NumDeleted > 0 && s.LastSeq-s.FirstSeq < Small {
			var detailed struct{ State jetstream.StreamState }
			if r.ask(ctx, "STREAM.INFO."+r.stream, map[string]bool{"deleted_details": true}, &detailed) == nil {
				r.state = &detailed.State
			}
		}
	}
	if s := r.state; s != nil {
		t.First, t.Last, t.Messages, t.Bytes, t.LastTime = s.FirstSeq, s.LastSeq, s.Msgs, s.Bytes, s.LastTime
		if len(s.Deleted) > 0 && s.LastSeq-s.FirstSeq < Small {
			t.Deleted = slices.Sorted(slices.Values(s.Deleted))
		}
	}
	return err
}

// cursors reads the consumers: all by the list, or else the own ones by name. It returns why not all are on the tape.
func (r *Reader) cursors(ctx context.Context, t *Tape) error {
	var infos []*jetstream.ConsumerInfo
	var silent []string
	var err error
	if !r.only {
		infos, silent, err = r.list(ctx)
	}
	wrong := map[string]error{} // of each consumer on the tape; nil of one that answered
	if err != nil {
		for _, name := range slices.Concat(slices.Collect(maps.Keys(r.known)), r.own) {
			wrong[name] = err
		}
	}
	if r.only || errors.Is(err, nats.ErrPermissionViolation) {
		infos = r.byName(ctx, wrong)
	}
	for _, info := range infos {
		wrong[info.Name] = nil
		switch last, before := r.known[info.Name]; {
		case !info.Created.IsZero() && !slices.Contains(silent, info.Name):
			r.known[info.Name] = answer{*info, t.Seen}
		case !before || t.Seen.Sub(last.at) > zerosFor:
			wrong[info.Name] = errSilent
		}
	}
	for _, name := range silent {
		wrong[name] = errSilent
	}
	for _, name := range r.own {
		if _, listed := wrong[name]; !listed {
			wrong[name] = jetstream.ErrConsumerNotFound
		}
	}
	for name := range r.known {
		if e, there := wrong[name]; !there || errors.Is(e, jetstream.ErrConsumerNotFound) {
			delete(r.known, name)
		}
	}
	t.Cursors = r.onTape(wrong)
	return err
}

// byName asks for the own consumers, and notes which do not answer.
func (r *Reader) byName(ctx context.Context, wrong map[string]error) (infos []*jetstream.ConsumerInfo) {
	for _, name := range r.own {
		var info jetstream.ConsumerInfo
		err := fmt.Errorf("%q is no name of a consumer", name)
		if named(name) {
			err = r.ask(ctx, "CONSUMER.INFO."+r.stream+"."+name, nil, &info)
		}
		if wrong[name] = err; err == nil {
			infos = append(infos, &info)
		}
	}
	return infos
}

// errSilent is why there are no numbers of a consumer that is there.
var errSilent = errors.New("it does not answer now: its server is away, stopping, or electing a leader")

// onTape makes the cursors of consumers.
func (r *Reader) onTape(wrong map[string]error) []Cursor {
	out := []Cursor{}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		c := Cursor{Consumer: name}
		if last, known := r.known[name]; known {
			c = cursorOf(&last.info)
		}
		if e := wrong[name]; e != nil {
			if c.Error = e.Error(); errors.Is(e, jetstream.ErrConsumerNotFound) {
				c.Error = "there is no such consumer"
			}
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Cursor) int { return order(a) - order(b) })
	return out
}

// order puts durable consumers first, and with them those of which nothing is known.
func order(c Cursor) int {
	if !c.Durable && c.Error == "" {
		return 1
	}
	return 0
}

func cursorOf(i *jetstream.ConsumerInfo) Cursor {
	c := Cursor{
		Consumer: i.Name, Filter: i.Config.FilterSubjects,
		Delivered: i.Delivered.Stream, AckFloor: i.AckFloor.Stream,
		Outstanding: i.NumAckPending, MaxAckPending: i.Config.MaxAckPending, Redelivered: i.NumRedelivered,
		Unprocessed: i.NumPending, WaitingPulls: i.NumWaiting,
		Durable: i.Config.Durable != "", Pull: i.Config.DeliverSubject == "", Paused: i.Paused,
	}
	if i.Config.FilterSubject != "" {
		c.Filter = []string{i.Config.FilterSubject}
	}
	if i.Delivered.Last != nil {
		c.DeliveredAt = *i.Delivered.Last
	}
	if i.AckFloor.Last != nil {
		c.AckFloorAt = *i.AckFloor.Last
	}
	return c
}
