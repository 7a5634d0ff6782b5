package grammar

// A Matcher follows one answer through a grammar.

import (
	"cmp"
	"fmt"

	"headroom/engine/grammar/regular"
)

// Matcher knows what may come next in one answer. It belongs to one goroutine, but for Prepare.
type Matcher struct {
	g       *Grammar
	graph   *graph
	at      *state
	pending []int32 // forced tokens that have not come yet
	ended   bool    // an end token has come
	tooMuch bool    // the states of this answer alone take too much memory
}

// SetVocabulary sets the tokens of the model. It must precede the first Matcher that sees tokens.
func (g *Grammar) SetVocabulary(v *Vocabulary) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.vocabulary = v
}

// exprBytes is about what an expression takes, with its derivatives.
const exprBytes = 300

// Bytes returns about how much memory the grammar takes, with all its states.
func (g *Grammar) Bytes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.graph.bytes + exprBytes*g.space.Len()
}

// Failed reports whether an answer has exceeded a limit, so that all later answers would fail too.
func (g *Grammar) Failed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.graph.err != nil || g.space.Full()
}

// NewMatcher returns a Matcher at the beginning of an answer.
func (g *Grammar) NewMatcher() *Matcher {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &Matcher{g: g, graph: g.graph, at: g.graph.start}
}

// lock locks the grammar, and begins a new graph if the old one has become too large.
func (m *Matcher) lock() {
	m.g.mu.Lock()
	m.g.graph.work = 0
	m.g.space.LimitWork(maxStepWork)
	if m.g.graph.bytes > maxGraphBytes {
		m.g.graph = newGraph(m.g)
	}
	if m.graph == m.g.graph || m.tooMuch {
		return
	}
	before := m.g.graph.bytes
	m.graph = m.g.graph
	m.at = m.graph.adopt(m.g, m.at)
	if m.graph.bytes-before > maxGraphBytes/2 {
		// The next graph would soon be too large again, and filling it takes about a second. Other
		// answers get one without these states.
		m.tooMuch, m.graph.err = true, regular.ErrTooComplex
		m.g.graph = newGraph(m.g)
	}
}

// Mask returns which tokens may come next.
func (m *Matcher) Mask() (*Mask, error) {
	m.lock()
	defer m.g.mu.Unlock()
	if next := m.next(); len(next) > 0 {
		mask := &Mask{Bits: make([]uint64, (m.g.vocabulary.size+63)/64)}
		mask.allow(next[0])
		return mask, nil
	}
	return m.graph.maskOf(m.g, m.at)
}

// MaskIsKnown reports whether Mask takes no time.
func (m *Matcher) MaskIsKnown() bool {
	m.lock()
	defer m.g.mu.Unlock()
	return len(m.pending) > 0 || m.at.mask != nil
}

// Forced returns the tokens that must come next, in order. It is empty if there is a choice, and at
// the end.
func (m *Matcher) Forced() []int32 {
	m.lock()
	defer m.g.mu.Unlock()
	return m.next()
}

func (m *Matcher) next() []int32 {
	if len(m.pending) == 0 && !m.ended {
		m.pending = m.graph.forcedOf(m.g, m.at)
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
	if m.ended || len(next) > 0 && next[0] != token {
		return fmt.Errorf("token %d is not allowed here", token)
	}
	text := v.text(token)
	if n := m.advance(text); len(text) == 0 || n < len(text) {
		return cmp.Or(m.graph.err, fmt.Errorf("token %d is not allowed here", token))
	}
	if len(next) > 0 {
		m.pending = next[1:]
	}
	return m.graph.err
}

// AcceptBytes goes on by a text, and returns how many of its bytes are allowed. It is for texts
// that do not come as tokens.
func (m *Matcher) AcceptBytes(text []byte) int {
	m.lock()
	defer m.g.mu.Unlock()
	return m.advance(text)
}

func (m *Matcher) advance(text []byte) int {
	for i, b := range text {
		next := m.graph.step(m.g, m.at, m.g.space.Class(b))
		if next == dead {
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
	if !m.at.complete {
		return false
	}
	_, count := m.g.space.Classes()
	for class := range count {
		if m.graph.step(m.g, m.at, uint8(class)) != dead {
			return false
		}
	}
	return true
}
