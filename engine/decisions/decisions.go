// Package decisions implements OpenAI's Decisions API and TypeSafe's System One for engine/server.
// A request has a state and questions about it; the answer has a probability for each option. No
// text is generated. Dialect (dialect.go) is the entry point.
//
// Parsing (request.go, items.go, systemone.go) reads a body with package jsonbody and turns the
// state into the messages of a generate.Request. Each question becomes one more message of the user
// (question.go), which gives every option a label and asks for one. reading.go decides which
// log-probabilities must be read to know those of the labels, and answer.go computes the answer
// from them. render.go writes the answers of both APIs.
//
// The same request always gives the same bits: alone or beside others, whatever is cached, and
// whatever else it asks.
//
// Sources: the types of OpenAI's client for Python, 3.57 (types/decision*.py), and those of
// TypeSafe's, 0.7 (_schemas/models.py).
package decisions

import (
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Error is the error of a request with an invalid parameter or body.
type Error = jsonbody.Error

// badParam returns an Error about one parameter: "input: is missing". unsupported returns one about
// a parameter that the API has and Headroom has not.
var (
	badParam    = generate.BadParam
	unsupported = generate.Unsupported
)
