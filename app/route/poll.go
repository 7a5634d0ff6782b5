package route

// Asking the machines for their state, so that one that sleeps, goes or comes back is noticed in
// seconds.

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"headroom/app/machines"
)

const (
	defaultPoll = 2 * time.Second
	// slowPoll and cloudPoll are for servers that tell only the names of their models.
	slowPoll  = 10 * time.Second
	cloudPoll = time.Minute
	// maxPause is the longest time until a machine that does not answer is asked again.
	maxPause = 5 * time.Second
	// askTimeout is how long an answer may take.
	askTimeout = 3 * time.Second
	// goneFailures in a row, and goneTime without a byte, end the requests of a machine.
	goneFailures = 3
	goneTime     = 6 * time.Second

	maxInfoBytes = 8 << 20
)

// Run asks the machines for their state until ctx ends.
func (r *Router) Run(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	tick := time.NewTicker(r.o.Poll / 8)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.Reload()
		now := time.Now()
		for _, m := range r.machines() {
			if m.due(now) {
				asking.Go(func() { r.ask(ctx, m) })
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Reload takes over changes of the list of machines. Run calls it often.
func (r *Router) Reload() {
	stored := r.o.Machines.List()
	r.mu.Lock()
	defer r.mu.Unlock()
	before := map[string]*machine{}
	for _, m := range r.machines() {
		before[m.stored.ID] = m
	}
	changed := false
	var list []*machine
	for _, one := range stored {
		if one.Off {
			continue
		}
		m := before[one.ID]
		if m == nil || !reflect.DeepEqual(m.stored, one) {
			m = newMachine(one, func() (string, error) { return r.o.Machines.Secret(one) },
				r.o.Own)
			changed = true
		} else {
			delete(before, one.ID)
		}
		list = append(list, m)
	}
	if !changed && len(before) == 0 {
		return
	}
	if len(list) == 0 {
		r.list.Store(nil)
	} else {
		r.list.Store(&list)
	}
	for _, m := range before { // its running requests keep their connections
		m.client.CloseIdleConnections()
	}
}

// due reports whether the machine is to be asked now. It then counts as being asked.
func (m *machine) due(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking || now.Before(m.next) {
		return false
	}
	m.asking = true
	return true
}

// ask asks a machine for its state.
func (r *Router) ask(ctx context.Context, m *machine) {
	m.mu.Lock()
	sent := maps.Clone(m.requests)
	m.mu.Unlock()
	info, err := m.ask(ctx)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if err == nil {
		if m.state.Load().Err != nil {
			r.log.Info("a machine answers", "machine", m.stored.Name, "models", len(info.Models))
		}
		m.setInfo(info, sent, now)
	} else {
		if before := m.state.Load().Err; before == nil || before == errUnknown {
			r.log.Warn("a machine does not answer", "machine", m.stored.Name, "err", err)
		}
		m.setError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.asked:
	default:
		close(m.asked)
	}
	m.asking = false
	if err == nil {
		m.failures, m.heard, m.next = 0, now, now.Add(m.interval(r.o.Poll))
		select {
		case <-m.gone:
			m.gone = make(chan struct{})
		default:
		}
		return
	}
	m.failures++
	m.next = now.Add(min(maxPause, r.o.Poll/2<<min(m.failures-1, 4)))
	if m.failures >= goneFailures && now.Sub(m.heard) > goneTime {
		select {
		case <-m.gone:
		default:
			close(m.gone)
		}
	}
}

// awaitFirst waits until all machines have been asked once, as when the program has just started.
func (r *Router) awaitFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, m := range r.machines() {
		select {
		case <-m.asked:
		case <-ctx.Done():
		}
	}
}

// interval returns the time until a machine that answers is asked again.
func (m *machine) interval(poll time.Duration) time.Duration {
	switch {
	case m.stored.Kind == machines.Headroom:
		return poll
	case strings.HasPrefix(m.stored.URL, "https:") && m.stored.Certificate == "":
		return cloudPoll
	}
	return slowPoll
}

// failed notes that a request to the machine has failed, before the next question would tell.
func (m *machine) failed(err error) {
	m.setError(err)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = time.Time{}
}

// errRefusesKey is the error of a machine that wants another API key, and errWantsKey that of one
// that got none.
var (
	errRefusesKey = errors.New("it refuses the API key")
	errWantsKey   = errors.New("it wants an API key")
)

// errNotFound is the error of a machine without GET /api/machine.
var errNotFound = errors.New("it has no such address")

// ask asks the machine for its models.
func (m *machine) ask(ctx context.Context) (info Info, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if m.stored.Kind == machines.Headroom {
		err = m.get(ctx, "/api/machine", &info)
		if !errors.Is(err, errNotFound) {
			return info, err
		}
	}
	var list struct {
		Data []struct {
			ID            string `json:"id"`
			State         string `json:"state"`
			MaxModelLen   int    `json:"max_model_len"`
			ContextLength int    `json:"context_length"`
		} `json:"data"`
	}
	if err := m.get(ctx, "/v1/models", &list); err != nil {
		return Info{}, err
	}
	for _, one := range list.Data {
		info.Models = append(info.Models, Model{ID: one.ID,
			Loaded:        one.State == "" || one.State == "loaded",
			ContextTokens: max(one.MaxModelLen, one.ContextLength)})
	}
	return info, nil
}

// get reads the document at a path.
func (m *machine) get(ctx context.Context, path string, document any) error {
	request, err := m.newRequest(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return plainError(err)
	}
	defer response.Body.Close()
	if err := statusError(response.StatusCode); err != nil {
		if err == errRefusesKey && request.Header.Get("Authorization") == "" {
			return errWantsKey
		}
		return err
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxInfoBytes))
	if err != nil {
		return plainError(err)
	}
	if err := json.Unmarshal(data, document); err != nil {
		return fmt.Errorf("its answer is not the expected JSON: %w", err)
	}
	return nil
}

// statusError returns what the status of an answer to a question says; nil: it is one.
func statusError(status int) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return errRefusesKey
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return errNotFound
	case status >= 300 && status < 400:
		return fmt.Errorf("it sends requests elsewhere: status %d", status)
	case status != http.StatusOK:
		return fmt.Errorf("it answers with status %d", status)
	}
	return nil
}

// errUnpaired is the error of a machine that refuses this one's certificate in the TLS handshake.
var errUnpaired = errors.New("it does not know this machine any more: pair the two again")

// plainError returns the cause of an HTTP client's error, without the address.
func plainError(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("it did not answer in time")
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return certificate
	}
	for {
		var op *net.OpError
		if errors.As(err, &op) {
			if op.Op == "remote error" { // an alert of TLS
				return errUnpaired
			}
			return op.Err
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
