package grammar

// A Matcher follows one answer through a grammar.

import (
	"fmt"
)

// Matcher knows what may come next in one answer. It belongs to one goroutine, but for Prepare.
type Matcher struct {
	g       *Grammar
	graph   *graph
	at      *state
	pending []int32 // forced tokens that have not come yet
	ended   bool    // an end token has come
	err     error   // the text is too complex to go on
}

// SetVocabulary sets the tokens of the model. It must precede the first Matcher that sees tokens.
func (g *Grammar) SetVocabulary(v *Vocabulary) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.vocabulary = v
}

// Bytes returns about how much memory the grammar takes, with all its states.
func (g *Grammar) Bytes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.graph.bytes + g.graph.space.Bytes()
}

// NewMatcher returns a Matcher at the beginning of an answer.
func (g *Grammar) NewMatcher() *Matcher {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &Matcher{g: g, graph: g.graph, at: g.graph.start}
}

// lock locks the grammar.
func (m *Matcher) lock() {
	m.g.mu.Lock()
	m.begin()
}

// begin begins a call on a locked grammar, with a new graph if the old one is spent. An error of an
// earlier token is forgotten: it may have been another answer's.
func (m *Matcher) begin() {
	m.g.graph.space.LimitWork(0)
	if m.g.graph.isSpent() {
		m.g.graph = m.g.graph.successor(m.g)
	}
	m.g.graph.work, m.g.graph.err = 0, nil
	m.g.graph.space.LimitWork(maxStepWork)
	if m.graph == m.g.graph || m.err != nil {
		return
	}
	at, err := m.g.graph.adopt(m.g, m.graph, m.at)
	if m.err = err; err == nil {
		m.graph, m.at = m.g.graph, at
	}
}

// Mask returns which tokens may come next.
func (m *Matcher) Mask() (*Mask, error) {
	m.lock()
	defer m.g.mu.Unlock()
	next := m.next()
	switch {
	case m.err != nil:
		return nil, m.err
	case len(next) > 0:
		mask := &Mask{Bits: make([]uint64, (m.g.vocabulary.size+63)/64)}
		mask.allow(next[0])
		return mask, nil
	}
	var mask *Mask
	mask, m.err = m.graph.maskOf(m.g, m.at)
	return mask, m.err
}

// MaskIsKnown reports whether Mask takes no time. It does not wait for other answers with the
// grammar: while the mask of one is computed, it is false.
func (m *Matcher) MaskIsKnown() bool {
	if !m.g.mu.TryLock() {
		return false
	}
	defer m.g.mu.Unlock()
	m.begin()
	return len(m.pending) > 0 || m.at.mask != nil || m.err != nil
}

// Forced returns the tokens that must come next, in order. It is empty if there is a choice, and at
// the end.
func (m *Matcher) Forced() []int32 {
	m.lock()
	defer m.g.mu.Unlock()
	return m.next()
}

func (m *Matcher) next() []int32 {
	if len(m.pending) == 0 && !m.ended && m.err == nil {
		m.pending, m.err = m.graph.forcedOf(m.g, m.at)
	}
	return m.pending
}

// Accept goes on by a token. The error says that it is not allowed.
func (m *Matcher) Accept(token int32) error {
	m.lock()
	defer m.g.mu.Unlock()
	v := m.g.vocabulary
	if v.isEnd(token) && m.at.complete {
		m.ended = true
		return nil
	}
	next := m.next()
	if m.err != nil {
		return m.err
	}
	if m.ended || len(next) > 0 && next[0] != token {
		return fmt.Errorf("token %d is not allowed here", token)
	}
	text := v.text(token)
	n := m.advance(text)
	switch {
	case m.err != nil:
		return m.err
	case len(text) == 0 || n < len(text):
		return fmt.Errorf("token %d is not allowed here", token)
	case len(next) > 0:
		m.pending = next[1:]
	}
	return nil
}

// AcceptBytes goes on by a text, and returns how many of its bytes are allowed. It is for texts
// that do not come as tokens.
func (m *Matcher) AcceptBytes(text []byte) int {
	m.lock()
	defer m.g.mu.Unlock()
	return m.advance(text)
}

func (m *Matcher) advance(text []byte) int {
	if m.err != nil {
		return 0
	}
	for i, b := range text {
		next := m.graph.step(m.g, m.at, m.graph.space.Class(b))
		if next == dead {
			m.err = m.graph.err
			return i
		}
		m.at = next
	}
	return len(text)
}

// Complete reports whether the answer may end here.
func (m *Matcher) Complete() bool { return m.at.complete }

// Ended reports whether the answer is complete and nothing can follow it.
func (m *Matcher) Ended() bool {
	if m.ended {
		return true
	}
	m.lock()
	defer m.g.mu.Unlock()
	if !m.at.complete || m.err != nil {
		return false
	}
	_, count := m.graph.space.Classes()
	for class := range count {
		if m.graph.step(m.g, m.at, uint8(class)) != dead {
			return false
		}
	}
	m.err = m.graph.err
	return m.err == nil
}
