// Package tape reads a stream and the cursors of its consumers, for those who show them: the admin page and `ackfloor cursors`.
//
// It asks for information only and changes nothing: no message is fetched, no consumer made or moved. What a user needs for it are the rights to publish
// to $JS.API.STREAM.INFO.<stream> and $JS.API.CONSUMER.LIST.<stream>, or instead of the second to $JS.API.CONSUMER.INFO.<stream>.<consumer> for each consumer named.
package tape

import (
	"slices"
	"time"
)

// Tape is a stream with the cursors on it. Numbers are stream sequences.
type Tape struct {
	Stream   string    `json:"stream"`
	First    uint64    `json:"first"`              // of the messages stored; Last+1 in a stream that is empty now and was not always
	Last     uint64    `json:"last"`               // ever stored; 0 where none was
	Messages uint64    `json:"messages"`           // stored; fewer than Last-First+1 where some were deleted
	Deleted  []uint64  `json:"deleted,omitempty"`  // those between First and Last that are gone, ascending; only where First to Last are at most Small
	Bytes    uint64    `json:"bytes"`              // stored
	LastTime time.Time `json:"last_time,omitzero"` // when the last one was stored
	Partial  string    `json:"partial,omitempty"`  // why not every consumer is on it, or the ends are not known; "" when all is
	Cursors  []Cursor  `json:"cursors"`            // durable consumers first, each kind by name
	Seen     time.Time `json:"seen"`               // when the server was asked, by this machine's clock
}

// Small is how many sequences a stream spans at the most for Deleted to be asked for: a picture of more has no cell for each.
const Small = 400

// Cursor is where a consumer stands; words as `nats consumer info` has them. With an Error the numbers are those of the last answer, or zeros.
type Cursor struct {
	Consumer      string    `json:"consumer"`
	Filter        []string  `json:"filter,omitempty"` // subjects; empty is all
	Delivered     uint64    `json:"delivered"`        // Last Delivered Message: stream sequence
	DeliveredAt   time.Time `json:"delivered_at,omitzero"`
	AckFloor      uint64    `json:"ack_floor"` // Acknowledgment Floor: stream sequence
	AckFloorAt    time.Time `json:"ack_floor_at,omitzero"`
	Outstanding   int       `json:"outstanding"`     // Outstanding Acks
	MaxAckPending int       `json:"max_ack_pending"` // 0 or below: no limit
	Redelivered   int       `json:"redelivered"`     // Redelivered Messages
	Unprocessed   uint64    `json:"unprocessed"`     // Unprocessed Messages
	WaitingPulls  int       `json:"waiting_pulls"`   // Waiting Pulls
	Durable       bool      `json:"durable"`
	Pull          bool      `json:"pull"`
	Paused        bool      `json:"paused,omitempty"`
	Error         string    `json:"error,omitempty"` // why there are no numbers
}

// Mark says what a sequence of the stream is to a cursor.
type Mark string

// The marks.
const (
	MarkDone  Mark = "done"  // at or below the acknowledgment floor, or known to concern the consumer no more: settled, or of a subject it does not take
	MarkOpen  Mark = "open"  // between the floor and the last delivered: it may be outstanding, or settled out of order
	MarkAhead Mark = "ahead" // not delivered yet
)

// Mark tells what the sequence is to the cursor; it must be one that is stored. Where nothing is outstanding nothing is open, and where nothing is unprocessed
// what lies ahead is of subjects that the consumer does not take. The server does not tell which messages are filtered out before that.
func (c Cursor) Mark(sequence uint64) Mark {
	switch {
	case sequence <= c.AckFloor:
		return MarkDone
	case sequence <= c.Delivered && c.Outstanding > 0:
		return MarkOpen
	case sequence <= c.Delivered || c.Unprocessed == 0:
		return MarkDone
	}
	return MarkAhead
}

// Gone tells whether a sequence is one of Deleted.
func (t *Tape) Gone(sequence uint64) bool {
	_, gone := slices.BinarySearch(t.Deleted, sequence)
	return gone
}
