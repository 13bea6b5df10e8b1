package network_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil/fault/network"
)

// echo is a server that sends back what it gets.
func echo(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return "nats://user:word@" + l.Addr().String()
}

// client is a connection through the proxy.
type client struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, p *network.Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "nats://user:word@"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{t, c}
}

// says sends words and returns what comes back until limit, or until so many bytes have.
func (c client) says(words string, limit time.Duration) (string, error) {
	c.t.Helper()
	if _, err := c.Write([]byte(words)); err != nil {
		return "", err
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		c.t.Fatal(err)
	}
	back := make([]byte, len(words))
	n, err := io.ReadFull(c, back)
	return string(back[:n]), err
}

// works fails the test unless the connection echoes.
func (c client) works() {
	c.t.Helper()
	if got, err := c.says("hello", 10*time.Second); got != "hello" || err != nil {
		c.t.Fatalf("it echoes %q, %v", got, err)
	}
}

// silent fails the test unless the connection is open and nothing comes back.
func (c client) silent() {
	c.t.Helper()
	got, err := c.says("hello", 100*time.Millisecond)
	var late net.Error
	if got != "" || !errors.As(err, &late) || !late.Timeout() {
		c.t.Fatalf("it echoes %q, %v", got, err)
	}
}

// closed fails the test unless the connection is closed, soon.
func (c client) closed() error {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := io.Copy(io.Discard, c)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		c.t.Fatal("the connection is open")
	}
	return err
}

func TestCutClosesAndAcceptsAgain(t *testing.T) {
	p := network.New(t, echo(t))
	c := dial(t, p)
	c.works()
	p.Cut()
	_ = c.closed()
	dial(t, p).works()
}

func TestDownRefusesUntilHeal(t *testing.T) {
	p := network.New(t, echo(t))
	c := dial(t, p)
	c.works()
	p.Down()
	_ = c.closed()
	p.Cut() // changes nothing
	if _, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "nats://user:word@")); err == nil {
		t.Error("it accepts a connection while it is down")
	}
	p.Heal()
	dial(t, p).works()
}

func TestBlackHoleIsSilentUntilHeal(t *testing.T) {
	p := network.New(t, echo(t))
	old := dial(t, p)
	old.works()
	p.BlackHole()
	p.BlackHole() // again: nothing
	old.silent()
	dial(t, p).silent()
	p.Heal()
	_ = old.closed()
	dial(t, p).works()
}

func TestHalfOpenLosesOneWay(t *testing.T) {
	for _, way := range []network.Direction{network.ToServer, network.ToClient} {
		p := network.New(t, echo(t))
		c := dial(t, p)
		c.works()
		p.HalfOpen(way)
		c.silent()
		p.Heal()
		_ = c.closed()
		dial(t, p).works()
	}
}

func TestLatencyIsEachWay(t *testing.T) {
	p := network.New(t, echo(t))
	c := dial(t, p)
	p.Latency(100*time.Millisecond, 0)
	began := time.Now()
	c.works()
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("it took %v, 200ms are added", took)
	}
	p.Latency(time.Millisecond, 0)
	p.Heal()
	c.works() // the same connection
}

func TestSlowLetsSoMuchThrough(t *testing.T) {
	p := network.New(t, echo(t))
	c := dial(t, p)
	p.Slow(100)
	began := time.Now()
	if _, err := c.says(strings.Repeat("x", 50_000), 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("50 kB took %v at 100 kB a second", took)
	}
	p.Heal()
	c.works()
}

func TestResetMidFrame(t *testing.T) {
	p := network.New(t, echo(t))
	old := dial(t, p)
	old.works()
	p.ResetMidFrame(3, network.ToClient)
	_ = old.closed()
	c := dial(t, p)
	got, err := c.says("hello", 10*time.Second)
	if got != "hel" && !errors.Is(err, syscall.ECONNRESET) { // a reset may overtake what was not read yet
		t.Errorf("it echoes %q, %v", got, err)
	}
	if err := c.closed(); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it ended with %v", err)
	}
	p.Heal()
	dial(t, p).works()
}

// A reset is one: the peer's kernel says so.
func TestResetIsAReset(t *testing.T) {
	p := network.New(t, echo(t))
	p.ResetMidFrame(3, network.ToServer)
	c := dial(t, p)
	if _, err := c.says("hello", 10*time.Second); err == nil {
		t.Error("it echoes")
	}
	seen := false
	for range 20 { // one that comes after the last byte was read is told apart from an end only by writing
		c := dial(t, p)
		_, err := c.says("hello", 10*time.Second)
		if seen = errors.Is(err, syscall.ECONNRESET); seen {
			break
		}
	}
	if !seen {
		t.Error("no connection was reset, they ended")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	if _, err := network.Open("no URL"); err == nil || !strings.HasPrefix(err.Error(), "network: ") {
		t.Errorf("it said %v", err)
	}
}

// Everything may be called at the same time, while connections come and go.
func TestProxyInUse(t *testing.T) {
	p := network.New(t, echo(t))
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	ended := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { ended <- struct{}{} }()
			for ctx.Err() == nil {
				c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "nats://user:word@"))
				if err != nil {
					continue
				}
				_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
				_, _ = c.Write([]byte("hello"))
				_, _ = io.ReadFull(c, make([]byte, 5))
				_ = c.Close()
			}
		}()
	}
	for ctx.Err() == nil {
		p.Latency(time.Millisecond, 0)
		p.Slow(100)
		p.Heal()
		p.BlackHole()
		p.Cut()
		p.Heal()
		p.ResetMidFrame(2, network.ToClient)
		p.Down()
		p.Heal()
	}
	for range 4 {
		<-ended
	}
	dial(t, p).works()
}
