// Package problem defines the errors that users see: what happened, why, and what to do, under a
// stable code.
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
	BadRequest Code = "bad_request" // the request's JSON or a parameter is wrong
	// ContextExceeded: the prompt is longer than the model's context.
	ContextExceeded     Code = "context_exceeded"
	ModelNotFound       Code = "model_not_found"      // no such model here
	ModelBroken         Code = "model_broken"         // its files are damaged or incomplete
	UnknownArchitecture Code = "unknown_architecture" // its kind is not supported
	DoesNotFit          Code = "does_not_fit"         // it needs more memory than there is
	NotRunning          Code = "not_running"          // no model is loaded
	Loading             Code = "loading"              // a model is being loaded: try again
	Busy                Code = "busy"                 // the queue is full: try again
	NoTemplate          Code = "no_template"          // the model has no chat template
	TemplateFailed      Code = "template_failed"      // the chat template refused these messages
	PortTaken           Code = "port_taken"           // another program listens there
	NotFound            Code = "not_found"            // no such address or request
	TooLarge            Code = "too_large"            // the request's body is over the limit
	Unauthorized        Code = "unauthorized"         // the key or token is missing or wrong
	// Forbidden: the request used a foreign host name, or came from a foreign web page.
	Forbidden Code = "forbidden"
	Exists    Code = "exists" // something of that name is there already
	// Changed: it is no longer in the state that the change was made for.
	Changed  Code = "changed"
	DiskFull Code = "disk_full" // there is no room left on the disk
	// Upstream: another server did not answer as expected.
	Upstream  Code = "upstream"
	Cancelled Code = "cancelled" // somebody stopped the request
	// Crashed: the model's process ended during the request.
	Crashed  Code = "model_crashed"
	Internal Code = "internal" // our own fault
)

// Problem is an error for users. Message says what happened, Why the reason with its numbers, and
// Fix what to do. Why and Fix may be empty.
type Problem struct {
	Code    Code
	Message string
	Why     string
	Fix     string
	Err     error // the cause, for logs
	// RetryAfter is when the same request is likely to succeed; 0: unknown.
	RetryAfter time.Duration
}

// New returns a Problem.
func New(code Code, message, why, fix string) *Problem {
	return &Problem{Code: code, Message: message, Why: why, Fix: fix}
}

// Wrap returns a Problem whose Why is the text of err.
func Wrap(code Code, err error, message, fix string) *Problem {
	return &Problem{Code: code, Message: message, Why: err.Error(), Fix: fix, Err: err}
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

// From returns the Problem in err's chain; any other error becomes an Internal one.
func From(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return &Problem{Code: Internal, Message: "Something went wrong inside Headroom",
		Why: fmt.Sprint(err), Err: err}
}
