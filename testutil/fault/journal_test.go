package fault_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/fault"
	"github.com/nats-io/nats.go/jetstream"
)

func TestJournalOfAHandler(t *testing.T) {
	j := fault.NewJournal(t)
	broken := errors.New("it is broken")
	for _, h := range []ackfloor.HandlerFunc{
		func(context.Context, *ackfloor.Message) error { return nil },
		func(context.Context, *ackfloor.Message) error { return broken },
		func(context.Context, *ackfloor.Message) error { panic("at once") },
		func(context.Context, *ackfloor.Message) error { runtime.Goexit(); return nil },
	} {
		done := make(chan error, 1)
		go func() {
			var err error
			defer func() { _ = recover(); done <- err }()
			err = j.Wrap(h).Handle(t.Context(), testutil.Message("events.1", "1", testutil.Sequence(8), testutil.Attempt(2)))
		}()
		if err := <-done; err != nil && !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	events, err := j.Events()
	if err != nil || len(events) != 8 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, want := range []string{"", "failed: it is broken", "it did not return", "it did not return"} {
		begin, end := events[2*i], events[2*i+1]
		if begin.Kind != fault.KindBegin || end.Kind != fault.KindEnd || end.Error != want || begin.Call != end.Call || begin.Sequence != 8 || begin.Attempt != 2 ||
			begin.Subject != "events.1" || end.At.Before(begin.At) || begin.Process() != os.Getpid() {
			t.Errorf("%+v\n%+v", begin, end)
		}
	}
	if n, err := j.Handled(); n != 1 || err != nil {
		t.Errorf("%d handled, %v", n, err)
	}
	j.Settled(8, "ack", time.Time{}) // no confirmation
	if events, _ := j.Events(); len(events) != 8 {
		t.Error("what was not confirmed is written down")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Wrap(testutil.Succeed()).Handle(t.Context(), testutil.Message("x", nil)); err == nil || !strings.HasPrefix(err.Error(), "fault: ") {
		t.Errorf("a call that can't be written down returns %v", err)
	}
	if _, err := fault.OpenJournal(filepath.Join(t.TempDir(), "none", "journal")); err == nil {
		t.Error("a folder that is missing is no error")
	}
}

// A message whose confirmation got lost is published again and stored once; one that is given up is unknown.
func TestLedger(t *testing.T) {
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: stream, Subjects: []string{"events.>"}})
	l := &fault.Ledger{JS: s.JetStream(t), Subject: "events", Keys: 3, Publishers: 4, Patience: 200 * time.Millisecond}
	if err := l.Publish(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	ended := make(chan error, 1)
	go func() { ended <- l.Publish(t.Context(), 10) }()
	<-time.After(300 * time.Millisecond)
	s.Start()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.Stop()
	l.Tries = 2
	if err := l.Publish(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	l.Tries = 0
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := l.Publish(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end of its context: %v", err)
	}
	s.Start()
	entries := l.Entries()
	again := slices.ContainsFunc(entries[10:20], func(e fault.Entry) bool { return e.Tries > 1 })
	if len(entries) != 23 || l.Confirmed() != 20 || !again || entries[21].Confirmed || entries[21].Tries != 2 || entries[21].Error == "" {
		t.Fatalf("%d entries, %d confirmed: %+v", len(entries), l.Confirmed(), entries[10:])
	}
	if e := entries[4]; e.Number != 4 || e.Key != "k1" || e.Subject != "events.k1.4" || e.Sequence == 0 || e.At.IsZero() {
		t.Errorf("%+v", e)
	}
	str, err := l.JS.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := str.GetMsg(t.Context(), entries[4].Sequence)
	if err != nil || string(m.Data) != "4" || fault.Key(&ackfloor.Message{Header: m.Header}) != "k1" || m.Header.Get(jetstream.MsgIDHeader) != entries[4].ID {
		t.Errorf("%v, %+v", err, m)
	}
	ids := map[string]int{}
	info, err := str.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		if m, err := str.GetMsg(t.Context(), seq); err == nil {
			ids[m.Header.Get(jetstream.MsgIDHeader)]++
		}
	}
	for id, n := range ids {
		if n != 1 {
			t.Errorf("%s is stored %d times", id, n)
		}
	}
}

func TestSmallDiskIsFilled(t *testing.T) {
	d := fault.SmallDisk(t, 1<<20)
	room := func() bool { return os.WriteFile(filepath.Join(d.Path, "some"), make([]byte, 8<<10), 0o600) == nil }
	if err := d.Free(); err != nil || !room() {
		t.Fatalf("there is no room at the beginning: %v", err)
	}
	if err := os.Remove(filepath.Join(d.Path, "some")); err != nil {
		t.Fatal(err)
	}
	if err := d.Fill(); err != nil || room() {
		t.Fatalf("there is room behind Fill: %v", err)
	}
	if err := d.Free(); err != nil || !room() {
		t.Fatalf("there is no room behind Free: %v", err)
	}
	called := false
	full := d.Full(time.Second, time.Millisecond, func() { called = true })
	if err := full.Do(t.Context(), draw()); err != nil || !called || !room() {
		t.Errorf("%v, %v", err, called)
	}
}

// server is a fault.Server that counts.
type server struct{ stops, kills, starts, signals atomic.Int32 }

func (s *server) Stop()                    { s.stops.Add(1) }
func (s *server) Kill()                    { s.kills.Add(1) }
func (s *server) Start()                   { s.starts.Add(1) }
func (s *server) Signal(os.Signal)         { s.signals.Add(1) }
func (s *server) Ended(time.Duration) bool { return s.signals.Load() < 3 }

func TestFaultsOfAServer(t *testing.T) {
	s := &server{}
	for _, f := range []fault.Fault{fault.StopServer(s, 0, time.Millisecond), fault.KillServer(s, 0, time.Millisecond), fault.HangServer(s, 0, time.Millisecond)} {
		if err := f.Do(t.Context(), draw()); err != nil || f.Of != s {
			t.Errorf("%s: %v, of %v", f.Name, err, f.Of)
		}
	}
	if s.stops.Load() != 1 || s.kills.Load() != 1 || s.starts.Load() != 2 || s.signals.Load() != 2 {
		t.Errorf("%+v", s)
	}
	if err := fault.LameDuck(s, 0, time.Millisecond).Do(t.Context(), draw()); err == nil || s.starts.Load() != 2 {
		t.Errorf("a server that does not end in lame duck mode: %v", err)
	}
}
