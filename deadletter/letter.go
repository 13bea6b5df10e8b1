package deadletter

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Why a message became a dead letter: Letter.Reason.
const (
	ReasonPermanent   = "permanent"       // the handler said that no retry can mend it
	ReasonUndecodable = "undecodable"     // its payload is not what the handler takes
	ReasonExhausted   = "exhausted"       // its attempts are used up
	ReasonTimedOut    = "timed out"       // its last attempt took longer than the handle timeout
	ReasonCrash       = "suspected crash" // processes died while they handled it
)

// State is what has become of a letter: see Store.
type State string

// The states of a letter.
const (
	StateOpen      State = "open"      // nobody has replayed it
	StateReplaying State = "replaying" // replayed, and not known to be settled yet
	StateHandled   State = "handled"   // replayed and settled, and it did not fail again
)

// Letter is a message that a worker could not handle, and why.
type Letter struct {
	Sequence uint64    // of the letter in the dead-letter stream; 0 while it is not stored
	Stored   time.Time // when the dead-letter stream stored it

	Subject         string      // that the message was published to
	Stream          string      // that holds, or held, the message
	Consumer        string      // the durable consumer whose worker failed
	MessageSequence uint64      // of the message in Stream
	Published       time.Time   // when Stream stored the message: with MessageSequence, what tells it from any other
	Header          nats.Header // the publisher's, all of them, exactly; nil without any
	Data            []byte      // the payload, byte for byte

	Deliveries  int // that the server counted
	Attempts    int // that failed
	Reason      string
	Error       string // what the last attempt failed with: at most 1024 bytes of valid UTF-8 without control characters
	FirstFailed time.Time
	LastFailed  time.Time
	Host        string // that the worker ran on
	Version     string // of the worker's program

	Replays  int    // how often the message had been replayed when it failed; 0 the first time
	ReplayOf uint64 // the sequence of the letter that was replayed: only in a replay, and in the letter of a replay that failed
	State    State  // only from a Store

	at   place // where it is stored
	tail *tail // the part that is stored beside it and not fetched yet
}
