package control

// The stream of server-sent events. A "state" event holds the whole state, so a client that missed
// events has lost nothing. Equal states are not sent twice, and at most four states are sent a
// second. A "jobs" event holds all jobs. A "chats" event holds a version number that changes when a
// conversation does. A "models" event holds the changes of the model list, such as a finished
// download; it follows the state with the new ModelsVersion.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"headroom/app/host"
)

// writeTimeout ends the stream of a client that no longer reads.
const writeTimeout = 30 * time.Second

// handleEvents streams the state: at once, then whenever it differs from the last one sent. The
// host announces changes of the engine's status. It does not announce changes of speeds, requests
// and memory, so these are polled.
func (a *API) handleEvents(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	changed, done := a.host.Subscribe()
	defer done()
	jobsChanged, unsubscribe := a.transfers.subscribe()
	defer unsubscribe()
	control := http.NewResponseController(w)
	send := func(format string, args ...any) error {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer supports it
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return err
		}
		_ = control.Flush()
		return nil
	}

	chatsChanged, unsubscribeChats := a.chatsSubscribe()
	defer unsubscribeChats()

	var last, jobs, chats []byte
	_, seen := a.host.ModelChanges(0)
	sentAt := time.Now()
	for {
		state := a.state()
		data, err := mustMarshal(state), error(nil)
		switch {
		case !bytes.Equal(data, last):
			err = send("event: state\ndata: %s\n\n", data)
			last, sentAt = data, time.Now()
		case time.Since(sentAt) >= a.intervals.heartbeat:
			err = send(": heartbeat\n\n")
			sentAt = time.Now()
		}
		if changes, now := a.host.ModelChanges(seen); err == nil && len(changes) > 0 {
			err = send("event: models\ndata: %s\n\n", mustMarshal(ModelsEvent{changes}))
			seen = now
		}
		if now := mustMarshal(a.jobList()); err == nil && a.transfers != nil &&
			!bytes.Equal(now, jobs) {
			err = send("event: jobs\ndata: %s\n\n", now)
			jobs = now
		}
		if now := mustMarshal(a.chatsEvent()); err == nil && a.chats != nil &&
			!bytes.Equal(now, chats) {
			err = send("event: chats\ndata: %s\n\n", now)
			chats = now
		}
		if err != nil || a.pause(r, state, changed, jobsChanged, chatsChanged) != nil {
			return
		}
	}
}

// mustMarshal encodes a value that always has a JSON form.
func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("control: encoding an event: " + err.Error()) // a bug: the types are ours
	}
	return data
}

// pause waits until the state should be read again, at least intervals.busy. While nothing runs, it
// waits until intervals.idle has passed or a channel signals a change. The error means that the
// stream ends.
func (a *API) pause(r *http.Request, state host.State,
	changed, jobsChanged, chatsChanged <-chan struct{}) error {
	wait := func(d time.Duration, changed, jobsChanged, chatsChanged <-chan struct{}) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-changed:
		case <-jobsChanged:
		case <-chatsChanged:
		case <-r.Context().Done():
			return r.Context().Err()
		case <-a.closing:
			return errClosing
		}
		return nil
	}
	if err := wait(a.intervals.busy, nil, nil, nil); err != nil {
		return err
	}
	if s := state.Engine.Status; s == host.Busy || s == host.Loading {
		return nil
	}
	if a.transfers != nil && a.transfers.Jobs.Busy() {
		return nil
	}
	return wait(a.intervals.idle-a.intervals.busy, changed, jobsChanged, chatsChanged)
}
