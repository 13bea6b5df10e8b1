package main

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/ackfloor/ackfloor/worker"
	"github.com/spf13/cobra"
)

// workerFlags say which worker is meant. Each is another way to set its variable.
type workerFlags struct {
	wants
	values map[string]*string // by the names of flags
	filter []string
	pinned bool
}

// variables are those that the flags set.
var variables = map[string]string{
	"stream": "WORKER_STREAM", "consumer": "WORKER_CONSUMER", "bind": "WORKER_BIND", "dead-letter": "WORKER_DEAD_LETTER", "records": "WORKER_RECORDS",
	"server": "NATS_URL", "creds": "NATS_CREDS", "domain": "NATS_JS_DOMAIN", "prefix": "NATS_JS_API_PREFIX", "inbox-prefix": "NATS_INBOX_PREFIX",
}

func (f *workerFlags) add(c *command, cmd *cobra.Command) {
	flags := cmd.Flags()
	f.values = make(map[string]*string)
	for _, v := range []struct{ name, usage string }{
		{"stream", "the stream"},
		{"consumer", "the durable consumer"},
		{"bind", "ensure, update or existing"},
		{"dead-letter", "the stream of the dead letters, or off; <stream>_DLQ by default"},
		{"records", "the bucket of the attempts, or off; ackfloor_<stream> by default"},
		{"domain", "the JetStream domain"},
		{"prefix", "the subject prefix of the JetStream API, such as $JS.hub.API"},
		{"inbox-prefix", "what the inboxes begin with; _INBOX_<consumer> by default"},
	} {
		f.values[v.name] = flags.String(v.name, "", v.usage+" ("+variables[v.name]+")")
		words := map[string][]string{"bind": {worker.BindEnsure, worker.BindUpdate, worker.BindExisting}}[v.name]
		c.complete(cmd, v.name, fixed(words))
	}
	flags.StringSliceVar(&f.filter, "filter", nil, "subjects, comma-separated (WORKER_FILTER)")
	flags.BoolVar(&f.pinned, "pinned", false, "one process works, the others stand by (WORKER_PINNED_TTL)")
	flags.BoolVar(&f.replays, "replays", true, "replays of dead letters are handled")
	flags.BoolVar(&f.admin, "admin", false, "it has the status page")
	flags.StringVar(&f.once, "once", "", "the bucket of once.KV that its handler uses, such as ackfloor_once")
	flags.StringSliceVar(&f.publish, "publish", nil, "subjects that its handler publishes to; may be given several times")
	flags.StringSliceVar(&f.read, "read", nil, "subjects of the stream whose last message its handler reads; may be given several times")
	for _, name := range []string{"filter", "once", "publish", "read"} {
		c.complete(cmd, name, cobra.NoFileCompletions)
	}
}

// config is what the environment says, as a worker reads it, with the flags on top. Where the environment is not meant, it is emptied. The error
// is a *worker.ConfigError.
func (f *workerFlags) config(cmd *cobra.Command, fromEnv bool) (worker.Config, error) {
	if !fromEnv {
		for _, v := range os.Environ() {
			name, _, _ := strings.Cut(v, "=")
			if strings.HasPrefix(name, "WORKER_") || strings.HasPrefix(name, "NATS_") {
				_ = os.Unsetenv(name)
			}
		}
	}
	set := make(map[string]string)
	for name, value := range f.values {
		if cmd.Flags().Changed(name) {
			set[variables[name]] = *value
		}
	}
	if cmd.Flags().Changed("filter") {
		set["WORKER_FILTER"] = strings.Join(f.filter, ",")
	}
	if f.pinned && os.Getenv("WORKER_PINNED_TTL") == "" {
		set["WORKER_PINNED_TTL"] = "10s"
	}
	for name, value := range set {
		if err := os.Setenv(name, value); err != nil {
			return worker.Config{}, usagef("%s: %w", name, err)
		}
	}
	return worker.FromEnv("")
}

// subjectsOnly leaves out of an error what is wrong with files and servers: where only subjects are asked for, these may be elsewhere.
func subjectsOnly(err error) error {
	bad, ok := errors.AsType[*worker.ConfigError](err)
	if !ok {
		return err
	}
	problems := slices.DeleteFunc(slices.Clone(bad.Problems), func(p string) bool {
		return strings.HasPrefix(p, "NATS_") && !strings.HasPrefix(p, "NATS_JS_") && !strings.HasPrefix(p, "NATS_INBOX_PREFIX")
	})
	if len(problems) == 0 {
		return nil
	}
	return &worker.ConfigError{Problems: problems}
}
