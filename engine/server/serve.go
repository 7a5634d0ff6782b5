package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Serve answers on the listener until ctx ends. Then it takes no new requests, calls closing (which
// ends what would never end by itself, such as the UI's event streams; may be nil), and lets the
// running ones finish for as long as drain; what still runs after that is cancelled and told so. It
// returns nil after a shutdown.
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
	const goodbye = 2 * time.Second // for the last events to go out
	if shutdown(srv, goodbye) == nil {
		return nil
	}
	if err := srv.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func shutdown(srv *http.Server, patience time.Duration) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return srv.Shutdown(ctx)
}
