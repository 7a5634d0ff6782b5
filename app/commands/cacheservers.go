package commands

// The running servers, as `headroom cache` asks them: over the control API, with the token of this
// user's settings. An address is taken from a file of our own alone.

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

// running is a server.
type running struct{ url, token string }

// eachServer calls see with the servers of this user until it says false.
func eachServer(see func(running) bool) {
	settings, err := control.SettingsDir()
	if err != nil {
		return
	}
	token := ""
	for _, url := range control.Running(settings) {
		if token == "" {
			if token, err = control.LoadToken(settings); err != nil {
				slog.Debug("asking the running servers", "err", err)
				return
			}
		}
		if !see(running{url, token}) {
			return
		}
	}
}

// serversOver are those that keep their cache in dir.
func serversOver(ctx context.Context, dir string) (list []running) {
	eachServer(func(s running) bool {
		var state host.State
		if s.ask(ctx, askTime, http.MethodGet, "api/state", &state) == nil &&
			keptIn(state.Cache, dir) {
			list = append(list, s)
		}
		return true
	})
	return list
}

func keptIn(s cache.Stats, dir string) bool {
	return s.On && filepath.Clean(s.Dir) == filepath.Clean(dir)
}

// freeTime is how long freeing may take: a pass of a large model, and the end of a write to disk.
const freeTime = time.Minute

// free has servers forget in memory the conversation of that key, or with no key all of a model, or
// everything. It says who did not.
func free(ctx context.Context, servers []running, key, model string,
	errOut io.Writer) (freedBytes int64) {
	path := "api/cache/" + url.PathEscape(key)
	if key == "" {
		path = "api/cache"
	}
	for _, s := range servers {
		var removed cache.Removed
		if err := s.ask(ctx, freeTime, http.MethodDelete,
			path+"?only=memory&model="+url.QueryEscape(model), &removed); err != nil {
			fmt.Fprintf(errOut, "The server at %s may still have it in memory: %v\n", s.url, err)
		}
		freedBytes += removed.MemoryBytes
	}
	return freedBytes
}

// ask sends a request without a body, and reads the answer's document.
func (s running) ask(ctx context.Context, patience time.Duration, method, path string,
	document any) error {
	return s.send(ctx, patience, method, path, nil, document)
}

// send sends a request, with a body unless that is nil, and reads the answer's document unless that
// is nil. What the server refuses is the Problem that it says.
func (s running) send(ctx context.Context, patience time.Duration, method, path string, body,
	document any) error {
	const maxBytes = 64 << 20
	ctx, stop := context.WithTimeout(ctx, patience)
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
		return fmt.Errorf("it answers %s", answer.Status)
	}
	if document == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxBytes)).Decode(document)
}
