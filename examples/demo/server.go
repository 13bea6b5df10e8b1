package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/nats-io/nats-server/v2/server"
)

// serverVariable makes this program the server, on the address that it names, with its files in the working folder.
const serverVariable = "ACKFLOOR_DEMO_SERVER"

// serverMain is the process of the server: it can be stopped and killed as any nats-server can.
func serverMain(addr string) int {
	ctx, _ := shutdown.Notify(context.Background(), nil)
	err := serve(ctx, addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return shutdown.ExitCode(err)
}

func serve(ctx context.Context, addr string) error {
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
	<-ctx.Done()
	return nil
}
