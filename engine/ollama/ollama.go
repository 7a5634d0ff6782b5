// Package ollama implements Ollama's API for engine/server: chats, completions and the lists of
// models. Dialect (dialect.go) is the entry point.
//
// Parsing (request.go, options.go, message.go, tools.go) reads a body with package jsonbody and
// turns it into a generate.Request, whose messages and tools have OpenAI's form, as chat templates
// know it. What would change the answer works or is refused by name; fields.go has the tables.
//
// Rendering (render.go, response.go) makes the lines of an answer. models.go has the lists of
// models, pull.go has downloads, delete.go deletion, and refused.go what Headroom does in another
// way.
//
// Sources: https://github.com/ollama/ollama/blob/main/docs/api.md and api/types.go there, and the
// packages ollama for Python and for JavaScript.
package ollama

import (
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Error is the error of a request with an invalid parameter or body.
type Error = jsonbody.Error

// badParam returns an Error about one parameter: "options.seed: expected an integer, got 1.5".
// unsupported returns one about a parameter that Ollama's API has and Headroom has not.
var (
	badParam    = generate.BadParam
	unsupported = generate.Unsupported
)

// apiVersion is the version of Ollama that GET /api/version names. It is not Headroom's: clients
// compare it with the version that has what they need, such as tools or thinking.
const apiVersion = "0.30.0"
