package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ServeOptions configure Serve. Their zero value is valid.
type ServeOptions struct {
	Drain time.Duration // how long running requests may take after ctx has ended
	// Closing should end requests that never end by themselves, such as the event streams of the
	// web UI. It may be nil.
	Closing func()
	Limits  Limits
	Log     *slog.Logger // nil: slog.Default()
	// TLS returns a listener of TLS connections over one of plain ones. The limits apply to the
	// plain ones, so that handshakes count. A connection beyond them is closed without an answer.
	// nil: plain HTTP.
	TLS func(net.Listener) net.Listener
}

// Serve answers requests on the listener until ctx ends. Then it accepts no new requests, calls
// Closing, and waits for the running requests. After the time Drain it cancels them, and their
// clients get an error. After a shutdown Serve returns nil.
func Serve(ctx context.Context, l net.Listener, h http.Handler, o ServeOptions) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	limits := o.Limits.withDefaults()
	limited := limitConnections(l, limits, o.Log)
	base, cancelRequests := context.WithCancelCause(context.Background())
	defer cancelRequests(nil)
	srv := &http.Server{
		Handler:           limits.paced(h),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnState:         limited.follow,
		ReadHeaderTimeout: limits.Header,
		IdleTimeout:       limits.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	if o.Closing != nil {
		srv.RegisterOnShutdown(o.Closing)
	}
	failed := make(chan error, 1)
	serving := net.Listener(limited)
	if o.TLS != nil {
		limited.silent = true
		serving = o.TLS(limited)
	}
	go func() { failed <- srv.Serve(serving) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	if shutdown(srv, o.Drain) == nil {
		return nil
	}
	cancelRequests(errShutdown)
	const lastEvents = 500 * time.Millisecond // to send the errors of cancelled requests
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
