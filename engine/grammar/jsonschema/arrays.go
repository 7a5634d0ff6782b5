package jsonschema

// Arrays. A shape says what an array is like; an array fits a set if it fits one of its shapes.

import (
	"headroom/engine/grammar/regular"
)

// arrayShape is a conjunction. It is immutable once another part of the package has it.
type arrayShape struct {
	prefix   []formula // the first items
	rest     formula   // the items after these
	min, max int       // length; max may be regular.Unlimited
	contains []containment
	unique   *value // the schema with uniqueItems: true; nil: none
	// evaluated is the number of items that unevaluatedItems leaves alone.
	evaluated int
}

// containment says that min to max of the items fit what.
type containment struct {
	what     formula
	min, max int
	at       *value
}

var anyArray = &arrayShape{max: regular.Unlimited}

func (c *compiler) allArrays() []*arrayShape { return []*arrayShape{anyArray} }

// arrayKeywords returns the arrays that the keywords of a schema allow.
func (c *compiler) arrayKeywords(v *value) []*arrayShape {
	a := &arrayShape{max: c.count(v, "maxItems", regular.Unlimited), min: c.count(v, "minItems", 0)}
	items, prefix, rest := v.get("items"), v.get("prefixItems"), (*value)(nil)
	switch {
	case items != nil && items.kind == array: // before 2020-12
		prefix, rest = items, v.get("additionalItems")
	case items != nil:
		rest = items
	}
	if prefix != nil {
		if prefix.kind != array {
			invalid(v, "prefixItems is not a list of schemas")
		}
		for _, item := range prefix.items {
			a.prefix = append(a.prefix, c.schema(item))
		}
		a.evaluated = len(a.prefix)
	}
	if rest != nil {
		a.rest = c.schema(rest)
		a.evaluated = regular.Unlimited
	}
	if u := v.get("uniqueItems"); u != nil && u.is {
		a.unique = v
	}
	if what := v.get("contains"); what != nil {
		k := containment{what: c.schema(what), min: c.count(v, "minContains", 1),
			max: c.count(v, "maxContains", regular.Unlimited), at: v}
		switch {
		case k.what == always:
			a.evaluated = regular.Unlimited
			a.min = max(a.min, k.min)
			a.max = smaller(a.max, k.max)
		case k.what == never && k.min > 0:
			return nil
		case k.what == never:
		case k.min > 0 || k.max != regular.Unlimited || c.unread:
			a.contains = []containment{k}
		}
	}
	if a = c.tidyArray(a); a == nil {
		return nil
	}
	return []*arrayShape{a}
}

// smaller returns the smaller of two maximums.
func smaller(a, b int) int {
	if a == regular.Unlimited || b != regular.Unlimited && b < a {
		return b
	}
	return a
}

// tidyArray simplifies a shape that nothing else has yet. It returns nil if no array fits.
func (c *compiler) tidyArray(a *arrayShape) *arrayShape {
	if a.rest == never {
		a.max = smaller(a.max, len(a.prefix))
	}
	for i, f := range a.prefix {
		if f == never {
			a.max = smaller(a.max, i)
			break
		}
	}
	if a.max != regular.Unlimited && len(a.prefix) > a.max {
		a.prefix = a.prefix[:a.max]
	}
	if a.max == len(a.prefix) {
		a.rest = never
	}
	for n := len(a.prefix); n > 0 && a.prefix[n-1] == a.rest; n-- {
		a.prefix = a.prefix[:n-1]
	}
	if a.max != regular.Unlimited && a.min > a.max {
		return nil
	}
	if a.min == 0 && a.max == regular.Unlimited && len(a.prefix) == 0 && a.rest == always &&
		len(a.contains) == 0 && a.unique == nil && a.evaluated == 0 {
		return anyArray
	}
	return a
}

func (a *arrayShape) at(i int) formula {
	if i < len(a.prefix) {
		return a.prefix[i]
	}
	return a.rest
}

func (c *compiler) intersectArrays(as, bs []*arrayShape) []*arrayShape {
	if len(as) == 0 || len(bs) == 0 {
		return nil
	}
	var out []*arrayShape
	for _, a := range as {
		for _, b := range bs {
			if shape := c.bothArrays(a, b); shape != nil {
				out = append(out, shape)
			}
		}
	}
	c.bound(len(out))
	return distinct(out)
}

func (c *compiler) bothArrays(a, b *arrayShape) *arrayShape {
	c.spend(1)
	if a == b || b == anyArray {
		return a
	}
	if a == anyArray {
		return b
	}
	out := &arrayShape{rest: c.and(a.rest, b.rest), min: max(a.min, b.min),
		max: smaller(a.max, b.max), unique: a.unique, evaluated: max(a.evaluated, b.evaluated)}
	if a.evaluated == regular.Unlimited || b.evaluated == regular.Unlimited {
		out.evaluated = regular.Unlimited
	}
	if out.unique == nil {
		out.unique = b.unique
	}
	for i := range max(len(a.prefix), len(b.prefix)) {
		out.prefix = append(out.prefix, c.and(a.at(i), b.at(i)))
	}
	out.contains = append(append(out.contains, a.contains...), b.contains...)
	out.contains = distinct(out.contains)
	return c.tidyArray(out)
}

// otherArrays returns the arrays that do not fit a shape; false: they are not those of a set.
func (c *compiler) otherArrays(a *arrayShape) (out []*arrayShape, ok bool) {
	if a.unique != nil && (a.max == regular.Unlimited || a.max > 1) {
		return nil, false
	}
	add := func(o *arrayShape) {
		if o = c.tidyArray(o); o != nil {
			out = append(out, o)
		}
	}
	if a.min > 0 {
		add(&arrayShape{max: a.min - 1})
	}
	if a.max != regular.Unlimited {
		add(&arrayShape{min: a.max + 1, max: regular.Unlimited})
	}
	for i, f := range a.prefix {
		if f == always {
			continue
		}
		o := &arrayShape{min: i + 1, max: regular.Unlimited}
		for range i {
			o.prefix = append(o.prefix, always)
		}
		o.prefix = append(o.prefix, c.not(f))
		add(o)
	}
	if a.rest != always && a.rest != never {
		if len(a.prefix) > 0 {
			return nil, false
		}
		add(&arrayShape{max: regular.Unlimited,
			contains: []containment{{c.not(a.rest), 1, regular.Unlimited, c.at}}})
	}
	for _, k := range a.contains {
		if k.min == 1 {
			add(&arrayShape{rest: c.not(k.what), max: regular.Unlimited})
		} else if k.min > 1 {
			add(&arrayShape{max: regular.Unlimited,
				contains: []containment{{k.what, 0, k.min - 1, k.at}}})
		}
		if k.max != regular.Unlimited {
			add(&arrayShape{max: regular.Unlimited,
				contains: []containment{{k.what, k.max + 1, regular.Unlimited, k.at}}})
		}
	}
	return out, true
}

func (c *compiler) disjointArrays(as []*arrayShape, b *arrayShape) bool {
	for _, a := range as {
		if both := c.bothArrays(a, b); both != nil && !c.isEmptyArray(both) {
			return false
		}
	}
	return true
}

// isEmptyArray reports whether no array fits, as far as can be seen.
func (c *compiler) isEmptyArray(a *arrayShape) bool {
	for i := range min(a.min, len(a.prefix)) {
		if c.isEmpty(a.prefix[i]) {
			return true
		}
	}
	if a.min > len(a.prefix) && c.isEmpty(a.rest) {
		return true
	}
	for _, k := range a.contains {
		if k.min > 0 && c.isEmpty(k.what) {
			return true
		}
	}
	return false
}

// constantArray returns the shape of one array.
func (c *compiler) constantArray(v *value) *arrayShape {
	a := &arrayShape{rest: never, min: len(v.items), max: len(v.items)}
	for _, item := range v.items {
		a.prefix = append(a.prefix, c.constant(item))
	}
	return a
}

// applyUnevaluatedItems applies a schema to the items that no other keyword has looked at.
func (c *compiler) applyUnevaluatedItems(a *arrayShape, f formula) *arrayShape {
	if a.evaluated == regular.Unlimited {
		return a
	}
	if len(a.contains) > 0 {
		unsupported(a.contains[0].at, "contains", "unevaluatedItems looks at the other items")
	}
	out := *a
	out.prefix = nil
	for i := range max(len(a.prefix), a.evaluated) {
		item := a.at(i)
		if i >= a.evaluated {
			item = c.and(item, f)
		}
		out.prefix = append(out.prefix, item)
	}
	out.rest = c.and(a.rest, f)
	out.evaluated = regular.Unlimited
	return c.tidyArray(&out)
}
