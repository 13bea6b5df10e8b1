package worker

import "iter"

// held is the set of messages that a Runner holds, by stream sequence. Sequences come close together, so nearly all have a place of their own in a
// table that is as large as a window; the rest are in a map. (A map for all takes some 0.06 µs a message, and more on a machine that does other work.)
type held struct {
	near [heldNear]*delivery
	far  map[uint64]*delivery
	n    int
	size int // bytes of payload, together
}

const heldNear = 4096 // a power of two

func (h *held) len() int { return h.n }

// get returns the message with a sequence, or nil.
func (h *held) get(seq uint64) *delivery {
	if d := h.near[seq%heldNear]; d != nil && d.msg.Sequence == seq {
		return d
	}
	if len(h.far) > 0 {
		return h.far[seq]
	}
	return nil
}

// put adds a message, or puts it in the place of the one with its sequence.
func (h *held) put(d *delivery) {
	seq := d.msg.Sequence
	place := &h.near[seq%heldNear]
	old := h.get(seq)
	if old == nil {
		h.n++
	} else {
		h.size -= len(old.msg.Data)
	}
	h.size += len(d.msg.Data)
	if *place == old { // it is free, or that one's
		*place = d
		return
	}
	if h.far == nil {
		h.far = make(map[uint64]*delivery)
	}
	h.far[seq] = d
}

// remove takes a message out, if it is the one that is held under its sequence.
func (h *held) remove(d *delivery) {
	seq := d.msg.Sequence
	switch place := &h.near[seq%heldNear]; {
	case *place == d:
		*place = nil
	case len(h.far) > 0 && h.far[seq] == d:
		delete(h.far, seq)
	default:
		return
	}
	h.n--
	h.size -= len(d.msg.Data)
}

// all goes through the messages, in no order. One may be removed meanwhile.
func (h *held) all() iter.Seq[*delivery] {
	return func(yield func(*delivery) bool) {
		left := h.n - len(h.far)
		for i := 0; i < heldNear && left > 0; i++ {
			if d := h.near[i]; d != nil {
				left--
				if !yield(d) {
					return
				}
			}
		}
		for _, d := range h.far {
			if !yield(d) {
				return
			}
		}
	}
}
