package jinja

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Filters on sequences and mappings. They return a generator where Jinja2 does. A generator is true
// even when it is empty, and has no length until it becomes a list.

func lengthFilter(r *renderer, v any, a *args) any {
	r.bind(a, "length")
	return int64(r.length(v))
}

func listFilter(r *renderer, v any, a *args) any {
	r.bind(a, "list")
	return &List{Items: r.iterate(v)}
}

func itemsFilter(r *renderer, v any, a *args) any {
	r.bind(a, "items")
	if isUndefined(v) {
		return newGenerator(nil)
	}
	d, ok := v.(*Dict)
	if !ok {
		r.fail("items needs a mapping, got %s", typeName(v))
	}
	return newGenerator(r.pairs(d))
}

func firstFilter(r *renderer, v any, a *args) any {
	r.bind(a, "first")
	if s, ok := v.(string); ok && s != "" {
		_, n := utf8.DecodeRuneInString(s)
		return s[:n]
	}
	if items := r.iterate(v); len(items) > 0 {
		return items[0]
	}
	return &undefined{message: "no first item, the sequence was empty"}
}

func lastFilter(r *renderer, v any, a *args) any {
	r.bind(a, "last")
	if s, ok := v.(string); ok && s != "" {
		_, n := utf8.DecodeLastRuneInString(s)
		return s[len(s)-n:]
	}
	if items := r.iterate(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return &undefined{message: "no last item, the sequence was empty"}
}

func reverseFilter(r *renderer, v any, a *args) any {
	r.bind(a, "reverse")
	if s, ok := v.(string); ok {
		var b strings.Builder
		r.charge(len(s))
		for s != "" {
			r.step()
			_, n := utf8.DecodeLastRuneInString(s)
			b.WriteString(s[len(s)-n:])
			s = s[:len(s)-n]
		}
		return b.String()
	}
	items := r.iterate(v)
	r.list(len(items))
	items = slices.Clone(items)
	slices.Reverse(items)
	return newGenerator(items)
}

func joinFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "join", "d?", "attribute?")
	get := r.attribute(p[1])
	items := r.iterate(v)
	r.list(len(items))
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = r.str(get(item))
	}
	sep := ""
	if p[0] != (absent{}) {
		sep = r.str(p[0])
	}
	return r.join(parts, sep)
}

// attribute returns a getter for a path such as "function.name" or 0. If the path is absent or
// none, the getter returns the item itself.
func (r *renderer) attribute(path any) func(any) any {
	return r.attributeOr(path, absent{})
}

// attributeOr is attribute with a default for each undefined step, as in Jinja2.
func (r *renderer) attributeOr(path, otherwise any) func(any) any {
	if path == (absent{}) || path == nil {
		return func(v any) any { return v }
	}
	text := r.str(path)
	steps := split(r, text, []any{".", absent{}}).(*List).Items
	return func(v any) any {
		for _, step := range steps {
			v = r.lookup(v, step.(string))
			if isUndefined(v) && otherwise != (absent{}) && otherwise != nil {
				v = otherwise
			}
		}
		return v
	}
}

// lookup follows one step of an attribute path. A number is an index.
func (r *renderer) lookup(v any, step string) any {
	r.work(callSteps + len(step)/charsPerStep)
	var index any = step
	if n, err := strconv.Atoi(step); err == nil {
		index = int64(n)
	}
	if item, ok := r.item(v, index); ok {
		return item
	}
	if member, ok := r.member(v, step); ok {
		return member
	}
	return undefinedAttr(v, step)
}

// mapFilter is map(attribute=..., default=...) or map('filter', args...).
func mapFilter(r *renderer, v any, a *args) any {
	var items []any
	if truth(v) { // none, for example, has no items here
		items = r.iterate(v)
	}
	r.list(len(items))
	out := make([]any, len(items))
	var get func(any) any
	if len(a.pos) == 0 {
		p := r.bind(a, "map", "attribute", "default?")
		get = r.attributeOr(p[0], p[1])
	} else {
		name := r.text("map's filter", a.pos[0])
		f, ok := filters[name]
		if !ok {
			r.fail("there is no filter '%s'", excerpt(name, maxNameBytes))
		}
		rest := &args{a.pos[1:], a.names, a.named}
		get = func(v any) any {
			r.work(callSteps)
			r.enter() // f may be map again
			defer r.leave()
			return f(r, v, rest)
		}
	}
	for i, item := range items {
		out[i] = get(item)
	}
	return newGenerator(out)
}

// condition returns the test of select and selectattr: truth, or a named test.
func (r *renderer) condition(pos []any) func(any) bool {
	if len(pos) == 0 {
		return truth
	}
	name := r.text("the test's name", pos[0])
	test, ok := predicates[name]
	if !ok {
		r.fail("there is no test '%s'", excerpt(name, maxNameBytes))
	}
	rest := &args{pos: pos[1:]}
	return func(v any) bool {
		r.work(callSteps)
		return test(r, v, rest)
	}
}

// choose returns the items of v with holds(item) == keep.
func (r *renderer) choose(v any, keep bool, holds func(any) bool) *List {
	var out []any
	if !truth(v) { // none, for example, has no items here
		return newGenerator(nil)
	}
	for _, item := range r.iterate(v) {
		r.step()
		if holds(item) == keep {
			r.take(itemBytes)
			out = append(out, item)
		}
	}
	return newGenerator(out)
}

func selectFilter(keep bool) filter {
	return func(r *renderer, v any, a *args) any {
		return r.choose(v, keep, r.condition(a.pos))
	}
}

func selectAttrFilter(keep bool) filter {
	return func(r *renderer, v any, a *args) any {
		if len(a.pos) == 0 {
			r.fail("selectattr and rejectattr need an attribute")
		}
		get, holds := r.attribute(a.pos[0]), r.condition(a.pos[1:])
		return r.choose(v, keep, func(item any) bool { return holds(get(item)) })
	}
}

// sorted returns the items in ascending order of key, or in descending order if reverse is set. The
// sort is stable. Strings compare without case unless caseSensitive is set.
func (r *renderer) sorted(items []any, key func(any) any, caseSensitive, reverse bool) []any {
	r.list(4 * len(items))
	keys := make([]any, len(items))
	order := make([]int, len(items))
	for i, item := range items {
		order[i] = i
		keys[i] = r.foldCase(key(item), caseSensitive)
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if reverse {
			return r.compare("<", keys[j], keys[i])
		}
		return r.compare("<", keys[i], keys[j])
	})
	out := make([]any, len(items))
	for i, at := range order {
		out[i] = items[at]
	}
	return out
}

func (r *renderer) foldCase(v any, caseSensitive bool) any {
	if s, ok := v.(string); ok && !caseSensitive {
		return r.mapPieces(s, strings.ToLower)
	}
	return v
}

func sortFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "sort", "reverse?", "case_sensitive?", "attribute?")
	key := r.attribute(p[2])
	if s, ok := p[2].(string); ok && strings.Contains(s, ",") {
		key = r.attributes(s)
	}
	return &List{Items: r.sorted(r.iterate(v), key, orBool(p[1], false), orBool(p[0], false))}
}

// attributes is attribute for several paths: "a,b.c".
func (r *renderer) attributes(paths string) func(any) any {
	var gets []func(any) any
	for _, p := range split(r, paths, []any{",", absent{}}).(*List).Items {
		gets = append(gets, r.attribute(p))
	}
	return func(v any) any {
		key := &List{}
		r.list(len(gets))
		for _, get := range gets {
			key.Items = append(key.Items, r.foldCase(get(v), false))
		}
		return key
	}
}

func dictSortFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "dictsort", "case_sensitive?", "by?", "reverse?")
	d, ok := v.(*Dict)
	if !ok {
		r.fail("dictsort needs a mapping, got %s", typeName(v))
	}
	at := slices.Index([]string{"key", "value"}, r.orText("by", p[1], "key"))
	if at < 0 {
		r.fail("dictsort: by must be 'key' or 'value'")
	}
	key := func(pair any) any { return pair.(*List).Items[at] }
	return &List{Items: r.sorted(r.pairs(d), key, orBool(p[0], false), orBool(p[2], false))}
}

func uniqueFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "unique", "case_sensitive?", "attribute?")
	get, seen := r.attribute(p[1]), NewDict()
	var out []any
	for _, item := range r.iterate(v) {
		r.work(callSteps)
		key := r.foldCase(get(item), orBool(p[0], false))
		if _, ok := r.lookIn(seen, key); !ok {
			r.put(seen, key, true)
			r.take(itemBytes)
			out = append(out, item)
		}
	}
	return newGenerator(out)
}

// extremeFilter is min (sign -1) or max (sign 1). Among equal items it returns the first.
func extremeFilter(name string, sign int) filter {
	return func(r *renderer, v any, a *args) any {
		p := r.bind(a, name, "case_sensitive?", "attribute?")
		get := r.attribute(p[1])
		items := r.iterate(v)
		if len(items) == 0 {
			return &undefined{message: "no aggregated item, the sequence was empty"}
		}
		key := func(item any) any { return r.foldCase(get(item), orBool(p[0], false)) }
		best, bestKey := items[0], key(items[0])
		for _, item := range items[1:] {
			if k := key(item); sign*r.compare("<", k, bestKey) > 0 {
				best, bestKey = item, k
			}
		}
		return best
	}
}

func sumFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "sum", "attribute?", "start?")
	var total any = int64(0)
	if p[1] != (absent{}) {
		total = p[1]
	}
	get := r.attribute(p[0])
	for _, item := range r.iterate(v) {
		r.work(callSteps)
		total = r.add(total, get(item))
	}
	return total
}

// groupByFilter returns (grouper, list) tuples in the order of the groupers.
func groupByFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "groupby", "attribute", "default?", "case_sensitive?")
	get := r.attributeOr(p[0], p[1])
	fold := func(item any) any { return r.foldCase(get(item), orBool(p[2], false)) }
	var groups []any
	var last any
	for _, item := range r.sorted(r.iterate(v), fold, true, false) {
		r.take(4 * itemBytes)
		if key := fold(item); len(groups) == 0 || !r.equal(key, last) {
			groups = append(groups, &List{Items: []any{get(item), NewList()}, kind: kindTuple})
			last = key
		}
		list := groups[len(groups)-1].(*List).Items[1].(*List)
		list.Items = append(list.Items, item)
	}
	return &List{Items: groups}
}

// batchFilter splits a sequence into lists of n items; sliceFilter splits it into n
// lists of nearly equal length.
func batchFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "batch", "linecount", "fill_with?")
	n := int(min(r.toInt("linecount", p[0]), maxRange))
	if n < 1 {
		r.fail("batch needs a positive count")
	}
	var out []any
	for chunk := range slices.Chunk(r.iterate(v), n) {
		r.list(len(chunk))
		chunk = slices.Clone(chunk)
		for len(chunk) < n && p[1] != (absent{}) && p[1] != nil {
			r.take(itemBytes)
			r.step()
			chunk = append(chunk, p[1])
		}
		out = append(out, NewList(chunk...))
	}
	return newGenerator(out)
}

func sliceFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "slice", "slices", "fill_with?")
	n := int(min(r.toInt("slices", p[0]), maxRange))
	if n < 1 {
		r.fail("slice needs a positive count")
	}
	items := r.iterate(v)
	r.list(len(items) + 8*n)
	each, longer := len(items)/n, len(items)%n
	var out []any
	for i := range n {
		size := each
		if i < longer {
			size++
		}
		part := slices.Clone(items[:size])
		items = items[size:]
		if i >= longer && p[1] != (absent{}) && p[1] != nil {
			part = append(part, p[1])
		}
		out = append(out, NewList(part...))
	}
	return newGenerator(out)
}
