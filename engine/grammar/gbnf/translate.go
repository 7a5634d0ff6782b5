package gbnf

// The rules as parts of a grammar. What has no recursive rule inside is a regular expression.

import (
	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

// part is a regular expression, or a node.
type part struct {
	isNode bool
	expr   regular.Expr
	node   grammar.Node
}

type translator struct {
	*parser
	b         *grammar.Builder
	parts     map[string]part
	state     map[string]int // of findRecursion: 1 being visited, 2 done
	recursive map[string]bool
}

// findRecursion finds the rules that refer to themselves, through others too, and those that lead
// to one of them.
func (t *translator) findRecursion(name string) {
	t.state[name] = 1
	var visit func(n *node)
	visit = func(n *node) {
		if n.op == opRule {
			switch {
			case t.rules[n.text] == nil:
				t.fail(n.at, "rule %q is not defined", n.text)
			case t.state[n.text] == 0:
				t.findRecursion(n.text)
			}
			if t.recursive[n.text] || t.state[n.text] == 1 {
				t.recursive[name] = true
			}
		}
		for _, kid := range n.kids {
			visit(kid)
		}
	}
	if t.state[name] == 1 {
		visit(t.rules[name])
	}
	t.state[name] = 2
}

// rule returns the part of a rule.
func (t *translator) rule(body *node, name string) part {
	if p, ok := t.parts[name]; ok {
		return p
	}
	if !t.recursive[name] {
		t.parts[name] = t.part(body)
		return t.parts[name]
	}
	rule := t.b.Rule(name)
	t.parts[name] = part{isNode: true, node: rule}
	t.b.Define(rule, t.node(t.part(body)))
	return t.parts[name]
}

func (t *translator) node(p part) grammar.Node {
	if p.isNode {
		return p.node
	}
	return t.b.Terminal(p.expr)
}

func (t *translator) part(n *node) part {
	s := t.b.Space
	switch n.op {
	case opLiteral:
		return part{expr: s.Text(n.text)}
	case opClass:
		return part{expr: s.Runes(n.ranges...)}
	case opRule:
		return t.rule(t.rules[n.text], n.text)
	case opRepeat:
		p := t.part(n.kids[0])
		if p.isNode {
			return part{isNode: true, node: t.b.Repeat(p.node, n.min, n.max)}
		}
		return part{expr: s.Repeat(p.expr, n.min, n.max)}
	}
	parts := make([]part, len(n.kids))
	isNode := false
	for i, kid := range n.kids {
		parts[i] = t.part(kid)
		isNode = isNode || parts[i].isNode
	}
	if !isNode {
		exprs := make([]regular.Expr, len(parts))
		for i, p := range parts {
			exprs[i] = p.expr
		}
		if n.op == opChoice {
			return part{expr: s.Or(exprs...)}
		}
		return part{expr: s.Concat(exprs...)}
	}
	if n.op == opSeq {
		parts = t.joined(parts)
	}
	nodes := make([]grammar.Node, len(parts))
	for i, p := range parts {
		nodes[i] = t.node(p)
	}
	if n.op == opChoice {
		return part{isNode: true, node: t.b.Choice(nodes...)}
	}
	return part{isNode: true, node: t.b.Seq(nodes...)}
}

// joined joins expressions that follow each other.
func (t *translator) joined(parts []part) []part {
	out := parts[:0]
	for _, p := range parts {
		if last := len(out) - 1; last >= 0 && !p.isNode && !out[last].isNode {
			out[last].expr = t.b.Space.Concat(out[last].expr, p.expr)
		} else {
			out = append(out, p)
		}
	}
	return out
}
