package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor"
)

// row is one event as the files have it. The tags say how Parquet stores it.
type row struct {
	Sequence  uint64 `parquet:"sequence,delta"`                        // in the stream
	Published int64  `parquet:"published,delta,timestamp(nanosecond)"` // when the stream stored it, ns since 1970, UTC
	Subject   string `parquet:"subject,dict"`                          //
	Page      string `parquet:"page,optional,dict"`                    // of events.page_loaded
	Field     string `parquet:"field,optional,dict"`                   // of events.input_changed
	Visitor   string `parquet:"visitor,optional"`                      //
}

// before orders rows, and two of which neither is before the other are copies of one message: the same place in the stream, stored at the same moment. The moment
// belongs to it, since a stream that was deleted and made anew begins at 1 again.
func (r *row) before(other *row) bool { return r.compare(other) < 0 }

func (r *row) compare(other *row) int {
	return cmp.Or(cmp.Compare(r.Sequence, other.Sequence), cmp.Compare(r.Published, other.Published))
}

func (r *row) hour() time.Time { return time.Unix(0, r.Published).UTC().Truncate(time.Hour) }

// longest is what a name may have in bytes: names are kept in memory while they are counted.
const longest = 1024

var errNothing = errors.New("the event names neither a page nor a field")

// event is the payload of events.page_loaded (page) and events.input_changed (field).
type event struct {
	Page    string `json:"page"`
	Field   string `json:"field"`
	Visitor string `json:"visitor"`
}

// decode makes a row of a message. No retry would mend its errors.
func decode(m *ackfloor.Message) (row, error) {
	var e event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return row{}, fmt.Errorf("the event can't be decoded: %w", err)
	}
	if e.Page == "" && e.Field == "" {
		return row{}, errNothing
	}
	if n := max(len(e.Page), len(e.Field), len(e.Visitor)); n > longest {
		return row{}, fmt.Errorf("a name of %d bytes, the limit is %d", n, longest)
	}
	return row{Sequence: m.Sequence, Published: m.Published.UnixNano(), Subject: m.Subject, Page: e.Page, Field: e.Field, Visitor: e.Visitor}, nil
}
