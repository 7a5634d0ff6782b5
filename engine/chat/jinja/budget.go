package jinja

// The bounds of a rendering. A template comes with a model and is not trusted, so each operation
// counts the work that it does and the memory that it takes: by elements, and by bytes touched. No
// operation runs longer than a few milliseconds without counting. The bounds grow with the input,
// so that long conversations keep the same margin as short ones.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of one rendering. TestRealTemplates measures how far below them real templates stay.
const (
	// A step is 20 to 100 ns of work: a node visited, or an element of a list.
	minSteps     = 8_000_000
	stepsPerByte = 8 // of the input
	maxSteps     = 24_000_000

	minMemory     = 64 << 20 // bytes of all values built, in use or not; but see concat.go
	memoryPerByte = 32       // of the input
	maxMemory     = 512 << 20

	minTextBytes = 8 << 20 // of the output, and of each string
	textPerByte  = 4       // of the input
	maxTextBytes = 64 << 20

	maxDepth     = 5000    // nested evaluation, macros included
	stepsPerLook = 1 << 15 // how often the context is checked

	bytesPerStep = 64 // copied by the machine's own instructions
	charsPerStep = 8  // bytes of text that are read or mapped character by character

	itemBytes   = 16  // an element of a list
	listBytes   = 64  // a list without its elements
	entryBytes  = 128 // an entry of a dictionary
	scopeBytes  = 128 // the variables of a block
	callSteps   = 4   // a call of a filter, a test, a method or a macro
	bigIntSteps = 64  // arithmetic on integers beyond 64 bits

	maxMessageBytes = 2000 // of an error
	maxNameBytes    = 100  // of a name in an error
)

// ErrTooMuchWork and ErrTooMuchMemory are wrapped by the error of a rendering that was stopped at a
// bound.
var (
	ErrTooMuchWork   = errors.New("the template takes too long")
	ErrTooMuchMemory = errors.New("the template takes too much memory")
)

// budget holds what a rendering may use, and what it has used.
type budget struct {
	ctx       context.Context
	steps     int
	maxSteps  int
	look      int // check ctx when steps reaches this
	memory    int
	maxMemory int
	maxText   int
	depth     int
}

// newBudget returns the budget of a rendering whose input takes the given number of bytes.
func newBudget(ctx context.Context, inputBytes int) budget {
	inputBytes = min(inputBytes, maxMemory) // so that the products cannot overflow
	return budget{ctx: ctx,
		maxSteps:  min(minSteps+stepsPerByte*inputBytes, maxSteps),
		maxMemory: min(minMemory+memoryPerByte*inputBytes, maxMemory),
		maxText:   min(minTextBytes+textPerByte*inputBytes, maxTextBytes)}
}

// step counts one step.
func (r *renderer) step() { r.work(1) }

// work counts n steps. It fails at the bound, or when the context has ended.
func (r *renderer) work(n int) {
	if r.steps += n; r.steps >= r.look {
		r.pause()
	}
}

func (r *renderer) pause() {
	if r.steps > r.maxSteps || r.steps < 0 {
		r.stop(ErrTooMuchWork, "%v: stopped after %d steps", ErrTooMuchWork, r.maxSteps)
	}
	if err := r.ctx.Err(); err != nil {
		r.stop(err, "rendering was stopped: %v", err)
	}
	r.look = min(r.steps+stepsPerLook, r.maxSteps+1)
}

// stop ends the rendering with an error that wraps cause.
func (r *renderer) stop(cause error, format string, args ...any) {
	panic(&Error{Line: r.line, Message: fmt.Sprintf(format, args...), Cause: cause})
}

// take counts n bytes of values that are about to be built.
func (r *renderer) take(n int) {
	if r.memory += n; r.memory > r.maxMemory || r.memory < 0 {
		r.stop(ErrTooMuchMemory, "%v: more than %d bytes", ErrTooMuchMemory, r.maxMemory)
	}
}

// charge counts a string of n bytes that is about to be copied or built. It fails if the string
// would be too long.
func (r *renderer) charge(n int) {
	r.checkLength(n)
	r.take(n)
	r.work(1 + n/bytesPerStep)
}

// read counts n bytes of text that are read character by character.
func (r *renderer) read(n int) { r.work(1 + n/charsPerStep) }

// list counts a list of n elements that is about to be built.
func (r *renderer) list(n int) {
	r.take(listBytes + itemBytes*n)
	r.work(1 + n)
}

// entries counts n entries of a dictionary, or pairs of them.
func (r *renderer) entries(n int) {
	r.take(listBytes + entryBytes*n)
	r.work(1 + callSteps*n)
}

// checkLength fails if a text of n bytes is too long.
func (r *renderer) checkLength(n int) {
	if n > r.maxText || n < 0 {
		r.stop(ErrTooMuchMemory, "the template makes a text of more than %d bytes", r.maxText)
	}
}

// grown counts the bytes by which escapes have made a text longer than expected.
func (r *renderer) grown(b *strings.Builder, expected int) {
	if more := b.Len() - expected; more > 0 {
		r.checkLength(b.Len())
		r.take(more)
		r.work(more / bytesPerStep)
	}
}

// repeated counts count copies of a text of n bytes. It fails if they are too long.
func (r *renderer) repeated(n int, count int64) {
	if n > 0 && count > int64(r.maxText/n) {
		r.checkLength(r.maxText + 1)
	}
	r.charge(n * int(count))
}

func (r *renderer) enter() {
	if r.depth++; r.depth > maxDepth {
		r.fail("the template recurses deeper than %d levels", maxDepth)
	}
}

func (r *renderer) leave() { r.depth-- }

// pieceBytes is the length of the pieces in which long texts are mapped, so that the context is
// checked between them.
const pieceBytes = 1 << 16

// pieces calls f for consecutive pieces of s, which end at whole characters, until f returns false.
// Before each call it counts the piece as read.
func (r *renderer) pieces(s string, f func(piece string) bool) {
	for s != "" {
		n := min(pieceBytes, len(s))
		for n < len(s) && n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		r.read(n)
		if !f(s[:n]) {
			return
		}
		s = s[n:]
	}
}

// mapPieces returns the concatenation of f of each piece of s.
func (r *renderer) mapPieces(s string, f func(string) string) string {
	if len(s) <= pieceBytes {
		r.read(len(s))
		out := f(s)
		r.charge(len(out))
		return out
	}
	var b strings.Builder
	r.pieces(s, func(piece string) bool {
		out := f(piece)
		r.checkLength(b.Len() + len(out))
		r.charge(len(out))
		b.WriteString(out)
		return true
	})
	return b.String()
}

// excerpt returns the beginning of a text for an error.
func excerpt(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// sizeOf returns roughly how many bytes a value takes.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return itemBytes + len(v)
	case *List:
		n := listBytes
		for _, item := range v.Items {
			n += sizeOf(item)
		}
		return n
	case *Dict:
		n := listBytes
		for i, k := range v.keys {
			n += sizeOf(k) + sizeOf(v.values[i])
		}
		return n
	}
	return itemBytes
}
