package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/ackfloor/ackfloor/worker"
	"github.com/spf13/cobra"
)

// permissionsJSON is the output of permissions --format json: as the server's configuration has it, and why.
type permissionsJSON struct {
	Permissions struct {
		Publish   allowed `json:"publish"`
		Subscribe allowed `json:"subscribe"`
	} `json:"permissions"`
	Why map[string]string `json:"why"` // by subject
}

type allowed struct {
	Allow []string `json:"allow"`
}

func (c *command) permissions() *cobra.Command {
	var f workerFlags
	var fromEnv bool
	var format string
	cmd := &cobra.Command{
		Use:   "permissions --stream STREAM --consumer CONSUMER",
		Short: "Print the permissions that a worker needs, for the server's configuration",
		Long: `Print the permissions that the user of a worker needs and no others, as a block for the configuration of nats-server, each subject with a comment
why. No server is asked. The worker is the one that the flags describe or, with --from-env, the one of the present environment (WORKER_*, NATS_*).

What makes things counts with --bind ensure (the default) and update. Run a service with these once, or make what it needs by hand, and it works with
the fewer rights of --bind existing from then on.

` + exitCodes,
		Example: `  ackfloor permissions --stream EVENTS --consumer inventory --filter events.order_placed
  ackfloor permissions --stream EVENTS --consumer email --bind existing --once ackfloor_once
  ackfloor permissions --from-env --admin --publish 'events.stock_reserved.*'
  ackfloor permissions --stream EVENTS --consumer audit --dead-letter off --records off --format json`,
		Args: cobra.NoArgs,
	}
	f.add(c, cmd)
	cmd.Flags().BoolVar(&fromEnv, "from-env", false, "the worker of the present environment; flags go before it")
	cmd.Flags().StringVar(&format, "format", "nats", "nats: the server's configuration; json")
	c.complete(cmd, "format", fixed([]string{"nats", "json"}))
	cmd.RunE = c.runs(func(context.Context, []string) error {
		if format != "nats" && format != "json" {
			return usagef("--format is %q: it takes nats or json", format)
		}
		cfg, err := f.config(cmd, fromEnv)
		if err := subjectsOnly(err); err != nil {
			if !fromEnv {
				return usagef("%w", err)
			}
			return err
		}
		list := rights(cfg, f.wants)
		if format == "json" {
			return c.print(inJSON(list, listens(cfg, f.wants)))
		}
		_, err = fmt.Fprint(c.out, block(cfg, list, listens(cfg, f.wants)))
		return err
	})
	return cmd
}

// block is the permissions as nats-server reads them.
func block(cfg worker.Config, list, listens []right) string {
	var b strings.Builder
	line := func(subject, why string) {
		quote := `"`
		if strings.Contains(subject, quote) {
			quote = "'"
		}
		text := quote + subject + quote
		if why != "" {
			text += " # " + why
		}
		fmt.Fprintf(&b, "      %s\n", text)
	}
	fmt.Fprintf(&b, "# consumer %s on stream %s, bind %s\npermissions {\n  publish {\n    allow: [\n", cfg.Consumer, cfg.Stream, cfg.Bind)
	group := ""
	for _, r := range list {
		if r.group != group {
			group = r.group
			fmt.Fprintf(&b, "      # %s\n", group)
		}
		line(r.subject, r.why)
	}
	b.WriteString("    ]\n  }\n  subscribe {\n    allow: [\n")
	for _, r := range listens {
		line(r.subject, r.why)
	}
	b.WriteString("    ]\n  }\n}\n")
	return b.String()
}

func inJSON(list, listens []right) permissionsJSON {
	var out permissionsJSON
	out.Why = map[string]string{}
	for _, r := range listens {
		out.Permissions.Subscribe.Allow = append(out.Permissions.Subscribe.Allow, r.subject)
		out.Why[r.subject] = r.why
	}
	for _, r := range list {
		out.Permissions.Publish.Allow = append(out.Permissions.Publish.Allow, r.subject)
		out.Why[r.subject] = strings.TrimSuffix(r.group+": "+r.why, ": ")
	}
	return out
}
