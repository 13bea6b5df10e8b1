package model

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// apiError is an error of the JetStream API: its HTTP code, its own, its text.
type apiError struct {
	Code   int    `json:"code"`
	Number int    `json:"err_code"`
	Text   string `json:"description"`
}

// The errors of the API that the model knows (nats-server 2.15, errors.json).
var (
	errNoStream   = &apiError{404, 10059, "stream not found"}
	errNoConsumer = &apiError{404, 10014, "consumer not found"}
	errExists     = &apiError{400, 10148, "consumer already exists"}
	errUnknown    = &apiError{400, 10003, "the model knows no such consumer: durable, pull, explicit acks, all messages, no more"}
)

// api answers a request to the JetStream API. What is asked of the consumer while it has no leader gets no answer, and so does what the model does not know.
func (s *Server) api(client, subject, reply string, body []byte) {
	verb, rest := "", ""
	for _, v := range []string{"STREAM.INFO", "CONSUMER.INFO", "CONSUMER.CREATE"} {
		if r, ok := strings.CutPrefix(subject, "$JS.API."+v+"."); ok {
			verb, rest = v, r
		}
	}
	stream, consumer, _ := strings.Cut(rest, ".")
	if verb == "" || reply == "" || s.electing && verb != "STREAM.INFO" {
		return
	}
	var answer any
	var fault *apiError
	switch {
	case stream != s.cfg.Stream:
		fault = errNoStream
	case verb == "STREAM.INFO":
		answer = s.streamInfo()
	case verb == "CONSUMER.CREATE":
		if fault = s.create(consumer, body); fault == nil {
			answer = s.info(client)
		}
	case consumer != s.name():
		fault = errNoConsumer
	default:
		answer = s.info(client)
	}
	if fault != nil {
		answer = struct {
			Error *apiError `json:"error"`
		}{fault}
	}
	data, _ := json.Marshal(answer)
	s.send(reply, reply, "", nil, data)
}

// create makes the consumer, or changes its ack_wait and its limits.
func (s *Server) create(name string, body []byte) *apiError {
	var r struct {
		Config jetstream.ConsumerConfig `json:"config"`
		Action string                   `json:"action"`
	}
	if json.Unmarshal(body, &r) != nil || r.Config.Durable != name {
		return errUnknown
	}
	cfg := withDefaults(r.Config, s.cfg.Replicas)
	known := jetstream.ConsumerConfig{Name: name, Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: cfg.AckWait, MaxDeliver: -1,
		MaxAckPending: cfg.MaxAckPending, MaxWaiting: cfg.MaxWaiting, MaxRequestBatch: cfg.MaxRequestBatch, MaxRequestExpires: cfg.MaxRequestExpires,
		MaxRequestMaxBytes: cfg.MaxRequestMaxBytes, Replicas: cfg.Replicas}
	switch {
	case !reflect.DeepEqual(cfg, known):
		return errUnknown
	case s.cons == nil && r.Action == "update":
		return &apiError{400, 10149, "consumer does not exist"}
	case s.cons == nil:
		s.cons = newConsumer(s.cfg.Stream, name, cfg)
		s.cons.messages, s.cons.out, s.cons.interest = s.stored, s.out, s.subscribed
		s.created = time.Now()
	case s.cons.name != name:
		return &apiError{400, 10026, "maximum consumers limit reached"}
	case r.Action == "create" && !reflect.DeepEqual(cfg, s.cons.cfg):
		return errExists
	default:
		s.cons.cfg = cfg
		s.cons.gather()
	}
	return nil
}

// withDefaults fills what a server fills.
func withDefaults(c jetstream.ConsumerConfig, replicas int) jetstream.ConsumerConfig {
	c.Name, c.Metadata = c.Durable, nil
	if c.AckWait == 0 {
		c.AckWait = 30 * time.Second
	}
	if c.MaxDeliver == 0 {
		c.MaxDeliver = -1
	}
	if c.MaxAckPending == 0 {
		c.MaxAckPending = 1000
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 512
	}
	return c
}

// info is the consumer's state.
func (s *Server) info(client string) *jetstream.ConsumerInfo {
	c := s.cons
	if s.listens() {
		c.tendPulls(false)
	}
	i := &jetstream.ConsumerInfo{Stream: c.stream, Name: c.name, Created: s.createdFor(client), Config: c.cfg,
		Delivered: jetstream.SequenceInfo{Consumer: c.deliveries - 1, Stream: c.next - 1}, AckFloor: c.floor,
		NumAckPending: len(c.pending), NumRedelivered: len(c.again), NumWaiting: len(c.pulls), NumPending: c.unsent(), TimeStamp: time.Now().UTC()}
	if s.cfg.Replicas > 1 {
		i.Cluster = s.cluster()
	}
	return i
}

// cluster tells who leads, and who the others are.
func (s *Server) cluster() *jetstream.ClusterInfo {
	c := &jetstream.ClusterInfo{Name: "model", Leader: s.leaderName()}
	for n := range s.cfg.Replicas {
		if name := fmt.Sprint("n", n); name != c.Leader {
			c.Replicas = append(c.Replicas, &jetstream.PeerInfo{Name: name, Current: true})
		}
	}
	return c
}

// createdFor is when the consumer was made. Two Runners in one process refuse to share a consumer, which they know by its creation time, so to
// clients of different names the model shows different ones, some nanoseconds apart.
func (s *Server) createdFor(client string) time.Time {
	n := slices.Index(s.clients, client)
	if n < 0 && client != "" {
		n = len(s.clients)
		s.clients = append(s.clients, client)
	}
	return s.created.UTC().Add(time.Duration(n + 1))
}

func (s *Server) streamInfo() *jetstream.StreamInfo {
	i := &jetstream.StreamInfo{Created: s.made.UTC(), TimeStamp: time.Now().UTC(),
		Config: jetstream.StreamConfig{Name: s.cfg.Stream, Subjects: s.cfg.Subjects, Replicas: s.cfg.Replicas, Storage: jetstream.FileStorage},
		State:  jetstream.StreamState{Msgs: uint64(len(s.stored)), LastSeq: uint64(len(s.stored)), Consumers: 1}}
	if len(s.stored) > 0 {
		i.State.FirstSeq, i.State.FirstTime, i.State.LastTime = 1, s.stored[0].stored, s.stored[len(s.stored)-1].stored
	}
	if s.cfg.Replicas > 1 {
		i.Cluster = s.cluster()
	}
	return i
}
