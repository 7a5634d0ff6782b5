// Package responses implements OpenAI's Responses API for engine/server: responses, whole or
// streamed, their storage, and the count of their tokens. Dialect (dialect.go) is the entry point.
//
// Parsing (request.go, items.go, tools.go) reads a body with package jsonbody and turns its items
// into the messages of a generate.Request. Clients replay whole conversations, so items of an
// earlier answer are never refused: what a model cannot read is left out. What would change the
// answer is refused by name (fields.go). All else is ignored.
//
// Rendering (render.go, response.go) makes items of an answer: reasoning, a message, and calls.
// store.go keeps responses in memory, for clients that send only what is new.
//
// Sources: https://platform.openai.com/docs/api-reference/responses, the types of OpenAI's clients
// for Go and Node, and the requests that Codex sends.
package responses

import (
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Error is the error of a request with an invalid parameter or body.
type Error = jsonbody.Error

// badParam returns an Error about one parameter: "input: is missing". unsupported returns one about
// a parameter that OpenAI's API has and Headroom has not.
var (
	badParam    = generate.BadParam
	unsupported = generate.Unsupported
)
