// Package jsonbody reads the JSON bodies of requests, which are untrusted, for every dialect.
//
// Check checks the whole body: encoding, syntax, limits, duplicate keys (scan.go). Decode then
// reads values in place into structs (fill.go, integer.go). If a value is not valid, the error is
// an *Error that names the field, the expected type and the type received (decode.go). Fields that
// a struct does not have are ignored, because clients send many.
package jsonbody

import (
	"fmt"

	"headroom/engine/generate"
	"headroom/engine/problem"
)

// Error is the error of a body or of one of its fields.
type Error = generate.ParamError

// BadBody returns an Error about the whole body.
func BadBody(format string, args ...any) *Error {
	return &Error{Problem: problem.New(problem.BadRequest, fmt.Sprintf(format, args...), "", "")}
}
