package worker

import "time"

// learnLocked takes in how long a handler took.
func (b *buffer) learnLocked(took time.Duration) {
	if b.avg == 0 {
		b.avg, b.typical = took, took
		return
	}
	b.avg += (took - b.avg) / 16
	step := b.typical/8 + 1
	switch {
	case took > inlineLimit && b.typical < fastHandler:
		b.typical = took // the reader was in it too long: not again until many were fast
	case took > b.typical:
		b.typical += step
	case took < b.typical:
		b.typical -= step
	}
}
