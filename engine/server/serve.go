package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Serve answers requests on the listener until ctx ends. Then it accepts no new requests, calls
// closing, and waits up to drain for the running requests. After that it cancels them, and their
// clients get an error. closing should end requests that never end by themselves, such as the event
// streams of the web UI. It may be nil. After a shutdown Serve returns nil.
func Serve(ctx context.Context, l net.Listener, h http.Handler, drain time.Duration,
	closing func()) error {
	base, cancelRequests := context.WithCancelCause(context.Background())
	defer cancelRequests(nil)
	srv := &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	if closing != nil {
		srv.RegisterOnShutdown(closing)
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	if shutdown(srv, drain) == nil {
		return nil
	}
	cancelRequests(errShutdown)
	const lastEvents = 2 * time.Second // to send the errors of cancelled requests
	if shutdown(srv, lastEvents) == nil {
		return nil
	}
	if err := srv.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// shutdown waits up to timeout for the running requests.
func shutdown(srv *http.Server, timeout time.Duration) error {
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	return srv.Shutdown(ctx)
}
