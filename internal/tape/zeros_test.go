package tape

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The answers of a real server, on their way through somebody who makes of a consumer's what a leader answers that is about to stop.
func TestZerosDoNotReplaceNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		three(t, s)
		nc := s.Conn(t)
		var zeros atomic.Bool
		_, err := nc.Subscribe("zeros.>", func(m *nats.Msg) {
			answer, err := nc.RequestWithContext(t.Context(), "$JS.API."+strings.TrimPrefix(m.Subject, "zeros."), m.Data)
			if err != nil {
				t.Error(err)
				return
			}
			var body map[string]any
			if err := json.Unmarshal(answer.Data, &body); err != nil {
				t.Error(err)
			}
			if list, ok := body["consumers"].([]any); ok && zeros.Load() {
				email := list[2].(map[string]any)
				list[2] = map[string]any{"name": "email", "stream_name": "EVENTS", "config": email["config"], "created": "0001-01-01T00:00:00Z"}
			}
			data, _ := json.Marshal(body)
			_ = m.Respond(data)
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the server knows of the subscription
		js, err := jetstream.NewWithAPIPrefix(s.Conn(t), "zeros")
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(js, "EVENTS")
		if now := of(t, read(t, r), "email"); now.Error != "" || now.Delivered != 2 {
			t.Errorf("before: %+v", now)
		}
		zeros.Store(true)
		if now := of(t, read(t, r), "email"); now.Error != "" || now.Delivered != 2 || now.Unprocessed != 6 {
			t.Errorf("for a moment: %+v", now)
		}
		if first := of(t, read(t, NewReader(js, "EVENTS")), "email"); first.Error == "" || first.Delivered != 0 {
			t.Errorf("with nothing to keep: %+v", first)
		}
		time.Sleep(zerosFor + time.Second)
		if now := of(t, read(t, r), "email"); now.Error == "" || now.Delivered != 2 {
			t.Errorf("for long: %+v", now)
		}
		zeros.Store(false)
		if now := of(t, read(t, r), "email"); now.Error != "" || now.Delivered != 2 {
			t.Errorf("after: %+v", now)
		}
	})
}
