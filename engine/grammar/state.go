package grammar

// States. A state is what the matcher knows after some bytes: the terminals that may be in
// progress, each with the row where it began and the expression of its rest. States are stored
// once, in a graph that grows as texts are matched, like a lazily built automaton. When it has
// become too large, a new one begins, and each matcher takes its state along. A state that is too
// complex to be computed is not stored, so the error is that of one answer alone.

import (
	"cmp"
	"encoding/binary"
	"slices"

	"headroom/engine/grammar/regular"
)

const (
	// maxGraphBytes bounds the memory of the states of a grammar, with their masks.
	maxGraphBytes = 64 << 20
	// maxDerived and maxDerivedBytes bound the expressions that a graph adds to those at its
	// beginning.
	maxDerived      = 200_000
	maxDerivedBytes = 64 << 20
	// maxAdoptedBytes bounds what a matcher takes along into a new graph. With more, a few matchers
	// would fill it at once, and each of their steps would begin the next one.
	maxAdoptedBytes = maxGraphBytes / 16
	// maxStepWork bounds the new work for one token: terminals, items of rows and parts of
	// derivatives. It takes less than a tenth of a second, during which other requests wait.
	maxStepWork = 500_000
)

// thread is a terminal in progress.
type thread struct {
	row      *row
	terminal int32
	rest     regular.Expr
}

// state is a node of the graph. What is not computed yet is nil.
type state struct {
	threads  []thread
	complete bool     // the text may end here
	next     []*state // by class of bytes; nil: not computed; dead: no text goes on so
	mask     *Mask
	plain    *state  // after any plain character; dead: not all lead to the same state
	forced   []int32 // the tokens that must follow; see forced.go
	isForced bool    // forced is computed
}

// dead is the state after a byte that no text has there.
var dead = &state{}

type graph struct {
	space     *regular.Space
	terminals []regular.Expr
	// The number and the bytes of expressions with which a new graph begins.
	mostExprs, mostExprBytes int

	rows   map[string]*row
	states map[string]*state
	first  *row // where a text begins
	start  *state
	bytes  int
	key    []byte       // buffer
	ranges []tokenRange // buffer
	err    error        // a state could not be computed for the current token
	work   int          // new work for the current token
}

func newGraph(g *Grammar, space *regular.Space, terminals []regular.Expr) *graph {
	c := &graph{space: space, terminals: terminals, mostExprs: space.Len() + maxDerived,
		mostExprBytes: space.Bytes() + maxDerivedBytes, rows: map[string]*row{},
		states: map[string]*state{}}
	space.LimitSize(c.mostExprs + maxDerived/2) // a step more
	space.LimitBytes(c.mostExprBytes + maxDerivedBytes/2)
	b := g.newRow()
	b.add(item{production: g.start})
	c.first = b.finish(c)
	c.start = c.stateOf(c.first.threads(c, nil), c.first.complete)
	return c
}

// isSpent reports whether a new graph must begin.
func (c *graph) isSpent() bool {
	return c.bytes > maxGraphBytes || c.space.Len() > c.mostExprs ||
		c.space.Bytes() > c.mostExprBytes || c.space.Full()
}

// successor returns a graph without any text. Its Space has only the expressions of the terminals.
func (c *graph) successor(g *Grammar) *graph {
	space := c.space.Successor()
	return newGraph(g, space, space.Import(c.space, c.terminals))
}

// threads appends the terminals that may begin at a row.
func (r *row) threads(c *graph, threads []thread) []thread {
	for _, t := range r.terminals {
		threads = append(threads, thread{r, t, c.terminals[t]})
	}
	return threads
}

// stateOf returns the state of the threads.
func (c *graph) stateOf(threads []thread, complete bool) *state {
	slices.SortFunc(threads, func(a, b thread) int {
		return cmp.Or(cmp.Compare(a.row.id, b.row.id), cmp.Compare(a.terminal, b.terminal),
			cmp.Compare(a.rest, b.rest))
	})
	threads = slices.Compact(threads)
	if len(threads) == 0 && !complete {
		return dead
	}
	key := append(c.key[:0], 0)
	if complete {
		key[0] = 1
	}
	for _, t := range threads {
		key = binary.LittleEndian.AppendUint32(key, t.row.id)
		key = binary.LittleEndian.AppendUint32(key, uint32(t.terminal))
		key = binary.LittleEndian.AppendUint32(key, uint32(t.rest))
	}
	c.key = key
	if s, ok := c.states[string(key)]; ok {
		return s
	}
	_, classes := c.space.Classes()
	s := &state{threads: slices.Clone(threads), complete: complete, next: make([]*state, classes)}
	c.states[string(key)] = s
	c.bytes += 150 + len(key) + 24*len(threads) + 8*classes // about
	return s
}

// step returns the state after a byte of a class, or dead.
func (c *graph) step(g *Grammar, s *state, class uint8) *state {
	if n := s.next[class]; n != nil {
		return n
	}
	if c.err != nil {
		return dead
	}
	var threads []thread
	var b *rowBuilder
	derived := c.space.Work()
	for _, t := range s.threads {
		rest := c.space.DerivativeByClass(t.rest, class)
		if none, err := c.space.IsNone(rest); err != nil || none {
			c.err = cmp.Or(c.err, err)
			continue
		}
		if rest != regular.Empty {
			threads = append(threads, thread{t.row, t.terminal, rest})
		}
		if !c.space.Nullable(rest) {
			continue
		}
		if b == nil {
			b = g.newRow()
		}
		b.work += len(t.row.items) / 8
		for _, it := range t.row.items {
			if next, _, _ := g.expects(it); next == terminalNode(int(t.terminal)) {
				b.add(g.advanced(it, t.row))
			}
		}
	}
	if b != nil {
		b.close(2 * (maxStepWork - c.work))
		c.work += b.work / 2
	}
	c.work += 1 + len(s.threads) + c.space.Work() - derived
	if c.work > maxStepWork || c.space.Full() {
		c.err = cmp.Or(c.err, regular.ErrTooComplex)
	}
	if c.err != nil {
		return dead
	}
	complete := false
	if b != nil {
		fresh := b.finish(c)
		threads, complete = fresh.threads(c, threads), fresh.complete
	}
	n := c.stateOf(threads, complete)
	s.next[class] = n
	return n
}

// adopt returns the state of another graph in c. The error is regular.ErrTooComplex.
func (c *graph) adopt(g *Grammar, other *graph, s *state) (*state, error) {
	threads, rests := make([]thread, len(s.threads)), make([]regular.Expr, len(s.threads))
	for i, t := range s.threads {
		rests[i] = t.rest
	}
	rests = c.space.Import(other.space, rests)
	a := adoption{c: c, g: g, done: map[*row]*row{}, most: c.bytes + maxAdoptedBytes}
	for i, t := range s.threads {
		threads[i] = thread{a.row(t.row), t.terminal, rests[i]}
	}
	if a.tooMuch || c.space.Full() {
		return nil, regular.ErrTooComplex
	}
	return c.stateOf(threads, s.complete), nil
}

// adoption takes the rows of another graph into c.
type adoption struct {
	c       *graph
	g       *Grammar
	done    map[*row]*row
	most    int  // bytes of c
	tooMuch bool // the rows are not whole
}

// row returns a row of the other graph in c, with the rows where its items began.
func (a *adoption) row(r *row) *row {
	n, ok := a.done[r]
	switch {
	case ok:
		return n
	case r.began == 0 || a.tooMuch:
		n = a.c.first
	default:
		b := a.g.newRow()
		for _, it := range r.items[:r.began] {
			it.origin = a.row(it.origin)
			b.add(it)
		}
		b.complete = r.complete
		n = b.finish(a.c)
		a.c.work += b.work / 2
		a.tooMuch = a.tooMuch || a.c.bytes > a.most || a.c.work > maxStepWork
	}
	a.done[r] = n
	return n
}
