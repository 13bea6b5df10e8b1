package shutdown

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// HTTP makes a part of an HTTP server: it listens on srv.Addr (":http", or ":https" with TLS, if empty) and serves, with
// TLS if srv.TLSConfig is set. An address that can't be listened on is an error at once.
//
// When it is stopped it takes no new connections and gives the open requests up to grace to end; what then still runs is
// cut off. That is no error: a client that never hangs up must not make a failure of a clean stop. Streaming handlers end
// earlier if srv.RegisterOnShutdown tells them to. srv is used up afterwards, as http.Server.Shutdown says.
func HTTP(name string, srv *http.Server, grace time.Duration) Part {
	return Part{Name: name, Run: func(ctx context.Context) error {
		serve, addr := srv.Serve, ":http"
		if srv.TLSConfig != nil {
			serve, addr = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }, ":https"
		}
		if srv.Addr != "" {
			addr = srv.Addr
		}
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		served := make(chan error, 1)
		go func() { served <- serve(listener) }()
		select {
		case err := <-served:
			return unlessClosed(err)
		case <-ctx.Done():
		}
		// ctx has ended; the grace needs one that has not.
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err = srv.Shutdown(limit)
		if errors.Is(err, context.DeadlineExceeded) {
			err = srv.Close()
		}
		return errors.Join(err, unlessClosed(<-served))
	}}
}

// unlessClosed leaves out what Serve returns after every Shutdown and Close.
func unlessClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
