package jsonschema

// Objects. A shape says what an object is like; an object fits a set if it fits one of its shapes.

import (
	"maps"
	"slices"

	"headroom/engine/grammar/regular"
)

// objectShape is a conjunction. It is immutable once another part of the package has it.
type objectShape struct {
	members  []memberShape // those with a name of their own, in the order in which they come
	index    map[string]int
	rest     []memberClass // all others; a key of no class is not allowed
	min, max int           // members; max may be regular.Unlimited
	// some lists sets of keys, of each of which a member must have one.
	some      []regular.Expr
	evaluated evaluation
	open      bool // additionalProperties says that there may be others
}

type memberShape struct {
	name     string
	value    formula // never: the member must be absent
	required bool
}

// memberClass is a set of keys, which may contain the names of members. The classes of a shape have
// no key in common.
type memberClass struct {
	keys  regular.Expr
	value formula
}

// evaluation is the members that unevaluatedProperties leaves alone.
type evaluation struct {
	all   bool
	names map[string]bool
	keys  regular.Expr
}

func (c *compiler) anyObject() *objectShape {
	return &objectShape{rest: []memberClass{{c.anyText, always}}, max: regular.Unlimited}
}

func (c *compiler) allObjects() []*objectShape {
	if c.universe == nil {
		c.universe = c.anyObject()
	}
	return []*objectShape{c.universe}
}

// find returns the index of a member with a name of its own.
func (o *objectShape) find(name string) (int, bool) {
	if o.index != nil {
		i, ok := o.index[name]
		return i, ok
	}
	for i := range o.members {
		if o.members[i].name == name {
			return i, true
		}
	}
	return 0, false
}

func (o *objectShape) add(m memberShape) {
	const indexed = 8
	o.members = append(o.members, m)
	if o.index != nil {
		o.index[m.name] = len(o.members) - 1
	} else if len(o.members) == indexed {
		o.index = map[string]int{}
		for i := range o.members {
			o.index[o.members[i].name] = i
		}
	}
}

// value returns what the value of a member with this name must be.
func (o *objectShape) value(c *compiler, name string) formula {
	if i, ok := o.find(name); ok {
		return o.members[i].value
	}
	for _, class := range o.rest {
		if class.keys == c.anyText || c.space.Matches(class.keys, c.spelled(name)) {
			return class.value
		}
	}
	return never
}

// declare adds a condition about the value of a member.
func (o *objectShape) declare(c *compiler, name string, f formula) {
	c.spend(1)
	if i, ok := o.find(name); ok {
		o.members[i].value = c.and(o.members[i].value, f)
		return
	}
	o.add(memberShape{name: name, value: c.and(o.value(c, name), f)})
}

// require makes a member required.
func (o *objectShape) require(c *compiler, name string) {
	o.declare(c, name, always)
	i, _ := o.find(name)
	o.members[i].required = true
}

// maxPatterns bounds patternProperties, of which any combination may match a key.
const maxPatterns = 16

// objectKeywords returns the objects that the keywords of a schema allow.
func (c *compiler) objectKeywords(v *value) []*objectShape {
	o := &objectShape{min: c.count(v, "minProperties", 0),
		max: c.count(v, "maxProperties", regular.Unlimited)}
	o.rest = c.patternClasses(v, &o.evaluated)
	if additional := v.get("additionalProperties"); additional != nil {
		o.evaluated.all = true
		o.open = c.schema(additional) == always
	}
	c.addProperties(v, o)
	if required := v.get("required"); required != nil {
		if required.kind != array {
			invalid(v, "required is not a list of names")
		}
		for _, name := range required.items {
			if name.kind != text {
				invalid(v, "required is not a list of names")
			}
			o.require(c, name.text)
		}
	}
	if names := v.get("propertyNames"); names != nil {
		o.restrictNames(c, c.set(c.schema(names)).text)
	}
	if o = c.tidyObject(o); o == nil {
		return nil
	}
	return []*objectShape{o}
}

func (c *compiler) addProperties(v *value, o *objectShape) {
	properties := v.get("properties")
	if properties == nil {
		return
	}
	if properties.kind != object {
		invalid(v, "properties is not an object")
	}
	c.spend(2 * len(properties.members)) // each becomes a member and a key
	patterns := v.get("patternProperties")
	for _, m := range properties.members {
		f := c.schema(m.value)
		if patterns != nil {
			for _, p := range patterns.members {
				if c.space.Matches(c.pattern(v, "patternProperties", p.key),
					c.spelled(m.key)) {
					f = c.and(f, c.schema(p.value))
				}
			}
		}
		o.add(memberShape{name: m.key, value: f})
		if c.unread {
			o.evaluated.names = with(o.evaluated.names, m.key)
		}
	}
}

func with(names map[string]bool, name string) map[string]bool {
	if names == nil {
		names = map[string]bool{}
	}
	names[name] = true
	return names
}

// patternClasses returns the classes of patternProperties and additionalProperties.
func (c *compiler) patternClasses(v *value, e *evaluation) []memberClass {
	additional := always
	if a := v.get("additionalProperties"); a != nil {
		additional = c.schema(a)
	}
	patterns := v.get("patternProperties")
	if patterns == nil || len(patterns.members) == 0 {
		if additional == never {
			return nil
		}
		return []memberClass{{c.anyText, additional}}
	}
	if patterns.kind != object {
		invalid(v, "patternProperties is not an object")
	}
	if len(patterns.members) > maxPatterns {
		unsupported(v, "patternProperties", "it has too many patterns")
	}
	type part struct {
		memberClass
		matched bool
	}
	parts := []part{{memberClass{c.anyText, always}, false}}
	for _, m := range patterns.members {
		keys, f := c.pattern(v, "patternProperties", m.key), c.schema(m.value)
		e.keys = c.space.Or(e.keys, keys)
		var split []part
		for _, p := range parts {
			yes := c.nonEmpty(c.bothTexts(p.keys, keys))
			no := c.nonEmpty(c.otherTexts(p.keys, keys))
			if yes != regular.None {
				split = append(split, part{memberClass{yes, c.and(p.value, f)}, true})
			}
			if no != regular.None {
				split = append(split, part{memberClass{no, p.value}, p.matched})
			}
		}
		parts = split
		c.bound(len(parts))
	}
	var out []memberClass
	for _, p := range parts {
		if !p.matched {
			p.value = additional
		}
		if p.value != never {
			out = append(out, p.memberClass)
		}
	}
	return joined(c, out)
}

// joined joins classes with the same value.
func joined(c *compiler, classes []memberClass) []memberClass {
	out := classes[:0:0]
	for _, class := range classes {
		i := slices.IndexFunc(out, func(o memberClass) bool { return o.value == class.value })
		if i < 0 {
			out = append(out, class)
		} else {
			out[i].keys = c.space.Or(out[i].keys, class.keys)
		}
	}
	return out
}

// restrictNames applies propertyNames to a shape that nothing else has yet.
func (o *objectShape) restrictNames(c *compiler, keys regular.Expr) {
	for i, m := range o.members {
		c.spend(1)
		if !c.space.Matches(keys, c.spelled(m.name)) {
			o.members[i].value = never
		}
	}
	rest := o.rest[:0:0]
	for _, class := range o.rest {
		if class.keys = c.nonEmpty(c.bothTexts(class.keys, keys)); class.keys != regular.None {
			rest = append(rest, class)
		}
	}
	o.rest = rest
}

// tidyObject simplifies a shape that nothing else has yet. It returns nil if no object fits.
func (c *compiler) tidyObject(o *objectShape) *objectShape {
	required, possible := 0, 0
	for _, m := range o.members {
		if m.required {
			required++
			if m.value == never {
				return nil
			}
		}
		if m.value != never {
			possible++
		}
	}
	if o.min <= required {
		o.min = 0
	}
	o.rest = slices.DeleteFunc(o.rest, func(k memberClass) bool { return k.value == never })
	if !c.tidySome(o) {
		return nil
	}
	if len(o.rest) == 0 {
		if o.min > possible {
			return nil
		}
		if o.max >= possible {
			o.max = regular.Unlimited
		}
	}
	if o.max != regular.Unlimited && (required > o.max || o.min > o.max) {
		return nil
	}
	if len(o.members) == 0 && len(o.rest) == 1 && o.rest[0] == (memberClass{c.anyText, always}) &&
		o.min == 0 && o.max == regular.Unlimited && len(o.some) == 0 && !o.evaluated.all &&
		len(o.evaluated.names) == 0 && o.evaluated.keys == regular.None && !o.open {
		return c.allObjects()[0]
	}
	return o
}

// tidySome removes the sets of keys of which a required member has one, and makes a member required
// if no other can have a key of a set. It returns false if none can.
func (c *compiler) tidySome(o *objectShape) bool {
	var left []regular.Expr
	for _, keys := range o.some {
		candidates, last, satisfied := 0, 0, false
		for i, m := range o.members {
			if m.value != never && c.space.Matches(keys, c.spelled(m.name)) {
				candidates, last = candidates+1, i
				satisfied = satisfied || m.required
			}
		}
		switch {
		case satisfied:
		case len(o.rest) == 0 && candidates == 0:
			return false
		case len(o.rest) == 0 && candidates == 1:
			o.members[last].required = true
		default:
			left = append(left, keys)
		}
	}
	o.some = left
	return true
}

func (c *compiler) intersectObjects(as, bs []*objectShape) []*objectShape {
	if len(as) == 0 || len(bs) == 0 {
		return nil
	}
	var out []*objectShape
	for _, a := range as {
		for _, b := range bs {
			// Most pairs of alternatives have a member that tells them apart.
			if shape := c.bothObjects(a, b); shape != nil &&
				(len(as)*len(bs) == 1 || !c.isEmptyObject(shape)) {
				out = append(out, shape)
			}
		}
	}
	c.bound(len(out))
	return distinct(out)
}

func (c *compiler) bothObjects(a, b *objectShape) *objectShape {
	if a == b || b == c.universe {
		return a
	}
	if a == c.universe {
		return b
	}
	out := &objectShape{min: max(a.min, b.min), max: smaller(a.max, b.max),
		open: a.open || b.open}
	c.spend(len(a.members) + len(b.members))
	for _, m := range a.members {
		if i, ok := b.find(m.name); ok {
			m.required = m.required || b.members[i].required
		}
		m.value = c.and(m.value, b.value(c, m.name))
		out.add(m)
	}
	for _, m := range b.members {
		if _, ok := a.find(m.name); !ok {
			m.value = c.and(a.value(c, m.name), m.value)
			out.add(m)
		}
	}
	for _, x := range a.rest {
		for _, y := range b.rest {
			k := memberClass{c.bothTexts(x.keys, y.keys), c.and(x.value, y.value)}
			if k.keys != x.keys && k.keys != y.keys {
				k.keys = c.nonEmpty(k.keys)
			}
			if k.keys != regular.None && k.value != never {
				out.rest = append(out.rest, k)
			}
		}
	}
	c.bound(len(out.rest))
	out.some = append(append(out.some, a.some...), b.some...)
	out.some = distinct(out.some)
	out.evaluated = c.bothEvaluated(a.evaluated, b.evaluated)
	return c.tidyObject(out)
}

func (c *compiler) bothEvaluated(a, b evaluation) evaluation {
	e := evaluation{all: a.all || b.all, keys: c.space.Or(a.keys, b.keys)}
	for _, names := range []map[string]bool{a.names, b.names} {
		for name := range names {
			e.names = with(e.names, name)
		}
	}
	return e
}

// otherObjects returns the objects that do not fit a shape; false: they are not those of a set.
func (c *compiler) otherObjects(o *objectShape) (out []*objectShape, ok bool) {
	if len(o.some) > 0 {
		return nil, false
	}
	add := func(shape *objectShape) {
		if shape = c.tidyObject(shape); shape != nil {
			out = append(out, shape)
		}
	}
	if o.min > 0 {
		shape := c.anyObject()
		shape.max = o.min - 1
		add(shape)
	}
	if o.max != regular.Unlimited {
		shape := c.anyObject()
		shape.min = o.max + 1
		add(shape)
	}
	names := make([]string, 0, len(o.members))
	for _, m := range o.members {
		names = append(names, m.name)
		if m.required {
			shape := c.anyObject()
			shape.declare(c, m.name, never)
			add(shape)
		}
		if m.value != always {
			shape := c.anyObject()
			shape.declare(c, m.name, c.not(m.value))
			shape.require(c, m.name)
			add(shape)
		}
	}
	covered := regular.None
	for _, class := range o.rest {
		covered = c.space.Or(covered, class.keys)
		if class.value != always {
			return nil, false // a member of the class with another value
		}
	}
	if covered == c.anyText {
		return out, true
	}
	// A member whose key is of no class.
	keys := c.space.And(c.anyText, c.space.Not(c.space.Or(c.oneOfTexts(names), covered)))
	if keys = c.nonEmpty(keys); keys != regular.None {
		shape := c.anyObject()
		shape.some = []regular.Expr{keys}
		add(shape)
	}
	return out, true
}

func (c *compiler) disjointObjects(as []*objectShape, b *objectShape) bool {
	for _, a := range as {
		if both := c.bothObjects(a, b); both != nil && !c.isEmptyObject(both) {
			return false
		}
	}
	return true
}

// isEmptyObject reports whether no object fits, as far as can be seen.
func (c *compiler) isEmptyObject(o *objectShape) bool {
	for _, m := range o.members {
		if m.required && c.isEmpty(m.value) {
			return true
		}
	}
	return false
}

// constantObject returns the shape of one object.
func (c *compiler) constantObject(v *value) *objectShape {
	o := &objectShape{max: regular.Unlimited}
	for _, m := range v.members {
		c.spend(1)
		o.add(memberShape{name: m.key, value: c.constant(m.value), required: true})
	}
	return o
}

// applyUnevaluated applies unevaluatedProperties and unevaluatedItems.
func (c *compiler) applyUnevaluated(v *value, s *set) *set {
	items, properties := v.get("unevaluatedItems"), v.get("unevaluatedProperties")
	if items == nil && properties == nil {
		return s
	}
	out := *s
	if items != nil {
		out.arrays = nil
		for _, a := range s.arrays {
			if a = c.applyUnevaluatedItems(a, c.schema(items)); a != nil {
				out.arrays = append(out.arrays, a)
			}
		}
	}
	if properties != nil {
		out.objects = nil
		for _, o := range s.objects {
			if o = c.applyUnevaluatedProperties(o, c.schema(properties)); o != nil {
				out.objects = append(out.objects, o)
			}
		}
	}
	return &out
}

// applyUnevaluatedProperties applies a schema to the members that no other keyword has looked at.
func (c *compiler) applyUnevaluatedProperties(o *objectShape, f formula) *objectShape {
	if o.evaluated.all {
		return o
	}
	out := &objectShape{min: o.min, max: o.max, some: o.some, open: o.open,
		evaluated: evaluation{all: true}}
	keys := o.evaluated.keys
	for _, m := range o.members {
		if !o.evaluated.names[m.name] && !c.space.Matches(keys, c.spelled(m.name)) {
			m.value = c.and(m.value, f)
		}
		out.add(m)
	}
	for _, name := range slices.Sorted(maps.Keys(o.evaluated.names)) {
		out.declare(c, name, o.value(c, name))
	}
	for _, k := range o.rest {
		evaluated := c.nonEmpty(c.space.And(k.keys, keys))
		if evaluated != regular.None {
			out.rest = append(out.rest, memberClass{evaluated, k.value})
			k.keys = c.nonEmpty(c.space.And(k.keys, c.space.Not(keys)))
		}
		if k.value = c.and(k.value, f); k.keys != regular.None && k.value != never {
			out.rest = append(out.rest, k)
		}
	}
	return c.tidyObject(out)
}
