package worker

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/ackfloor/ackfloor"
)

// The held set does what a map does, whatever the sequences are: close together, far apart, meeting in one place.
func TestHeldIsAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h held
	model := map[uint64]*delivery{}
	sequence := func() uint64 {
		switch n := rng.Uint64N(3000); rng.IntN(3) {
		case 0:
			return n
		case 1:
			return n%7 + heldNear*(n%5)
		default:
			return 1<<63 + n*heldNear
		}
	}
	for range 200_000 {
		seq := sequence()
		d := &delivery{msg: ackfloor.Message{Sequence: seq}}
		switch rng.IntN(4) {
		case 0, 1:
			h.put(d)
			model[seq] = d
		case 2:
			if m := model[seq]; m != nil {
				h.remove(m)
				delete(model, seq)
			}
		case 3:
			h.remove(d) // another of the same sequence: no effect
		}
		if h.get(seq) != model[seq] || h.len() != len(model) {
			t.Fatalf("sequence %d: %p and %p, %d and %d held", seq, h.get(seq), model[seq], h.len(), len(model))
		}
	}
	seen := map[uint64]*delivery{}
	for d := range h.all() {
		seen[d.msg.Sequence] = d
	}
	if !maps.Equal(seen, model) || len(h.far) == 0 {
		t.Errorf("%d of %d are gone through", len(seen), len(model))
	}
	for d := range h.all() { // and all may be removed on the way
		h.remove(d)
	}
	if h.len() != 0 || len(h.far) != 0 {
		t.Errorf("%d are left", h.len())
	}
}
