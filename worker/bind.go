package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// boundConsumer is what binding found out.
type boundConsumer struct {
	info    *jetstream.ConsumerInfo
	stream  *jetstream.StreamInfo // nil where the user may not read it
	created bool                  // this Runner made the consumer
	drift   []Drift               // before an update
	updated bool
}

// bind finds the consumer, makes or updates it where the configuration says so, and checks that the two fit. It waits for what
// is not there yet until the start-up limit. release gives the consumer back to other Runners of this process.
func (r *Runner) bind(ctx context.Context) (release func(), err error) {
	limit, cancel := context.WithTimeout(ctx, r.cfg.StartupTimeout)
	defer cancel()
	began := time.Now()
	if err := r.await(ctx, limit, func(ctx context.Context) error { return r.bindOnce(ctx, began) }); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	release, err = claim(r.bound.info)
	if err != nil {
		return nil, err
	}
	began = time.Now()
	records := func(ctx context.Context) error { return r.openRecords(ctx, began) }
	if err := cmp.Or(r.await(ctx, limit, r.openLetters), r.await(ctx, limit, records)); err != nil {
		release()
		return nil, err
	}
	r.ackWait.Store(int64(min(r.bound.info.Config.AckWait, longest)))
	r.conf.moves = r.bound.info.Cluster != nil || r.cfg.Connection.Domain != "" || r.cfg.Connection.APIPrefix != ""
	r.conf.runs.allowed = !r.conf.moves
	r.pull.mu.Lock()
	r.pull.limits = limitsOf(r.bound.info.Config)
	r.pull.leaderLocked(r.bound.info)
	r.pull.prefetch = r.cfg.Prefetch
	r.pull.epoch = r.conf.epoch()
	r.pull.mu.Unlock()
	r.sawCursor(r.bound.info)
	r.logStart()
	return release, nil
}

// bindOnce tries to bind.
func (r *Runner) bindOnce(ctx context.Context, began time.Time) error {
	info, err := r.consumerInfo(ctx)
	switch {
	case err == nil && info.Created.IsZero():
		return errors.New("the server is still loading the consumer")
	case err == nil && r.source != nil && len(foreign(r.cfg, info.Config)) > 0: // A_B and C share the name with A and B_C
		return &ConfigError{Problems: []string{fmt.Sprintf("DEAD_LETTER (%s): its consumer %q brings replays of others (%s): use another stream for these dead letters",
			r.cfg.Stream, r.cfg.Consumer, shownFilter(filters(info.Config)))}}
	case err == nil:
		r.bound.info = info
		r.bound.drift = drift(r.cfg, info.Config)
		if r.cfg.Bind == BindUpdate && len(r.bound.drift) > 0 {
			if err := r.update(ctx, info); err != nil {
				return err
			}
		}
	case apiCode(err) == codeConsumerNotFound && r.cfg.Bind != BindExisting:
		if err := r.create(ctx); err != nil {
			return err
		}
	default:
		return err
	}
	if r.cfg.Bind != BindExisting { // who only binds needs no right to read the stream
		var s jetstream.StreamInfo
		if err := r.request(ctx, r.subjects.streamInfo, nil, &s); err == nil {
			r.bound.stream = &s
		} else if r.onceMore(err, began) {
			return err // what is made has as many replicas as the stream
		}
	}
	return nil
}

// electionWait is how long who does not answer is asked again, before a worker does without the answer: a stream that elects says nothing.
const electionWait = 10 * time.Second

// onceMore tells whether to ask again for what is good to have, as a denied question is not.
func (r *Runner) onceMore(err error, began time.Time) bool {
	var denied *PermissionError
	return !errors.As(err, &denied) && time.Since(began) < min(electionWait, r.cfg.StartupTimeout/2)
}

// create makes the consumer. The server answers the same to who creates it a second time with the same configuration, so two workers may
// start together.
func (r *Runner) create(ctx context.Context) error {
	info, err := r.writeConsumer(ctx, wanted(r.cfg), "create")
	if err != nil {
		return err
	}
	r.bound.info, r.bound.created = info, true
	return nil
}

// update applies the configuration to a consumer that exists. The request replaces the whole configuration, so it starts from the present one.
func (r *Runner) update(ctx context.Context, info *jetstream.ConsumerInfo) error {
	next := info.Config
	var refused []string
	for _, d := range r.bound.drift {
		if d.fixed != "" {
			refused = append(refused, fmt.Sprintf("consumer %q: %s is %s, the configuration says %s: %s", r.cfg.Consumer, d.Field, d.Have, d.Want, d.fixed))
			continue
		}
		d.apply(&next)
	}
	if len(refused) > 0 {
		return &ConfigError{Problems: refused}
	}
	updated, err := r.writeConsumer(ctx, next, "update")
	if err != nil {
		return err
	}
	r.bound.info, r.bound.updated = updated, true
	return nil
}

func (r *Runner) writeConsumer(ctx context.Context, cfg jetstream.ConsumerConfig, action string) (*jetstream.ConsumerInfo, error) {
	subject := r.subjects.create
	if cfg.FilterSubject != "" {
		subject += "." + cfg.FilterSubject
	}
	body, err := json.Marshal(struct {
		Stream string                   `json:"stream_name"`
		Config jetstream.ConsumerConfig `json:"config"`
		Action string                   `json:"action"`
	}{r.cfg.Stream, cfg, action})
	if err != nil {
		return nil, fmt.Errorf("worker: %s consumer: %w", action, err)
	}
	var info jetstream.ConsumerInfo
	err = r.request(ctx, subject, body, &info)
	var api *jetstream.APIError
	if errors.As(err, &api) && refusal(api) {
		return nil, &ConfigError{Problems: []string{fmt.Sprintf("the server refuses to %s consumer %q on stream %q: %s (code %d)%s",
			action, r.cfg.Consumer, r.cfg.Stream, api.Description, api.ErrorCode, hint(api))}}
	}
	if err != nil {
		return nil, err
	}
	return &info, nil
}

// refusal tells whether an error of the API is about the request, so that the same one is refused again. A consumer that appeared in between
// (10148, created by another worker) is not: it is bound the next time.
func refusal(e *jetstream.APIError) bool {
	switch e.ErrorCode {
	case codeStreamNotFound, codeConsumerNotFound, 10148, 10105:
		return false
	}
	return e.Code == 400
}

func hint(e *jetstream.APIError) string {
	switch e.ErrorCode {
	case 10099, 10100:
		return ": on a work queue stream every message has one consumer; another has these subjects, set FILTER to the ones that are free"
	case 10101:
		return ": on a work queue stream a consumer starts at all"
	case 10093:
		return ": set FILTER to subjects of the stream"
	}
	return ""
}

// claims are the consumers that Runners of this process work on, by what tells one consumer from any other: stream, name and creation
// time. It is the one thing that Runners share: two for one durable would each take the other's redeliveries for new.
var claims sync.Map

func claim(info *jetstream.ConsumerInfo) (release func(), err error) {
	key := strings.Join([]string{info.Stream, info.Name, info.Created.Format(time.RFC3339Nano)}, " ")
	if _, taken := claims.LoadOrStore(key, true); taken {
		return nil, fmt.Errorf("%w: %q on stream %q", ErrBusy, info.Name, info.Stream)
	}
	return func() { claims.Delete(key) }, nil
}

// logStart writes the one line that a start gets: what is bound, where its cursor stands and what was decided.
func (r *Runner) logStart() {
	info := r.bound.info
	how := "bound"
	switch {
	case r.bound.created:
		how = "created, starts at " + startOf(info.Config).String()
	case r.bound.updated:
		how = "updated"
	}
	filter := strings.Join(filters(info.Config), ",")
	if filter == "" || filter == ">" {
		filter = "none: every subject of the stream comes"
	}
	prefetch := "automatic"
	if r.cfg.Prefetch > 0 {
		prefetch = fmt.Sprint(r.cfg.Prefetch)
	}
	fields := []zap.Field{
		zap.String("consumer_is", how), zap.String("filter", filter),
		zap.Uint64("delivered", info.Delivered.Stream), zap.Uint64("ack_floor", info.AckFloor.Stream),
		zap.Int("ack_pending", info.NumAckPending), zap.Uint64("pending", info.NumPending),
		zap.Int("concurrency", r.cfg.Concurrency), zap.String("prefetch", prefetch),
		zap.Duration("ack_wait", info.Config.AckWait), zap.Int("max_ack_pending", info.Config.MaxAckPending), zap.String("ack", r.cfg.Ack),
		zap.Int("max_attempts", r.cfg.MaxAttempts), zap.String("dead_letters", r.cfg.DeadLetter), zap.Bool("exact_attempts", r.records.kv != nil),
	}
	if r.cfg.PinnedTTL > 0 {
		fields = append(fields, zap.Duration("pinned_ttl", info.Config.PinnedTTL))
	}
	if r.bound.created {
		r.log.Info("working on a new consumer", fields...)
	} else {
		r.log.Info("working: resumes at the ack floor", fields...)
	}
}
