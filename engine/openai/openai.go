// Package openai implements OpenAI's API for engine/server: chat completions, completions and
// models. Dialect (dialect.go) is the entry point.
//
// Parsing (fields.go, request.go, message.go, tools.go, values.go) treats the body as untrusted and
// reads it with package jsonbody. If a parameter is not valid, the error is an *Error that names
// the parameter, the expected value and the value received. fields.go says what becomes of each
// field.
//
// Rendering (render.go, response.go, logprobs.go) uses OpenAI's field names. Reasoning is sent
// twice, as reasoning_content and as reasoning, because clients differ in the name that they read.
//
// Sources: https://platform.openai.com/docs/api-reference (chat, completions, models), and the
// additional parameters of vLLM.
package openai

import (
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Error is the error of a request with an invalid parameter or body.
type Error = generate.ParamError

// badParam returns an Error about one parameter: "temperature: must be between 0 and 2, got 7".
// unsupported returns one about a parameter that OpenAI's API has and Headroom has not.
var (
	badParam    = generate.BadParam
	unsupported = generate.Unsupported
)

// Functions of package jsonbody under shorter names.
var (
	check    = jsonbody.Check
	decode   = jsonbody.Decode
	fill     = jsonbody.Fill
	members  = jsonbody.Members
	elements = jsonbody.Elements
	trimmed  = jsonbody.Trimmed
	kind     = jsonbody.Kind
	isNull   = jsonbody.IsNull
	object   = jsonbody.Object
	shorten  = jsonbody.Shorten
)

// ErrorBody is the body of an error response: {"error": {...}}.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail is OpenAI's error object. Message says what happened, why, and what to do. Code is a
// problem.Code, except where OpenAI has a code that clients look for. Like OpenAI's, it is null if
// a parameter or the body is not valid.
type ErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}
