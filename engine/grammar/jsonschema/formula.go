package jsonschema

// Formulas. A literal is a source of values or its negation, a formula is a conjunction of
// literals. Equal formulas have one number, and equal schemas are one source.

import (
	"encoding/binary"
	"fmt"
	"slices"
)

type formula int32

// The formulas of all values and of none.
const (
	always formula = iota
	never
)

// literal is a source shifted by one, and odd if it is negated.
type literal int32

func (l literal) source() int   { return int(l >> 1) }
func (l literal) negated() bool { return l&1 == 1 }

// source is what a set is computed of: a schema, a constant, or any of some formulas.
type source struct {
	value    *value // schema or constant
	constant bool
	any      []formula
	set      *set
	busy     bool // its set is being computed
}

type formulas struct {
	sources  []source
	ofSchema map[*value]formula
	ofConst  map[*value]formula
	byHash   map[uint64][]*value // schemas that are sources
	list     []conjunction
	index    map[string]formula

	busy     []int     // the sources that are being computed
	deciding []formula // of which isEmpty is deciding whether they are empty
	probes   int       // questions that may remain undecided; see probe
}

type conjunction struct {
	literals []literal
	set      *set
	empty    decision
}

type decision uint8

const (
	unknown decision = iota
	deciding
	isFalse
	isTrue
)

func newFormulas() formulas {
	return formulas{ofSchema: map[*value]formula{}, ofConst: map[*value]formula{},
		byHash: map[uint64][]*value{}, list: make([]conjunction, 2), index: map[string]formula{}}
}

// schema returns the formula of a schema.
func (c *compiler) schema(v *value) formula {
	if f, ok := c.ofSchema[v]; ok {
		return f
	}
	f := c.newSchema(v)
	c.ofSchema[v] = f
	return f
}

func (c *compiler) newSchema(v *value) formula {
	c.spend(2)
	if v.kind == boolean {
		if v.is {
			return always
		}
		return never
	}
	if v.kind != object {
		invalid(v, "a schema is an object or a boolean, not a value of type "+kindNames[v.kind])
	}
	if target := c.alias(v); target != nil {
		return c.schema(target)
	}
	if c.isTrivial(v) {
		return always
	}
	if len(c.bases) == 1 {
		for _, other := range c.byHash[v.hash] {
			if same(v, other) {
				return c.ofSchema[other]
			}
		}
		c.byHash[v.hash] = append(c.byHash[v.hash], v)
	}
	return c.add(source{value: v})
}

// alias returns the target of a schema that is a $ref alone. It follows no chain, so that a circle
// of them is found.
func (c *compiler) alias(v *value) *value {
	var ref *value
	for _, m := range v.members {
		switch {
		case m.key == "$ref":
			ref = m.value
		case keywords[m.key] != annotation && c.draft > 7:
			return nil
		}
	}
	if ref == nil {
		return nil
	}
	target := c.resolve(v, "$ref", ref)
	for seen, at := 0, target; at.kind == object && at.get("$ref") != nil; seen++ {
		if seen > maxDepth {
			invalid(v, fmt.Sprintf("$ref leads in a circle, or through more than %d others",
				maxDepth))
		}
		at = c.resolve(at, "$ref", at.get("$ref"))
	}
	return target
}

// isTrivial reports whether a schema says nothing.
func (c *compiler) isTrivial(v *value) bool {
	for _, m := range v.members {
		if keywords[m.key] != annotation {
			return false
		}
	}
	return true
}

// constant returns the formula of one value.
func (c *compiler) constant(v *value) formula {
	f, ok := c.ofConst[v]
	if !ok {
		f = c.add(source{value: v, constant: true})
		c.ofConst[v] = f
	}
	return f
}

func (c *compiler) add(s source) formula {
	c.sources = append(c.sources, s)
	return c.conjunction([]literal{literal(len(c.sources)-1) << 1})
}

// conjunction returns the formula of literals, which are sorted.
func (c *compiler) conjunction(literals []literal) formula {
	if len(literals) == 0 {
		return always
	}
	c.spend(len(literals))
	key := make([]byte, 0, 4*len(literals))
	for _, l := range literals {
		key = binary.LittleEndian.AppendUint32(key, uint32(l))
	}
	if f, ok := c.index[string(key)]; ok {
		return f
	}
	f := formula(len(c.list))
	c.list = append(c.list, conjunction{literals: literals})
	c.index[string(key)] = f
	return f
}

// and returns the formula of both.
func (c *compiler) and(a, b formula) formula {
	switch {
	case a == b || b == always:
		return a
	case a == always:
		return b
	case a == never || b == never:
		return never
	}
	x, y := c.list[a].literals, c.list[b].literals
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(x, y))))
	for i := 1; i < len(all); i++ {
		if all[i]^1 == all[i-1] {
			return never
		}
	}
	return c.conjunction(all)
}

// not returns the formula of all other values.
func (c *compiler) not(f formula) formula {
	switch f {
	case always:
		return never
	case never:
		return always
	}
	literals := c.list[f].literals
	if len(literals) == 1 {
		return c.conjunction([]literal{literals[0] ^ 1})
	}
	s := source{}
	for _, l := range literals {
		s.any = append(s.any, c.conjunction([]literal{l ^ 1}))
	}
	return c.add(s)
}

// set returns the values of a formula.
func (c *compiler) set(f formula) *set {
	switch f {
	case always:
		return c.everything()
	case never:
		return &set{}
	}
	if s := c.list[f].set; s != nil {
		return s
	}
	s := c.everything()
	for _, l := range c.list[f].literals {
		s = c.intersect(s, c.literalSet(l))
	}
	c.list[f].set = s
	return s
}

func (c *compiler) literalSet(l literal) *set {
	s := c.sourceSet(l.source())
	if l.negated() {
		n, ok := c.complement(s)
		if !ok {
			at := c.sources[l.source()].value
			unsupported(at, c.negation(at), "its negation cannot be said by a grammar")
		}
		return n
	}
	return s
}

// negation returns the keyword for which a schema is negated.
func (c *compiler) negation(v *value) string {
	for ; v != nil; v = v.parent {
		switch v.token {
		case "not", "if", "contains":
			return v.token
		}
		if v.parent != nil && v.parent.token == "oneOf" {
			return "oneOf"
		}
	}
	return "not"
}

func (c *compiler) sourceSet(i int) *set {
	s := c.sources[i]
	if s.set != nil {
		return s.set
	}
	if s.busy && c.probes > 0 {
		panic(undecided{})
	}
	if s.busy {
		invalid(s.value, "it contains itself without an array or object between")
	}
	c.sources[i].busy = true
	c.busy = append(c.busy, i)
	var out *set
	switch {
	case s.constant:
		out = c.constantSet(s.value)
	case s.value != nil:
		out = c.schemaSet(s.value)
	default:
		out = &set{}
		for _, f := range s.any {
			out = c.unite(out, c.set(f))
		}
	}
	c.sources[i].set, c.sources[i].busy = out, false
	c.busy = c.busy[:len(c.busy)-1]
	return out
}
