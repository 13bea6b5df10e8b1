package deadletter

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Prepared is what Prepare found and did.
type Prepared struct {
	Created  bool     // the stream was missing and is there now
	Updated  bool     // subjects were added to it
	Probed   bool     // its configuration may not be read: all that is known is that it takes the letters
	Readable bool     // letters may be read back: see Writer.Write and Writer.Complete for what needs it
	Warnings []string // what is unwise about the stream, in sentences
}

// Prepare sees to it that the dead-letter stream exists and can take the letters of a consumer, before a worker handles anything. It may create
// or update the stream if c says so, and stores nothing. What the server does not answer is asked again until ctx ends.
//
// Errors wrap ErrNoStream, ErrUnfit, ErrTaken, ErrFull, ErrReadOnly or a *PermissionError, and say what to allow or which command mends it.
func Prepare(ctx context.Context, nc *nats.Conn, c Config) (Prepared, error) {
	c, err := c.withDefaults()
	if err != nil {
		return Prepared{}, err
	}
	p := preparation{client: newClient(nc, c.Name, c.APIPrefix), cfg: c}
	if err := p.checkSource(ctx); err != nil {
		return Prepared{}, err
	}
	if err := p.find(ctx); err != nil {
		return Prepared{}, err
	}
	if p.found != nil {
		if err := p.review(ctx); err != nil {
			return Prepared{}, err
		}
	}
	if err := p.probe(ctx); err != nil {
		return Prepared{}, err
	}
	p.tryReading(ctx)
	return p.out, ctx.Err()
}

// preparation is one call of Prepare.
type preparation struct {
	client
	cfg    Config
	source *jetstream.StreamInfo // nil where it may not be read, or is not there
	found  *description          // nil where it may not be read
	inUse  bool                  // a stream of that name exists, and is made in another way than asked
	out    Prepared
}

// checkSource refuses a source stream that would catch the letters itself.
func (p *preparation) checkSource(ctx context.Context) error {
	var source jetstream.StreamInfo
	if again(ctx, tries, func() error { return p.ask(ctx, "STREAM.INFO."+p.cfg.Stream, nil, &source) }) != nil {
		return nil // not ours to judge; whether the letters are caught by another stream shows later
	}
	p.source = &source
	for _, own := range source.Config.Subjects {
		for _, ours := range Subjects(p.cfg.Stream) {
			if wildcard.Overlap(own, ours) {
				return fmt.Errorf("%w: stream %q takes %q, which overlaps %q of the dead-letter stream %q: narrow its subjects",
					ErrTaken, p.cfg.Stream, own, ours, p.cfg.Name)
			}
		}
	}
	return nil
}

// find looks for the stream and creates it where that is wanted.
func (p *preparation) find(ctx context.Context) error {
	for {
		found, err := p.info(ctx)
		var denied *PermissionError
		switch {
		case err == nil:
			p.found = found
			return nil
		case errors.As(err, &denied):
			return p.findBlind(ctx)
		case apiCode(err) != codeNoStream:
			return fmt.Errorf("deadletter: looking for stream %q: %w", p.cfg.Name, err)
		}
		if !p.cfg.Create {
			return p.missing(ctx)
		}
		if err := p.create(ctx); err != nil {
			return err
		}
	}
}

// findBlind is find where the stream's configuration may not be read: a probe tells whether it is there.
func (p *preparation) findBlind(ctx context.Context) error {
	p.out.Probed = true
	err := p.probe(ctx)
	if !errors.Is(err, ErrNoStream) {
		return err
	}
	if !p.cfg.Create {
		return p.missing(ctx)
	}
	return p.create(ctx)
}

// info reads the stream, and waits for an answer until ctx ends.
func (p *preparation) info(ctx context.Context) (*description, error) {
	var d description
	if err := again(ctx, 0, func() error { return p.ask(ctx, "STREAM.INFO."+p.cfg.Name, nil, &d) }); err != nil {
		return nil, err
	}
	return &d, nil
}

// missing is the error that the stream is not there and is not to be created.
func (p *preparation) missing(ctx context.Context) error {
	if err := p.taken(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: stream %q does not exist: create it (%s), or let the worker (WORKER_BIND=ensure, and allow %q), or set WORKER_DEAD_LETTER=off",
		ErrNoStream, p.cfg.Name, p.cfg.add(), p.prefix+"STREAM.CREATE."+p.cfg.Name)
}

// taken looks whether another stream has the subjects.
func (p *preparation) taken(ctx context.Context) error {
	for _, subject := range Subjects(p.cfg.Stream) {
		if other := p.owner(ctx, subject); other != "" && other != p.cfg.Name {
			return fmt.Errorf("%w: stream %q takes %q, so %q can't", ErrTaken, other, subject, p.cfg.Name)
		}
	}
	return nil
}

// owner names the stream that takes a subject, "" where there is none or it may not be asked.
func (p *preparation) owner(ctx context.Context, subject string) string {
	var names struct {
		Streams []string `json:"streams"`
	}
	err := again(ctx, 2, func() error {
		return p.ask(ctx, "STREAM.NAMES", map[string]string{"subject": subject}, &names)
	})
	if err != nil || len(names.Streams) == 0 {
		return ""
	}
	return names.Streams[0]
}

// create makes the stream. Somebody else may do so at the same time: the same stream twice is no error, and another of that name is looked at.
func (p *preparation) create(ctx context.Context) error {
	err := again(ctx, 0, func() error {
		var made description
		return p.ask(ctx, "STREAM.CREATE."+p.cfg.Name, p.cfg.wanted(), &made)
	})
	var denied *PermissionError
	switch code := apiCode(err); {
	case err == nil:
		p.out.Created = true
		return nil
	case code == codeNameInUse:
		p.inUse = true
		return nil
	case errors.As(err, &denied):
		return fmt.Errorf("%w: stream %q does not exist and may not be created: allow %q, or create it (%s), or set WORKER_DEAD_LETTER=off: %w",
			ErrNoStream, p.cfg.Name, denied.Allow, p.cfg.add(), denied)
	case code == codeOverlap:
		if taken := p.taken(ctx); taken != nil {
			return taken
		}
		return fmt.Errorf("%w: creating %q: %w", ErrTaken, p.cfg.Name, err)
	case code == codeStorage, code == codeMaxBytes, code == codeAccountResources, code == codeResources:
		return fmt.Errorf("%w: creating %q: the server can't reserve the %d bytes that its letters may take: "+
			"lower that limit (WORKER_DEAD_LETTER_BYTES, Config.MaxBytes), or raise the server's or the account's: %w",
			ErrFull, p.cfg.Name, p.cfg.MaxBytes, err)
	}
	return fmt.Errorf("deadletter: creating stream %q with %d replicas: %w", p.cfg.Name, p.cfg.Replicas, err)
}

// probe asks the stream for a letter's place in a way that it must refuse: the subject, with a last sequence that no stream reaches. The
// refusal shows that the subject may be published to and that this stream takes it.
func (p *preparation) probe(ctx context.Context) error {
	at := place{kind: letter, stream: p.cfg.Stream, consumer: p.cfg.Consumer}
	for i := 1; ; i++ {
		_, err := p.publish(ctx, at.subject(), allowWrite(at), nats.Header{}, nil, math.MaxUint64)
		var refusal *conflict
		var denied *PermissionError
		switch {
		case errors.As(err, &refusal):
			return nil
		case err == nil:
			return fmt.Errorf("%w: stream %q ignores the sequence that a publish expects", ErrUnfit, p.cfg.Name)
		case errors.Is(err, ErrTaken):
			if taken := p.taken(ctx); taken != nil {
				return taken
			}
			return err
		case errors.As(err, &denied):
			return fmt.Errorf("deadletter: letters can't be written to stream %q: %w", p.cfg.Name, denied)
		case errors.Is(err, ErrNoStream) && i == tries && p.inUse:
			return fmt.Errorf("%w: it exists and does not take these subjects: add %s to them", err, quoted(Subjects(p.cfg.Stream)))
		case !errors.Is(err, ErrNoStream) || i == tries:
			return err
		}
		if e := pause(ctx, between); e != nil {
			return fmt.Errorf("%w (%w)", err, e)
		}
	}
}

// tryReading finds out whether letters may be read back.
func (p *preparation) tryReading(ctx context.Context) {
	subject := place{kind: letter, stream: p.cfg.Stream, consumer: p.cfg.Consumer}.subject()
	_, err := p.lastDirect(ctx, subject)
	if err != nil && !errors.Is(err, errNone) { // an answer that nothing is there is enough here, and asks for one right only
		_, err = p.last(ctx, subject)
	}
	p.out.Readable = err == nil || errors.Is(err, errNone)
	if !p.out.Readable {
		p.warn(true, "letters can't be read back from stream %q (%v): should %q be deleted and made again, a message that has the sequence of an older "+
			"dead letter is taken for it; and a replay of a message near max_payload can't be handled; allow %q",
			p.cfg.Name, err, p.cfg.Stream, p.allowRead(subject))
	}
}

func (p *preparation) warn(bad bool, format string, args ...any) {
	if bad {
		p.out.Warnings = append(p.out.Warnings, fmt.Sprintf(format, args...))
	}
}
