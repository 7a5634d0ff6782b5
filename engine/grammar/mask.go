package grammar

// Masks: which tokens may come next. A walk through a trie follows the states of the bytes, and
// skips all tokens with a byte that no text has there.

import (
	"errors"
	"math/bits"
	"slices"
)

// Mask says which tokens may come next. It is immutable.
type Mask struct {
	Bits []uint64 // token t is allowed if bit t%64 of element t/64 is set
}

// Allows reports whether a token may come next.
func (m *Mask) Allows(token int32) bool {
	return token >= 0 && int(token)/64 < len(m.Bits) && m.Bits[token/64]>>(token%64)&1 != 0
}

// Len returns the number of allowed tokens.
func (m *Mask) Len() (n int) {
	for _, w := range m.Bits {
		n += bits.OnesCount64(w)
	}
	return n
}

// With returns the mask that allows more tokens; those below 0 do not count.
func (m *Mask) With(tokens ...int32) *Mask {
	more := &Mask{Bits: slices.Clone(m.Bits)}
	for _, t := range tokens {
		if t >= 0 && int(t)/64 < len(more.Bits) {
			more.allow(t)
		}
	}
	return more
}

func (m *Mask) allow(token int32) { m.Bits[token/64] |= 1 << (token % 64) }

// ErrNoToken means that the vocabulary has no token for what must follow.
var ErrNoToken = errors.New("the model's vocabulary has no token for what must follow here")

// maskOf returns the mask of a state.
func (c *graph) maskOf(g *Grammar, s *state) (*Mask, error) {
	if s.mask != nil {
		return s.mask, nil
	}
	v := g.vocabulary
	m := &Mask{Bits: make([]uint64, (v.size+63)/64)}
	c.addPlain(g, s, m)
	m.allowRanges(&v.rest, c.walk(g, s, &v.rest, false), nil)
	if c.err != nil {
		return nil, c.err
	}
	if s.complete {
		for _, id := range v.ends {
			m.allow(id)
		}
	}
	if m.Len() == 0 {
		return nil, ErrNoToken
	}
	s.mask = m
	c.bytes += 8 * len(m.Bits)
	return m, nil
}

// tokenRange is a range in the order of a trie.
type tokenRange struct{ from, to int32 }

// walk returns the tokens of a trie whose bytes lead on from s, as ranges in its order. If plain is
// set, all tokens are plain, and below a state in which plain characters change nothing all of them
// are allowed.
func (c *graph) walk(g *Grammar, s *state, t *trie, plain bool) []tokenRange {
	classes, _ := c.space.Classes()
	at := make([]*state, g.vocabulary.depth+1) // the state before each byte of the current token
	at[0] = s
	ranges := c.ranges[:0]
	for i := 0; i < len(t.nodes); {
		n := &t.nodes[i]
		before, class := at[n.depth], classes[n.byte]
		next := before.next[class]
		if next == nil {
			next = c.step(g, before, class)
		}
		if next == dead {
			i = int(n.after)
			continue
		}
		at[n.depth+1] = next
		from, to := n.first, n.own
		i++
		if plain && c.afterPlain(g, next) == next {
			from, to = t.below(i - 1)
			i = int(n.after)
		}
		if last := len(ranges) - 1; last >= 0 && ranges[last].to == from {
			ranges[last].to = to
		} else if from < to {
			ranges = append(ranges, tokenRange{from, to})
		}
	}
	c.ranges = ranges
	return ranges
}

// allowRanges allows ranges of a trie's tokens. all has the bits of all its tokens, for masks that
// allow most; nil: it is not known.
func (m *Mask) allowRanges(t *trie, ranges []tokenRange, all []uint64) {
	allowed := 0
	for _, r := range ranges {
		allowed += int(r.to - r.from)
	}
	if all == nil || allowed < len(t.order)/2 {
		for _, r := range ranges {
			for _, id := range t.order[r.from:r.to] {
				m.allow(id)
			}
		}
		return
	}
	for i, w := range all {
		m.Bits[i] |= w
	}
	next := int32(0)
	for _, r := range append(ranges, tokenRange{from: int32(len(t.order))}) {
		for _, id := range t.order[next:r.from] {
			m.Bits[id/64] &^= 1 << (id % 64)
		}
		next = r.to
	}
}
