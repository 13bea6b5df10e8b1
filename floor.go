package ackfloor

import "context"

type floorKey struct{}

// WithAckFloor returns a context that carries an ack floor for AckFloor. A Runner does so for its handlers; a test of a handler may.
func WithAckFloor(ctx context.Context, floor func() uint64) context.Context {
	return context.WithValue(ctx, floorKey{}, floor)
}

// AckFloor tells up to which stream sequence everything was settled when the Runner last looked at its consumer, which is every few seconds: what a handler
// keeps to recognise a message that comes again is not needed below it. It returns false where ctx is not that of a handler, or nothing is known yet.
//
// A floor may go back: a server that was killed on an unreplicated stream forgets the last acks (see docs/guarantees.md), and somebody may delete the
// consumer and make it anew. What must not be done twice is therefore kept for longer than the floor says.
func AckFloor(ctx context.Context) (seq uint64, ok bool) {
	floor, ok := ctx.Value(floorKey{}).(func() uint64)
	if !ok {
		return 0, false
	}
	seq = floor()
	return seq, seq > 0
}
