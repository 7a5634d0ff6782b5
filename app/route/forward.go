package route

// Sending a request to a machine and copying its answer. Bytes stay as they are. The answer is
// written and flushed as it arrives; a client that reads slowly slows the machine down, and one
// that goes ends the request there.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	"headroom/engine/guard"
	"headroom/engine/problem"
)

const (
	// writeTimeout is how long a client may take to read what was written.
	writeTimeout = 30 * time.Second
	bufferBytes  = 32 << 10
	// maxRefusalBytes of the answer of a machine that refuses a request are kept, for the client.
	maxRefusalBytes = 64 << 10
	// defaultRefusalWait is Options.RefusalWait, if that is 0.
	defaultRefusalWait = 3 * time.Second
)

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// failure says why a machine has not answered, before anything was sent to the client.
type failure struct {
	err error // nil: the machine has refused the request
	// The refusal.
	status int
	header http.Header
	body   []byte
	// final means that no other machine shall get the request.
	final bool
}

// problem returns the failure as an error.
func (f *failure) problem(m *machine) error {
	if f.err != nil {
		return m.noAnswer(f.err)
	}
	return problem.New(problem.Upstream,
		fmt.Sprintf("The machine %q has refused the request", m.stored.Name),
		fmt.Sprintf("its status is %d", f.status), "")
}

// answer answers a request with the failure, since no other machine can.
func (f *failure) answer(w http.ResponseWriter, q *question, m *machine) (bool, error) {
	refusesKey := f.status == http.StatusUnauthorized || f.status == http.StatusForbidden
	if f.err != nil || refusesKey { // its words about keys would be about the client's
		err := f.err
		if refusesKey {
			err = statusError(f.status)
		}
		return false, m.noAnswer(err)
	}
	copyHeader(w.Header(), f.header, m.stored.Name)
	w.Header().Set("Content-Length", strconv.Itoa(len(f.body)))
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body)
	return true, nil
}

// forward sends a request to an engine and copies its answer. It returns nil once an answer has
// begun, whatever becomes of it.
func (r *Router) forward(w http.ResponseWriter, q *question, e *target) *failure {
	ctx, cancel := context.WithCancelCause(q.request.Context())
	defer cancel(nil)
	answers, end := r.begin(q, e, cancel)
	defer end()
	defer e.machine.begin(e.model)()
	defer e.watch(ctx, cancel)()
	body, ok := q.bodyFor(e.model)
	if !ok {
		return &failure{err: errors.New("the request's model could not be set"), final: true}
	}
	response, err := e.do(ctx, q, body)
	if err != nil {
		return e.lost(ctx, q, err)
	}
	defer response.Body.Close()
	e.hear()
	if response.StatusCode < 200 || response.StatusCode > 599 { // no status that ends a request
		return e.lost(ctx, q, statusError(response.StatusCode))
	}
	if refused(response.StatusCode) {
		return e.refusal(ctx, cancel, q, response, r.o.RefusalWait)
	}
	return r.copy(w, q, e, ctx, response, answers)
}

// do sends a request and returns the head of its answer. The machine may have closed an idle
// connection just now, so what fails on one that was used before is sent again.
func (e *target) do(ctx context.Context, q *question, body []byte) (*http.Response, error) {
	for {
		reused := false
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		request, err := e.forwardedRequest(traced, q, body)
		if err != nil {
			return nil, err
		}
		response, err := e.client.Do(request)
		if err == nil || !reused || ctx.Err() != nil {
			return response, err
		}
		e.client.CloseIdleConnections()
	}
}

// watch ends a request if the machine goes. stop ends the watch.
func (m *machine) watch(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	m.mu.Lock()
	gone := m.gone
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		select {
		case <-gone:
			cancel(errGone)
		case <-ctx.Done():
		case <-done:
		}
	}()
	return func() { close(done) }
}

// lost returns the failure of a request without an answer. The machine is not chosen again until it
// answers, unless the client has gone.
func (e *target) lost(ctx context.Context, q *question, err error) *failure {
	if q.request.Context().Err() != nil {
		return &failure{err: err, final: true}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errCancelled) {
		return &failure{err: err, final: true}
	}
	err = plainError(err)
	e.failed(err)
	return &failure{err: err}
}

// refused reports whether another machine may answer a request that got this status.
func refused(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 || status >= 300 && status < 400
}

// errUnfinished ends the reading of a refusal.
var errUnfinished = errors.New("its answer does not end")

// refusal reads the answer of a machine that refuses a request. It waits for the end of the body no
// longer than wait: another machine may answer, and what has arrived says why this one does not.
func (e *target) refusal(ctx context.Context, cancel context.CancelCauseFunc, q *question,
	response *http.Response, wait time.Duration) *failure {
	f := &failure{status: response.StatusCode, header: response.Header}
	timer := time.AfterFunc(wait, func() { cancel(errUnfinished) })
	defer timer.Stop()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusalBytes))
	if err != nil && context.Cause(ctx) != errUnfinished {
		return e.lost(ctx, q, err)
	}
	f.body = body
	switch {
	case f.status >= 300 && f.status < 400:
		f = &failure{err: statusError(f.status)}
	case bytes.Contains(body, []byte(problem.Crashed)):
		f.final = true // it might end the other machines' models, too
	case f.status == http.StatusUnauthorized, f.status == http.StatusForbidden:
		e.failed(statusError(f.status))
	}
	return f
}

// copy copies an answer to the client. It begins with the first byte of the body, so that a machine
// that goes before can still be replaced.
func (r *Router) copy(w http.ResponseWriter, q *question, e *target, ctx context.Context,
	response *http.Response, answers func()) *failure {
	buffer := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buffer)
	contentType := response.Header.Get("Content-Type")
	c := &copied{to: w, control: http.NewResponseController(w), lines: isStream(contentType),
		events: isEvents(contentType)}
	n, err := response.Body.Read(buffer[:])
	if n == 0 && err != nil && err != io.EOF {
		return e.lost(ctx, q, err)
	}
	q.Report(e.stored.Name, e.model)
	answers()
	copyHeader(w.Header(), response.Header, e.stored.Name)
	w.WriteHeader(response.StatusCode)
	// The whole request has been read by then, or does not matter any more.
	q.Release()
	for {
		e.hear()
		if writeErr := c.write(buffer[:n]); writeErr != nil {
			q.Failed(problem.New(problem.Cancelled, "The client has disconnected", "", ""))
			return nil
		}
		if err != nil {
			break
		}
		n, err = response.Body.Read(buffer[:])
	}
	q.Used(c.used())
	if id := c.responseID(); id != "" && q.Pattern == "POST /v1/responses" {
		r.memory.responses.note(responseSession(id), e.id(), 0, time.Now())
	}
	if err == io.EOF {
		_ = c.flush()
		return nil
	}
	if q.request.Context().Err() != nil {
		q.Failed(problem.New(problem.Cancelled, "The client has disconnected", "", ""))
		return nil
	}
	failed := e.lost(ctx, q, err)
	p := errCancelled
	if !errors.Is(failed.err, errCancelled) {
		p = problem.Wrap(problem.Upstream, failed.err,
			fmt.Sprintf("The machine %q did not finish its answer", e.stored.Name),
			"Send the request again.")
	}
	q.Failed(p)
	if !c.lines {
		panic(http.ErrAbortHandler) // the client must see that it did not get the whole answer
	}
	c.fail(q.ErrorEvent(contentType, p))
	return nil
}

// isStream reports whether answers of this type consist of lines.
func isStream(contentType string) bool {
	return isEvents(contentType) || strings.HasPrefix(contentType, "application/x-ndjson")
}

func isEvents(contentType string) bool {
	return strings.HasPrefix(contentType, "text/event-stream")
}

// copied writes an answer to the client.
type copied struct {
	to      http.ResponseWriter
	control *http.ResponseController
	// lines means that only whole lines are written: half of one could not be followed by an error.
	lines bool
	// events means that an empty line ends an event.
	events bool
	held   []byte // of an incomplete line
	ends   [2]byte
	head   []byte // the beginning of the answer
	tail   []byte // and its end, for used
}

const (
	// maxHeld is how much of a line is held back.
	maxHeld = 1 << 20
	// maxTail is how much of the beginning and of the end is searched for what was used.
	maxTail = 4 << 10
)

// write writes what has arrived, and flushes it. The error means that the client has gone.
func (c *copied) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	c.keep(data)
	if c.lines {
		end := bytes.LastIndexByte(data, '\n') + 1
		if end == 0 && len(c.held)+len(data) <= maxHeld {
			c.held = append(c.held, data...)
			return nil
		}
		if end == 0 {
			end = len(data)
		}
		if len(c.held) > 0 {
			if err := c.send(c.held); err != nil {
				return err
			}
			c.held = c.held[:0]
		}
		c.held = append(c.held, data[end:]...)
		data = data[:end]
	}
	if err := c.send(data); err != nil {
		return err
	}
	return c.flushNow()
}

// send writes without flushing.
func (c *copied) send(data []byte) error {
	// Writers in tests may not support deadlines.
	_ = c.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	for _, b := range data[max(0, len(data)-2):] {
		c.ends[0], c.ends[1] = c.ends[1], b
	}
	_, err := c.to.Write(data)
	return err
}

func (c *copied) flushNow() error {
	if err := c.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// flush writes what is held back.
func (c *copied) flush() error {
	if len(c.held) == 0 {
		return nil
	}
	if err := c.send(c.held); err != nil {
		return err
	}
	return c.flushNow()
}

// fail ends a stream with an event. What is held back of a line is dropped.
func (c *copied) fail(event []byte) {
	if c.events && c.ends[1] != 0 && c.ends != [2]byte{'\n', '\n'} {
		event = append([]byte("\n"), event...) // ends an event of which lines were sent
	}
	if c.send(event) == nil {
		_ = c.flushNow()
	}
}

// keep keeps the beginning and the end of the answer.
func (c *copied) keep(data []byte) {
	if room := maxTail - len(c.head); room > 0 {
		c.head = append(c.head, data[:min(room, len(data))]...)
	}
	if len(data) >= maxTail {
		c.tail = append(c.tail[:0], data[len(data)-maxTail:]...)
		return
	}
	if over := len(c.tail) + len(data) - maxTail; over > 0 {
		c.tail = c.tail[:copy(c.tail, c.tail[over:])]
	}
	c.tail = append(c.tail, data...)
}

// used returns what the answer says that it has used. The text of an answer has quotes escaped, so
// that it cannot be mistaken for a field.
func (c *copied) used() guard.Used {
	last := func(names ...string) int {
		for _, text := range [][]byte{c.tail, c.head} {
			for _, name := range names {
				if n := lastNumber(text, name); n > 0 {
					return n
				}
			}
		}
		return 0
	}
	return guard.Used{
		PromptTokens:    last(`"prompt_tokens"`, `"input_tokens"`, `"prompt_eval_count"`),
		GeneratedTokens: last(`"completion_tokens"`, `"output_tokens"`, `"eval_count"`)}
}

// responseID returns the ID of a response of the Responses API; "": the answer is none.
func (c *copied) responseID() string {
	const begin = `"id":"`
	at := bytes.Index(c.head, []byte(begin+"resp_"))
	if at < 0 {
		return ""
	}
	id := c.head[at+len(begin):]
	end := bytes.IndexByte(id, '"')
	if end < 0 {
		return ""
	}
	return string(id[:end])
}

// lastNumber returns the value of the last field with a name, in quotes; 0: there is none.
func lastNumber(data []byte, name string) (n int) {
	at := bytes.LastIndex(data, []byte(name))
	if at < 0 {
		return 0
	}
	rest := bytes.TrimLeft(data[at+len(name):], ": ")
	for i := 0; i < min(len(rest), 9) && rest[i] >= '0' && rest[i] <= '9'; i++ {
		n = 10*n + int(rest[i]-'0')
	}
	return n
}
