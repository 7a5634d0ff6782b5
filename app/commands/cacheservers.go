package commands

// `headroom cache` asks running servers over the control API, with the token of this user's
// settings. Their addresses come from files in the settings folder.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"headroom/app/cache"
	"headroom/app/control"
	"headroom/app/host"
	"headroom/engine/problem"
)

// runningServer is a running server of this user.
type runningServer struct{ url, token string }

// eachServer calls visit with each running server of this user until visit returns false.
func eachServer(visit func(runningServer) bool) {
	settings, err := control.SettingsDir()
	if err != nil {
		return
	}
	token := ""
	for _, url := range control.Running(settings) {
		if token == "" {
			if token, err = control.LoadToken(settings); err != nil {
				slog.Debug("the running servers cannot be asked", "err", err)
				return
			}
		}
		if !visit(runningServer{url, token}) {
			return
		}
	}
}

// serversWithCache returns the servers that keep their cache in dir.
func serversWithCache(ctx context.Context, dir string) (list []runningServer) {
	eachServer(func(s runningServer) bool {
		var state host.State
		if s.ask(ctx, askTimeout, http.MethodGet, "control/state", &state) == nil &&
			hasCacheIn(state.Cache, dir) {
			list = append(list, s)
		}
		return true
	})
	return list
}

// hasCacheIn reports whether the statistics are of an open cache in dir.
func hasCacheIn(s cache.Stats, dir string) bool {
	return s.On && filepath.Clean(s.Dir) == filepath.Clean(dir)
}

// freeTimeout bounds how long a server may take to free memory: it finishes a forward pass and a
// write to disk first.
const freeTimeout = time.Minute

// freeMemory makes servers free the memory of the conversation with that key. Without a key, they
// free a model's whole cache, or every model's. Failures are printed to errOut.
func freeMemory(ctx context.Context, servers []runningServer, key, model string,
	errOut io.Writer) (freedBytes int64) {
	path := "control/cache/" + url.PathEscape(key)
	if key == "" {
		path = "control/cache"
	}
	for _, s := range servers {
		removed, err := s.free(ctx, path+"?only=memory&model="+url.QueryEscape(model))
		if err != nil {
			fmt.Fprintf(errOut, "The server at %s may still have it in memory: %v\n", s.url, err)
		}
		freedBytes += removed.MemoryBytes
	}
	return freedBytes
}

// free sends a request to free memory until it is complete.
func (s runningServer) free(ctx context.Context, path string) (removed cache.Removed, err error) {
	ctx, stop := context.WithTimeout(ctx, freeTimeout)
	defer stop()
	for {
		err = s.ask(ctx, freeTimeout, http.MethodDelete, path, &removed)
		if err != nil || !removed.Pending {
			return removed, err
		}
		select {
		case <-ctx.Done():
			return removed, ctx.Err()
		case <-time.After(pendingPause):
		}
	}
}

// pendingPause is the time between two questions whether a server has freed memory.
const pendingPause = 200 * time.Millisecond

// ask sends a request without a body and reads the response.
func (s runningServer) ask(ctx context.Context, timeout time.Duration, method, path string,
	document any) error {
	return s.send(ctx, timeout, method, path, nil, document)
}

// send sends a request with a JSON body, unless that is nil, and reads the response into document,
// unless that is nil. If the server refuses, the error is its Problem.
func (s runningServer) send(ctx context.Context, timeout time.Duration, method, path string, body,
	document any) error {
	const maxBytes = 64 << 20
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(b)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, text)
	if err != nil {
		return err
	}
	request.Header.Set(control.TokenHeader, s.token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		var refused control.ErrorBody
		if json.NewDecoder(io.LimitReader(answer.Body, maxBytes)).Decode(&refused) == nil &&
			refused.Error != nil {
			return problem.New(problem.Code(refused.Error.Code), refused.Error.Message,
				refused.Error.Why, refused.Error.Fix)
		}
		return fmt.Errorf("the server answered %s", answer.Status)
	}
	if document == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxBytes)).Decode(document)
}
