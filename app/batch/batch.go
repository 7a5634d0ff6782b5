// Package batch answers the requests of a file and writes the answers to another one, in the form
// of OpenAI's Batch API: one JSON object per line.
//
//	in   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//	out  {"id": "...", "custom_id": "a", "response": {"status_code": 200, "request_id": "...",
//	     "body": {...}}, "error": null}
//
// The whole input is checked before the first request runs. Answers are written as they come, in
// any order. What an interrupted run has answered is kept: the next run with the same files answers
// the rest. The tokens of an answer do not depend on the others (see engine), so neither does it
// matter how often a run was interrupted.
package batch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"headroom/engine/problem"
)

// Endpoints are the addresses that a request of a batch may have.
var Endpoints = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses",
	"/v1/embeddings"}

// Options configure Run. Handler is required.
type Options struct {
	Handler  http.Handler // answers the requests
	Parallel int          // requests that run or wait at once; 0: 16
	Model    string       // answers all requests; "": the model that each one names
	// Progress is called after each request, from one goroutine at a time; nil: it is not.
	Progress func(Counts)
}

// Counts are numbers of requests.
type Counts struct {
	Total     int // in the input
	Before    int // answered by an earlier run, and kept
	Refused   int // of these, with an error that stays
	Completed int // answered by this run
	Failed    int // answered by this run with an error, and not among Completed
}

// Left returns how many requests are to be answered.
func (c Counts) Left() int { return c.Total - c.Before - c.Completed - c.Failed }

// request is a line of the input.
type request struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// result is a line of the output.
type result struct {
	ID       string    `json:"id"`
	CustomID string    `json:"custom_id"`
	Response *response `json:"response"`
	Error    *failure  `json:"error"`
}

type response struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Run answers the requests of the file in, and adds the answers to the file out. If ctx ends, it
// returns what it has done with ctx's error; the requests that ran are not answered. The error is a
// Problem.
func Run(ctx context.Context, in, out string, o Options) (Counts, error) {
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if err := regular(in); err != nil {
		return Counts{}, err
	}
	input, err := os.Open(in)
	if err != nil {
		return Counts{}, unreadable(in, err)
	}
	defer input.Close()
	lineOf, err := check(input)
	if err != nil {
		return Counts{}, err
	}
	file, answered, unlock, err := resume(in, out, lineOf)
	if err != nil {
		return Counts{}, err
	}
	defer unlock()
	if _, err := input.Seek(0, io.SeekStart); err != nil {
		return Counts{}, errors.Join(unreadable(in, err), file.Close())
	}
	r := &run{Options: o, counts: Counts{Total: len(lineOf)}, out: file}
	err = r.all(ctx, input, answered)
	if synced := errors.Join(file.Sync(), file.Close()); err == nil && synced != nil {
		err = notWritten(synced)
	}
	return r.counts, err
}

// run is a Run in progress.
type run struct {
	Options
	mu     sync.Mutex
	counts Counts
	out    *os.File
	err    error // the first that a write returned
}

// all answers the requests of the input that are not answered.
func (r *run) all(ctx context.Context, input io.Reader, answered map[string]bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var working sync.WaitGroup
	free := make(chan struct{}, r.Parallel)
	lines := newLines(input)
	for lines.next() {
		var q request
		if err := json.Unmarshal(lines.line, &q); err != nil {
			cancel()
			working.Wait()
			return changed(lines.number)
		}
		if ok, before := answered[q.CustomID]; before {
			r.note(func(c *Counts) {
				if c.Before++; !ok {
					c.Refused++
				}
			})
			continue
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		q.Body = bytes.Clone(q.Body)
		working.Go(func() {
			defer func() { <-free }()
			if r.one(ctx, q) != nil {
				cancel()
			}
		})
	}
	working.Wait()
	switch {
	case r.err != nil:
		return r.err
	case lines.err != nil:
		return problem.Wrap(problem.BadRequest, lines.err, "The batch cannot be read", "")
	}
	return ctx.Err()
}

// note changes the counts and reports them.
func (r *run) note(change func(*Counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.counts)
	if r.Progress != nil {
		r.Progress(r.counts)
	}
}

// write adds an answer to the output. After an error nothing more is written: the last line may be
// incomplete.
func (r *run) write(answer result) error {
	line, err := json.Marshal(answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	if r.err == nil && err != nil {
		r.err = notWritten(err)
	}
	return r.err
}

// one answers a request. Nothing is written if ctx has ended: the next run answers it.
func (r *run) one(ctx context.Context, q request) error {
	answer := result{ID: "batch_req_" + newID(), CustomID: q.CustomID}
	if body, failed := r.body(q.Body); failed != nil {
		answer.Error = failed
	} else {
		answer.Response = r.ask(ctx, q.URL, body)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := r.write(answer); err != nil {
		return err
	}
	r.note(func(c *Counts) {
		if answer.ok() {
			c.Completed++
		} else {
			c.Failed++
		}
	})
	return nil
}

func (r result) ok() bool { return r.Response != nil && r.Response.StatusCode == http.StatusOK }

// body returns the body of a request with the model that is to answer it.
func (r *run) body(body json.RawMessage) ([]byte, *failure) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, &failure{"invalid_request", "body: expected an object"}
	}
	if s := string(members["stream"]); s != "" && s != "false" && s != "null" {
		return nil, &failure{"invalid_request", "stream: an answer of a batch is not streamed"}
	}
	if r.Model == "" {
		return body, nil
	}
	name, err := json.Marshal(r.Model)
	if err != nil {
		return nil, &failure{"invalid_request", err.Error()}
	}
	members["model"] = name
	if body, err = json.Marshal(members); err != nil {
		return nil, &failure{"invalid_request", err.Error()}
	}
	return body, nil
}

// ask sends a request to the handler.
func (r *run) ask(ctx context.Context, path string, body []byte) *response {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path,
		bytes.NewReader(body))
	if err != nil { // the path is one of Endpoints
		return &response{StatusCode: http.StatusBadRequest}
	}
	q.RequestURI, q.RemoteAddr = path, "127.0.0.1:0"
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "headroom batch")
	w := &recorder{header: http.Header{}}
	r.Handler.ServeHTTP(w, q)
	answer := &response{StatusCode: cmp.Or(w.status, http.StatusOK),
		RequestID: w.header.Get("X-Request-Id"), Body: bytes.TrimSpace(w.body.Bytes())}
	if !json.Valid(answer.Body) {
		answer.Body, _ = json.Marshal(string(answer.Body))
	}
	return answer
}

// recorder is an http.ResponseWriter that keeps the response.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher.
func (w *recorder) Flush() {}

// SetWriteDeadline and SetReadDeadline are for http.ResponseController. Memory is never slow.
func (w *recorder) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (w *recorder) SetReadDeadline(time.Time) error { return nil }

func newID() string {
	id := make([]byte, 12)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// maxLineBytes is the longest line, as long as the longest body of a request.
const maxLineBytes = 16 << 20

// lines reads lines that are not empty.
type lines struct {
	scanner *bufio.Scanner
	line    []byte // valid until the next call of next
	number  int    // of the line, from 1
	err     error
}

func newLines(r io.Reader) *lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLineBytes)
	return &lines{scanner: s}
}

func (l *lines) next() bool {
	for l.scanner.Scan() {
		l.number++
		if l.line = bytes.TrimSpace(l.scanner.Bytes()); len(l.line) > 0 {
			return true
		}
	}
	if l.err = l.scanner.Err(); errors.Is(l.err, bufio.ErrTooLong) {
		l.err = fmt.Errorf("line %d is longer than %d MiB", l.number+1, maxLineBytes>>20)
	}
	return false
}
