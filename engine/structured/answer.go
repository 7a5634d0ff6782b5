package structured

import (
	"slices"
	"strings"

	"headroom/engine/grammar"
)

// phase is where an answer is.
type phase uint8

const (
	atStart   phase = iota // content may begin, with reasoning before it or a call in its place
	reasoning              // all tokens are free until the content begins
	content                // the form applies
	free                   // all tokens are free; a call may begin
	inCall                 // the form of a call applies
)

// Answer follows one answer. It belongs to one goroutine.
type Answer struct {
	matcher *grammar.Matcher // of the content, or of the call that has begun; nil: free
	phase   phase
	// At the start, these tokens are allowed too.
	open  int32 // begins reasoning; -1: none
	calls []int32
	call  *grammar.Grammar // of one call; nil: calls are free
	watch CallWatch        // says where calls begin; nil: they begin with tags

	close []string // the tags that come before the content
	tail  string   // the end of the text so far, which may be the beginning of a tag

	ready chan result // a mask that Prepare computes; nil: none
}

type result struct {
	mask *grammar.Mask
	err  error
}

// begin sets where an answer begins. Its matcher is at the beginning of the content.
func (c *Compiler) begin(a *Answer, o *Output) (err error) {
	if a.matcher != nil {
		if n := a.matcher.AcceptBytes([]byte(o.Begun)); n < len(o.Begun) {
			return refused("The text that the answer shall continue does not have the form that "+
				"the request demands: it differs at byte %d, %.40q", n, o.Begun[n:])
		}
	}
	if token, ok := c.special(o.Before.Open); ok && o.Before.Open != "" {
		a.open = token
	}
	if a.calls, err = c.tags(o.Before.Calls); err != nil {
		return err
	}
	switch {
	case o.Before.Inside:
		a.phase = reasoning
	case a.matcher == nil:
		a.phase = free
	case a.open < 0 && len(a.calls) == 0:
		a.phase = content
	}
	return nil
}

// isFree reports whether any token may come.
func (a *Answer) isFree() bool { return a.phase == reasoning || a.phase == free }

// Prepare begins to compute the mask for the next token, if that may take long. Call it when the
// pass that computes the token's logits begins.
func (a *Answer) Prepare() {
	if a.isFree() || a.ready != nil || a.matcher.MaskIsKnown() {
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
	if a.isFree() {
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
	if a.phase != content && a.phase != inCall {
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
	if a.watch != nil && a.watched(text) {
		return nil
	}
	switch a.phase {
	case atStart, free:
		if token == a.open {
			a.phase = reasoning
			return nil
		}
		if slices.Contains(a.calls, token) {
			return a.beginCall(token)
		}
		if a.phase == free {
			return nil
		}
		a.beginContent(text)
		return a.matcher.Accept(token)
	case reasoning:
		a.reason(text)
		return nil
	}
	err := a.matcher.Accept(token)
	if a.phase == inCall && err == nil && a.matcher.Ended() {
		a.phase = free
	}
	return err
}

// watched goes on by a text, and reports whether a call has begun in it.
func (a *Answer) watched(text string) bool {
	begun, ok := a.watch.Add(text)
	if !ok || a.phase == content || a.phase == inCall {
		return false
	}
	m := a.call.NewMatcher()
	if m.AcceptBytes([]byte(begun)) < len(begun) {
		return false // a function that is not offered
	}
	a.phase, a.matcher, a.open = inCall, m, -1
	return true
}

// beginCall goes on by the tag of a call. After it there is no content.
func (a *Answer) beginCall(tag int32) error {
	a.phase, a.open = free, -1
	if a.call == nil {
		return nil
	}
	a.phase, a.matcher = inCall, a.call.NewMatcher()
	return a.matcher.Accept(tag)
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
	a.open = -1
	if a.matcher == nil {
		a.phase, a.tail = free, ""
		return
	}
	a.phase = atStart
	a.beginContent(a.tail)
	// The token that ended a tag may go on. What the form does not allow there is white space.
	a.matcher.AcceptBytes([]byte(a.tail))
	a.tail = ""
}

// beginContent goes on by the first text of the content. A call may still come after white space.
func (a *Answer) beginContent(text string) {
	if len(a.calls) == 0 || strings.TrimSpace(text) != "" {
		a.phase = content
	}
}

// Ended reports whether the content is complete and nothing can follow it.
func (a *Answer) Ended() bool { return a.phase == content && a.matcher.Ended() }
