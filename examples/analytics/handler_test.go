package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

func newWriter(t *testing.T, shown *[]string) *writer {
	t.Helper()
	return &writer{store: newStore(t), pause: time.Minute, show: func(m *ackfloor.Message, format string, _ ...any) {
		if shown != nil {
			*shown = append(*shown, format)
		}
	}}
}

func pageLoaded(sequence uint64, at time.Time, data string) *ackfloor.Message {
	return testutil.Message("events.page_loaded", data, testutil.Sequence(sequence), testutil.Published(at))
}

func isPermanent(err error) bool {
	_, ok := errors.AsType[*ackfloor.PermanentError](err)
	return ok
}

func TestWhatCanNotBeDecodedIsRefusedAndTheOthersAreWritten(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	data := []string{
		`{"page":"/home","visitor":"v1"}`, `no JSON`, `{}`, `{"page":7}`, `{"field":"email"}`, `[]`, ``, `null`,
		`{"page":"` + strings.Repeat("x", longest) + `"}`, `{"page":"` + strings.Repeat("x", longest+1) + `"}`, `{"page":"/a"} {"page":"/b"}`,
	}
	good := map[int]bool{0: true, 4: true, 8: true}
	var all []*ackfloor.Message
	for i, d := range data {
		all = append(all, pageLoaded(uint64(i+1), noon, d))
	}
	b := ackfloor.NewBatch(all...)
	outcomes := b.Outcomes(w.HandleBatch(t.Context(), b))
	for i, err := range outcomes {
		if good[i] && err != nil || !good[i] && !isPermanent(err) {
			t.Errorf("%.40s: %v", data[i], err)
		}
	}
	w.store.holds(t, []row{
		{Sequence: 1, Published: noon.UnixNano(), Subject: "events.page_loaded", Page: "/home", Visitor: "v1"},
		{Sequence: 5, Published: noon.UnixNano(), Subject: "events.page_loaded", Field: "email"},
		{Sequence: 9, Published: noon.UnixNano(), Subject: "events.page_loaded", Page: strings.Repeat("x", longest)},
	})
}

// The hour is that of the event, however late it comes, and each hour has files of its own.
func TestThreeHoursInOneBatchAndALateEvent(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	handle := func(all ...*ackfloor.Message) {
		t.Helper()
		if err := w.HandleBatch(t.Context(), ackfloor.NewBatch(all...)); err != nil {
			t.Fatal(err)
		}
	}
	const home = `{"page":"/home"}`
	handle(pageLoaded(1, noon, home), pageLoaded(3, noon.Add(time.Hour), home), pageLoaded(4, noon.Add(49*time.Hour), home),
		pageLoaded(5, noon.Add(49*time.Hour+59*time.Minute+59*time.Second+999999999), home))
	var hours []string
	for _, name := range w.store.names(t) {
		hours = append(hours, name[:39])
	}
	want := "2026-11-30T12_000000000001-000000000001 2026-11-30T13_000000000003-000000000003 2026-12-02T13_000000000004-000000000005"
	if got := strings.Join(hours, " "); got != want {
		t.Errorf("files\n%s, want\n%s", got, want)
	}
	if err := w.store.compact(t.Context(), noon.Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	handle(pageLoaded(2, noon.Add(time.Minute), home)) // it was tried again and again, for two days
	c := counter{store: w.store}
	counted, _, err := c.count(t.Context(), 0)
	if err != nil || len(counted) != 3 || counted[0].events != 2 || counted[0].minutes[1] != 1 {
		t.Fatalf("the hours: %+v, %v", counted, err)
	}
	if err := w.store.compact(t.Context(), noon.Add(50*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := len(w.store.names(t)); n != 3 {
		t.Errorf("%d files after the late one was merged into its hour, want 3", n)
	}
	if rows, copies := w.store.rows(t); len(rows) != 5 || copies != 0 {
		t.Errorf("%d rows, %d copies", len(rows), copies)
	}
}

// Where no file can be written, the worker pauses; what was written before is done, and what can't be decoded is refused.
func TestTroubleWithTheDiskIsAPause(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	if err := os.RemoveAll(w.store.dir); err != nil {
		t.Fatal(err)
	}
	b := ackfloor.NewBatch(pageLoaded(1, noon, `{"page":"/home"}`), pageLoaded(2, noon, `no JSON`), pageLoaded(3, noon.Add(time.Hour), `{"page":"/home"}`))
	outcomes := b.Outcomes(w.HandleBatch(t.Context(), b))
	for _, i := range []int{0, 2} {
		pause, ok := errors.AsType[*ackfloor.PauseError](outcomes[i])
		if !ok || pause.Delay != time.Minute || !errors.Is(outcomes[i], fs.ErrNotExist) {
			t.Errorf("message %d: %v; want a pause with its reason", i, outcomes[i])
		}
	}
	if !isPermanent(outcomes[1]) {
		t.Errorf("what can't be decoded: %v", outcomes[1])
	}
}

func TestAStopIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ackfloor.ErrStopping)
	if err := w.HandleBatch(ctx, ackfloor.NewBatch(pageLoaded(1, noon, `{"page":"/home"}`))); !errors.Is(err, ackfloor.ErrStopping) {
		t.Errorf("HandleBatch = %v, want the cause", err)
	}
}

// Under load there is no line for each message.
func TestOnlySmallBatchesAreShownMessageByMessage(t *testing.T) {
	t.Parallel()
	for n, lines := range map[int]int{1: 1, few: few, few + 1: 0} {
		var shown []string
		w := newWriter(t, &shown)
		var all []*ackfloor.Message
		for i := range n {
			all = append(all, pageLoaded(uint64(i+1), noon, `{"page":"/home"}`))
		}
		if err := w.HandleBatch(t.Context(), ackfloor.NewBatch(all...)); err != nil || len(shown) != lines || w.rows.Load() != uint64(n) {
			t.Errorf("a batch of %d: %d lines, %d rows, %v; want %d lines", n, len(shown), w.rows.Load(), err, lines)
		}
	}
}
