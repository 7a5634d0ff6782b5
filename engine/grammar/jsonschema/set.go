package jsonschema

// Sets of values, by type. A set is immutable once another part of the package has it.

import (
	"errors"

	"headroom/engine/grammar/regular"
)

// set is what a schema allows of each type. The zero set is empty.
type set struct {
	null, no, yes bool
	number        numbers
	text          regular.Expr // what stands between the quotation marks
	arrays        []*arrayShape
	objects       []*objectShape
	// values lists all values if the set is finite, in the order of the schema; nil: not known.
	values []*value
}

func (c *compiler) everything() *set {
	return &set{null: true, no: true, yes: true, number: numbers{c.allNumbers, anyNumber},
		text: c.anyText, arrays: c.allArrays(), objects: c.allObjects()}
}

// isNothing reports whether a set is empty at first sight.
func (s *set) isNothing() bool {
	return !s.null && !s.no && !s.yes && s.number.expr == regular.None &&
		s.text == regular.None && len(s.arrays) == 0 && len(s.objects) == 0
}

// maxShapes bounds the shapes of a set.
const maxShapes = 400

func (c *compiler) intersect(a, b *set) *set {
	c.spend(1)
	s := &set{null: a.null && b.null, no: a.no && b.no, yes: a.yes && b.yes,
		number:  c.intersectNumbers(a.number, b.number),
		text:    c.bothTexts(a.text, b.text),
		arrays:  c.intersectArrays(a.arrays, b.arrays),
		objects: c.intersectObjects(a.objects, b.objects)}
	s.values = a.values
	if a.values == nil || b.values != nil && len(b.values) < len(a.values) {
		s.values = b.values
	}
	return s.filtered(c)
}

// filtered keeps the listed values that are still in the set, and rebuilds the set from them.
func (s *set) filtered(c *compiler) *set {
	if s.values == nil {
		return s
	}
	kept := make([]*value, 0, len(s.values))
	for _, v := range s.values {
		c.spend(1)
		if v.kind == array || v.kind == object {
			s.values = nil
			return s
		}
		if s.has(c, v) {
			kept = append(kept, v)
		}
	}
	if len(kept) == len(s.values) {
		return s
	}
	return c.enumSet(kept)
}

// finite returns the values of a set of few scalars; false: they are not listed.
func (s *set) finite() ([]*value, bool) {
	switch {
	case s.values != nil:
		return s.values, true
	case s.number.expr != regular.None || s.text != regular.None || len(s.arrays) > 0 ||
		len(s.objects) > 0:
		return nil, false
	}
	var values []*value
	if s.null {
		values = append(values, &value{kind: null})
	}
	if s.no {
		values = append(values, &value{kind: boolean})
	}
	if s.yes {
		values = append(values, &value{kind: boolean, is: true})
	}
	return values, true
}

// has reports whether a scalar is in the set.
func (s *set) has(c *compiler, v *value) bool {
	switch v.kind {
	case null:
		return s.null
	case boolean:
		return v.is && s.yes || !v.is && s.no
	case number:
		return c.space.Matches(s.number.expr, c.numberText(v))
	case text:
		return c.space.Matches(s.text, c.spelled(v.text))
	}
	return false
}

func (c *compiler) unite(a, b *set) *set {
	c.spend(1)
	if a.isNothing() {
		return b
	}
	if b.isNothing() {
		return a
	}
	s := &set{null: a.null || b.null, no: a.no || b.no, yes: a.yes || b.yes,
		number:  c.uniteNumbers(a.number, b.number),
		text:    c.space.Or(a.text, b.text),
		arrays:  append(a.arrays[:len(a.arrays):len(a.arrays)], b.arrays...),
		objects: append(a.objects[:len(a.objects):len(a.objects)], b.objects...)}
	s.arrays, s.objects = distinct(s.arrays), distinct(s.objects)
	if a.values != nil && b.values != nil {
		s.values = a.values
		for _, v := range b.values {
			c.spend(1)
			if !a.has(c, v) {
				s.values = append(s.values[:len(s.values):len(s.values)], v)
			}
		}
	}
	c.bound(len(s.arrays) + len(s.objects))
	return s
}

func (c *compiler) bound(shapes int) {
	c.spend(shapes)
	if shapes > maxShapes {
		invalid(c.at, "it has too many combinations of its parts")
	}
}

// distinct removes shapes that are the same.
func distinct[T comparable](shapes []T) []T {
	if len(shapes) < 2 {
		return shapes
	}
	seen := make(map[T]bool, len(shapes))
	out := shapes[:0:0]
	for _, s := range shapes {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// complement returns all other values; false: there is no set of them.
func (c *compiler) complement(s *set) (*set, bool) { return c.subtract(c.everything(), s) }

// subtract returns the values of a that are not in b; false: there is no set of them.
func (c *compiler) subtract(a, b *set) (*set, bool) {
	c.spend(1)
	s := &set{null: a.null && !b.null, no: a.no && !b.no, yes: a.yes && !b.yes,
		number:  c.subtractNumbers(a.number, b.number),
		text:    c.otherTexts(a.text, b.text),
		arrays:  a.arrays,
		objects: a.objects}
	s.number = c.nonEmptyNumbers(s.number)
	s.text = c.nonEmpty(s.text)
	for _, shape := range b.arrays {
		if len(s.arrays) == 0 {
			break
		}
		others, ok := c.otherArrays(shape)
		if !ok && !c.disjointArrays(s.arrays, shape) {
			return nil, false
		}
		if ok {
			s.arrays = c.intersectArrays(s.arrays, others)
		}
	}
	for _, shape := range b.objects {
		if len(s.objects) == 0 {
			break
		}
		others, ok := c.otherObjects(shape)
		if !ok && !c.disjointObjects(s.objects, shape) {
			return nil, false
		}
		if ok {
			s.objects = c.intersectObjects(s.objects, others)
		}
	}
	s.values = a.values
	return s.filtered(c), true
}

// nonEmpty returns None for an expression that matches nothing.
func (c *compiler) nonEmpty(e regular.Expr) regular.Expr {
	none, err := c.space.IsNone(e)
	c.check(err)
	if none {
		return regular.None
	}
	return e
}

// areDisjoint reports whether two sets have no value in common, as far as can be seen.
func (c *compiler) areDisjoint(a, b *set) bool { return c.isEmptySet(c.intersect(a, b)) }

// isEmpty reports whether no value fits, as far as can be seen: a schema that is being decided
// counts as one that has values, and so does one that cannot be decided.
func (c *compiler) isEmpty(f formula) bool {
	switch f {
	case always:
		return false
	case never:
		return true
	}
	switch c.list[f].empty {
	case isTrue:
		return true
	case isFalse, deciding:
		return false
	}
	c.list[f].empty = deciding
	c.deciding = append(c.deciding, f)
	empty := c.probe(func() bool { return c.isEmptySet(c.set(f)) })
	c.deciding = c.deciding[:len(c.deciding)-1]
	c.list[f].empty = isFalse
	if empty {
		c.list[f].empty = isTrue
	}
	return empty
}

// undecided is a panic of a probe that needs a set which is being computed.
type undecided struct{}

// probe returns the result of a question about sets, false if it cannot be decided. A question may
// meet schemas that are being read, and schemas that cannot be enforced but may not matter.
func (c *compiler) probe(question func() bool) (yes bool) {
	outer, at := c.probes == 0, c.at
	busy, deciding := len(c.busy), len(c.deciding)
	c.probes++
	defer func() {
		c.probes--
		r := recover()
		if r == nil {
			return
		}
		_, isUndecided := r.(undecided)
		stop, isStop := r.(stopped)
		var u *Unsupported
		if !isUndecided && !(isStop && errors.As(stop.err, &u)) || isUndecided && !outer {
			panic(r)
		}
		for _, i := range c.busy[busy:] {
			c.sources[i].busy = false
		}
		for _, f := range c.deciding[deciding:] {
			c.list[f].empty = unknown
		}
		c.busy, c.deciding, c.at = c.busy[:busy], c.deciding[:deciding], at
		yes = false
	}()
	return question()
}

func (c *compiler) isEmptySet(s *set) bool {
	c.spend(1)
	if s.null || s.no || s.yes || c.nonEmpty(s.text) != regular.None ||
		c.nonEmptyNumbers(s.number).expr != regular.None {
		return false
	}
	for _, a := range s.arrays {
		if !c.isEmptyArray(a) {
			return false
		}
	}
	for _, o := range s.objects {
		if !c.isEmptyObject(o) {
			return false
		}
	}
	return true
}

// constantSet returns the set of one value.
func (c *compiler) constantSet(v *value) *set { return c.enumSet([]*value{v}) }

// enumSet returns the set of some values.
func (c *compiler) enumSet(values []*value) *set {
	s := &set{values: make([]*value, 0, len(values))}
	var texts []string
	var numerals []regular.Expr
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		c.spend(2)
		if v.kind < array {
			written := kindNames[v.kind] + v.text
			if v.kind == number {
				c.spend(6)
				written = c.numberText(v)
			} else if v.is {
				written = "true"
			}
			if seen[written] {
				continue
			}
			seen[written] = true
		}
		s.values = append(s.values, v)
		switch v.kind {
		case null:
			s.null = true
		case boolean:
			s.yes, s.no = s.yes || v.is, s.no || !v.is
		case number:
			numerals = append(numerals, c.numberValue(v))
		case text:
			texts = append(texts, v.text)
		case array:
			s.arrays = append(s.arrays, c.constantArray(v))
		case object:
			s.objects = append(s.objects, c.constantObject(v))
		}
	}
	s.text = c.oneOfTexts(texts)
	if len(numerals) > 0 {
		s.number = numbers{c.space.Or(numerals...), canonical}
	}
	if len(s.arrays)+len(s.objects) > 0 {
		s.values = nil
	}
	return s
}
