package structured

import (
	"slices"
	"strings"

	"headroom/engine/grammar"
)

// phase is where an answer is.
type phase uint8

const (
	atStart   phase = iota // reasoning, a call or content may begin
	reasoning              // all tokens are free until the content begins
	content                // the form applies
	free                   // a tool call came in place of content
)

// Answer follows one answer. It belongs to one goroutine.
type Answer struct {
	matcher *grammar.Matcher
	phase   phase
	// At the start, these tokens are allowed too.
	open  int32 // begins reasoning; -1: none
	calls []int32

	close []string // the tags that come before the content
	tail  string   // the end of the text so far, which may be the beginning of a tag

	ready chan result // a mask that Prepare computes; nil: none
	mask  *grammar.Mask
}

type result struct {
	mask *grammar.Mask
	err  error
}

// begin returns an Answer. m is at the beginning of the content.
func (c *Compiler) begin(o *Output, m *grammar.Matcher) (*Answer, error) {
	a := &Answer{matcher: m, open: -1, close: o.Before.Close}
	if n := m.AcceptBytes([]byte(o.Begun)); n < len(o.Begun) {
		return nil, refused("the text that the answer shall continue does not have the form that "+
			"the request demands: it differs at byte %d, %.40q", n, o.Begun[n:])
	}
	if o.Before.Inside {
		a.phase = reasoning
		return a, nil
	}
	if token, ok := c.special(o.Before.Open); ok && o.Before.Open != "" {
		a.open = token
	}
	var err error
	if a.calls, err = c.tags(o.Before.Calls); err != nil {
		return nil, err
	}
	if a.open < 0 && len(a.calls) == 0 {
		a.phase = content
	}
	return a, nil
}

// Prepare begins to compute the mask for the next token, if that may take long. Call it when the
// pass that computes the token's logits begins.
func (a *Answer) Prepare() {
	if a.phase == reasoning || a.phase == free || a.ready != nil || a.matcher.MaskIsKnown() {
		return
	}
	ready := make(chan result, 1)
	a.ready = ready
	go func() {
		m, err := a.matcher.Mask()
		ready <- result{m, err}
	}()
}

// Mask returns which tokens may come next; nil: all of them.
func (a *Answer) Mask() (*grammar.Mask, error) {
	if a.phase == reasoning || a.phase == free {
		return nil, nil
	}
	r := a.wait()
	if r.err != nil {
		return nil, r.err
	}
	if a.phase == atStart {
		r.mask = r.mask.With(append(a.calls[:len(a.calls):len(a.calls)], a.open)...)
	}
	return r.mask, nil
}

// wait returns the mask of the form.
func (a *Answer) wait() (r result) {
	if a.ready == nil {
		r.mask, r.err = a.matcher.Mask()
		return r
	}
	r = <-a.ready
	a.ready = nil
	return r
}

// Forced returns the tokens that must come next, in order. It is empty if there is a choice.
func (a *Answer) Forced() []int32 {
	if a.phase != content {
		return nil
	}
	if a.ready != nil {
		a.wait()
	}
	return a.matcher.Forced()
}

// Accept goes on by a token. text is the text that it has completed, tags included.
func (a *Answer) Accept(token int32, text string) error {
	if a.ready != nil {
		a.wait()
	}
	switch a.phase {
	case atStart:
		switch {
		case token == a.open:
			a.phase = reasoning
			return nil
		case slices.Contains(a.calls, token):
			a.phase = free
			return nil
		}
		a.phase = content
		return a.matcher.Accept(token)
	case reasoning:
		a.reason(text)
		return nil
	case content:
		return a.matcher.Accept(token)
	}
	return nil
}

// reason looks for the tags that end what is free.
func (a *Answer) reason(text string) {
	a.tail += text
	for len(a.close) > 0 {
		at := strings.Index(a.tail, a.close[0])
		if at < 0 {
			if keep := len(a.close[0]) - 1; len(a.tail) > keep {
				a.tail = a.tail[len(a.tail)-keep:]
			}
			return
		}
		a.tail = a.tail[at+len(a.close[0]):]
		a.close = a.close[1:]
	}
	a.phase = content
	// The token that ended a tag may go on. What the form does not allow there is white space.
	a.matcher.AcceptBytes([]byte(a.tail))
	a.tail = ""
}

// Ended reports whether the content is complete and nothing can follow it.
func (a *Answer) Ended() bool { return a.phase == content && a.matcher.Ended() }
