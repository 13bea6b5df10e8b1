package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/pcgroups"
)

// place is where a run happens: one server, or several.
type place struct {
	one     *testutil.P
	several *testutil.PC
	url     string
	nc      *nats.Conn
	js      jetstream.JetStream
}

func (s schedule) start(binary, dir string) (*place, error) {
	p := &place{}
	var err error
	if s.servers == 1 {
		if p.one, err = testutil.NewServerProcess(binary, dir); err != nil {
			return nil, err
		}
		p.url = p.one.URL()
	} else {
		if p.several, err = testutil.NewProcessCluster(binary, dir, s.servers); err != nil {
			return nil, err
		}
		p.url = p.several.URL()
	}
	if p.nc, err = connectForever(p.url); err == nil {
		p.js, err = jetstream.New(p.nc, jetstream.WithPublishAsyncMaxPending(4000))
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

func (p *place) end() {
	if p.nc != nil {
		p.nc.Close()
	}
	if p.one != nil {
		p.one.Close()
	}
	if p.several != nil {
		p.several.Close()
	}
}

// fill makes the stream with its durables, and publishes n messages whose bodies are their numbers. It returns the durables' names.
func (p *place) fill(ctx context.Context, s schedule, w faultWorker, n int) ([]string, error) {
	b := &bed{url: p.url, nc: p.nc, js: p.js, replicas: s.servers}
	parts := faultCrew * faultSlots
	var durables []string
	cfg := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.wait}
	if w.name == "pcgroups" {
		members := memberNames(parts)
		if err := b.partitionedStream(ctx, faultStream, parts); err != nil {
			return nil, err
		}
		if err := patiently(ctx, func(ctx context.Context) error {
			_, err := pcgroups.CreateStatic(ctx, p.js, faultStream, faultDurable, uint(parts), []string{">"}, members, nil)
			return err
		}); err != nil {
			return nil, err
		}
		for _, m := range members { // its members make their durables when they join
			durables = append(durables, faultDurable+"-"+m)
		}
	} else {
		if err := b.streamOf(ctx, jetstream.StreamConfig{Name: faultStream, Subjects: []string{faultStream + ".*"}}); err != nil {
			return nil, err
		}
		cfg.Durable = faultDurable
		if err := patiently(ctx, func(ctx context.Context) error {
			_, err := p.js.CreateConsumer(ctx, faultStream, cfg)
			return err
		}); err != nil {
			return nil, err
		}
		durables = []string{faultDurable}
	}
	return durables, b.publish(ctx, faultStream, n, func(i int) (string, []byte) {
		return fmt.Sprintf("%s.%d", faultStream, i%faultKeys), []byte(strconv.Itoa(i))
	})
}

// left tells what is still to be handled or settled, "" for nothing, as far as the server answers.
func (p *place) left(ctx context.Context, durables []string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var pending uint64
	var out int
	for _, name := range durables {
		c, err := p.js.Consumer(ctx, faultStream, name)
		if err != nil {
			return "the server does not answer"
		}
		pending, out = pending+c.CachedInfo().NumPending, out+c.CachedInfo().NumAckPending
	}
	if pending == 0 && out == 0 {
		return ""
	}
	return fmt.Sprintf("%d pending, %d outstanding", pending, out)
}
