package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// pull is a request for messages that waits.
type pull struct {
	inbox     string
	left      int  // messages that may still come
	sent      int  // messages that came
	bytes     int  // that may still come; 0: no limit
	noWait    bool // ends at the end of the stream
	expires   time.Time
	heartbeat time.Duration
	beat      time.Time // when it is told next that it is alive
}

// request is the body of a pull.
type request struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires"`
	Bytes     int           `json:"max_bytes"`
	NoWait    bool          `json:"no_wait"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

func parseRequest(body []byte) (request, error) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '{' {
		var r request
		if err := json.Unmarshal(body, &r); err != nil {
			return r, err
		}
		if r.Heartbeat > 0 && 2*r.Heartbeat > r.Expires {
			return r, errors.New("heartbeat value too large")
		}
		return r, nil
	}
	if n, err := strconv.Atoi(string(body)); err == nil {
		return request{Batch: n}, nil
	}
	return request{Batch: 1}, nil
}

// pull takes a request.
func (c *consumer) pull(inbox string, body []byte) {
	refuse := func(status string) { c.out(out{to: inbox, header: []byte("NATS/1.0 " + status + "\r\n\r\n")}) }
	r, err := parseRequest(body)
	switch {
	case err != nil:
		refuse(fmt.Sprintf("400 Bad Request - %v", err))
		return
	case c.cfg.MaxRequestBatch > 0 && r.Batch > c.cfg.MaxRequestBatch:
		refuse(fmt.Sprintf("409 Exceeded MaxRequestBatch of %d", c.cfg.MaxRequestBatch))
		return
	case c.cfg.MaxRequestExpires > 0 && r.Expires > c.cfg.MaxRequestExpires:
		refuse(fmt.Sprintf("409 Exceeded MaxRequestExpires of %v", c.cfg.MaxRequestExpires))
		return
	case c.cfg.MaxRequestMaxBytes > 0 && r.Bytes > c.cfg.MaxRequestMaxBytes:
		refuse(fmt.Sprintf("409 Exceeded MaxRequestMaxBytes of %d", c.cfg.MaxRequestMaxBytes))
		return
	}
	if r.NoWait {
		ready := c.unsent() + uint64(len(c.queue))
		if ready == 0 && r.Expires == 0 {
			refuse("404 No Messages")
			return
		}
		if ready > 0 {
			c.tendPulls(false)
			if ready < uint64(c.asked()) {
				refuse("408 Requests Pending")
				return
			}
		}
	}
	if len(c.pulls) == c.cfg.MaxWaiting && time.Since(c.tended) > time.Second {
		c.tendPulls(false)
	}
	if len(c.pulls) == c.cfg.MaxWaiting {
		if r.Heartbeat == 0 { // one with a heartbeat is told nothing
			refuse("409 Exceeded MaxWaiting")
		}
		return
	}
	now := time.Now()
	p := &pull{inbox: inbox, left: r.Batch, bytes: r.Bytes, noWait: r.NoWait, heartbeat: r.Heartbeat}
	if r.Expires > 0 {
		p.expires = now.Add(r.Expires)
	}
	if r.Heartbeat > 0 {
		p.beat = now.Add(r.Heartbeat)
	}
	c.pulls = append(c.pulls, p)
	c.gather()
}

// asked is how many messages the open pulls may still get.
func (c *consumer) asked() (n int) {
	for _, p := range c.pulls {
		n += p.left
	}
	return n
}

// nextPull takes the pull that gets the next message, of so many bytes, and ends those that can't. A pull that may get more goes behind the others.
func (c *consumer) nextPull(size int) *pull {
	for len(c.pulls) > 0 {
		p := c.pulls[0]
		c.pulls = c.pulls[1:]
		if !p.expires.IsZero() && !time.Now().Before(p.expires) {
			c.status(p.inbox, "408 Request Timeout", p.left, p.bytes)
			continue
		}
		if p.bytes > 0 && size > p.bytes {
			c.status(p.inbox, "409 Message Size Exceeds MaxBytes", p.left, p.bytes)
			continue
		}
		if p.bytes > 0 {
			if p.bytes -= size; p.bytes == 0 {
				p.left = 1
			}
		}
		if !c.interest(p.inbox) {
			continue
		}
		p.sent++
		if p.left--; p.left > 0 {
			c.pulls = append(c.pulls, p)
		}
		return p
	}
	return nil
}

// tendPulls ends the pulls that are over, and sends heartbeats. end tells that it was called at the end of what there is to deliver, or where no
// pull could take it. It returns when the first pull will need it again.
func (c *consumer) tendPulls(end bool) (first time.Time) {
	now := time.Now()
	if len(c.pulls) > 0 {
		c.tended = now
	}
	sooner := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	c.pulls = slices.DeleteFunc(c.pulls, func(p *pull) bool {
		expired := !p.expires.IsZero() && now.After(p.expires)
		switch {
		case expired:
			c.status(p.inbox, "408 Request Timeout", p.left, p.bytes)
			return true
		case end && p.noWait && (p.expires.IsZero() || p.sent > 0):
			c.out(out{to: p.inbox, header: []byte("NATS/1.0 404 No Messages\r\n\r\n")})
			return true
		case !c.interest(p.inbox):
			return true
		}
		if !p.beat.IsZero() && now.After(p.beat) {
			c.out(out{to: p.inbox, header: fmt.Appendf(nil, "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n",
				c.deliveries-1, c.next-1)})
			p.beat = now.Add(p.heartbeat)
		}
		sooner(p.beat)
		sooner(p.expires)
		return false
	})
	return first
}

// status sends a pull a word about it, with what it did not get.
func (c *consumer) status(inbox, text string, left, bytes int) {
	c.out(out{to: inbox, header: fmt.Appendf(nil, "NATS/1.0 %s\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n", text, left, bytes)})
}
