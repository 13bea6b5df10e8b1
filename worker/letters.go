package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"go.uber.org/zap"
)

// prepareWait is for one try to find or make the stream of the dead letters.
const prepareWait = 3 * time.Second

// letters makes and writes dead letters; nil where there are none.
type letters struct {
	writer  *deadletter.Writer
	host    string
	version string
}

// deadLetters is what package deadletter has to know.
func (r *Runner) deadLetters() deadletter.Config {
	return deadletter.Config{
		Name: r.cfg.DeadLetter, Stream: r.cfg.Stream, Consumer: r.cfg.Consumer, APIPrefix: r.subjects.prefix,
		Create: r.cfg.Bind != BindExisting, Update: r.cfg.Bind == BindUpdate, MaxBytes: r.cfg.DeadLetterBytes, Replicas: r.replicas(),
	}
}

// openLetters sees to it that dead letters can be written, before anything is handled.
func (r *Runner) openLetters(ctx context.Context) error {
	switch {
	case r.cfg.DeadLetter == off || r.letters != nil:
		return nil
	case r.source != nil:
		r.letters = r.source.letters
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareWait)
	defer cancel()
	cfg := r.deadLetters()
	done, err := deadletter.Prepare(ctx, r.nc, cfg)
	if err != nil {
		return lettersError(r.cfg.DeadLetter, err)
	}
	for _, w := range done.Warnings {
		r.log.Warn("check: " + printable(w))
	}
	if done.Created {
		r.log.Info("made the stream of the dead letters", zap.String("dead_letters", r.cfg.DeadLetter))
	}
	host, _ := os.Hostname()
	r.letters = &letters{writer: deadletter.NewWriter(r.nc, cfg), host: host, version: version()}
	return nil
}

// lettersError makes one of this package's errors of one of deadletter's, so that a process ends with the right code.
func lettersError(name string, err error) error {
	var denied *deadletter.PermissionError
	switch {
	case errors.As(err, &denied):
		return &PermissionError{Publish: true, Subject: denied.Subject, Allow: denied.Allow, Err: fmt.Errorf("dead letters %q: %w", name, err)}
	case errors.Is(err, deadletter.ErrTaken), errors.Is(err, deadletter.ErrReadOnly), errors.Is(err, deadletter.ErrUnfit):
		return &ConfigError{Problems: []string{fmt.Sprintf("DEAD_LETTER (%s): %v", name, err)}}
	}
	return err
}

// version tells which build of the program wrote a letter.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var out strings.Builder
	out.WriteString(b.Main.Path + " " + b.Main.Version)
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" {
			out.WriteString(" " + s.Value[:min(12, len(s.Value))])
		}
	}
	return out.String()
}

// letter is what is written of a message that is given up.
func (r *Runner) letter(d *delivery, v verdict, rec *record) *deadletter.Letter {
	l := &deadletter.Letter{
		Subject: d.msg.Subject, Stream: d.msg.Stream, Consumer: d.msg.Consumer, MessageSequence: d.msg.Sequence, Published: d.msg.Published,
		Header: d.msg.Header, Data: d.msg.Data,
	}
	if r.source != nil {
		of, err := r.replayLetter(d)
		if of == nil {
			r.log.Error("a replay can't be read: it is terminated", append(describe(d), zap.String("error", shown(err.Error())))...)
			return nil
		}
		l = of
	}
	l.Deliveries, l.Attempts = int(rec.Known), rec.Failures+rec.Deaths
	if !r.records.kept() {
		l.Attempts = d.msg.Attempt
	}
	l.Reason, l.Error = v.reason, rec.Error
	l.FirstFailed, l.LastFailed = rec.First, rec.Last
	l.Host, l.Version = r.letters.host, r.letters.version
	return l
}

// writeLetter writes one.
func (r *Runner) writeLetter(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, letterWait)
	defer cancel()
	if !r.nc.IsConnected() {
		return errNotConnected
	}
	return r.letters.writer.Write(ctx, e.letter)
}

var errNotConnected = errors.New("not connected")
