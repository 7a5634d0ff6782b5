package jinja

import "fmt"

// Error is the error of a template that could not be parsed or rendered.
type Error struct {
	Line    int    // 1-based line in the template; 0 if none applies
	Message string // what went wrong; for a raised error, the template's own words
	Raised  bool   // true if the template called raise_exception
	// Cause is ErrTooMuchWork, ErrTooMuchMemory or the error of the context if one of them stopped
	// the rendering, else nil.
	Cause error
}

func (e *Error) Error() string {
	switch {
	case e.Raised:
		return e.Message
	case e.Line > 0:
		return fmt.Sprintf("chat template, line %d: %s", e.Line, e.Message)
	}
	return "chat template: " + e.Message
}

// Unwrap returns Cause.
func (e *Error) Unwrap() error { return e.Cause }

// recoverInto turns a panic of the interpreter into an error. An *Error stays as it
// is; anything else becomes an internal error. The interpreter panics to leave deep
// recursion, as text/template does, and no panic leaves the package.
func recoverInto(err *error, line func() int) {
	switch p := recover().(type) {
	case nil:
	case *Error:
		if p.Line == 0 {
			p.Line = line()
		}
		p.Message = excerpt(p.Message, maxMessageBytes)
		*err = p
	default:
		*err = &Error{Line: line(),
			Message: excerpt(fmt.Sprintf("internal error: %v", p), maxMessageBytes)}
	}
}
