package model_test

import "github.com/nats-io/nats.go/jetstream"

// The cases in which the model has to show what nats-server shows: at the same time, in the same order. see are parts of what has to come, in this order, so
// that a case tests what it says: D.2.1.4. is a delivery, the second of message 1, the fourth of the consumer.
var cases = []struct {
	name   string
	cfg    jetstream.ConsumerConfig
	script string
	see    string
}{
	{
		name:   "a pull before and behind a publish",
		script: "pull 2 1s; publish 1; publish 2; pull 5 1s; sleep 2s",
		see:    "in.1 D.1.1.1. | in.1 D.1.2.2. | in.2 D. | 408",
	},
	{
		name:   "acks move the floor over gaps",
		script: "publish 5; pull 5 1s; ack 2; ack 4; ack 1; ack 5; ack 3",
		see:    "floor 5/5, ack pending 0",
	},
	{
		name:   "the floor stays below a gap",
		script: "publish 5; pull 5 1s; ack 2; ack 1; ack 5",
		see:    "floor 2/2, ack pending 2",
	},
	{
		name:   "a message comes again behind ack_wait",
		script: "publish 3; pull 3 1s; ack 2; sleep 2.1s; pull 10 5s; sleep 2.1s; ack 4; ack 5; ack 6; ack 7; sleep 3s",
		see:    "D.1.3.3. | D.2.1.4. | D.2.3.5. | D.3.1.6. | D.3.3.7. | floor 3/7",
	},
	{
		name:   "word of progress extends ack_wait",
		script: "publish 2; pull 9 10s; sleep 1s; wpi 1; sleep 1.5s; sleep 1s; wpi 3; sleep 9s",
		see:    "D.2.2.3. | D.2.1.4.",
	},
	{
		name:   "a nak comes again at once, in the order of the naks",
		script: "publish 3; pull 9 20s; nak 3; nak 1; nak 2; ack 4; ack 5; ack 6",
		see:    "D.2.3.4. | D.2.1.5. | D.2.2.6. | floor 3/6",
	},
	{
		name:   "naks wait for a pull in their order, ahead of new messages",
		script: "publish 4; pull 3 20s; nak 3; nak 1; nak 2; pull 5 1s",
		see:    "in.2 D.2.3.4 | in.2 D.2.1.5 | in.2 D.2.2.6 | in.2 D.1.4.7",
	},
	{
		name:   "a nak with a delay",
		script: "publish 2; pull 9 20s; nak 1 500ms; sleep 400ms; sleep 200ms; nak 3 5s; sleep 4s; sleep 2s",
		see:    "D.2.1.3. | D.2.2.4. | D.3.1.6.",
	},
	{
		name:   "a nak with a short delay takes 10 ms",
		script: "publish 1; pull 9 20s; nak 1 4ms; sleep 20ms",
		see:    "10.002ms in.1 D.2.1.2.",
	},
	{
		name:   "a nak with a delay, then one without",
		script: "publish 1; pull 9 20s; nak 1 1s; nak 1; sleep 3s; nak 2; ack 1",
		see:    "D.2.1.2. | D.3.1.3.",
	},
	{
		name:   "a nak of a message that is queued is no second one",
		script: "publish 1; pull 1 20s; nak 1; nak 1; pull 9 20s; sleep 1s",
		see:    "D.2.1.2.",
	},
	{
		name:   "a term is an ack",
		script: "publish 2; pull 9 1s; term 1; sleep 3s; pull 9 1s",
		see:    "D.2.2.3. | floor 1/1",
	},
	{
		name:   "an ack of what is queued takes it out",
		script: "publish 2; pull 2 1s; nak 2; ack 2; nak 1; pull 9 1s",
		see:    "D.2.1.3.",
	},
	{
		name:   "an ack by the old reply subject of a redelivery",
		script: "publish 2; pull 9 9s; nak 1; ack 1; ack 3; sleep 5s",
		see:    "D.2.1.3. | floor 1/1",
	},
	{
		name:   "double acks are answered, and ones above what was delivered are not",
		script: "publish 3; pull 1 1s; ack 1; ack 1; beyond 2; beyond 9; beyond 1; nak 1; wpi 1",
		see:    `said.1 "" | said.2 "" | said.5 "" | said.6 "" | said.7 ""`,
	},
	{
		name:   "what is no settlement is answered and does nothing",
		script: "publish 1; pull 1 1s; junk 1; sleep 2.1s; pull 1 1s",
		see:    `D.2.1.2. | said.1 ""`,
	},
	{
		name:   "an ack that asks for the next",
		script: "publish 3; pull 1 1s; next 1; sleep 1s",
		see:    "floor 1/1",
	},
	{
		name:   "max_ack_pending stalls, but not redeliveries",
		cfg:    jetstream.ConsumerConfig{MaxAckPending: 2},
		script: "publish 5; pull 9 20s; nak 1; sleep 2.1s; ack 2; ack 3; sleep 1s",
		see:    "D.1.2.2. | D.2.1.3. | D.3.1.4. | D.2.2.5. | D.1.3. | D.1.4.",
	},
	{
		name:   "delayed naks count against max_ack_pending",
		cfg:    jetstream.ConsumerConfig{MaxAckPending: 2},
		script: "publish 3; pull 9 20s; nak 1 1s; nak 2 1s; sleep 0.5s; sleep 1s; ack 3",
		see:    "D.2.1.3. | D.2.2.4. | D.1.3.5.",
	},
	{
		name:   "a pull without waiting",
		script: "pull 1 nowait; publish 2; pull 5 nowait; pull 1 1s nowait; sleep 2s",
		see:    "404 | in.2 D. | 404 | 408",
	},
	{
		name:   "a pull without waiting behind others",
		script: "publish 1; pull 5 1s nowait; pull 2 1s; sleep 100ms; publish 1; sleep 2s",
		see:    "in.1 D. | 404 | in.2 D. | 408",
	},
	{
		name:   "max_bytes end a batch",
		script: "publish 3 100; pull 10 1s bytes=400; pull 3 1s bytes=450; pull 1 1s bytes=90; sleep 2s; pull 1 1s bytes=9999",
		see:    "in.1 D. | Exceeds MaxBytes | in.2 D. | 408 | in.3 | 408",
	},
	{
		name:   "a batch that is complete is told only where there are bytes left",
		script: "publish 2; pull 1 1s; pull 1 1s bytes=5000; sleep 2s",
		see:    "in.1 D. | in.2 D. | Batch Completed",
	},
	{
		name:   "heartbeats",
		script: "pull 5 5s beat=1s; sleep 2.5s; publish 1; sleep 3s",
		see:    "Idle Heartbeat | Idle Heartbeat | in.1 D. | Idle Heartbeat | 408",
	},
	{
		name:   "a heartbeat that is too long",
		script: "pull 5 1s beat=600ms",
		see:    "400",
	},
	{
		name:   "pulls take turns",
		script: "pull 3 1s; pull 2 1s; publish 4; sleep 2s",
		see:    "in.1 D. | in.2 D. | in.1 D. | in.2 D. | 408",
	},
	{
		name:   "a pull that nobody listens for any more gets nothing",
		script: "pull 2 5s; pull 2 5s; forget 1; publish 2; sleep 6s",
		see:    "in.2 D. | in.2 D.",
	},
	{
		name:   "limits on pulls",
		cfg:    jetstream.ConsumerConfig{MaxRequestBatch: 3, MaxRequestExpires: 10e9, MaxRequestMaxBytes: 5000},
		script: "pull 4 1s; pull 1 11s; pull 1 1s bytes=5001; pull 3 1s bytes=5000; sleep 2s",
		see:    "MaxRequestBatch of 3 | MaxRequestExpires of 10s | MaxRequestMaxBytes of 5000 | 408",
	},
	{
		name:   "max_waiting",
		cfg:    jetstream.ConsumerConfig{MaxWaiting: 2},
		script: "pull 1 5s; pull 1 5s; pull 1 5s; pull 1 5s beat=1s; forget 1; sleep 2s; pull 1 1s; sleep 2s",
		see:    "in.3 | Exceeded MaxWaiting | 408",
	},
	{
		name:   "a redelivery that is too large for a pull goes to the end of the queue",
		script: "publish 1 500; publish 2 1; pull 3 1s; nak 1; nak 2; nak 3; pull 9 1s bytes=300; pull 9 1s; sleep 2s",
		see:    "in.2 | Exceeds | in.3 D.2.2. | in.3 D.2.3. | in.3 D.2.1.",
	},
	{
		name:   "a stop ends the pulls",
		script: "pull 5 10s; restart 1s; publish 1; sleep 1s; pull 1 1s",
		see:    "in.1 | Server Shutdown | in.2 D.",
	},
	{
		name:   "a server that stops goes on for a moment",
		script: "pull 1 50ms beat=24.89ms; pull 1 20ms; restart 600ms",
		see:    "in.1 | Server Shutdown | in.2 | Server Shutdown | 408 | Idle Heartbeat",
	},
	{
		name:   "behind a restart, what was published long ago comes again at once",
		script: "publish 3; sleep 5s; pull 3 1s; ack 2; restart 100ms; pull 9 1s; sleep 3s",
		see:    "in.2 D.2.1. | in.2 D.2.3.",
	},
	{
		name:   "but not what had a word of progress",
		script: "publish 2; sleep 5s; pull 2 1s; wpi 2; restart 100ms; pull 1 1s; pull 1 500ms; sleep 3s; pull 1 1s",
		see:    "in.2 D.2.1.3. | in.3 map | 408 | in.4 D.",
	},
	{
		name:   "a restart keeps counts, floor and delays, in whole seconds",
		script: "publish 4; sleep 3s; pull 4 1s; ack 1; nak 2; nak 3 3.5s; pull 1 1s; restart 1s; pull 9 8s; sleep 9s",
		see:    "D.2.2.5. | D.3.2.6. | D.2.4.7. | 6.0003s in.3 D.2.3.8.",
	},
	{
		name:   "acks from before a restart count",
		script: "publish 3; pull 3 1s; nak 3; restart 1s; ack 1; ack 2; ack 3; pull 1 1s; sleep 1.5s",
		see:    "floor 3/3, ack pending 0",
	},
	{
		name:   "what is pending behind a restart stalls",
		cfg:    jetstream.ConsumerConfig{MaxAckPending: 2},
		script: "publish 4; pull 2 1s; restart 100ms; pull 2 1s; ack 1; sleep 3s; pull 9 1s",
		see:    "in.2 D.1.3.",
	},
}
