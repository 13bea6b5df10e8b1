module github.com/ackfloor/ackfloor/examples

go 1.26.0

require (
	github.com/ackfloor/ackfloor v0.0.0
	github.com/nats-io/nats-server/v2 v2.15.3
	github.com/nats-io/nats.go v1.55.0
	github.com/rogpeppe/go-internal v1.16.0
	go.uber.org/zap v1.28.0
)

replace github.com/ackfloor/ackfloor => ../
