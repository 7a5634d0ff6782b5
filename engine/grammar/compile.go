package grammar

// Compiling: rules become productions. Rules that match nothing are removed, so that every text
// that the matcher takes is the beginning of a whole one.

import (
	"errors"
	"fmt"
	"sync"

	"headroom/engine/grammar/regular"
)

// Errors of Compile.
var (
	// ErrNothing means that no text belongs to the grammar.
	ErrNothing = errors.New("no text fits the grammar")
	// ErrTooLarge means that the grammar exceeds the limits.
	ErrTooLarge = errors.New("the grammar is too large")
)

// production is a sequence of nodes to which a rule can be expanded.
type production struct {
	rule     int32
	repeated bool // nodes has one element, which comes min to max times
	min, max int32
	nodes    []Node
}

// Grammar is a compiled grammar with the states that its matchers have met. Its methods and those
// of its matchers may be called from any goroutine.
type Grammar struct {
	productions []production
	ofRule      [][]int32 // the productions of each rule
	nullable    []bool    // rules that match the empty text
	optional    []bool    // terminals that match the empty text
	start       int32     // the production of the whole text

	mu         sync.Mutex // for all below
	vocabulary *Vocabulary
	graph      *graph
}

// Compile compiles the grammar whose texts are those of start. The Builder cannot be used
// afterwards. The error is ErrNothing, ErrTooLarge or regular.ErrTooComplex.
func (b *Builder) Compile(start Node) (*Grammar, error) {
	if len(b.rules) > maxRules {
		return nil, ErrTooLarge
	}
	if b.Space.Full() {
		return nil, regular.ErrTooComplex
	}
	whole := b.Seq(start, b.Seq()) // a rule of its own
	if name, ok := b.undefined(whole); ok {
		return nil, fmt.Errorf("rule %q is used and not defined", name)
	}
	productive, err := b.productive()
	if err != nil {
		return nil, err
	}
	b.Space.LimitSearches(0)
	if !productive(whole) {
		return nil, ErrNothing
	}
	g := &Grammar{ofRule: make([][]int32, len(b.rules)), optional: make([]bool, len(b.terminals))}
	for i, e := range b.terminals {
		g.optional[i] = b.Space.Nullable(e)
	}
	for i := range b.rules {
		g.addProductions(int32(i), &b.rules[i], productive)
	}
	g.start = g.ofRule[whole.rule()][0]
	g.findNullable()
	g.graph = newGraph(g, b.Space, b.terminals)
	return g, nil
}

// undefined returns the name of a rule that start uses and that is not defined. Rules that it does
// not use may be what is left of a part that was given up.
func (b *Builder) undefined(start Node) (name string, found bool) {
	seen, todo := make([]bool, len(b.rules)), []Node{start}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n.isTerminal() || seen[n.rule()] {
			continue
		}
		seen[n.rule()] = true
		if r := &b.rules[n.rule()]; !r.defined {
			return r.name, true
		}
		for _, nodes := range b.rules[n.rule()].choices {
			todo = append(todo, nodes...)
		}
	}
	return "", false
}

// productive returns a function that reports whether a node matches any text.
func (b *Builder) productive() (func(Node) bool, error) {
	alive := make([]bool, len(b.terminals))
	for i, e := range b.terminals {
		none, err := b.Space.IsNone(e)
		if err != nil {
			return nil, err
		}
		alive[i] = !none
	}
	users := make([][]int32, len(b.rules)) // rules that use each rule
	for i := range b.rules {
		for _, nodes := range b.rules[i].choices {
			for _, n := range nodes {
				if !n.isTerminal() {
					users[n.rule()] = append(users[n.rule()], int32(i))
				}
			}
		}
	}
	done := make([]bool, len(b.rules))
	productive := func(n Node) bool {
		if n.isTerminal() {
			return alive[n.terminal()]
		}
		return done[n.rule()]
	}
	todo := make([]int32, len(b.rules))
	for i := range todo {
		todo[i] = int32(i)
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !done[i] && b.rules[i].matchesAny(productive) {
			done[i] = true
			todo = append(todo, users[i]...)
		}
	}
	return productive, nil
}

func (r *rule) matchesAny(productive func(Node) bool) bool {
	if r.repeated && r.min == 0 {
		return true
	}
	for _, nodes := range r.choices {
		if all(nodes, productive) {
			return true
		}
	}
	return false
}

func all(nodes []Node, is func(Node) bool) bool {
	for _, n := range nodes {
		if !is(n) {
			return false
		}
	}
	return true
}

func (g *Grammar) addProductions(i int32, r *rule, productive func(Node) bool) {
	for _, nodes := range r.choices {
		p := production{rule: i, repeated: r.repeated, min: int32(r.min), max: int32(r.max),
			nodes: nodes}
		if !all(nodes, productive) {
			if !r.repeated || r.min > 0 {
				continue
			}
			p = production{rule: i} // no time at all
		}
		g.ofRule[i] = append(g.ofRule[i], int32(len(g.productions)))
		g.productions = append(g.productions, p)
	}
}

// findNullable finds the rules that match the empty text. A repetition of them needs no minimum.
func (g *Grammar) findNullable() {
	g.nullable = make([]bool, len(g.ofRule))
	for changed := true; changed; {
		changed = false
		for i := range g.productions {
			p := &g.productions[i]
			empty := all(p.nodes, g.isNullable)
			if p.repeated && empty {
				p.min = 0
			}
			if !g.nullable[p.rule] && (empty || p.repeated && p.min == 0) {
				g.nullable[p.rule], changed = true, true
			}
		}
	}
}

func (g *Grammar) isNullable(n Node) bool {
	if n.isTerminal() {
		return g.optional[n.terminal()]
	}
	return g.nullable[n.rule()]
}
