package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// delayed is a TCP proxy that keeps every byte for a while, as a long way does: the way there and the way back take a half of the round trip each. Its bandwidth is
// not limited.
type delayed struct {
	l     net.Listener
	to    string
	half  time.Duration
	mu    sync.Mutex
	conns []net.Conn
	ended bool
	all   sync.WaitGroup
}

// startDelayed starts a proxy to a host and port.
func startDelayed(to string, roundTrip time.Duration) (*delayed, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delayed{l: l, to: to, half: roundTrip / 2}
	d.all.Go(d.accept)
	return d, nil
}

func (d *delayed) url() string { return "nats://" + d.l.Addr().String() }

// stop closes everything and returns when nothing is left.
func (d *delayed) stop() {
	_ = d.l.Close()
	d.mu.Lock()
	d.ended = true
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.all.Wait()
}

func (d *delayed) accept() {
	for {
		near, err := d.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", d.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, near, far)
		if d.ended {
			_ = near.Close()
			_ = far.Close()
		}
		d.mu.Unlock()
		d.all.Go(func() { d.carry(far, near) })
		d.all.Go(func() { d.carry(near, far) })
	}
}

// parcel is what was read at once, and when it is due.
type parcel struct {
	data []byte
	due  time.Time
}

// carry copies one direction. What is under way waits in a queue, so that a long way holds up nothing but the bytes' arrival.
func (d *delayed) carry(to, from net.Conn) {
	under := make(chan parcel, 1<<16)
	d.all.Go(func() {
		defer func() { _ = to.Close() }()
		for p := range under {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close() // the reader ends, and closes the queue
			}
		}
	})
	defer close(under)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			under <- parcel{append([]byte(nil), buf[:n]...), time.Now().Add(d.half)}
		}
		if err != nil {
			if err != io.EOF {
				_ = to.Close()
			}
			return
		}
	}
}
