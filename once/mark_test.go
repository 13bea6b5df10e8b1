package once

import (
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// A claim's mark lives for what is left of the handle timeout, and the tail.
func TestMarkSaysHowLong(t *testing.T) {
	m := testutil.Message("events.x", "x", testutil.Header("Ackfloor-Replays", "2"))
	c := &claim{m: m, call: newCall()}
	got, err := readMark(c.running(t.Context()).encode())
	if err != nil || got.Limit != noteTail || got.State != running || got.Replays != 2 || len(c.call) < 20 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", "null", `{"state":"maybe"}`} {
		if _, err := readMark([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if key := markKey(testutil.Message("x", "", testutil.Stream("S"), testutil.Consumer("C"), testutil.Published(time.Unix(0, 5)))); key != "S.C.1.5" {
		t.Error(key)
	}
}
