package server

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"strconv"

	"headroom/engine/guard"
	"headroom/engine/problem"
)

// reply is the HTTP status and the Retry-After header of an error. Dialects add only the body.
type reply struct {
	status int
	// retryAfter is in seconds; 0: no header. Problem.RetryAfter overrides the value in replies.
	// OpenAI's clients retry 408, 409, 429 and 5xx automatically.
	retryAfter int
}

// replies maps the codes of Problems to their reply.
var replies = map[problem.Code]reply{
	problem.BadRequest:          {status: 400},
	problem.ContextExceeded:     {status: 400},
	problem.NoTemplate:          {status: 400},
	problem.TemplateFailed:      {status: 400},
	problem.Unauthorized:        {status: 401},
	problem.Forbidden:           {status: 403},
	problem.ModelNotFound:       {status: 404},
	problem.NotFound:            {status: 404},
	problem.MethodNotAllowed:    {status: 405},
	problem.Timeout:             {status: 408},
	problem.Exists:              {status: 409},
	problem.Changed:             {status: 409},
	problem.TooLarge:            {status: 413},
	problem.ModelBroken:         {status: 422},
	problem.UnknownArchitecture: {status: 422},
	problem.Locked:              {status: 423},
	problem.Busy:                {status: 429, retryAfter: 1},
	problem.Cancelled:           {status: statusClientClosedRequest},
	problem.CrashesModel:        {status: 422},
	problem.Crashed:             {status: 503, retryAfter: 2},
	problem.Unresponsive:        {status: 503, retryAfter: 5},
	problem.LowResources:        {status: 503, retryAfter: 2},
	problem.GPUTimeout:          {status: 503, retryAfter: 5},
	problem.Internal:            {status: 500},
	problem.PortTaken:           {status: 500},
	problem.Upstream:            {status: 502},
	problem.NotRunning:          {status: 503},
	problem.Overloaded:          {status: 503, retryAfter: 2},
	problem.Loading:             {status: 503, retryAfter: 2},
	problem.DoesNotFit:          {status: 507},
	problem.DiskFull:            {status: 507},
}

// statusClientClosedRequest is nginx's status for a request whose client has disconnected.
const statusClientClosedRequest = 499

// StatusOf returns the HTTP status of a Problem. For an unknown code it is 500.
func StatusOf(p *problem.Problem) int { return replyOf(p).status }

func replyOf(p *problem.Problem) reply {
	answer, ok := replies[p.Code]
	if !ok {
		answer = replies[problem.Internal]
	}
	if p.RetryAfter > 0 {
		answer.retryAfter = int(math.Ceil(p.RetryAfter.Seconds()))
	}
	return answer
}

// ErrorRenderer renders an error as the answer to a request; see Dialect.Error.
type ErrorRenderer func(r *http.Request, err error) Event

// Refuse returns a function that answers a request with an error: status, Retry-After and body.
// Nothing may have been written before.
func Refuse(render ErrorRenderer) guard.Refuse {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		recordOf(r).fail(err)
		answer := replyOf(problem.From(err))
		if answer.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(answer.retryAfter))
		}
		event := render(r, err)
		writeJSON(w, cmp.Or(event.Status, answer.status), event.Data)
	}
}

// requestError is an error of the request with that ID.
type requestError struct {
	error
	id string
}

func (e *requestError) Unwrap() error { return e.error }

// RequestID returns the ID of the request that an error belongs to, which the client gets as
// X-Request-Id. It is "" if the error has none.
func RequestID(err error) string {
	var e *requestError
	if errors.As(err, &e) {
		return e.id
	}
	return ""
}
