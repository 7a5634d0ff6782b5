// Package openai holds the wire types of the OpenAI-compatible endpoint and nothing else: JSON in,
// checked Go values out, and back. It knows neither HTTP nor the engine; engine/server joins the
// three.
//
// Reading (decode.go, request.go, message.go, tools.go, parts.go) treats every byte as untrusted:
// whatever is wrong becomes an *Error that names the parameter, what was expected and what came.
// Unknown fields are ignored, as clients send many. Writing (response.go, logprobs.go) has OpenAI's
// field names; the reasoning of a model goes out twice, as reasoning_content and as reasoning,
// because clients are split over the name.
//
// Source: https://platform.openai.com/docs/api-reference (chat, completions, models), and vLLM's
// extra parameters.
package openai

import (
	"fmt"

	"headroom/engine/problem"
)

// Error is a request that cannot be served as it stands. Param is the JSON path of the parameter at
// fault ("messages[2].role"), empty when it is the body as a whole.
type Error struct {
	Param   string
	Problem *problem.Problem
}

func (e *Error) Error() string { return e.Problem.Error() }

// Unwrap returns the Problem, so that problem.From finds it.
func (e *Error) Unwrap() error { return e.Problem }

// badParam makes the Error of one parameter: "temperature: must be between 0 and 2, got 7".
func badParam(param, format string, args ...any) *Error {
	return &Error{Param: param,
		Problem: problem.New(problem.BadRequest, param+": "+fmt.Sprintf(format, args...), "", "")}
}

// badBody makes the Error of a body that cannot be read at all.
func badBody(format string, args ...any) *Error {
	return &Error{Problem: problem.New(problem.BadRequest, fmt.Sprintf(format, args...), "", "")}
}

// ErrorBody is what a refused request gets: {"error": {...}}.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail is OpenAI's error object. Message says what happened, why and what to do; Code is a
// problem.Code.
type ErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}
