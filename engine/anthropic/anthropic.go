// Package anthropic implements Anthropic's Messages API for engine/server: messages, whole or
// streamed, and the count of their tokens. Dialect (dialect.go) is the entry point.
//
// Parsing (request.go, message.go, tools.go) reads a body with package jsonbody and turns it into a
// generate.Request, whose messages and tools have OpenAI's form, as chat templates know it. Clients
// replay whole conversations, so history is never refused: what a model cannot read becomes text or
// is left out. What would change the answer is refused by name. All else is ignored.
//
// Rendering (render.go, response.go) makes content blocks of an answer: thinking, text and
// tool_use.
//
// Sources: https://platform.claude.com/docs/en/api/messages, the types of the package anthropic for
// Python, and the requests that Claude Code sends.
package anthropic

import (
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Error is the error of a request with an invalid parameter or body.
type Error = jsonbody.Error

// badParam returns an Error about one parameter: "max_tokens: is missing". unsupported returns one
// about a parameter that Anthropic's API has and Headroom has not.
var (
	badParam    = generate.BadParam
	unsupported = generate.Unsupported
)
