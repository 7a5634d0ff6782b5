package jsonschema

// From a schema to a set: the keywords. Keywords that no draft knows are ignored, as all drafts
// say.

import (
	"strconv"

	"headroom/engine/grammar/regular"
)

type keywordKind uint8

const (
	annotation keywordKind = iota // also all that are unknown
	enforced
	refused
)

var keywords = keywordTable()

func keywordTable() map[string]keywordKind {
	m := map[string]keywordKind{}
	for word := range words("type enum const nullable properties patternProperties " +
		"additionalProperties required propertyNames minProperties maxProperties dependencies " +
		"dependentRequired dependentSchemas unevaluatedProperties items prefixItems " +
		"additionalItems minItems maxItems uniqueItems contains minContains maxContains " +
		"unevaluatedItems minLength maxLength pattern format minimum maximum exclusiveMinimum " +
		"exclusiveMaximum multipleOf allOf anyOf oneOf not if then else $ref $dynamicRef " +
		"$recursiveRef") {
		m[word] = enforced
	}
	// Keywords of draft 3, whose schemas are not read.
	for word := range words("extends disallow divisibleBy") {
		m[word] = refused
	}
	return m
}

// schemaSet returns the values that a schema allows.
func (c *compiler) schemaSet(v *value) *set {
	c.spend(5 + len(v.members))
	before := c.at
	c.at = v
	defer func() { c.at = before }()
	if c.draft <= 7 {
		if ref := v.get("$ref"); ref != nil {
			return c.set(c.schema(c.resolve(v, "$ref", ref)))
		}
	}
	for _, m := range v.members {
		if keywords[m.key] == refused {
			unsupported(v, m.key, "it is of draft 3")
		}
	}
	s := c.ownSet(v)
	s = c.applyRefs(v, s)
	s = c.applyCombinations(v, s)
	s = c.applyConditions(v, s)
	return c.applyUnevaluated(v, s)
}

// ownSet returns what the keywords without other schemas at the same place allow.
func (c *compiler) ownSet(v *value) *set {
	s := *c.everything()
	c.restrictTypes(v, &s)
	if values := v.get("enum"); values != nil {
		if values.kind != array {
			invalid(v, "enum is not an array")
		}
		s = *c.intersect(&s, c.enumSet(values.items))
	}
	if constant := v.get("const"); constant != nil {
		s = *c.intersect(&s, c.constantSet(constant))
	}
	if s.text != regular.None {
		s.text = c.bothTexts(s.text, c.stringKeywords(v))
	}
	if s.number.expr != regular.None {
		s.number.expr = c.bothNumbers(s.number.expr, c.numberKeywords(v))
	}
	if len(s.arrays) > 0 {
		s.arrays = c.intersectArrays(s.arrays, c.arrayKeywords(v))
	}
	if len(s.objects) > 0 {
		s.objects = c.intersectObjects(s.objects, c.objectKeywords(v))
	}
	return s.filtered(c)
}

// restrictTypes applies type and nullable.
func (c *compiler) restrictTypes(v *value, s *set) {
	types := v.get("type")
	if types == nil {
		return
	}
	names := []*value{types}
	if types.kind == array {
		names = types.items
	}
	has := map[string]bool{}
	for _, name := range names {
		if name.kind != text {
			invalid(v, "type is not a string or a list of strings")
		}
		switch name.text {
		case "null", "boolean", "number", "integer", "string", "array", "object":
			has[name.text] = true
		default:
			invalid(v, "the type "+strconv.Quote(name.text)+" does not exist")
		}
	}
	if nullable := v.get("nullable"); nullable != nil && nullable.is {
		has["null"] = true
	}
	s.null = s.null && has["null"]
	s.no, s.yes = s.no && has["boolean"], s.yes && has["boolean"]
	if !has["string"] {
		s.text = regular.None
	}
	if !has["array"] {
		s.arrays = nil
	}
	if !has["object"] {
		s.objects = nil
	}
	switch {
	case has["number"]:
	case has["integer"]:
		s.number = numbers{c.integers, integers}
	default:
		s.number = numbers{}
	}
}

// applyRefs applies references that stand beside other keywords.
func (c *compiler) applyRefs(v *value, s *set) *set {
	if ref := v.get("$ref"); ref != nil {
		s = c.intersect(s, c.set(c.schema(c.resolve(v, "$ref", ref))))
	}
	if ref := v.get("$dynamicRef"); ref != nil {
		target := c.resolve(v, "$dynamicRef", ref)
		if a := target.get("$dynamicAnchor"); a != nil && c.dynamic[a.text] > 1 &&
			"#"+a.text == fragment(ref.text) {
			unsupported(v, "$dynamicRef", "more than one schema has the anchor "+
				strconv.Quote(a.text))
		}
		s = c.intersect(s, c.set(c.schema(target)))
	}
	if ref := v.get("$recursiveRef"); ref != nil {
		if c.recursive {
			unsupported(v, "$recursiveRef", "a schema has $recursiveAnchor")
		}
		s = c.intersect(s, c.set(c.schema(c.resolve(v, "$recursiveRef", ref))))
	}
	return s
}

func fragment(ref string) string {
	for i := range len(ref) {
		if ref[i] == '#' {
			return ref[i:]
		}
	}
	return ""
}

// schemas returns the formulas of a keyword whose value is a list of schemas.
func (c *compiler) schemas(v *value, keyword string) []formula {
	list := v.get(keyword)
	if list == nil {
		return nil
	}
	if list.kind != array || len(list.items) == 0 {
		invalid(v, keyword+" is not a list of schemas")
	}
	out := make([]formula, len(list.items))
	for i, item := range list.items {
		out[i] = c.schema(item)
	}
	return out
}

// applyCombinations applies allOf, anyOf, oneOf and not.
func (c *compiler) applyCombinations(v *value, s *set) *set {
	for _, f := range c.schemas(v, "allOf") {
		s = c.intersect(s, c.set(f))
	}
	if some := c.schemas(v, "anyOf"); some != nil {
		s = c.intersect(s, c.anyOf(v, some))
	}
	if some := c.schemas(v, "oneOf"); some != nil {
		s = c.oneOf(v, s, some)
	}
	if not := v.get("not"); not != nil {
		s = c.without(v, "not", s, c.schema(not))
	}
	return s
}

// maxEvaluatedBranches bounds the branches of anyOf if it matters which of them hold.
const maxEvaluatedBranches = 4

func (c *compiler) anyOf(v *value, some []formula) *set {
	out := &set{}
	for _, f := range some {
		out = c.unite(out, c.set(f))
	}
	if !c.unread || len(some) == 1 {
		return out
	}
	// Where two branches hold, both have evaluated members.
	if len(some) > maxEvaluatedBranches {
		unsupported(v, "anyOf", "it has more than "+strconv.Itoa(maxEvaluatedBranches)+
			" schemas, in a document with unevaluatedProperties or unevaluatedItems")
	}
	for chosen := range 1 << len(some) {
		if chosen&(chosen-1) == 0 {
			continue // fewer than two
		}
		both := c.everything()
		for i, f := range some {
			if chosen>>i&1 == 1 {
				both = c.intersect(both, c.set(f))
			}
		}
		out = c.unite(out, both)
	}
	return out
}

// oneOf returns the values of s in exactly one of some.
func (c *compiler) oneOf(v *value, s *set, some []formula) *set {
	out := &set{}
	for i, f := range some {
		one := c.intersect(s, c.set(f))
		for j, other := range some {
			if j != i && !one.isNothing() {
				one = c.without(v, "oneOf", one, other)
			}
		}
		out = c.unite(out, one)
	}
	return out
}

// without returns the values of s that are not in f.
func (c *compiler) without(v *value, keyword string, s *set, f formula) *set {
	other := c.set(f)
	if c.areDisjoint(s, other) {
		return s
	}
	rest, ok := c.subtract(s, other)
	if !ok {
		unsupported(v, keyword, "the values that no longer fit are not those of a grammar")
	}
	return rest
}

// applyConditions applies if, dependencies, dependentRequired and dependentSchemas.
func (c *compiler) applyConditions(v *value, s *set) *set {
	if condition := v.get("if"); condition != nil {
		f := c.schema(condition)
		yes, no := s, s
		if then := v.get("then"); then != nil {
			yes = c.intersect(s, c.set(c.schema(then)))
		}
		if otherwise := v.get("else"); otherwise != nil {
			no = c.intersect(s, c.set(c.schema(otherwise)))
		}
		if yes != no || c.unread {
			s = c.unite(c.intersect(yes, c.set(f)), c.without(v, "if", no, f))
		}
	}
	for _, keyword := range []string{"dependencies", "dependentSchemas", "dependentRequired"} {
		dependencies := v.get(keyword)
		if dependencies == nil {
			continue
		}
		if dependencies.kind != object {
			invalid(v, keyword+" is not an object")
		}
		for _, m := range dependencies.members {
			s = c.applyDependency(v, s, keyword, m)
		}
	}
	return s
}

// applyDependency applies what holds if an object has a member.
func (c *compiler) applyDependency(v *value, s *set, keyword string, m member) *set {
	var with *set
	if m.value.kind == array && keyword != "dependentSchemas" {
		o := c.anyObject()
		for _, name := range m.value.items {
			if name.kind != text {
				invalid(v, keyword+" has a name that is not a string")
			}
			o.require(c, name.text)
		}
		if len(m.value.items) == 0 {
			return s
		}
		all := *c.everything()
		all.objects = []*objectShape{o}
		with = &all
	} else {
		with = c.set(c.schema(m.value))
	}
	// Either the member is absent, or it is there and the dependency holds.
	absent, present := *c.everything(), *c.everything()
	no, yes := c.anyObject(), c.anyObject()
	no.declare(c, m.key, never)
	yes.require(c, m.key)
	absent.objects = []*objectShape{no}
	present = set{objects: []*objectShape{yes}}
	return c.unite(c.intersect(s, &absent), c.intersect(c.intersect(s, &present), with))
}
