package batch

// The lines of both files, and how a request is answered.

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
	"strconv"
	"time"

	"headroom/engine/jsonbody"
)

// Request is a line of the input.
type Request struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// Model returns the model that the request names; "": none, or something else than a text, which
// the server refuses.
func (q Request) Model() (name string) {
	_ = jsonbody.Members(q.Body, func(member string, value []byte) *jsonbody.Error {
		if member == "model" {
			name = ""
			_ = json.Unmarshal(value, &name)
		}
		return nil
	})
	return name
}

// Result is a line of the output: the response, or why there is none.
type Result struct {
	ID       string    `json:"id"`
	CustomID string    `json:"custom_id"`
	Response *Response `json:"response"`
	Error    *Failure  `json:"error"`
}

// Response is what the server has answered.
type Response struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"`
}

// Failure says why a request was not sent.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// OK reports whether the request was answered without an error.
func (r Result) OK() bool { return r.Response != nil && r.Response.StatusCode == http.StatusOK }

// NewResult returns the line for a request, without an answer.
func NewResult(q Request) Result {
	return Result{ID: linePrefix + newID(), CustomID: q.CustomID}
}

// linePrefix begins the ID of a line of the output.
const linePrefix = "batch_req_"

// Client sends requests to a handler in this process.
type Client struct {
	Handler http.Handler
	Agent   string // the User-Agent of the requests
	// ModelFor returns the model that answers requests that name one, or "" for none; nil: each
	// request gets what it names.
	ModelFor func(named string) string
}

// Answer answers a request. retryAfter is when to try again by what the server says; 0: it says
// nothing. If ctx ends, the result is not an answer.
func (c *Client) Answer(ctx context.Context, q Request) (answer Result, retryAfter time.Duration) {
	answer = NewResult(q)
	body, failed := c.body(q.Body)
	if failed != nil {
		answer.Error = failed
		return answer, 0
	}
	answer.Response, retryAfter = c.ask(ctx, q.URL, body)
	return answer, retryAfter
}

// body returns the body of a request with the model that is to answer it.
func (c *Client) body(body json.RawMessage) ([]byte, *Failure) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, &Failure{"invalid_request", "body: expected an object"}
	}
	if s := string(members["stream"]); s != "" && s != "false" && s != "null" {
		return nil, &Failure{"invalid_request", "stream: an answer of a batch is not streamed"}
	}
	if c.ModelFor == nil {
		return body, nil
	}
	named := ""
	if m := members["model"]; m != nil && json.Unmarshal(m, &named) != nil {
		return body, nil // the server refuses it
	}
	model := c.ModelFor(named)
	if model == named {
		return body, nil
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, &Failure{"invalid_request", err.Error()}
	}
	members["model"] = name
	if body, err = json.Marshal(members); err != nil {
		return nil, &Failure{"invalid_request", err.Error()}
	}
	return body, nil
}

// ask sends a request to the handler.
func (c *Client) ask(ctx context.Context, path string, body []byte) (answer *Response,
	retryAfter time.Duration) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path,
		bytes.NewReader(body))
	if err != nil { // the path is one of Endpoints
		return &Response{StatusCode: http.StatusBadRequest}, 0
	}
	q.RequestURI, q.RemoteAddr = path, "127.0.0.1:0"
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", c.Agent)
	w := &recorder{header: http.Header{}}
	c.Handler.ServeHTTP(w, q)
	answer = &Response{StatusCode: cmp.Or(w.status, http.StatusOK),
		RequestID: w.header.Get("X-Request-Id"), Body: bytes.TrimSpace(w.body.Bytes())}
	if !json.Valid(answer.Body) {
		answer.Body, _ = json.Marshal(string(answer.Body))
	}
	seconds, _ := strconv.Atoi(w.header.Get("Retry-After"))
	return answer, time.Duration(seconds) * time.Second
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

// MaxLineBytes is the longest line, as long as the longest body of a request.
const MaxLineBytes = 16 << 20

// byteOrderMark begins the texts of some programs, though JSON has none.
const byteOrderMark = "\uFEFF"

// errUTF16 is the error of a file that begins like those of some editors.
var errUTF16 = errors.New("the file is in UTF-16: save it as UTF-8")

// Lines reads lines that are not empty. A byte order mark at the beginning is skipped. In memory is
// one line at a time.
type Lines struct {
	in     *bufio.Reader
	long   []byte // a line that is longer than the buffer of in; its memory is reused
	Line   []byte // valid until the next call of Next or Drop
	Number int    // of the line, from 1
	At     int64  // where the line begins, in bytes
	Err    error  // why Next has returned false; nil: there is no further line
	next   int64  // where the next line begins
}

// NewLines returns the lines of r.
func NewLines(r io.Reader) *Lines { return &Lines{in: bufio.NewReaderSize(r, 64<<10)} }

// LinesAt returns the lines of r, which begins where a line begins, after so many bytes and lines.
func LinesAt(r io.Reader, bytes int64, lines int) *Lines {
	l := NewLines(r)
	l.next, l.Number = bytes, lines
	return l
}

// Next reads the next line.
func (l *Lines) Next() bool {
	for l.Err == nil {
		line, err := l.read()
		if err != nil && (err != io.EOF || len(line) == 0) {
			if err != io.EOF {
				l.Err = err
			}
			break
		}
		l.Number++
		l.At, l.next = l.next, l.next+int64(len(line))
		if l.At == 0 {
			if bytes.HasPrefix(line, []byte("\xff\xfe")) || bytes.HasPrefix(line,
				[]byte("\xfe\xff")) {
				l.Err = errUTF16
				break
			}
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if l.Line = bytes.TrimSpace(line); len(l.Line) > 0 {
			return true
		}
	}
	l.Line = nil
	return false
}

// read reads a line with its end. The error may come with the last line.
func (l *Lines) read() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	for l.long = l.long[:0]; ; line, err = l.in.ReadSlice('\n') {
		if len(l.long)+len(line) > MaxLineBytes {
			return nil, fmt.Errorf("line %d is longer than %d MiB", l.Number+1, MaxLineBytes>>20)
		}
		l.long = append(l.long, line...)
		if err != bufio.ErrBufferFull {
			return l.long, err
		}
	}
}

// Drop drops the memory of a long line.
func (l *Lines) Drop() { l.Line, l.long = nil, nil }
