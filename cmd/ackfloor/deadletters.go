package main

import (
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

func (c *command) deadLetters() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dead-letters",
		Aliases: []string{"dlq"},
		Short:   "List, show, replay and remove dead letters",
		Long: `List, show, replay and remove dead letters: messages that a worker gave up, kept in the stream <STREAM>_DLQ.

The connection is that of the worker, from its environment: NATS_URL, NATS_CREDS, NATS_NKEY, NATS_USER, NATS_PASSWORD, NATS_TOKEN,
NATS_CERT, NATS_KEY, NATS_CA, NATS_JS_DOMAIN, NATS_JS_API_PREFIX, NATS_INBOX_PREFIX. Which dead letters: --dead-letters or --stream, else
WORKER_DEAD_LETTER or WORKER_STREAM; where none of them is set, the one stream whose name ends in _DLQ.

Looking changes nothing. A replay goes to the consumer that failed and to no other.

` + exitCodes,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, // without one, cobra takes a word that it does not know for none
	}
	cmd.PersistentFlags().BoolVar(&c.json, "json", false, "JSON, one object a line; times in RFC 3339, the payload as data or data_base64")
	c.connectFlags(cmd)
	cmd.AddCommand(c.list(), c.show(), c.replay(), c.remove(), c.watch(), c.count())
	return cmd
}

// letterColumns are those of list and watch.
var letterColumns = []column{
	{head: "N", right: true, usual: 5},
	{head: "WHEN", drop: 4},
	{head: "CONSUMER", min: 8, usual: 12},
	{head: "SUBJECT", min: 16, usual: 28, drop: 5},
	{head: "SEQUENCE", right: true, drop: 2},
	{head: "ATTEMPTS", right: true, drop: 1},
	{head: "REASON", min: 9, usual: len(deadletter.ReasonCrash), drop: 6},
	{head: "STATE", usual: len(deadletter.StateReplaying), drop: 3},
	{head: "ERROR", min: 18, usual: 200},
}
