package deadletter

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Config says which dead-letter stream a worker writes to, and what Prepare may do about it.
type Config struct {
	Name      string // the dead-letter stream, such as "ORDERS_DLQ"
	Stream    string // the stream that the worker works on
	Consumer  string // its durable consumer there
	APIPrefix string // of the JetStream API, with or without its last dot; "" is "$JS.API."
	Create    bool   // Prepare may create the stream when it is missing
	Update    bool   // Prepare may add subjects that are missing to a stream that exists

	// Of a stream that Prepare creates; one that exists keeps its own.
	MaxAge   time.Duration // how long letters are kept; 0 is 30 days, negative is for ever
	MaxBytes int64         // how much is kept, in bytes, which the server reserves; 0 is 1 GiB, negative is without a limit
	Replicas int           // 0 is 1
}

// Defaults of Config.
const (
	DefaultMaxAge   = 30 * 24 * time.Hour
	DefaultMaxBytes = 1 << 30
)

func (c Config) withDefaults() (Config, error) {
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	err := errors.Join(checkName("stream", c.Name), checkName("stream", c.Stream), checkName("consumer", c.Consumer))
	if err == nil && c.Name == c.Stream {
		err = fmt.Errorf("%w: stream %q is the one that is worked on, its dead letters need another", ErrUnfit, c.Name)
	}
	return c, err
}

// wanted is the stream that Prepare creates. Two consumers of a stream want the same one.
func (c Config) wanted() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: c.Name, Subjects: Subjects(c.Stream), Description: "Dead letters of " + c.Stream,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, // a full stream refuses a letter rather than lose one
		MaxAge: max(0, c.MaxAge), MaxBytes: max(-1, c.MaxBytes), MaxMsgs: -1, MaxMsgsPerSubject: 1, MaxMsgSize: -1, MaxConsumers: -1,
		Storage: jetstream.FileStorage, Replicas: c.Replicas, AllowDirect: true,
	}
}

// add is the command that makes that stream.
func (c Config) add() string {
	w := c.wanted()
	age, bytes := "-1", "-1"
	if w.MaxAge > 0 {
		age = w.MaxAge.String()
	}
	if w.MaxBytes > 0 {
		bytes = fmt.Sprint(w.MaxBytes)
	}
	return fmt.Sprintf("nats stream add %s --subjects %s --retention limits --discard new --max-age %s --max-bytes %s --max-msgs-per-subject 1 "+
		"--allow-direct --storage file --replicas %d --defaults", c.Name, quoted(w.Subjects), age, bytes, w.Replicas)
}

// edit is the command that gives a stream these subjects.
func edit(name string, subjects []string) string {
	return fmt.Sprintf("nats stream edit %s --subjects %s", name, quoted(subjects))
}

// quoted is a list of subjects as a shell takes it.
func quoted(subjects []string) string { return "'" + strings.Join(subjects, ",") + "'" }
