package testutil

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// ready waits until the server answers.
func (p *P) ready(running *process) error {
	err := errors.New("it was not asked")
	exited := false
	if poll(p.limit, func() bool {
		select {
		case <-running.ended:
			exited = true
		default:
			err = p.answers()
		}
		return exited || err == nil
	}) && !exited {
		return nil
	}
	if exited {
		return fmt.Errorf("nats-server ended at once: %v\n%s", running.cmd.ProcessState, p.output())
	}
	return fmt.Errorf("JetStream does not answer after %v: %w\n%s", p.limit, err, p.output())
}

func (p *P) jetStreamAnswers() error {
	return p.probe(requestLimit, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.AccountInfo(ctx)
		return err
	})
}

// output returns the last lines of the server's output.
func (p *P) output() string {
	all, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(all)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
