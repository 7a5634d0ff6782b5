// Package problem defines the errors that users see. A Problem says what happened, why, and what to
// do, and has a stable code.
//
// Code that detects a fault that a user can act on wraps it in a Problem. The HTTP server and the
// UI each map codes in one place.
package problem

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code names a kind of fault. Codes do not change between versions, since clients match on them.
type Code string

// The codes. A new one needs a row in engine/server's table of HTTP statuses.
const (
	BadRequest          Code = "bad_request"          // the JSON or a parameter is invalid
	ContextExceeded     Code = "context_exceeded"     // the prompt is longer than the context
	ModelNotFound       Code = "model_not_found"      // no model has this name
	ModelBroken         Code = "model_broken"         // the model's files are damaged or incomplete
	UnknownArchitecture Code = "unknown_architecture" // the model's architecture is not supported
	DoesNotFit          Code = "does_not_fit"         // the model needs too much memory
	NotRunning          Code = "not_running"          // no model is loaded
	Loading             Code = "loading"              // a model is being loaded: try again
	Busy                Code = "busy"                 // the queue is full: try again
	Overloaded          Code = "overloaded"           // too many clients: try again
	Timeout             Code = "timeout"              // the client was too slow
	NoTemplate          Code = "no_template"          // the model has no chat template
	TemplateFailed      Code = "template_failed"      // the chat template refused these messages
	PortTaken           Code = "port_taken"           // another program listens on the port
	NotFound            Code = "not_found"            // no such route, request or other object
	MethodNotAllowed    Code = "method_not_allowed"   // the route has other methods
	TooLarge            Code = "too_large"            // the request's body is over the limit
	Unauthorized        Code = "unauthorized"         // the key or token is missing or wrong
	Forbidden           Code = "forbidden"            // a foreign host or page, or beyond a key
	Exists              Code = "exists"               // the name is already in use
	Changed             Code = "changed"              // the object changed since it was read
	DiskFull            Code = "disk_full"            // the disk is full
	Upstream            Code = "upstream"             // another server did not answer as expected
	Cancelled           Code = "cancelled"            // the request was cancelled
	Crashed             Code = "model_crashed"        // the model's process ended
	Locked              Code = "locked"               // the encryption key is not available
	CrashesModel        Code = "crashes_model"        // this request ended the model twice
	Unresponsive        Code = "model_unresponsive"   // the model's process does not answer
	LowResources        Code = "low_resources"        // the system lacks something: try again
	GPUTimeout          Code = "gpu_timeout"          // the system ended the GPU's work: try again
	Internal            Code = "internal"             // a bug in Headroom
)

// Problem is an error for users. Message says what happened, Why gives the reason with its numbers,
// and Fix says what to do. Why and Fix may be empty.
type Problem struct {
	Code    Code
	Message string
	Why     string
	Fix     string
	Err     error // the cause, for logs
	// RetryAfter is the time after which the same request is likely to succeed; 0: unknown.
	RetryAfter time.Duration
	// Overflow has the sizes of a prompt that is too long, for the code ContextExceeded. Each API
	// has its own words for it. nil: unknown.
	Overflow *Overflow
}

// New returns a Problem.
func New(code Code, message, why, fix string) *Problem {
	return &Problem{Code: code, Message: bounded(message), Why: bounded(why), Fix: fix}
}

// maxTextBytes bounds Message and Why, which may repeat the content of a file that is not trusted.
const maxTextBytes = 2000

func bounded(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextBytes], "") + "…"
}

// Wrap returns a Problem whose Why is the text of err. If err is a Problem with the same Fix, Why
// does not repeat it.
func Wrap(code Code, err error, message, fix string) *Problem {
	why := err.Error()
	if fix != "" {
		if without, ok := strings.CutSuffix(why, " "+fix); ok {
			why = strings.TrimSuffix(without, ".")
		}
	}
	return &Problem{Code: code, Message: bounded(message), Why: bounded(why), Fix: fix, Err: err}
}

func (p *Problem) Error() string {
	s := p.Message
	if p.Why != "" {
		s += ": " + p.Why
	}
	if p.Fix != "" {
		if !strings.HasSuffix(s, "?") && !strings.HasSuffix(s, ".") {
			s += "."
		}
		s += " " + p.Fix
	}
	return s
}

func (p *Problem) Unwrap() error { return p.Err }

// From returns the Problem in err's chain. It wraps any other error in a Problem with the code
// Internal.
func From(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return &Problem{Code: Internal, Message: "Something went wrong inside Headroom",
		Why: fmt.Sprint(err), Err: err}
}
