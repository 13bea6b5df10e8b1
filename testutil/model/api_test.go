package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/model"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const createD = "$JS.API.CONSUMER.CREATE.EVENTS.D"

func config(fields, action string) string {
	return fmt.Sprintf(`{"stream_name":"EVENTS","config":{"durable_name":"D","ack_policy":"explicit",%s},"action":"%s"}`, fields, action)
}

// What the API answers, asked one after the other: the model has to answer as the server does.
var requests = []struct{ subject, body string }{
	{"$JS.API.STREAM.INFO.EVENTS", ""},
	{"$JS.API.STREAM.INFO.NONE", ""},
	{"$JS.API.CONSUMER.INFO.EVENTS.D", ""},
	{"$JS.API.CONSUMER.INFO.NONE.D", ""},
	{"$JS.API.CONSUMER.MSG.NEXT.EVENTS.D", `{"batch":1,"no_wait":true}`},
	{"$JS.ACK.EVENTS.D.1.1.1.1.0", "+ACK"},
	{createD, config(`"ack_wait":5000000000`, "update")},
	{createD, config(`"ack_wait":5000000000,"max_deliver":-1`, "create")},
	{createD, config(`"ack_wait":5000000000,"max_deliver":-1`, "create")},
	{createD, config(`"ack_wait":6000000000`, "create")},
	{createD, config(`"ack_wait":6000000000,"max_ack_pending":7`, "update")},
	{createD, config(`"max_batch":3,"max_expires":1000000000,"max_bytes":5000`, "")},
	{"$JS.API.CONSUMER.INFO.EVENTS.D", ""},
	{"$JS.API.CONSUMER.INFO.NONE.D", ""},
	{"$JS.API.CONSUMER.MSG.NEXT.EVENTS.E", `{"batch":1,"no_wait":true}`},
	{"$JS.ACK.EVENTS.E.1.1.1.1.0", "+ACK"},
	{"events.x", "1"},
	{"other.x", "1"},
	{"$JS.API.STREAM.INFO.EVENTS", ""},
	{"$JS.API.CONSUMER.INFO.EVENTS.D", ""},
}

func TestConformanceOfTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
		m := model.New(model.Config{Stream: "EVENTS", Subjects: []string{"events.>"}})
		t.Cleanup(m.Close)
		nc, err := m.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		for _, r := range requests {
			want, got := answer(s.Conn(t), r.subject, r.body), answer(nc, r.subject, r.body)
			if want != got {
				t.Errorf("%s %s\nnats-server: %s\nthe model:   %s", r.subject, r.body, want, got)
			}
		}
	})
}

// answer asks and returns what an answer says, without what differs from server to server.
func answer(nc *nats.Conn, subject, body string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, []byte(body))
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) {
		return err.Error()
	} else if err != nil {
		return "error: " + err.Error()
	}
	if len(m.Data) == 0 {
		return fmt.Sprint(m.Header)
	}
	var all struct {
		Error *struct {
			Code   int `json:"code"`
			Number int `json:"err_code"`
		} `json:"error"`
		Config      map[string]any `json:"config"`
		State       map[string]any `json:"state"`
		Stream      string         `json:"stream"`
		StreamName  string         `json:"stream_name"`
		Name        string         `json:"name"`
		Sequence    uint64         `json:"seq"`
		Delivered   map[string]any `json:"delivered"`
		AckFloor    map[string]any `json:"ack_floor"`
		AckPending  int            `json:"num_ack_pending"`
		Redelivered int            `json:"num_redelivered"`
		Waiting     int            `json:"num_waiting"`
		Pending     int            `json:"num_pending"`
		Created     time.Time      `json:"created"`
	}
	if err := json.Unmarshal(m.Data, &all); err != nil {
		return fmt.Sprintf("%v: %s", err, m.Data)
	}
	ours := map[string]bool{"durable_name": true, "name": true, "deliver_policy": true, "ack_policy": true, "ack_wait": true, "max_deliver": true, "max_waiting": true,
		"max_ack_pending": true, "max_batch": true, "max_expires": true, "max_bytes": true, "replay_policy": true, "subjects": true, "retention": true, "storage": true,
		"messages": true, "first_seq": true, "last_seq": true}
	for _, fields := range []map[string]any{all.Config, all.State} {
		maps.DeleteFunc(fields, func(k string, v any) bool { return !ours[k] || v == nil || all.State != nil && k == "max_bytes" }) // a stream's limits are not modelled
	}
	made := !all.Created.IsZero()
	all.Created = time.Time{}
	for _, cursor := range []map[string]any{all.Delivered, all.AckFloor} {
		delete(cursor, "last_active")
	}
	out, _ := json.Marshal(all)
	return fmt.Sprintf("%s, made: %v", out, made)
}
