package server

// How failures look to clients. One table maps each problem to a status and OpenAI's type, so that
// client libraries retry what is worth retrying and show the rest.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"headroom/engine/openai"
	"headroom/engine/problem"
)

// meaning is what a Problem is on the wire.
type meaning struct {
	status int
	kind   string // OpenAI's error type
	code   string // "" for the Problem's own; set where OpenAI has a name that clients match on
	// seconds, if the Problem knows of none; 0: do not say. OpenAI's clients retry 408, 409, 429
	// and 5xx by themselves
	retryAfter int
}

// meanings is the one table from Problems to HTTP. statusClientGone is nginx's number; nobody is
// left to read it.
var meanings = map[problem.Code]meaning{
	problem.BadRequest: {status: 400, kind: "invalid_request_error"},
	problem.ContextExceeded: {status: 400, kind: "invalid_request_error",
		code: "context_length_exceeded"},
	problem.NoTemplate:          {status: 400, kind: "invalid_request_error"},
	problem.TemplateFailed:      {status: 400, kind: "invalid_request_error"},
	problem.Unauthorized:        {status: 401, kind: "authentication_error"},
	problem.Forbidden:           {status: 403, kind: "permission_error"},
	problem.ModelNotFound:       {status: 404, kind: "invalid_request_error"},
	problem.NotFound:            {status: 404, kind: "invalid_request_error"},
	problem.Exists:              {status: 409, kind: "invalid_request_error"},
	problem.Changed:             {status: 409, kind: "invalid_request_error"},
	problem.TooLarge:            {status: 413, kind: "invalid_request_error"},
	problem.ModelBroken:         {status: 422, kind: "invalid_request_error"},
	problem.UnknownArchitecture: {status: 422, kind: "invalid_request_error"},
	problem.Busy:                {status: 429, kind: "rate_limit_error", retryAfter: 1},
	problem.Cancelled:           {status: statusClientGone, kind: "cancelled"},
	problem.Crashed:             {status: 500, kind: "server_error"},
	problem.Internal:            {status: 500, kind: "server_error"},
	problem.PortTaken:           {status: 500, kind: "server_error"},
	problem.Upstream:            {status: 502, kind: "server_error"},
	problem.NotRunning:          {status: 503, kind: "server_error"},
	problem.Loading:             {status: 503, kind: "server_error", retryAfter: 2},
	problem.DoesNotFit:          {status: 507, kind: "server_error"},
	problem.DiskFull:            {status: 507, kind: "server_error"},
}

const statusClientGone = 499

// StatusOf returns the HTTP status of a Problem, 500 for a code the table lacks.
func StatusOf(p *problem.Problem) int { return meaningOf(p).status }

func meaningOf(p *problem.Problem) meaning {
	m, ok := meanings[p.Code]
	if !ok {
		m = meanings[problem.Internal]
	}
	if m.code == "" {
		m.code = string(p.Code)
	}
	return m
}

// errorBody is err in OpenAI's form.
func errorBody(err error) (openai.ErrorBody, meaning) {
	p := problem.From(err)
	m := meaningOf(p)
	if p.RetryAfter > 0 {
		m.retryAfter = int(math.Ceil(p.RetryAfter.Seconds()))
	}
	detail := openai.ErrorDetail{Message: p.Error(), Type: m.kind, Code: m.code}
	var atParam *openai.Error
	if errors.As(err, &atParam) && atParam.Param != "" {
		detail.Param = &atParam.Param
	}
	return openai.ErrorBody{Error: detail}, m
}

// refuse answers a request with an error, before anything else has been written.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	body, m := errorBody(err)
	recordOf(r).fail(err)
	if m.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(m.retryAfter))
	}
	writeJSON(w, m.status, body)
}

// encode makes JSON of a document of ours, on one line, with <, > and & as they are: no browser
// parses it as HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("server: encode: %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data := encode(v)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}
