package deadletter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/nats-io/nats.go/jetstream"
)

// description is a stream as the server describes it.
type description struct {
	Config jetstream.StreamConfig
	State  struct {
		Messages uint64 `json:"messages"`
		LastSeq  uint64 `json:"last_seq"`
	}
	raw json.RawMessage // the configuration as it came: a server may know fields that this client does not
}

// UnmarshalJSON keeps the raw configuration too.
func (d *description) UnmarshalJSON(b []byte) error {
	var answer struct {
		Config json.RawMessage `json:"config"`
		State  json.RawMessage `json:"state"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return err
	}
	d.raw = answer.Config
	if err := json.Unmarshal(answer.Config, &d.Config); err != nil {
		return err
	}
	if answer.State == nil {
		return nil
	}
	return json.Unmarshal(answer.State, &d.State)
}

// review holds the stream against what letters need: what would lose them or hide them is refused, what is only unwise is a warning.
func (p *preparation) review(ctx context.Context) error {
	c := &p.found.Config
	refuse := func(known error, format string, args ...any) error {
		return fmt.Errorf("%w: stream %q %s", known, p.cfg.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Sealed:
		return refuse(ErrReadOnly, "is sealed")
	case c.Mirror != nil:
		return refuse(ErrReadOnly, "is a mirror of %q: nothing can be published to it", c.Mirror.Name)
	case c.Retention == jetstream.WorkQueuePolicy:
		return refuse(ErrUnfit, "has work queue retention, which can't be changed: letters and replays would be gone once they were handled; use another stream")
	case c.Retention == jetstream.InterestPolicy:
		return refuse(ErrUnfit, "has interest retention: a letter would be dropped at once, since no consumer waits for it (nats stream edit %s --retention limits)", c.Name)
	case c.NoAck:
		return refuse(ErrUnfit, "has no_ack: nothing tells whether a letter was stored (nats stream edit %s --ack)", c.Name)
	case c.AllowMsgCounter:
		return refuse(ErrUnfit, "is a counter: it takes nothing else")
	case c.SubjectTransform != nil:
		return refuse(ErrUnfit, "transforms subjects (%q to %q): a letter would not be found on its own", c.SubjectTransform.Source, c.SubjectTransform.Destination)
	case c.DiscardNewPerSubject && c.MaxMsgsPerSubject > 0:
		return refuse(ErrUnfit, "has discard_new_per_subject: the letter of a failed replay can't take the older one's place (nats stream edit %s --no-discard-per-subject)",
			c.Name)
	}
	if err := p.checkSubjects(ctx); err != nil {
		return err
	}
	p.reviewLimits(p.found.Config)
	return nil
}

// checkSubjects sees to it that the stream takes letters and replays.
func (p *preparation) checkSubjects(ctx context.Context) error {
	have := p.found.Config.Subjects
	takes := func(kind string) bool {
		return slices.ContainsFunc(have, func(s string) bool { return wildcard.Covers(s, kind+"."+p.cfg.Stream+"."+p.cfg.Consumer+".>") })
	}
	letters, replays := takes(letter), takes(replay)
	if letters && replays {
		return nil
	}
	want := merge(have, Subjects(p.cfg.Stream))
	if p.cfg.Update {
		return p.update(ctx, want)
	}
	if letters {
		p.warn(true, "stream %q does not take %q: letters can't be replayed; WORKER_BIND=update adds it, or %s",
			p.cfg.Name, ReplayFilter(p.cfg.Stream, p.cfg.Consumer), edit(p.cfg.Name, want))
		return nil
	}
	if err := p.taken(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: stream %q takes %s, not %q: WORKER_BIND=update adds it, or %s",
		ErrUnfit, p.cfg.Name, quoted(have), "dlq."+p.cfg.Stream+".>", edit(p.cfg.Name, want))
}

// merge adds subjects to those of a stream, in whose place they come where they cover them: a stream's subjects may not overlap.
func merge(have, more []string) []string {
	var out []string
	for _, s := range have {
		if !slices.ContainsFunc(more, func(m string) bool { return wildcard.Covers(m, s) }) {
			out = append(out, s)
		}
	}
	for _, m := range more {
		if !slices.ContainsFunc(have, func(s string) bool { return s != m && wildcard.Covers(s, m) }) {
			out = append(out, m)
		}
	}
	return out
}

// update gives the stream its subjects and leaves everything else of its configuration as it is.
func (p *preparation) update(ctx context.Context, subjects []string) error {
	var config map[string]any
	d := json.NewDecoder(bytes.NewReader(p.found.raw))
	d.UseNumber()
	if err := d.Decode(&config); err != nil {
		return fmt.Errorf("deadletter: the configuration of stream %q can't be read: %w", p.cfg.Name, err)
	}
	config["subjects"] = subjects
	var made description
	err := again(ctx, 0, func() error { return p.ask(ctx, "STREAM.UPDATE."+p.cfg.Name, config, &made) })
	var denied *PermissionError
	switch {
	case err == nil:
		p.found, p.out.Updated = &made, true
		return nil
	case errors.As(err, &denied):
		return fmt.Errorf("%w: stream %q does not take the dead letters of %q and may not be updated: allow %q, or update it (%s): %w",
			ErrUnfit, p.cfg.Name, p.cfg.Stream, denied.Allow, edit(p.cfg.Name, subjects), denied)
	case apiCode(err) == codeOverlap:
		if taken := p.taken(ctx); taken != nil {
			return taken
		}
		return fmt.Errorf("%w: updating %q: %w", ErrTaken, p.cfg.Name, err)
	}
	return fmt.Errorf("deadletter: updating stream %q with subjects %s: %w", p.cfg.Name, quoted(subjects), err)
}

// reviewLimits warns of what may lose letters later, or makes them harder to use.
func (p *preparation) reviewLimits(c jetstream.StreamConfig) {
	p.warn(c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0),
		"stream %q discards its oldest letters at its limits; with discard new it refuses the newest, and nothing is lost (nats stream edit %s --discard new)",
		c.Name, c.Name)
	p.warn(c.MaxAge > 0 && c.MaxAge < 24*time.Hour, "stream %q keeps letters for %v only", c.Name, c.MaxAge)
	p.warn(c.Storage == jetstream.MemoryStorage, "stream %q is in memory: a restart of the server loses the letters", c.Name)
	if p.source != nil {
		p.warn(c.Replicas < p.source.Config.Replicas,
			"stream %q has fewer replicas (%d) than %q (%d): the letters are gone, or messages that fail can't be given up, while its server is",
			c.Name, c.Replicas, p.cfg.Stream, p.source.Config.Replicas)
	}
	p.warn(c.MaxMsgSize >= 0 && int64(c.MaxMsgSize) < p.nc.MaxPayload(),
		"stream %q has a max_msg_size of %d, the server takes %d: a message that large can't become a letter, and is tried for ever",
		c.Name, c.MaxMsgSize, p.nc.MaxPayload())
	p.warn(c.MaxMsgsPerSubject != 1,
		"stream %q keeps several messages a subject: what a newer letter has replaced still takes room (nats stream edit %s --max-msgs-per-subject 1)", c.Name, c.Name)
	p.warn(c.DenyDelete, "stream %q denies deletes: letters can't be removed", c.Name)
	p.warn(c.MaxConsumers > 0, "stream %q allows %d consumers: each consumer whose letters are replayed needs one", c.Name, c.MaxConsumers)
	p.warn(c.ConsumerLimits.InactiveThreshold > 0,
		"stream %q deletes consumers that are inactive for %v: replays that were handled would be handled again after that", c.Name, c.ConsumerLimits.InactiveThreshold)
	p.warn(!c.AllowDirect, "stream %q does not allow direct gets: every read goes to its leader, one message at a time (nats stream edit %s --allow-direct)", c.Name, c.Name)
	for _, s := range c.Subjects {
		p.warn(!strings.HasPrefix(s, letter+".") && !strings.HasPrefix(s, replay+"."),
			"stream %q takes %q too: what is not a letter counts against its limits and is not shown", c.Name, s)
	}
}
