package model

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// conn is a client's connection. Its fields are guarded by the server's lock.
type conn struct {
	s       *Server
	pipe    net.Conn
	name    string
	subs    []sub
	greeted bool   // has answered its first PING: what is sent from here on may take time
	deaf    bool   // all that comes and goes is lost
	ended   bool   // nothing more is written than what waits
	queue   []byte // waits to be written
	wake    chan struct{}
}

// sub is a subscription.
type sub struct {
	pattern string
	sid     string
	left    int // messages until it ends; 0: no end
}

func newConn(s *Server, pipe net.Conn) *conn {
	c := &conn{s: s, pipe: pipe, wake: make(chan struct{}, 1)}
	info, _ := json.Marshal(map[string]any{"server_id": "MODEL", "server_name": "model", "version": "2.15.3", "proto": 1, "headers": true,
		"max_payload": 1 << 20, "jetstream": true, "host": "model", "port": 4222})
	c.put("INFO ", string(info), "\r\n")
	return c
}

// put queues bytes for the client. They are written by a goroutine of their own, since a pipe takes none before the other end reads.
func (c *conn) put(parts ...string) {
	if c.ended || c.deaf {
		return
	}
	for _, p := range parts {
		c.queue = append(c.queue, p...)
	}
	c.wakeUp()
}

func (c *conn) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// end closes the connection behind what waits to be written; of one that is deaf at once.
func (c *conn) end() {
	c.ended = true
	if c.deaf {
		c.queue = nil
	}
	c.wakeUp()
}

// write writes what is queued until the connection ends.
func (c *conn) write() {
	defer c.pipe.Close()
	slow := false // nats.go holds its lock while it connects: virtual time can't pass in a bubble where another goroutine waits for that
	for range c.wake {
		if slow && c.s.cfg.Latency > 0 {
			<-time.After(c.s.cfg.Latency)
		}
		c.s.mu.Lock()
		b, ended := c.queue, c.ended
		slow = c.greeted
		c.queue = nil
		c.s.mu.Unlock()
		if len(b) > 0 {
			if _, err := c.pipe.Write(b); err != nil {
				return
			}
		}
		if ended {
			return
		}
	}
}

// read reads what the client sends until the connection ends.
func (c *conn) read() {
	in := bufio.NewReader(c.pipe)
	for c.readOne(in) == nil {
	}
	_ = c.pipe.Close()
	c.s.mu.Lock()
	c.s.drop(c)
	c.s.unlock()
}

// readOne reads one operation of the protocol and does it. An error ends the connection.
func (c *conn) readOne(in *bufio.Reader) error {
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	op, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
	args := strings.Fields(rest)
	var header, data []byte
	switch op = strings.ToUpper(op); op {
	case "PUB", "HPUB":
		if header, data, err = readPayload(in, op, args); err != nil {
			return err
		}
	}
	c.s.mu.Lock()
	defer c.s.unlock()
	if c.deaf || c.ended {
		return nil
	}
	switch op {
	case "CONNECT":
		var o struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal([]byte(rest), &o); err != nil {
			return fmt.Errorf("model: CONNECT: %w", err)
		}
		c.name = o.Name
	case "PING":
		c.put("PONG\r\n")
		c.greeted = true
	case "PONG":
	case "SUB":
		c.subs = append(c.subs, sub{pattern: args[0], sid: args[len(args)-1]})
	case "UNSUB":
		c.unsubscribe(args)
	case "PUB", "HPUB":
		reply := ""
		if n := len(args); n == 3 && op == "PUB" || n == 4 {
			reply = args[1]
		}
		c.s.publish(c, args[0], reply, header, data)
	default:
		return fmt.Errorf("model: operation %q is not known", op)
	}
	return nil
}

// readPayload reads what follows the line of a PUB or HPUB.
func readPayload(in *bufio.Reader, op string, args []string) (header, data []byte, err error) {
	if len(args) < 2 || op == "HPUB" && len(args) < 3 {
		return nil, nil, fmt.Errorf("model: %s with %d arguments", op, len(args))
	}
	total, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return nil, nil, err
	}
	all := make([]byte, total+2)
	if _, err := io.ReadFull(in, all); err != nil {
		return nil, nil, err
	}
	split := 0
	if op == "HPUB" {
		if split, err = strconv.Atoi(args[len(args)-2]); err != nil || split > total {
			return nil, nil, fmt.Errorf("model: HPUB with a header of %q bytes", args[len(args)-2])
		}
	}
	return all[:split:split], all[split:total], nil
}

func (c *conn) unsubscribe(args []string) {
	for i := range c.subs {
		if c.subs[i].sid != args[0] {
			continue
		}
		if len(args) > 1 {
			c.subs[i].left, _ = strconv.Atoi(args[1])
			return
		}
		c.subs = append(c.subs[:i], c.subs[i+1:]...)
		return
	}
}

func (c *conn) subscribed(subject string) bool {
	for _, s := range c.subs {
		if matches(s.pattern, subject) {
			return true
		}
	}
	return false
}

// deliver sends the client a message for each of its subscriptions that match to, and tells whether there are any.
func (c *conn) deliver(to, subject, reply string, header, data []byte) (any bool) {
	for i := 0; i < len(c.subs); i++ {
		s := &c.subs[i]
		if !matches(s.pattern, to) {
			continue
		}
		any = true
		words := subject + " " + s.sid
		if reply != "" {
			words += " " + reply
		}
		if len(header) > 0 {
			c.put("HMSG ", words, " ", strconv.Itoa(len(header)), " ", strconv.Itoa(len(header)+len(data)), "\r\n", string(header), string(data), "\r\n")
		} else {
			c.put("MSG ", words, " ", strconv.Itoa(len(data)), "\r\n", string(data), "\r\n")
		}
		if s.left > 0 {
			if s.left--; s.left == 0 {
				c.subs = append(c.subs[:i], c.subs[i+1:]...)
				i--
			}
		}
	}
	return any
}
