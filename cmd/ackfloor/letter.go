package main

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/ackfloor/ackfloor/deadletter"
)

// letterJSON is a letter in the output of --json: one line each. Times are RFC 3339 in UTC. The payload is data where it is valid UTF-8, else
// data_base64; one of them is always there.
type letterJSON struct {
	Sequence        uint64              `json:"sequence"` // of the letter, the number that show, replay and rm take
	Stored          time.Time           `json:"stored,omitzero"`
	State           string              `json:"state,omitempty"`
	Stream          string              `json:"stream"`
	Consumer        string              `json:"consumer"`
	Subject         string              `json:"subject"`
	MessageSequence uint64              `json:"message_sequence"` // of the message in its stream
	Published       time.Time           `json:"published,omitzero"`
	Deliveries      int                 `json:"deliveries"`
	Attempts        int                 `json:"attempts"`
	Reason          string              `json:"reason"`
	Error           string              `json:"error"`
	FirstFailed     time.Time           `json:"first_failed,omitzero"`
	LastFailed      time.Time           `json:"last_failed,omitzero"`
	Host            string              `json:"host,omitempty"`
	Version         string              `json:"version,omitempty"`
	Replays         int                 `json:"replays,omitempty"`
	ReplayOf        uint64              `json:"replay_of,omitempty"`
	Header          map[string][]string `json:"header,omitempty"`
	Data            *string             `json:"data,omitempty"`
	DataBase64      []byte              `json:"data_base64,omitempty"`
}

func asJSON(l *deadletter.Letter) letterJSON {
	out := letterJSON{
		Sequence: l.Sequence, Stored: l.Stored.UTC(), State: string(l.State), Stream: l.Stream, Consumer: l.Consumer, Subject: l.Subject,
		MessageSequence: l.MessageSequence, Published: l.Published.UTC(), Deliveries: l.Deliveries, Attempts: l.Attempts, Reason: l.Reason, Error: l.Error,
		FirstFailed: l.FirstFailed.UTC(), LastFailed: l.LastFailed.UTC(), Host: l.Host, Version: l.Version, Replays: l.Replays, ReplayOf: l.ReplayOf,
		Header: l.Header,
	}
	if utf8.Valid(l.Data) {
		text := string(l.Data)
		out.Data = &text
	} else {
		out.DataBase64 = l.Data
	}
	return out
}

// print writes a value as one line of JSON.
func (s *screen) print(v any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := s.out.Write(printableJSON(out.Bytes()))
	return err
}
