// Package openai is OpenAI's dialect of engine/server: chat completions, completions and models.
//
// Dialect (dialect.go) joins the two halves. Parsing (decode.go, request.go, message.go, tools.go,
// values.go) treats every byte as untrusted. Anything invalid becomes an *Error that names the
// parameter, the expected value and the value received. Unknown fields are ignored, because clients
// send many. Rendering (render.go, response.go, logprobs.go) uses OpenAI's field names. Reasoning
// is sent twice, as reasoning_content and as reasoning, because some clients read one and some the
// other.
//
// Source: https://platform.openai.com/docs/api-reference (chat, completions, models), and vLLM's
// extra parameters.
package openai

import (
	"fmt"

	"headroom/engine/generate"
	"headroom/engine/problem"
)

// Error is a request with a parameter that is not valid.
type Error = generate.ParamError

// badParam returns the Error of one parameter: "temperature: must be between 0 and 2, got 7".
var badParam = generate.BadParam

// badBody returns the Error of a body that cannot be read at all.
func badBody(format string, args ...any) *Error {
	return &Error{Problem: problem.New(problem.BadRequest, fmt.Sprintf(format, args...), "", "")}
}

// ErrorBody is the response to a refused request: {"error": {...}}.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail is OpenAI's error object. Message explains what happened, why, and what to do. Code
// is a problem.Code, or OpenAI's own code where clients match on it.
type ErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}
