package worker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/internal/kvbucket"
	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/ackfloor/ackfloor/retry"
	"github.com/caarlos0/env/v11"
	"go.uber.org/zap"
)

// Config is everything that a Runner can be told. Build it with FromEnv, or by hand: a zero field means its default. Each field with an
// env tag is the environment variable of that name behind the prefix.
type Config struct {
	Connection Connection `env:"-"`

	Stream   string   `env:"STREAM" required:"true" usage:"the stream" accepts:"a stream name"`
	Consumer string   `env:"CONSUMER" required:"true" usage:"the durable consumer's name" accepts:"a consumer name"`
	Filter   []string `env:"FILTER" usage:"subjects, comma-separated; without one every subject of the stream" accepts:"subjects, comma-separated"`
	Start    string   `env:"START" shown:"all" usage:"where a new consumer starts: all, new, last, seq:N, time:RFC3339; never changes an existing one" accepts:"all, new, last, seq:N or time:RFC3339"`
	Bind     string   `env:"BIND" envDefault:"ensure" usage:"ensure creates what is missing and reports drift; update applies it; existing only binds" accepts:"ensure, update or existing"`

	Concurrency     int           `env:"CONCURRENCY" envDefault:"16" usage:"handlers at once" accepts:"a whole number from 1 to 10000"`
	Prefetch        int           `env:"PREFETCH" envDefault:"0" shown:"0 = automatic" usage:"messages that may wait beyond those running" accepts:"a whole number from 0"`
	MaxAckPending   int           `env:"MAX_ACK_PENDING" envDefault:"0" shown:"0 = the server's (1000)" usage:"messages that all workers of the consumer may hold together" accepts:"a whole number from 0"`
	AckWait         time.Duration `env:"ACK_WAIT" envDefault:"30s" usage:"the lease; extended while a message is held" accepts:"a duration of at least 100ms, such as 30s"`
	BatchSize       int           `env:"BATCH_SIZE" envDefault:"100" usage:"messages of a batch at the most, for a handler of batches" accepts:"a whole number from 1 to 100000"`
	BatchBytes      int           `env:"BATCH_BYTES" envDefault:"4194304" usage:"bytes of payload of a batch at the most; a larger message is a batch by itself" accepts:"a whole number of bytes from 1024"`
	BatchLinger     time.Duration `env:"BATCH_LINGER" envDefault:"100ms" usage:"how long the first message of a batch waits for others" accepts:"a duration, such as 100ms"`
	HandleTimeout   time.Duration `env:"HANDLE_TIMEOUT" envDefault:"5m" usage:"one attempt's limit; its lease is not extended past it" accepts:"a duration, such as 5m"`
	MaxAttempts     int           `env:"MAX_ATTEMPTS" envDefault:"10" usage:"attempts before a message is given up" accepts:"a whole number from 1"`
	RetrySchedule   string        `env:"RETRY" envDefault:"1s..5m" usage:"delays between attempts: exponential from..to with full jitter, or a list" accepts:"from..to or a list such as 1s,10s,1m"`
	DeadLetter      string        `env:"DEAD_LETTER" shown:"<STREAM>_DLQ" usage:"stream of the dead letters, made when it is missing; off: what is given up is only terminated" accepts:"a stream name, or off"`
	DeadLetterBytes int64         `env:"DEAD_LETTER_BYTES" envDefault:"1073741824" usage:"size of that stream when it is made: full, it takes no more, and nothing is given up" accepts:"a whole number of bytes from 1048576"`
	Records         string        `env:"RECORDS" shown:"ackfloor_<STREAM>" usage:"key-value bucket in which attempts are counted and suspects noted, made when it is missing; off: attempts are the server's deliveries" accepts:"the name of a bucket, or off"`
	PauseUnready    bool          `env:"PAUSE_UNREADY" envDefault:"false" usage:"not ready while a handler's pause lasts" accepts:"true or false"`
	Ack             string        `env:"ACK" envDefault:"confirm" usage:"confirm, or send for plain acks" accepts:"confirm or send"`
	PullExpiry      time.Duration `env:"PULL_EXPIRY" envDefault:"1s" usage:"how long an unfilled pull stays open, so how long an idle drain may take" accepts:"a duration of at least 100ms, such as 1s"`
	PullBytes       int           `env:"PULL_BYTES" envDefault:"16777216" usage:"bytes that one pull asks for at the most; a larger message is fetched alone, and no more than three times as many are held" accepts:"a whole number of bytes from 1024"`
	DrainTimeout    time.Duration `env:"DRAIN_TIMEOUT" envDefault:"25s" usage:"grace for running handlers after SIGTERM" accepts:"a duration, such as 25s"`

	StartupTimeout time.Duration `env:"STARTUP_TIMEOUT" envDefault:"1m" usage:"how long it waits for the server, the stream, the consumer" accepts:"a duration, such as 1m"`
	PinnedTTL      time.Duration `env:"PINNED_TTL" envDefault:"0s" shown:"0 = not pinned" usage:"one process of the consumer works, the others stand by: how long after its last pull another takes over; 0: all of them work" accepts:"0, or a duration of at least 1s, such as 10s"`
	ExitWhenIdle   bool          `env:"EXIT_WHEN_IDLE" envDefault:"false" usage:"end with 0 once the consumer has nothing pending" accepts:"true or false"`
	HTTPAddr       string        `env:"HTTP_ADDR" shown:"off" usage:"where health, metrics and the status page are served, by a part that does: admin.HTTP; without a host on 127.0.0.1 only" accepts:"host:port, or off"`
	LogLevel       string        `env:"LOG_LEVEL" envDefault:"info" usage:"debug, info, warn, error" accepts:"debug, info, warn or error"`
	LogFormat      string        `env:"LOG_FORMAT" shown:"by terminal" usage:"console or json" accepts:"console or json"`

	Retry  retry.Policy                   `env:"-"` // instead of RetrySchedule, for policies that a variable can't say
	Key    func(*ackfloor.Message) string `env:"-"` // messages of one key are handled one after another, in stream order; nil: no order. See docs/howto-order.md
	Gate   Gate                           `env:"-"` // asked before each call of the handler; nil: none
	Logger *zap.Logger                    `env:"-"` // instead of one made from LogLevel and LogFormat

	unknown []string // variables that FromEnv did not know, for New to warn of
}

// Values of Config.Bind and Config.Ack.
const (
	BindEnsure   = "ensure"
	BindUpdate   = "update"
	BindExisting = "existing"
	AckConfirm   = "confirm"
	AckSend      = "send"
)

const off = "off"

// withDefaults fills the fields that are zero.
func (c Config) withDefaults() (Config, error) {
	none := env.Options{Environment: map[string]string{}, SetDefaultsForZeroValuesOnly: true}
	if err := errors.Join(env.ParseWithOptions(&c, none), env.ParseWithOptions(&c.Connection, none)); err != nil {
		return c, err
	}
	c.derive()
	return c, nil
}

// derive fills the defaults that follow from other fields.
func (c *Config) derive() {
	if c.DeadLetter == "" {
		c.DeadLetter = c.Stream + "_DLQ"
	}
	if c.Records == "" {
		c.Records = "ackfloor_" + bucketName(c.Stream)
	}
	if c.Connection.Name == "" {
		c.Connection.Name = c.Consumer
	}
	if c.Connection.InboxPrefix == "" && validName(c.Consumer) {
		c.Connection.InboxPrefix = "_INBOX_" + c.Consumer // not the default, with which a user could read the replies of all others
	}
	if c.Connection.Wait == 0 {
		c.Connection.Wait = c.StartupTimeout
	}
	// "No limit" is often said as the longest duration that there is. Added to a time it would lie in the past; with such an ack_wait the server's consumer never rests
	// (nats-server 2.15, checkPending; seen).
	for _, d := range []*time.Duration{&c.HandleTimeout, &c.BatchLinger, &c.PullExpiry, &c.DrainTimeout, &c.PinnedTTL, &c.AckWait} {
		*d = min(*d, longest)
	}
}

const longest = never / 4 // 73 years

// problems lists what is wrong with c by itself, all of it. A name is that of the variable, so that it serves both kinds of user.
func (c Config) problems() []string {
	var out []string
	bad := func(ok bool, name string, value any, accepts string) {
		if !ok {
			out = append(out, fmt.Sprintf("%s is %q: it takes %s", name, fmt.Sprint(value), accepts))
		}
	}
	bad(validName(c.Stream), "STREAM", c.Stream, "the name of the stream (required; no spaces, dots, wildcards or slashes)")
	bad(validName(c.Consumer), "CONSUMER", c.Consumer, "the name of the durable consumer (required; no spaces, dots, wildcards or slashes)")
	for i, f := range c.Filter {
		bad(validSubject(f), "FILTER", f, "subjects, comma-separated, such as events.order_placed or events.>")
		for _, g := range c.Filter[:i] {
			bad(!wildcard.Overlap(f, g), "FILTER", f+","+g, "subjects that don't overlap")
		}
	}
	_, err := parseStart(c.Start)
	bad(err == nil, "START", c.Start, "all, new, last, seq:N or time:RFC3339")
	bad(c.Bind == BindEnsure || c.Bind == BindUpdate || c.Bind == BindExisting, "BIND", c.Bind, "ensure, update or existing")
	bad(c.Concurrency >= 1 && c.Concurrency <= 10000, "CONCURRENCY", c.Concurrency, "a whole number from 1 to 10000")
	bad(c.Prefetch >= 0, "PREFETCH", c.Prefetch, "a whole number from 0")
	bad(c.MaxAckPending >= 0, "MAX_ACK_PENDING", c.MaxAckPending, "a whole number from 0")
	bad(c.AckWait >= 100*time.Millisecond, "ACK_WAIT", c.AckWait, "a duration of at least 100ms, such as 30s")
	bad(c.HandleTimeout > 0, "HANDLE_TIMEOUT", c.HandleTimeout, "a duration above 0, such as 5m")
	bad(c.MaxAttempts >= 1, "MAX_ATTEMPTS", c.MaxAttempts, "a whole number from 1")
	if _, err := retry.Parse(c.RetrySchedule); err != nil && c.Retry == nil {
		out = append(out, fmt.Sprintf("RETRY is %q: %v", c.RetrySchedule, err))
	}
	bad(c.DeadLetter == off || c.Stream == "" || validName(c.DeadLetter), "DEAD_LETTER", c.DeadLetter, "the name of a stream, or off")
	bad(c.DeadLetter == "" || c.DeadLetter != c.Stream, "DEAD_LETTER", c.DeadLetter, "another stream than the one that is worked on, or off")
	bad(c.DeadLetterBytes >= 1<<20, "DEAD_LETTER_BYTES", c.DeadLetterBytes, "a whole number of bytes from 1048576")
	bad(c.Records == off || c.Records != "" && kvbucket.Plain(c.Records), "RECORDS", c.Records, "the name of a bucket (letters, digits, - and _), or off")
	bad(c.Ack == AckConfirm || c.Ack == AckSend, "ACK", c.Ack, "confirm or send")
	bad(c.BatchSize >= 1 && c.BatchSize <= 100000, "BATCH_SIZE", c.BatchSize, "a whole number from 1 to 100000")
	bad(c.BatchBytes >= 1024, "BATCH_BYTES", c.BatchBytes, "a whole number of bytes from 1024")
	bad(c.BatchLinger > 0, "BATCH_LINGER", c.BatchLinger, "a duration above 0, such as 100ms")
	bad(c.PullExpiry >= 100*time.Millisecond, "PULL_EXPIRY", c.PullExpiry, "a duration of at least 100ms, such as 1s")
	bad(c.PullBytes >= 1024, "PULL_BYTES", c.PullBytes, "a whole number of bytes from 1024")
	bad(c.DrainTimeout > 0, "DRAIN_TIMEOUT", c.DrainTimeout, "a duration above 0, such as 25s")
	bad(c.StartupTimeout > 0, "STARTUP_TIMEOUT", c.StartupTimeout, "a duration above 0, such as 1m")
	bad(c.PinnedTTL == 0 || c.PinnedTTL >= time.Second, "PINNED_TTL", c.PinnedTTL, "0, or a duration of at least 1s, such as 10s")
	_, err = logLevel(c.LogLevel)
	bad(err == nil, "LOG_LEVEL", c.LogLevel, "debug, info, warn or error")
	bad(c.LogFormat == "" || c.LogFormat == "console" || c.LogFormat == "json", "LOG_FORMAT", c.LogFormat, "console or json")
	bad(validAddr(c.HTTPAddr), "HTTP_ADDR", c.HTTPAddr, "host:port such as 127.0.0.1:8080, or off")
	return append(out, c.Connection.problems()...)
}

// validName holds for what the server takes as the name of a stream or a durable (nats-server 2.15, isValidName and
// isValidAssetName: no white space, dot, wildcard or path separator).
func validName(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsAny(s, " .*>/\\") && !strings.ContainsFunc(s, unicode.IsControl)
}

// validSubject holds for a subject with or without wildcards.
func validSubject(s string) bool {
	tokens := strings.Split(s, ".")
	for i, t := range tokens {
		if t == "" || strings.Contains(t, " ") || strings.ContainsFunc(t, unicode.IsControl) || t == ">" && i < len(tokens)-1 {
			return false
		}
	}
	return true
}

func validAddr(a string) bool {
	if a == "" || a == off {
		return true
	}
	i := strings.LastIndexByte(a, ':')
	if i < 0 {
		return false
	}
	port, err := strconv.Atoi(a[i+1:])
	return err == nil && port >= 0 && port <= 65535
}
