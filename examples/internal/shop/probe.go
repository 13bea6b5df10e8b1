package shop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"
)

const (
	greetLimit = 2 * time.Second // for a NATS server to say who it is; it does so at once
	cutTries   = 5               // connections that end without a word: a server on its way up or down does that
)

// probe looks at who listens on addr: found is true for a NATS server with JetStream and false for nobody. The error says what to
// do about another program, or a server without JetStream.
func probe(ctx context.Context, addr string) (found bool, err error) {
	for try := 1; ; try++ {
		conn, err := (&net.Dialer{Timeout: greetLimit}).DialContext(ctx, "tcp", addr)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			return false, nil // starting a server there tells what is wrong, if it is more than that nobody listens
		}
		line, err := greeting(conn)
		switch {
		case bytes.HasPrefix(line, []byte("INFO {")):
			return true, checkInfo(line, addr)
		case len(line) == 0 && !errors.Is(err, os.ErrDeadlineExceeded) && try < cutTries:
			select {
			case <-ctx.Done():
				return false, context.Cause(ctx)
			case <-time.After(lookAgain):
			}
			continue
		}
		return false, unavailable("%s is taken by another program, which is not a NATS server: stop it, or set NATS_URL to the server to use, "+
			"or set %s to a free address, such as 127.0.0.1:4322", addr, addrVariable)
	}
}

// greeting reads the first line that a connection brings.
func greeting(conn net.Conn) ([]byte, error) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(greetLimit))
	const longest = 64 << 10 // the line lists the addresses of a cluster
	line, err := bufio.NewReaderSize(conn, longest).ReadSlice('\n')
	return line, err
}

func checkInfo(line []byte, addr string) error {
	var info struct {
		JetStream bool `json:"jetstream"`
	}
	if err := json.Unmarshal(line[len("INFO "):], &info); err != nil {
		return unavailable("the NATS server on %s says what can't be understood: %v", addr, err)
	}
	if !info.JetStream {
		return unavailable("the NATS server on %s runs without JetStream: start it with -js, or set NATS_URL to the server to use, "+
			"or set %s to a free address, such as 127.0.0.1:4322", addr, addrVariable)
	}
	return nil
}
