package main

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// watcher is the handler that every contestant is given. For throughput it does nothing but count.
type watcher struct {
	n       int64
	skip    int64
	handled atomic.Int64
	first   time.Time // written by the call for the first message
	all     chan struct{}

	latencies []time.Duration // one place a message that is measured; nil unless latency is measured
	points    []int64         // memory: after so many messages a sample is taken
	take      chan int64
	sampled   chan []sample
}

func watcherOf(o order) *watcher {
	w := &watcher{n: int64(o.n), skip: int64(o.skip), all: make(chan struct{})}
	switch o.mode {
	case modeLatency:
		w.latencies = make([]time.Duration, o.n-o.skip)
	case modeMemory:
		w.startSamples()
	}
	return w
}

// handle is called from many goroutines.
func (w *watcher) handle(data []byte) {
	i := w.handled.Add(1)
	if i == 1 {
		w.first = time.Now()
	}
	if w.latencies != nil {
		if at := i - 1 - w.skip; at >= 0 && i <= w.n {
			w.latencies[at] = time.Duration(time.Now().UnixNano() - int64(binary.LittleEndian.Uint64(data)))
		}
	}
	for _, p := range w.points {
		if i == p {
			w.take <- i
		}
	}
	if i == w.n {
		close(w.all)
	}
}
