package cluster

// Answers of rank 0. A client gets an answer that is complete, or an error: mlx_lm.server's cut-off
// answers look complete to clients that do not look for [DONE].

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"headroom/engine/openai"
	"headroom/engine/problem"
)

// causeTime is how long an answer that was cut off waits for the news of the rank that has ended:
// a connection may end before the node has said so.
const causeTime = 3 * time.Second

// answer sends a request to rank 0 and its answer to the client. The error is a Problem; nothing
// was written then.
func (r *run) answer(w http.ResponseWriter, q *http.Request, body []byte) error {
	ctx, cancel := context.WithCancelCause(q.Context())
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	sent, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+q.URL.Path,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	sent.Header.Set("Content-Type", "application/json")
	answer, err := r.http.Do(sent)
	if err != nil {
		return r.cut(q.Context(), err)
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode != http.StatusOK:
		return refusal(answer)
	case strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream"):
		r.stream(w, q, answer.Body)
		return nil
	}
	return r.whole(w, q, answer.Body)
}

// cut returns the Problem of an answer that was cut off: why the ranks have ended, if they have.
func (r *run) cut(client context.Context, err error) error {
	select {
	case <-r.ctx.Done():
		err = context.Cause(r.ctx)
	case <-client.Done():
		return problem.New(problem.Cancelled, "The client has gone", "", "")
	case <-time.After(causeTime):
		err = fmt.Errorf("rank 0 broke off: %w", err)
	}
	p := problem.Wrap(problem.Upstream, err, "The cluster could not complete the answer",
		"Try again in some seconds: the cluster starts again.")
	p.RetryAfter = 5 * time.Second
	return p
}

// refusal returns the Problem of an answer with an error of mlx_lm.server: {"error": "text"}.
func refusal(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxText))
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = "mlx_lm.server answered " + answer.Status
	}
	if answer.StatusCode >= http.StatusInternalServerError {
		return problem.New(problem.Upstream, "The cluster could not answer", said.Error, "")
	}
	return badRequest("%s", said.Error)
}

// whole sends an answer that is one document. The error is a Problem; nothing was written then.
func (r *run) whole(w http.ResponseWriter, q *http.Request, body io.Reader) error {
	text, err := io.ReadAll(body)
	if err == nil && !json.Valid(text) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return r.cut(q.Context(), err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client may be gone
	return nil
}

// stream sends events as they come. If they end before the last one, it sends an error as OpenAI
// does in streams.
func (r *run) stream(w http.ResponseWriter, q *http.Request, body io.Reader) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	to := http.NewResponseController(w)
	in := bufio.NewReader(body)
	var event []byte // complete lines: half an event must not precede the error
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			r.broken(w, q, err)
			return
		}
		if event = append(event, line...); len(bytes.TrimSpace(line)) > 0 {
			continue
		}
		_, err = w.Write(event)
		if err = errors.Join(err, to.Flush()); err != nil {
			return // the client has gone; rank 0 notices when this closes the connection
		}
		if bytes.HasPrefix(event, []byte("data: [DONE]")) {
			return
		}
		event = event[:0]
	}
}

// broken ends a stream with an error.
func (r *run) broken(w http.ResponseWriter, q *http.Request, err error) {
	text, err := json.Marshal(openai.NewErrorBody(r.cut(q.Context(), err)))
	if err == nil {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
	}
}
