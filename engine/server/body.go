package server

// Bodies of requests: their size, and the memory of all of them at once.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// The memory for bodies, in bytes. A body beyond freeBody takes its memory from a budget, and waits
// if that is used up. Large bodies have a budget of their own, so that normal requests never wait
// for them.
const (
	freeBody        = 16 << 10
	smallBodyBudget = 16 << 20
	largeBodyBudget = maxBodyBytes
	budgetWait      = 10 * time.Second
)

// The memory for what is built from bodies: values, messages, the prompt. It is estimated from the
// body. Requests that need little never wait for others.
const (
	buildBudget  = 32 << 20
	freeBuild    = 256 << 10
	bytesPerByte = 4   // the text of a request is copied into a message, a prompt, a template
	bytesPerMark = 128 // one value, for each comma and bracket
)

// maxBytesPerToken bounds a body by the context of the model: no text has more bytes per token. A
// body may have baseBodyBytes in addition, for what does not reach the prompt.
const (
	maxBytesPerToken = 64
	baseBodyBytes    = 1 << 20
)

// maxBodyBytes is the longest body, unless Options.MaxBodyBytes sets another limit.
const maxBodyBytes = 16 << 20

var (
	smallBodies = &budget{free: smallBodyBudget, garbage: garbage, ofBodies: true}
	largeBodies = &budget{free: largeBodyBudget, garbage: garbage, ofBodies: true}
	building    = &budget{free: buildBudget, garbage: garbage}
)

// takeBuild waits until there is memory for what is built from a body. The caller must call done.
func takeBuild(ctx context.Context, body []byte) (done func(), err error) {
	marks := 0
	for _, mark := range []byte{',', '[', '{'} {
		marks += bytes.Count(body, []byte{mark})
	}
	cost := min(int64(bytesPerByte*len(body)+bytesPerMark*marks), buildBudget)
	if cost <= freeBuild {
		return func() {}, nil
	}
	// Those who wait have their body in memory, and others have to finish first.
	if _, err := building.take(ctx, cost, 3*budgetWait); err != nil {
		return nil, bodyProblem(err)
	}
	return sync.OnceFunc(func() { building.give(cost) }), nil
}

// bodyLimit returns how long the body of a request may be, and the error of a longer one. It goes
// by the model with the longest context, because the body names the model.
func (s *Server) bodyLimit() (limit int64, tooLong error) {
	if !s.models.Listed() {
		return s.limitFor(0) // the request waits for the list later, and only for a time
	}
	longest := 0
	for _, m := range s.models.List() {
		context, task := m.ContextTokens, m.Description.Task
		if m.Engine != nil {
			context, task = m.Engine.Info().ContextTokens, m.Engine.Info().Task
		}
		if context == 0 || task != modelfile.Generate { // which takes many texts at once
			return s.limitFor(0)
		}
		longest = max(longest, context)
	}
	return s.limitFor(longest)
}

// limitFor returns how long the body of a request for a model with this context may be, and the
// error of a longer one. 0 stands for an unknown context.
func (s *Server) limitFor(context int) (limit int64, tooLong error) {
	limit = baseBodyBytes + maxBytesPerToken*int64(context)
	if context == 0 || limit >= s.maxBodyBytes {
		return s.maxBodyBytes, tooLarge(s.maxBodyBytes)
	}
	p := problem.TooLong(problem.Overflow{Tokens: context + 1, Context: context, AtLeast: true},
		fmt.Sprintf("the limit is %d bytes for all messages or prompts together", limit))
	p.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, the "+
		"request's body is too large", context)
	p.Fix = "Send less text, or fewer prompts at once."
	return limit, p
}

func tooLarge(limit int64) error {
	return problem.New(problem.TooLarge, "The request's body is too large",
		"the limit is "+strconv.FormatInt(limit, 10)+" bytes", "")
}

// Body is the body of a request. Its memory counts until Release.
type Body struct {
	Bytes        []byte
	small, large int64 // bytes taken from the budgets
}

// Release returns the memory to the budget. It drops Bytes, and may be called again.
func (b *Body) Release() {
	smallBodies.give(b.small)
	largeBodies.give(b.large)
	*b = Body{}
}

// ReadBody reads a body of at most limit bytes. A body whose declared length is over the limit is
// refused unread. The caller must release the body. Errors are Problems.
func ReadBody(r *http.Request, limit int64) (*Body, error) {
	return readBody(r, limit, tooLarge(limit))
}

func readBody(r *http.Request, limit int64, tooLong error) (*Body, error) {
	if r.ContentLength > limit {
		return nil, tooLong
	}
	b := &Body{}
	most := limit + 1 // one more byte tells that a body without a declared length is too large
	if r.ContentLength >= 0 {
		most = r.ContentLength
	}
	err := b.read(r, most)
	if err == nil && int64(len(b.Bytes)) > limit {
		err = tooLong
	}
	if err != nil {
		b.Release()
		return nil, bodyProblem(err)
	}
	return b, nil
}

// read reads at most most bytes. The buffer grows with what arrives, not with what is declared.
func (b *Body) read(r *http.Request, most int64) error {
	for size := int64(freeBody); ; size *= 4 {
		if size >= largeBody {
			size = most // waiting once is enough, and two half bodies never wait for each other
		}
		size = min(size, most)
		if err := b.grow(r, size); err != nil {
			return err
		}
		for len(b.Bytes) < cap(b.Bytes) {
			n, err := r.Body.Read(b.Bytes[len(b.Bytes):cap(b.Bytes)])
			b.Bytes = b.Bytes[:len(b.Bytes)+n]
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
		if size == most {
			return readEnd(r.Body)
		}
	}
}

// readEnd reads the end of a body that has been read completely, for net/http to see it.
func readEnd(body io.Reader) error {
	var none [1]byte
	if n, err := body.Read(none[:]); n == 0 && err != nil && err != io.EOF {
		return err
	}
	return nil
}

// grow gives the buffer the capacity size, within the budgets.
func (b *Body) grow(r *http.Request, size int64) error {
	var small, large int64
	switch {
	case size > largeBody:
		// The longest body has one byte more, if its length is not declared.
		large = min(size, largeBodyBudget) - b.large
	case size > freeBody:
		small = size - b.small
	}
	waited, err := smallBodies.take(r.Context(), small, budgetWait)
	if err != nil {
		return err
	}
	b.small += small
	more, err := largeBodies.take(r.Context(), large, budgetWait)
	if err != nil {
		return err
	}
	b.large += large
	if paced, ok := r.Body.(*pacedBody); ok && (waited || more) {
		paced.restart()
	}
	grown := make([]byte, len(b.Bytes), size)
	copy(grown, b.Bytes)
	b.Bytes = grown
	return nil
}

// BodyProblem returns the error of reading a body as a client gets it. Errors that have a Problem
// stay as they are.
func BodyProblem(err error) error {
	var known *problem.Problem
	if err == nil || errors.As(err, &known) {
		return err
	}
	return bodyProblem(err)
}

// bodyProblem returns the Problem for an error of reading a body.
func bodyProblem(err error) error {
	var known *problem.Problem
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.New(problem.Timeout, "The request's body did not arrive in time",
			"a body must arrive at "+strconv.Itoa(minBodyRate>>10)+" KB/s or faster",
			"Send it again.")
	}
	return problem.Wrap(problem.BadRequest, err, "The request's body could not be read", "")
}

// budget is an amount of memory that requests share. Those who wait are served in order.
type budget struct {
	garbage  *collector // learns what is taken; nil: nothing does
	ofBodies bool       // what is taken is in memory, as bodies

	mu      sync.Mutex
	free    int64
	waiting []*claim
}

// claim is a request that waits for its share.
type claim struct {
	bytes int64
	ready chan struct{} // closed when the bytes have been taken
}

// take takes bytes from the budget. If there are too few, it waits until ctx or the time patience
// ends. Taking 0 bytes never waits.
func (b *budget) take(ctx context.Context, bytes int64, patience time.Duration) (waited bool,
	err error) {
	if bytes == 0 {
		return false, nil
	}
	b.mu.Lock()
	if len(b.waiting) == 0 && bytes <= b.free {
		b.spend(bytes)
		b.mu.Unlock()
		return false, nil
	}
	c := &claim{bytes: bytes, ready: make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.ready:
		return true, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		full := problem.New(problem.Overloaded, "Too many large requests arrive at once",
			"the memory for them is used up", "Try again.")
		err = full
	}
	b.withdraw(c)
	return true, err
}

// withdraw removes a claim, or returns what it has taken meanwhile.
func (b *budget) withdraw(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-c.ready:
		b.spend(-c.bytes)
	default:
		for i := range b.waiting {
			if b.waiting[i] == c {
				b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
				break
			}
		}
	}
	b.serve()
}

// give returns bytes to the budget.
func (b *budget) give(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spend(-bytes)
	b.serve()
}

// serve gives to those who wait, in order. The caller holds mu.
func (b *budget) serve() {
	for len(b.waiting) > 0 && b.waiting[0].bytes <= b.free {
		c := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.spend(c.bytes)
		close(c.ready)
	}
}

// spend takes bytes that are free; less than 0: returns them. The caller holds mu.
func (b *budget) spend(bytes int64) {
	b.free -= bytes
	b.garbage.add(bytes, b.ofBodies)
}
