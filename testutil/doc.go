// Package testutil runs a real nats-server for tests.
package testutil
