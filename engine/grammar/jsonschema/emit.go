package jsonschema

// From sets to a grammar. Each formula with an array or object in it is a rule.

import (
	"slices"
	"strconv"

	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

type emitter struct {
	universe *objectShape // of all objects
	nodes    map[formula]grammar.Node
	todo     []formula // whose rules are declared and not defined
	notation *Notation

	object, outermost *brackets
	openArray         grammar.Node
	shutArray         grammar.Node
	emptyArray        grammar.Node
	comma             grammar.Node
	quote             regular.Expr // Empty if expressions have the quotation marks
}

// maxBlanks bounds the white space at one place.
const maxBlanks = 40

func newEmitter(c *compiler, n *Notation) emitter {
	s, b := c.space, c.b
	blank, space := regular.Empty, s.Text(" ")
	switch {
	case c.o.FlexibleWhitespace:
		blank = s.Repeat(s.Set(regular.Of(" \t\r\n")), 0, maxBlanks)
		space = blank
	case n.Tight:
		space = regular.Empty
	}
	text := func(t string) regular.Expr { return s.Text(t) }
	e := emitter{nodes: map[formula]grammar.Node{}, notation: n, quote: regular.Empty}
	if len(n.Quotes) == 1 {
		e.quote = text(n.Quotes[0])
	}
	e.comma = b.Terminal(s.Concat(blank, text(","), space))
	e.object = c.brackets(n.Object, s.Concat(blank, text(":"), space), blank)
	e.outermost = c.brackets(n.Outermost, text(n.Outermost.Colon), blank)
	e.openArray = b.Terminal(s.Concat(text("["), blank))
	e.shutArray = b.Terminal(s.Concat(blank, text("]")))
	e.emptyArray = b.Terminal(s.Concat(text("["), blank, text("]")))
	return e
}

// node returns the node of the values of a formula.
func (c *compiler) node(f formula) grammar.Node {
	if n, ok := c.nodes[f]; ok {
		return n
	}
	c.spend(1)
	s := c.set(f)
	var n grammar.Node
	if len(s.arrays) == 0 && len(s.objects) == 0 {
		n = c.b.Terminal(c.scalars(s))
	} else {
		n = c.b.Rule("value " + strconv.Itoa(int(f)))
		c.todo = append(c.todo, f)
	}
	c.nodes[f] = n
	return n
}

// define defines the rules that node has declared.
func (c *compiler) define() {
	for len(c.todo) > 0 {
		f := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		c.b.Define(c.nodes[f], c.choices(c.set(f)))
	}
}

// scalars returns the texts of a set that are no arrays and no objects.
func (c *compiler) scalars(s *set) regular.Expr {
	var parts []regular.Expr
	for _, constant := range []struct {
		is    bool
		words []string
	}{{s.null, c.notation.Null}, {s.no, c.notation.False}, {s.yes, c.notation.True}} {
		for _, word := range constant.words {
			if constant.is {
				parts = append(parts, c.space.Text(word))
			}
		}
	}
	parts = append(parts, c.numberTexts(s.number))
	if text := c.space.And(s.text, c.allowed); text != regular.None {
		parts = append(parts, c.space.Concat(c.quote, text, c.quote))
	}
	return c.space.Or(parts...)
}

func (c *compiler) choices(s *set) grammar.Node {
	var parts []grammar.Node
	if e := c.scalars(s); e != regular.None {
		parts = append(parts, c.b.Terminal(e))
	}
	for _, a := range s.arrays {
		parts = append(parts, c.arrayNode(a))
	}
	for _, o := range s.objects {
		parts = append(parts, c.objectNodes(o, c.object)...)
	}
	return c.b.Choice(parts...)
}

// maxStates bounds the rules of one array or object whose members are counted.
const maxStates = 10_000

// arrayNode returns the node of the arrays of a shape.
func (c *compiler) arrayNode(a *arrayShape) grammar.Node {
	if len(a.contains) > 1 {
		unsupported(a.contains[1].at, "contains", "two schemas with contains apply to one array")
	}
	if a.unique != nil && (a.max == regular.Unlimited || a.max > 1) {
		return c.uniqueNode(a)
	}
	if len(a.contains) == 1 {
		return c.containingNode(a)
	}
	var parts []grammar.Node
	n := len(a.prefix)
	if a.min == 0 {
		parts = append(parts, c.emptyArray)
	}
	if a.max == 0 {
		return c.b.Choice(parts...)
	}
	first, from := a.at(0), min(n, 1)
	if first == never {
		return c.b.Choice(parts...)
	}
	// The items after the first, from the last of the prefix to the second.
	low, high := max(a.min-max(n, 1), 0), a.max
	if high != regular.Unlimited {
		high -= max(n, 1)
	}
	rest := c.b.Seq()
	if a.rest != never && high != 0 {
		rest = c.b.Repeat(c.b.Seq(c.comma, c.node(a.rest)), low, high)
	}
	for i := n - 1; i >= from; i-- {
		c.spend(1)
		rest = c.b.Seq(c.comma, c.node(a.prefix[i]), rest)
		if i >= a.min {
			rest = c.b.Choice(c.b.Seq(), rest)
		}
	}
	parts = append(parts, c.b.Seq(c.openArray, c.node(first), rest, c.shutArray))
	return c.b.Choice(parts...)
}

// containingNode returns the node of arrays some of whose items fit another schema.
func (c *compiler) containingNode(a *arrayShape) grammar.Node {
	k := a.contains[0]
	// From item last on all items are alike; seen stops at most.
	last, most := max(len(a.prefix), a.min, 1), k.min
	if a.max != regular.Unlimited {
		last = a.max
	}
	if k.max != regular.Unlimited {
		most = k.max
	}
	if (last+1)*(most+1) > maxStates {
		unsupported(k.at, "contains", "the array may be too long")
	}
	// items returns the node of items i and later, after seen items that fit.
	nodes := map[[2]int]grammar.Node{}
	var items func(i, seen int) grammar.Node
	items = func(i, seen int) grammar.Node {
		at := [2]int{i, seen}
		if n, ok := nodes[at]; ok {
			return n
		}
		c.spend(1)
		n := c.b.Rule("items")
		nodes[at] = n
		next := min(i+1, last)
		var parts []grammar.Node
		if i >= a.min && seen >= k.min {
			parts = append(parts, c.b.Seq())
		}
		if a.max == regular.Unlimited || i < a.max {
			add := func(f formula, seen int) {
				if f == never {
					return
				}
				item := c.node(f)
				if i > 0 {
					item = c.b.Seq(c.comma, item)
				}
				parts = append(parts, c.b.Seq(item, items(next, seen)))
			}
			if k.max == regular.Unlimited {
				add(a.at(i), seen)
			} else {
				add(c.and(a.at(i), c.not(k.what)), seen)
			}
			if seen < most {
				add(c.and(a.at(i), k.what), seen+1)
			}
		}
		c.b.Define(n, c.b.Choice(parts...))
		return n
	}
	return c.b.Seq(c.openArray, items(0, 0), c.shutArray)
}

// maxUnique bounds the values of the items of an array with uniqueItems, whose combinations are
// states.
const maxUnique = 8

// uniqueNode returns the node of arrays without equal items, of a few values.
func (c *compiler) uniqueNode(a *arrayShape) grammar.Node {
	values, ok := c.itemValues(a)
	if !ok || len(a.contains) > 0 {
		unsupported(a.unique, "uniqueItems", "only an array whose items are of an enum with up to "+
			strconv.Itoa(maxUnique)+" values can be kept without duplicates")
	}
	nodes := make([]grammar.Node, len(values))
	for i, v := range values {
		nodes[i] = c.b.Terminal(c.scalars(c.constantSet(v)))
	}
	// after[used] is the node of what follows the values whose bits are set.
	after := make([]grammar.Node, 1<<len(values))
	for used := len(after) - 1; used >= 0; used-- {
		c.spend(len(values))
		n := 0
		for bits := used; bits != 0; bits &= bits - 1 {
			n++
		}
		var parts []grammar.Node
		if n >= a.min {
			parts = append(parts, c.b.Seq())
		}
		for i := range values {
			if used>>i&1 == 1 || a.max != regular.Unlimited && n >= a.max ||
				!c.set(a.at(n)).has(c, values[i]) {
				continue
			}
			if n > 0 {
				parts = append(parts, c.b.Seq(c.comma, nodes[i], after[used|1<<i]))
			} else {
				parts = append(parts, c.b.Seq(nodes[i], after[used|1<<i]))
			}
		}
		after[used] = c.b.Choice(parts...)
	}
	return c.b.Seq(c.openArray, after[0], c.shutArray)
}

// itemValues returns the values that an item of an array may have; false: they are too many, or no
// scalars.
func (c *compiler) itemValues(a *arrayShape) (values []*value, ok bool) {
	items := slices.Clone(a.prefix)
	if a.rest != never {
		items = append(items, a.rest)
	}
	for _, f := range items {
		some, ok := c.set(f).finite()
		if !ok {
			return nil, false
		}
		for _, v := range some {
			c.spend(1)
			if !slices.ContainsFunc(values, func(o *value) bool { return equal(o, v) }) {
				values = append(values, v)
			}
			if len(values) > maxUnique {
				return nil, false
			}
		}
	}
	return values, true
}

// objectNodes returns the nodes of the objects of a shape. If a member must have a key of some set,
// it may be one of those with a name or one of the rest.
func (c *compiler) objectNodes(o *objectShape, in *brackets) []grammar.Node {
	return c.expandSome(o, in, o.some, regular.None)
}

// expandSome returns the nodes for the sets of keys that are left. ofRest is the set whose key a
// member of the rest must have, or None.
func (c *compiler) expandSome(o *objectShape, in *brackets, left []regular.Expr,
	ofRest regular.Expr) (nodes []grammar.Node) {
	c.spend(1)
	if len(left) == 0 {
		return []grammar.Node{c.objectNode(o, in, ofRest)}
	}
	keys := left[0]
	for i, m := range o.members {
		if m.value == never || !c.space.Matches(keys, c.spelled(m.name)) {
			continue
		}
		if m.required {
			return c.expandSome(o, in, left[1:], ofRest)
		}
		one := *o
		one.members = slices.Clone(o.members)
		one.members[i].required = true
		nodes = append(nodes, c.expandSome(&one, in, left[1:], ofRest)...)
	}
	switch {
	case len(o.rest) == 0:
	case ofRest == regular.None || ofRest == keys:
		nodes = append(nodes, c.expandSome(o, in, left[1:], keys)...)
	default:
		unsupported(c.root, "not", "two schemas ask for members without naming them")
	}
	return nodes
}

// objectWriter writes the rules of one shape.
type objectWriter struct {
	*compiler
	shape   *objectShape
	members []grammar.Node // key and value of those that may come
	needed  []bool         // which of them must
	rest    grammar.Node   // any member of the rest
	hasRest bool
	some    grammar.Node // a member of the rest that must come
	hasSome bool
	counts  int // from which number on members are not counted
	states  map[[2]int]grammar.Node
}

// objectNode returns the node of the objects of a shape. some, if not None, are the keys of which a
// member of the rest must have one.
func (c *compiler) objectNode(o *objectShape, in *brackets, some regular.Expr) grammar.Node {
	o = c.listedOnly(o)
	w := &objectWriter{compiler: c, shape: o, states: map[[2]int]grammar.Node{}}
	names := make([]string, 0, len(o.members))
	for _, m := range o.members {
		c.spend(1)
		if len(o.rest) > 0 {
			names = append(names, m.name)
		}
		if m.value == never {
			continue
		}
		w.members = append(w.members, c.b.Seq(c.key(in, m.name), c.node(m.value)))
		w.needed = append(w.needed, m.required)
	}
	others := c.otherKeys(in, names)
	w.rest, w.hasRest = c.restNode(o.rest, in, others)
	if some != regular.None {
		if in.bare {
			c.unwritableKeys()
		}
		w.some, w.hasSome = c.restNode(o.rest, in, c.space.And(others, some))
		if !w.hasSome {
			return c.b.Terminal(regular.None)
		}
	}
	w.count()
	return c.b.Seq(in.open, w.from(0, 0), in.shut)
}

// listedOnly returns the shape without members that no schema mentions; see Options.ListedOnly.
func (c *compiler) listedOnly(o *objectShape) *objectShape {
	if !c.o.ListedOnly || o.open || len(o.some) > 0 || len(o.rest) != 1 ||
		o.rest[0] != (memberClass{c.anyText, always}) {
		return o
	}
	listed := 0
	for _, m := range o.members {
		if m.value != never {
			listed++
		}
	}
	if listed == 0 || o.min > listed {
		return o
	}
	closed := *o
	closed.rest = nil
	return &closed
}

func (c *compiler) key(in *brackets, name string) grammar.Node {
	n, ok := in.keys[name]
	if !ok {
		c.spend(len(name))
		var key regular.Expr
		switch {
		case !in.bare:
			key = c.space.Concat(c.quote, c.inAllWays(c.space, func() regular.Expr {
				return c.space.Text(c.content(name))
			}), c.quote)
		case c.space.Matches(in.names, name):
			key = c.space.Text(name)
		default:
			unsupported(c.root, "properties", strconv.Quote(name)+
				" cannot be a key in this model's tool calls")
		}
		n = c.b.Terminal(c.space.Concat(key, in.afterKey))
		in.keys[name] = n
	}
	return n
}

// otherKeys returns all keys but some names.
func (c *compiler) otherKeys(in *brackets, names []string) regular.Expr {
	switch {
	case len(names) == 0:
		return in.names
	case !in.bare:
		return c.space.Not(c.oneOfTexts(names))
	}
	parts := make([]regular.Expr, len(names))
	for i, name := range names {
		c.spend(1 + len(name))
		parts[i] = c.space.Text(name)
	}
	return c.space.And(in.names, c.space.Not(c.space.Or(parts...)))
}

// restNode returns the node of a member whose key is of a class and of others.
func (c *compiler) restNode(classes []memberClass, in *brackets, others regular.Expr,
) (grammar.Node, bool) {
	var parts []grammar.Node
	for _, class := range classes {
		keys := class.keys
		if in.bare && keys != c.anyText {
			c.unwritableKeys()
		} else if in.bare {
			keys = regular.All
		}
		keys = c.nonEmpty(c.space.And(keys, others))
		if keys == regular.None {
			continue
		}
		if !in.bare {
			keys = c.space.Concat(c.quote, c.space.And(keys, c.allowed), c.quote)
		}
		key := c.b.Terminal(c.space.Concat(keys, in.afterKey))
		parts = append(parts, c.b.Seq(key, c.node(class.value)))
	}
	return c.b.Choice(parts...), len(parts) > 0
}

// unwritableKeys stops the compiler: expressions of keys are those of strings.
func (c *compiler) unwritableKeys() {
	keyword := "patternProperties"
	if c.root.get("propertyNames") != nil {
		keyword = "propertyNames"
	}
	unsupported(c.root, keyword, "this model writes keys without quotation marks")
}

// count decides up to which number members are counted.
func (w *objectWriter) count() {
	o := w.shape
	w.counts = 1 // whether there was one before decides about the comma
	if o.max != regular.Unlimited {
		w.counts = max(w.counts, o.max)
	}
	w.counts = max(w.counts, o.min)
	if w.counts > 1 && (len(w.members)+1)*(w.counts+1) > maxStates {
		keyword := "minProperties"
		if o.max != regular.Unlimited {
			keyword = "maxProperties"
		}
		unsupported(w.at, keyword, "the object may have too many members")
	}
}

// from returns the node of members i and later, after n members (or more, if n is counts).
func (w *objectWriter) from(i, n int) grammar.Node {
	at := [2]int{i, n}
	if node, ok := w.states[at]; ok {
		return node
	}
	w.spend(1)
	var node grammar.Node
	if i == len(w.members) {
		node = w.end(n)
	} else {
		var parts []grammar.Node
		if w.shape.max == regular.Unlimited || n < w.shape.max {
			parts = append(parts, w.b.Seq(w.separated(w.members[i], n),
				w.from(i+1, min(n+1, w.counts))))
		}
		if !w.needed[i] {
			parts = append(parts, w.from(i+1, n))
		}
		node = w.b.Choice(parts...)
	}
	w.states[at] = node
	return node
}

func (w *objectWriter) separated(member grammar.Node, n int) grammar.Node {
	if n == 0 {
		return member
	}
	return w.b.Seq(w.comma, member)
}

// end returns the node of the members of the rest, after n others. Since they may have equal keys,
// they count as one towards a minimum.
func (w *objectWriter) end(n int) grammar.Node {
	o, b := w.shape, w.b
	low, high := max(o.min-n, 0), regular.Unlimited
	if o.max != regular.Unlimited {
		high = o.max - n
	}
	if w.hasSome {
		low = max(low, 1)
	}
	switch {
	case low > 1 && w.hasRest:
		unsupported(w.at, "minProperties", "members without a name in the schema may have "+
			"equal keys, so they cannot be counted")
	case low > 0 && !w.hasRest || high != regular.Unlimited && low > high:
		return b.Terminal(regular.None)
	case !w.hasRest || high == 0:
		return b.Seq()
	}
	more := regular.Unlimited
	if high != regular.Unlimited {
		more = high - 1
	}
	others := b.Repeat(b.Seq(w.comma, w.rest), 0, more)
	parts := []grammar.Node{b.Seq(w.separated(w.rest, n), others)}
	if w.hasSome {
		if high != regular.Unlimited {
			unsupported(w.at, "maxProperties", "it stands beside a schema that asks for a member "+
				"without a name")
		}
		parts = []grammar.Node{
			b.Seq(w.separated(w.some, n), others),
			b.Seq(w.separated(w.rest, n), others, w.comma, w.some, others),
		}
	}
	if low == 0 {
		parts = append(parts, b.Seq())
	}
	return b.Choice(parts...)
}
