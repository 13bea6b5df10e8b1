package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/nats-io/nats-server/v2/server"
)

// serverVariable makes this program the server, on the address that it names, with its files in the working folder.
const serverVariable = "ACKFLOOR_DEMO_SERVER"

const leaveLimit = 10 * time.Second // for the services to leave, where the demo has died

// serverMain is the process of the server: it can be stopped and killed as any nats-server can.
func serverMain(addr string) int {
	ctx, _ := shutdown.Notify(context.Background(), nil)
	err := serve(ctx, os.Stdin, addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return shutdown.ExitCode(err)
}

// serve serves until ctx ends, or parent does: whoever started it has died, and once the services have left nobody needs it.
func serve(ctx context.Context, parent io.Reader, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	srv, err := server.NewServer(&server.Options{ServerName: "ackfloor-demo", Host: host, Port: number, JetStream: true, StoreDir: "nats", NoSigs: true, NoLog: true})
	if err != nil {
		return err
	}
	srv.Start()
	defer func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
	if !srv.ReadyForConnections(20 * time.Second) {
		return fmt.Errorf("the server does not take connections on %s", addr)
	}
	fmt.Println("listening on", addr)
	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		_, _ = io.Copy(io.Discard, parent)
	}()
	select {
	case <-ctx.Done():
	case <-orphaned:
		for end := time.Now().Add(leaveLimit); srv.NumClients() > 0 && time.Now().Before(end) && pause(ctx, 50*time.Millisecond); {
		}
	}
	return nil
}
