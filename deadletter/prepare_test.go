package deadletter

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

func with(change ...func(*Config)) Config {
	c := config
	for _, f := range change {
		f(&c)
	}
	return c
}

func creating(c *Config) { c.Create = true }
func updating(c *Config) { c.Update = true }

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestPrepareCreates(t *testing.T) {
	s := testutil.Server(t)
	nc := s.Conn(t)
	got, err := Prepare(within(t, 5*time.Second), nc, with(creating))
	if err != nil || !got.Created || got.Updated || got.Probed || !got.Readable || len(got.Warnings) > 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	r := s2rig(t, s, nc)
	c := r.info().Config
	if !slices.Equal(c.Subjects, []string{"dlq.ORDERS.>", "replay.ORDERS.>"}) || c.Retention != jetstream.LimitsPolicy || c.Discard != jetstream.DiscardNew ||
		c.MaxAge != 30*24*time.Hour || c.MaxBytes != 1<<30 || c.MaxMsgsPerSubject != 1 || !c.AllowDirect || c.Storage != jetstream.FileStorage || c.Replicas != 1 {
		t.Fatalf("made as %+v", c)
	}
	if n := r.info().State.LastSeq; n != 0 {
		t.Fatalf("%d messages were stored", n)
	}
	got, err = Prepare(within(t, 5*time.Second), nc, with(creating, func(c *Config) { c.Consumer, c.MaxAge = "email", time.Hour }))
	if err != nil || got.Created || len(got.Warnings) > 0 {
		t.Fatalf("the second time: %+v, %v", got, err)
	}
	r.write(sample(1))
}

func TestPrepareTogether(t *testing.T) {
	s := testutil.Server(t)
	var all sync.WaitGroup
	failed := make(chan error, 20)
	for i := range 20 {
		nc := s.Conn(t)
		all.Go(func() {
			c := with(creating, func(c *Config) { c.MaxAge = time.Duration(1+i%3) * 24 * time.Hour })
			if _, err := Prepare(t.Context(), nc, c); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
}

func TestPrepareRefusesNames(t *testing.T) {
	for name, c := range map[string]Config{
		"none": {}, "dots": with(func(c *Config) { c.Name = "A.B" }), "the source": with(func(c *Config) { c.Name = c.Stream }),
		"wildcard": with(func(c *Config) { c.Consumer = ">" }), "blank": with(func(c *Config) { c.Stream = "A B" }),
	} {
		if _, err := Prepare(t.Context(), nil, c); err == nil {
			t.Errorf("%s: %+v was taken", name, c)
		}
	}
}

// Streams that exist: what would lose or hide letters is refused, what is unwise is said.
func TestPrepareExisting(t *testing.T) {
	type stream = jetstream.StreamConfig
	for name, c := range map[string]struct {
		change  func(*stream)
		refused error
		says    []string // in the error, or in the warnings
	}{
		"as made here": {func(*stream) {}, nil, nil},
		"work queue":   {func(c *stream) { c.Retention = jetstream.WorkQueuePolicy }, ErrUnfit, []string{"work queue"}},
		"interest":     {func(c *stream) { c.Retention = jetstream.InterestPolicy }, ErrUnfit, []string{"interest"}},
		"no ack":       {func(c *stream) { c.NoAck = true }, ErrUnfit, []string{"no_ack", "--ack"}},
		"sealed":       {func(c *stream) { c.Sealed = true }, ErrReadOnly, []string{"sealed"}},
		"mirror":       {func(c *stream) { c.Mirror, c.Subjects = &jetstream.StreamSource{Name: "ORDERS"}, nil }, ErrReadOnly, []string{"mirror"}},
		"counter":      {func(c *stream) { c.AllowMsgCounter, c.Discard, c.MaxMsgsPerSubject = true, jetstream.DiscardOld, -1 }, ErrUnfit, []string{"counter"}},
		"transforms": {func(c *stream) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "dlq.>", Destination: "x.>"}
		}, ErrUnfit, []string{"transforms"}},
		"discard per subject": {func(c *stream) { c.DiscardNewPerSubject = true }, ErrUnfit, []string{"--no-discard-per-subject"}},
		"no letters": {func(c *stream) { c.Subjects = []string{"replay.ORDERS.>", "x"} }, ErrUnfit,
			[]string{"nats stream edit ORDERS_DLQ --subjects 'x,dlq.ORDERS.>,replay.ORDERS.>'"}},
		"another's letters":   {func(c *stream) { c.Subjects = []string{"dlq.ORDERS.email.>"} }, ErrUnfit, []string{"'dlq.ORDERS.>,replay.ORDERS.>'"}},
		"no replays":          {func(c *stream) { c.Subjects = []string{"dlq.>"} }, nil, []string{"replay.ORDERS.inventory.>", "'dlq.>,replay.ORDERS.>'"}},
		"all letters":         {func(c *stream) { c.Subjects = []string{"dlq.>", "replay.>"} }, nil, nil},
		"other subjects":      {func(c *stream) { c.Subjects = append(c.Subjects, "more.>") }, nil, []string{`"more.>"`}},
		"discard old":         {func(c *stream) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 }, nil, []string{"--discard new"}},
		"discard old, no end": {func(c *stream) { c.Discard, c.MaxBytes = jetstream.DiscardOld, -1 }, nil, nil},
		"an hour":             {func(c *stream) { c.MaxAge = time.Hour }, nil, []string{"1h0m0s only"}},
		"for ever":            {func(c *stream) { c.MaxAge = 0 }, nil, nil},
		"memory":              {func(c *stream) { c.Storage, c.MaxBytes = jetstream.MemoryStorage, 8<<20 }, nil, []string{"in memory"}},
		"small":               {func(c *stream) { c.MaxMsgSize = 1000 }, nil, []string{"max_msg_size of 1000"}},
		"many a subject":      {func(c *stream) { c.MaxMsgsPerSubject = -1 }, nil, []string{"--max-msgs-per-subject 1"}},
		"no deletes":          {func(c *stream) { c.DenyDelete = true }, nil, []string{"denies deletes"}},
		"few consumers":       {func(c *stream) { c.MaxConsumers = 1 }, nil, []string{"allows 1 consumers"}},
		"consumers end":       {func(c *stream) { c.ConsumerLimits.InactiveThreshold = time.Hour }, nil, []string{"inactive for 1h0m0s"}},
		"no direct gets":      {func(c *stream) { c.AllowDirect = false }, nil, []string{"--allow-direct"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := testutil.Server(t)
			s.Stream(t, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
			r := rigOn(t, s, c.change, func(c *stream) { c.Sealed = false })
			if name == "sealed" {
				sealed := r.info().Config
				sealed.Sealed = true
				r.Stream(t, sealed)
			}
			before := r.info()
			got, err := Prepare(within(t, 5*time.Second), r.nc, with(creating))
			if !errors.Is(err, c.refused) || (err == nil) != (c.refused == nil) {
				t.Fatalf("got %v, want %v", err, c.refused)
			}
			text := strings.Join(got.Warnings, "\n")
			if err != nil {
				text = err.Error()
			}
			for _, s := range c.says {
				if !strings.Contains(text, s) {
					t.Errorf("%q is not in %q", s, text)
				}
			}
			if len(c.says) == 0 && text != "" || err == nil && len(got.Warnings) > 1 {
				t.Errorf("said %q", text)
			}
			if err == nil && !got.Readable {
				t.Error("not readable")
			}
			if after := r.info(); after.State.LastSeq != before.State.LastSeq || !slices.Equal(after.Config.Subjects, before.Config.Subjects) {
				t.Errorf("changed: %+v", after)
			}
			if err == nil {
				r.write(sample(1)) // what was not refused does take letters
				if name != "small" {
					r.write(sample(2, func(l *Letter) { l.Data = random(1 << 20) }))
				}
			}
		})
	}
}

func TestPrepareUpdates(t *testing.T) {
	for name, c := range map[string]struct{ have, want []string }{
		"another stream's": {[]string{"dlq.A.>", "replay.A.>"}, []string{"dlq.A.>", "replay.A.>", "dlq.ORDERS.>", "replay.ORDERS.>"}},
		"one consumer's":   {[]string{"dlq.ORDERS.email.>", "x"}, []string{"x", "dlq.ORDERS.>", "replay.ORDERS.>"}},
		"all letters":      {[]string{"dlq.>"}, []string{"dlq.>", "replay.ORDERS.>"}},
		"all there":        {[]string{"dlq.>", "replay.*.inventory.>"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			meta := map[string]string{"team": "stock"}
			r := newRig(t, func(s *jetstream.StreamConfig) { s.Subjects, s.Metadata, s.MaxMsgs = c.have, meta, 9 })
			got, err := Prepare(within(t, 5*time.Second), r.nc, with(updating))
			if err != nil || got.Updated != (c.want != nil) || got.Created {
				t.Fatalf("%+v, %v", got, err)
			}
			want := c.want
			if want == nil {
				want = c.have
			}
			if have := r.info().Config; !slices.Equal(have.Subjects, want) || have.Metadata["team"] != "stock" || have.MaxMsgs != 9 || have.MaxBytes != 1<<30 {
				t.Fatalf("now %+v", have)
			}
			if got, err := Prepare(within(t, 5*time.Second), r.nc, with(updating)); err != nil || got.Updated {
				t.Fatalf("the second time: %+v, %v", got, err)
			}
		})
	}
}

func TestPrepareSource(t *testing.T) {
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>", "dlq.>"}})
	_, err := Prepare(within(t, 5*time.Second), s.Conn(t), with(creating))
	if !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), `"ORDERS"`) || !strings.Contains(err.Error(), `"ORDERS_DLQ": narrow its subjects`) {
		t.Fatalf("got %v", err)
	}
}

func TestPrepareTaken(t *testing.T) {
	for _, subject := range []string{"dlq.>", "replay.ORDERS.email.*"} {
		for _, change := range []func(*Config){creating, updating} {
			s := testutil.Server(t)
			s.Stream(t, jetstream.StreamConfig{Name: "ARCHIVE", Subjects: []string{subject}})
			_, err := Prepare(within(t, 5*time.Second), s.Conn(t), with(change))
			if !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), `"ARCHIVE"`) {
				t.Errorf("%s: got %v", subject, err)
			}
		}
	}
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "ARCHIVE", Subjects: []string{"dlq.>"}})
	s.Stream(t, jetstream.StreamConfig{Name: "ORDERS_DLQ", Subjects: []string{"replay.ORDERS.>"}})
	for _, change := range []func(*Config){creating, updating} {
		if _, err := Prepare(within(t, 5*time.Second), s.Conn(t), with(change)); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), `"ARCHIVE"`) {
			t.Errorf("got %v", err)
		}
	}
}

func TestPrepareNoRoom(t *testing.T) {
	s := testutil.Server(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 })
	_, err := Prepare(within(t, 5*time.Second), s.Conn(t), with(creating))
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "MaxBytes") {
		t.Fatalf("got %v", err)
	}
	if _, err := Prepare(within(t, 5*time.Second), s.Conn(t), with(creating, func(c *Config) { c.MaxBytes = 1 << 19 })); err != nil {
		t.Fatal(err)
	}
}

// The commands that errors print do what they say, with the nats command itself.
func TestPrepareCommands(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the nats command")
	}
	command := testutil.NatsCommand(t)
	s := testutil.Server(t)
	nc := s.Conn(t)
	run := func(err error) {
		t.Helper()
		m := regexp.MustCompile(`(nats stream (?:add|edit) [^()\n]*)`).FindString(err.Error())
		if m == "" {
			t.Fatalf("no command in %v", err)
		}
		if strings.Contains(m, "edit") {
			m += " --force" // else it asks
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command+strings.TrimPrefix(m, "nats")+" --server "+s.URL()).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", m, err, out)
		}
	}
	_, err := Prepare(within(t, 5*time.Second), nc, config)
	if !errors.Is(err, ErrNoStream) {
		t.Fatalf("got %v", err)
	}
	run(err)
	got, err := Prepare(within(t, 5*time.Second), nc, with(creating))
	if err != nil || len(got.Warnings) > 0 || got.Created {
		t.Fatalf("%+v, %v", got, err)
	}
	made := s2rig(t, s, nc).info().Config
	if err := s2rig(t, s, nc).js.DeleteStream(t.Context(), config.Name); err != nil {
		t.Fatal(err)
	}
	if got, err := Prepare(within(t, 5*time.Second), nc, with(creating)); err != nil || !got.Created {
		t.Fatalf("%+v, %v", got, err)
	}
	own := s2rig(t, s, nc).info().Config
	if made.MaxAge != own.MaxAge || made.MaxBytes != own.MaxBytes || made.Discard != own.Discard ||
		made.MaxMsgsPerSubject != own.MaxMsgsPerSubject || made.MaxMsgs != own.MaxMsgs || made.MaxMsgSize != own.MaxMsgSize {
		t.Errorf("the command makes %+v, we make %+v", made, own)
	}
	other := with(func(c *Config) { c.Stream = "EVENTS" })
	_, err = Prepare(within(t, 5*time.Second), nc, other)
	if !errors.Is(err, ErrUnfit) {
		t.Fatalf("got %v", err)
	}
	run(err)
	if _, err := Prepare(within(t, 5*time.Second), nc, other); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"INTEREST": func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"NO_ACK":   func(c *jetstream.StreamConfig) { c.NoAck = true },
		"PER":      func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true },
		"OLD":      func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"MANY":     func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 },
		"DIRECT":   noDirect,
	} {
		c, _ := with(func(c *Config) { c.Name, c.Stream, c.MaxBytes = name, name+"_SOURCE", 1<<20 }).withDefaults()
		stream := c.wanted()
		change(&stream)
		s.Stream(t, stream)
		got, err := Prepare(within(t, 5*time.Second), nc, c)
		if err == nil {
			if len(got.Warnings) != 1 {
				t.Fatalf("%s: %+v", name, got)
			}
			err = errors.New(got.Warnings[0])
		}
		run(err)
		if got, err := Prepare(within(t, 5*time.Second), nc, c); err != nil || len(got.Warnings) > 0 {
			t.Errorf("%s: after the command: %+v, %v", name, got, err)
		}
	}
}

// What a user may not do is said at once, with what to allow, and what a user need not do is not asked for.
func TestPreparePermissions(t *testing.T) {
	t.Parallel()
	const (
		info, source = "$JS.API.STREAM.INFO.ORDERS_DLQ", "$JS.API.STREAM.INFO.ORDERS"
		create       = "$JS.API.STREAM.CREATE.ORDERS_DLQ"
		update       = "$JS.API.STREAM.UPDATE.ORDERS_DLQ"
		write        = "dlq.ORDERS.inventory.>"
		read         = "$JS.API.DIRECT.GET.ORDERS_DLQ.dlq.ORDERS.inventory.>"
		leader       = "$JS.API.STREAM.MSG.GET.ORDERS_DLQ"
	)
	for name, c := range map[string]struct {
		may    []string
		exists []string // the subjects of the stream, if it exists
		config Config
		want   Prepared
		err    error
		allow  string
	}{
		"everything":                 {[]string{">"}, nil, with(creating), Prepared{Created: true, Readable: true}, nil, ""},
		"write":                      {[]string{write}, Subjects("ORDERS"), config, Prepared{Probed: true}, nil, ""},
		"write and read":             {[]string{write, read}, Subjects("ORDERS"), config, Prepared{Probed: true, Readable: true}, nil, ""},
		"write and read the leader":  {[]string{write, leader}, Subjects("ORDERS"), config, Prepared{Probed: true, Readable: true}, nil, ""},
		"write and look":             {[]string{write, info}, Subjects("ORDERS"), config, Prepared{}, nil, ""},
		"all but write":              {[]string{info, source, create, read}, Subjects("ORDERS"), config, Prepared{}, nil, write},
		"look only":                  {[]string{info}, Subjects("ORDERS"), config, Prepared{}, nil, write},
		"nothing":                    {[]string{"nothing"}, Subjects("ORDERS"), config, Prepared{}, nil, write},
		"write, missing":             {[]string{write}, nil, config, Prepared{}, ErrNoStream, ""},
		"write, missing, to create":  {[]string{write}, nil, with(creating), Prepared{}, ErrNoStream, create},
		"look, missing, to create":   {[]string{write, info}, nil, with(creating), Prepared{}, ErrNoStream, create},
		"look, missing":              {[]string{write, info}, nil, config, Prepared{}, ErrNoStream, ""},
		"create":                     {[]string{write, create}, nil, with(creating), Prepared{Created: true, Probed: true}, nil, ""},
		"create, exists":             {[]string{write, create, info}, Subjects("ORDERS"), with(creating), Prepared{}, nil, ""},
		"to update":                  {[]string{write, info}, []string{"dlq.A.>"}, with(updating), Prepared{}, ErrUnfit, update},
		"update":                     {[]string{write, info, update}, []string{"dlq.A.>"}, with(updating), Prepared{Updated: true}, nil, ""},
		"write, another's subjects":  {[]string{write}, []string{"other.>"}, config, Prepared{}, ErrNoStream, ""},
		"create, another's subjects": {[]string{write, create}, []string{"other.>"}, with(creating), Prepared{}, ErrNoStream, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, worker := lockedServer(t, c.may...)
			if c.exists != nil {
				made, _ := config.withDefaults()
				stream := made.wanted()
				stream.Subjects = c.exists
				s.Stream(t, stream)
			}
			began := time.Now()
			got, err := Prepare(within(t, 10*time.Second), worker(), c.config)
			if took := time.Since(began); took > 2500*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			fails := c.err != nil || c.allow != ""
			if (err != nil) != fails || !errors.Is(err, c.err) && c.err != nil {
				t.Fatalf("%+v, %v; want %v", got, err, c.err)
			}
			var denied *PermissionError
			if errors.As(err, &denied) != (c.allow != "") || c.allow != "" && (denied.Allow != c.allow || !strings.Contains(err.Error(), c.allow)) {
				t.Fatalf("got %v, allow %q", err, c.allow)
			}
			if err != nil {
				t.Log(err)
				return
			}
			if got.Created != c.want.Created || got.Updated != c.want.Updated || got.Probed != c.want.Probed || got.Readable != c.want.Readable {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
			if !got.Readable && (len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], read)) {
				t.Errorf("warnings: %q", got.Warnings)
			}
			if err := NewWriter(worker(), config).Write(t.Context(), sample(1)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Answers that stay away are waited for: the server comes later.
func TestPrepareWaits(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	nc := s.Conn(t)
	s.Stop()
	done := make(chan error, 1)
	go func() {
		_, err := Prepare(within(t, 20*time.Second), nc, with(creating))
		done <- err
	}()
	<-time.After(700 * time.Millisecond)
	s.Start()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := Prepare(within(t, 1200*time.Millisecond), nc, with(creating)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

func TestPreparePrefix(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t, func(o *server.Options) { o.JetStreamDomain = "hub" })
	nc := s.Conn(t)
	for _, prefix := range []string{"$JS.hub.API", "$JS.hub.API."} {
		c := with(creating, func(c *Config) { c.APIPrefix = prefix })
		if got, err := Prepare(within(t, 5*time.Second), nc, c); err != nil || !got.Readable {
			t.Fatalf("%+v, %v", got, err)
		}
		w := NewWriter(nc, c)
		for range 2 {
			if err := w.Write(t.Context(), sample(1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := Prepare(within(t, 700*time.Millisecond), nc, with(func(c *Config) { c.APIPrefix = "$JS.nowhere.API" })); err == nil {
		t.Fatal("a prefix that nobody answers on was taken")
	}
}

func TestSubjects(t *testing.T) {
	for _, s := range []string{"dlq.S.C.0", "dlq.S.C.18446744073709551615", "dlq.S.C.7.123", "dlq.S.C.7.-5", "replay.S.C.7", "replay.S.C.7.1", "dlq.S.C.7.tail.0"} {
		if p, ok := parse(s); !ok || p.subject() != s {
			t.Errorf("%q became %+v, %v", s, p, ok)
		}
	}
	for _, s := range []string{"", "dlq", "dlq.S.C", "dlq.S.C.x", "dlq.S.C.07", "dlq.S.C.-1", "dlq.S.C.7.x", "dlq.S.C.7.tail",
		"replay.S.C.7.tail.1", "dlq.S.C.7.1.2", "x.S.C.7", "dlq.S.C.7.", "dlq.S.C.7.tail.01"} {
		if p, ok := parse(s); ok {
			t.Errorf("%q became %+v", s, p)
		}
	}
}
