package main

import (
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/ackfloor/ackfloor/testutil"
)

// foreign are the variables, or how their names begin, that the demo's children do not inherit: with them they would work on somebody's own database, mail server or NATS server.
var foreign = []string{"DATABASE_URL", "SMTP_", "EMAIL_", "ANALYTICS_", "WORKER_", "NATS_", "ACKFLOOR_EXAMPLE_ADDR"}

// environment is that of a child: the caller's without what is foreign, and own.
func environment(own ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !isForeign(v) {
			env = append(env, v)
		}
	}
	return append(env, own...)
}

func isForeign(variable string) bool {
	for _, start := range foreign {
		if strings.HasPrefix(strings.ToUpper(variable), start) { // Windows takes names in either case
			return true
		}
	}
	return false
}

// freeAddr is an address on this machine where nobody listens, and that nobody takes while a service is stopped.
func freeAddr() (string, error) {
	port, err := testutil.FreePort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}
