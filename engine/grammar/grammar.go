// Package grammar holds the texts that an answer may be, and finds for each token whether the
// answer may go on with it.
//
// A grammar has rules, as in a context-free grammar, and terminals, each of which is a regular
// expression over bytes (engine/grammar/regular). There is no separate lexer: wherever a terminal
// may end, the matcher follows both what may come next and the terminal's continuation. So the
// language is exactly that of the rules.
//
// The matcher is Earley's (1970, "An efficient context-free parsing algorithm"). Its rows do not
// have the positions of a text but are stored once for equal contents, as nodes of a graph: an item
// refers to the row where its rule began. The second element of a list therefore has the row of the
// first. A state, which is what the matcher knows after some bytes, is stored once too, and knows
// its successor for each class of bytes. After a few answers nearly every byte is one look in a
// table, and nearly every mask is there (llguidance's design, without its lexer; the masks of
// states are xgrammar's).
//
//	grammar.go     building a grammar
//	compile.go     checking and numbering its rules
//	row.go         Earley's rows
//	state.go       states and their successors
//	vocabulary.go  the tokens of a model as tries
//	mask.go        the tokens that may come next
//	plain.go       the same inside of strings, without a walk
//	forced.go      the tokens that must come next
//	matcher.go     a Matcher follows one answer
//
// Grammars come from engine/grammar/jsonschema and from texts (gbnf.go).
package grammar

import (
	"fmt"
	"slices"

	"headroom/engine/grammar/regular"
)

// Node is a part of a grammar: a terminal or a rule of its Builder.
type Node int32

// symbol numbers: a rule, or a terminal below 0.
func terminalNode(n int) Node   { return Node(^n) }
func (n Node) isTerminal() bool { return n < 0 }
func (n Node) terminal() int    { return int(^n) }
func (n Node) rule() int        { return int(n) }
func ruleNode(n int) Node       { return Node(n) }
func isUnlimited(max int) bool  { return max == regular.Unlimited }

// rule is a choice of productions, or a repetition of one node.
type rule struct {
	name     string // of a rule that was declared; else ""
	defined  bool
	choices  [][]Node
	repeated bool // choices is [][]Node{{node}}
	min, max int  // how often, if repeated
}

// Builder builds a grammar. Its methods add parts to it.
type Builder struct {
	Space     *regular.Space
	terminals []regular.Expr
	byExpr    map[regular.Expr]Node
	rules     []rule
	empty     Node // the rule of the empty text
	hasEmpty  bool
	// Steps counts the work of packages that add large parts, which they limit.
	Steps int
}

// Limits of a grammar. They bound the memory and the time of hostile ones.
const (
	maxExprs = 400_000 // expressions
	// maxExprBytes bounds the memory of those.
	maxExprBytes = 192 << 20
	maxRules     = 200_000
	// maxBuildWork bounds the work for the expressions of a grammar, without the derivatives that
	// answers need.
	maxBuildWork = 1_500_000
	// maxSearches is how many derivatives may be computed to find whether expressions match
	// anything, while a grammar is built and compiled. One takes about a microsecond.
	maxSearches = 40_000
)

// NewBuilder returns a Builder of an empty grammar.
func NewBuilder() *Builder {
	b := &Builder{Space: regular.NewSpace(maxExprs), byExpr: map[regular.Expr]Node{}}
	b.Space.LimitBytes(maxExprBytes)
	b.Space.LimitSearches(maxSearches)
	b.Space.LimitWork(maxBuildWork)
	return b
}

// Terminal returns the node of a text that e matches.
func (b *Builder) Terminal(e regular.Expr) Node {
	if e == regular.Empty {
		return b.Seq()
	}
	n, ok := b.byExpr[e]
	if !ok {
		n = terminalNode(len(b.terminals))
		b.terminals = append(b.terminals, e)
		b.byExpr[e] = n
	}
	return n
}

// Text returns the node of one text.
func (b *Builder) Text(text string) Node { return b.Terminal(b.Space.Text(text)) }

// Seq returns the node of a text of each part, in order.
func (b *Builder) Seq(parts ...Node) Node {
	switch len(parts) {
	case 0:
		if !b.hasEmpty {
			b.hasEmpty, b.empty = true, b.add(rule{choices: [][]Node{{}}})
		}
		return b.empty
	case 1:
		return parts[0]
	}
	return b.add(rule{choices: [][]Node{slices.Clone(parts)}})
}

// Choice returns the node of a text of one of the parts.
func (b *Builder) Choice(parts ...Node) Node {
	if len(parts) == 1 {
		return parts[0]
	}
	r := rule{choices: make([][]Node, len(parts))}
	for i, part := range parts {
		r.choices[i] = []Node{part}
	}
	return b.add(r)
}

// Optional returns the node of a text of part or the empty text.
func (b *Builder) Optional(part Node) Node { return b.Repeat(part, 0, 1) }

// Repeat returns the node of min to max texts of part, one after the other. max may be
// regular.Unlimited. Counts cost nothing until they are reached.
func (b *Builder) Repeat(part Node, min, max int) Node {
	if min == 1 && max == 1 {
		return part
	}
	return b.add(rule{choices: [][]Node{{part}}, repeated: true, min: min, max: max})
}

// Rule declares a rule, which Define then defines. Its node can be used before.
func (b *Builder) Rule(name string) Node { return b.declare(rule{name: name}) }

// Define defines a rule that Rule has declared.
func (b *Builder) Define(rule, body Node) {
	r := &b.rules[rule.rule()]
	if r.defined {
		panic(fmt.Sprintf("grammar.Builder.Define: rule %q is defined twice", r.name))
	}
	r.defined, r.choices = true, [][]Node{{body}}
}

func (b *Builder) add(r rule) Node {
	r.defined = true
	return b.declare(r)
}

func (b *Builder) declare(r rule) Node {
	b.rules = append(b.rules, r)
	return ruleNode(len(b.rules) - 1)
}
