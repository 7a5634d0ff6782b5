package control

// The state as a stream of events. Every event is the whole state, so a client that missed some has
// lost nothing; equal states are not sent twice, and at most four a second go out. Imports and
// downloads are events of their own, in the same rhythm: all of them each time. Conversations are
// told of by a number, which is another one when the list is. What changed in the list of models,
// such as a download that is finished, is an event of its own too, after the state that has it.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"headroom/app/host"
)

// writeTimeout frees the handler of a page that no longer reads.
const writeTimeout = 30 * time.Second

// handleEvents streams the state: at once, then whenever it differs from the last one sent. The
// host announces changes of the engine's status; speeds, requests and memory change without a word
// and are looked at in the rhythm.
func (a *API) handleEvents(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	changed, done := a.host.Subscribe()
	defer done()
	moved, unsubscribe := a.transfers.subscribe()
	defer unsubscribe()
	control := http.NewResponseController(w)
	send := func(format string, args ...any) error {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return err
		}
		_ = control.Flush()
		return nil
	}

	written, forget := a.chatsSubscribe()
	defer forget()

	var last, jobs, chats []byte
	_, seen := a.host.ModelChanges(0)
	spoke := time.Now()
	for {
		state := a.host.State()
		data, err := encoded(state), error(nil)
		switch {
		case !bytes.Equal(data, last):
			err = send("event: state\ndata: %s\n\n", data)
			last, spoke = data, time.Now()
		case time.Since(spoke) >= a.rhythm.heartbeat:
			err = send(": heartbeat\n\n")
			spoke = time.Now()
		}
		if changes, now := a.host.ModelChanges(seen); err == nil && len(changes) > 0 {
			err = send("event: models\ndata: %s\n\n", encoded(ModelsEvent{changes}))
			seen = now
		}
		if now := encoded(a.jobList()); err == nil && a.transfers != nil &&
			!bytes.Equal(now, jobs) {
			err = send("event: jobs\ndata: %s\n\n", now)
			jobs = now
		}
		if now := encoded(a.chatsEvent()); err == nil && a.chats != nil &&
			!bytes.Equal(now, chats) {
			err = send("event: chats\ndata: %s\n\n", now)
			chats = now
		}
		if err != nil || a.pause(r, state, changed, moved, written) != nil {
			return
		}
	}
}

func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("control: encoded: " + err.Error()) // our own types
	}
	return data
}

// pause waits until it is time to look again. It waits for the busy interval in any case: that is
// the limit of four a second.
func (a *API) pause(r *http.Request, state host.State, changed, moved,
	written <-chan struct{}) error {
	wait := func(d time.Duration, changed, moved, written <-chan struct{}) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-changed:
		case <-moved:
		case <-written:
		case <-r.Context().Done():
			return r.Context().Err()
		case <-a.closing:
			return errClosing
		}
		return nil
	}
	if err := wait(a.rhythm.busy, nil, nil, nil); err != nil {
		return err
	}
	if s := state.Engine.Status; s == host.Busy || s == host.Loading || a.transfers != nil &&
		a.transfers.Jobs.Busy() {
		return nil
	}
	return wait(a.rhythm.idle-a.rhythm.busy, changed, moved, written)
}
