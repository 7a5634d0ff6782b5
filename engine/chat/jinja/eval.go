package jinja

// This file evaluates expressions with Python's semantics: each node has an eval method. Before an
// operation reads, copies or builds a string or a list, it counts that; see budget.go.

import (
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// eval evaluates an expression, counting steps and depth.
func (r *renderer) eval(e expr, s *scope) any {
	r.step()
	r.enter()
	v := e.eval(r, s)
	r.leave()
	return v
}

func (e *literal) eval(*renderer, *scope) any { return e.value }

func (e *nameExpr) eval(r *renderer, s *scope) any {
	if v, ok := r.get(s, e.name); ok {
		return v
	}
	if v, ok := r.vars.Get(e.name); ok {
		return v
	}
	if f, ok := globals[e.name]; ok {
		return f
	}
	return undefinedName(e.name)
}

func (e *listExpr) eval(r *renderer, s *scope) any {
	r.list(len(e.items))
	items := make([]any, len(e.items))
	for i, item := range e.items {
		items[i] = r.eval(item, s)
	}
	return &List{Items: items, kind: e.kind}
}

func (e *dictExpr) eval(r *renderer, s *scope) any {
	r.line = e.line
	d := NewDict()
	for i, k := range e.keys {
		r.put(d, r.eval(k, s), r.eval(e.values[i], s))
	}
	return d
}

func (e *condExpr) eval(r *renderer, s *scope) any {
	switch {
	case truth(r.eval(e.cond, s)):
		return r.eval(e.then, s)
	case e.otherwise != nil:
		return r.eval(e.otherwise, s)
	}
	return &undefined{message: "the inline if-expression evaluated to false and no else section " +
		"was defined"}
}

func (e *logicExpr) eval(r *renderer, s *scope) any {
	left := r.eval(e.left, s)
	if truth(left) == e.or {
		return left
	}
	return r.eval(e.right, s)
}

func (e *notExpr) eval(r *renderer, s *scope) any { return !truth(r.eval(e.value, s)) }

func (e *concatExpr) eval(r *renderer, s *scope) any {
	parts := make([]string, len(e.parts))
	n := 0
	for i, p := range e.parts {
		parts[i] = r.str(r.eval(p, s))
		n += len(parts[i])
		r.checkLength(n)
	}
	if len(parts) > 1 && len(parts[0]) >= minSumBytes {
		r.charge(n - len(parts[0]))
		return r.concat(parts[0], strings.Join(parts[1:], ""))
	}
	r.charge(n)
	return strings.Join(parts, "")
}

func (e *compareExpr) eval(r *renderer, s *scope) any {
	left := r.eval(e.first, s)
	for i, op := range e.ops {
		right := r.eval(e.rest[i], s)
		r.line = e.line
		if !r.relation(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (r *renderer) relation(op string, a, b any) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	if x, y, ok := numbers(a, b); ok {
		if f, isFloat := x.(float64); isFloat && (f != f || y != y) {
			return false // NaN
		}
	}
	c := r.compare(op, a, b)
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (e *unaryExpr) eval(r *renderer, s *scope) any {
	v := r.eval(e.value, s)
	r.line = e.line
	switch n := number(v).(type) {
	case *big.Int:
		if e.op == "-" {
			n = new(big.Int).Neg(n)
		}
		return intValue(n)
	case float64:
		if e.op == "-" {
			n = -n
		}
		return n
	}
	if u, ok := v.(*undefined); ok {
		r.fail("%s", u.why())
	}
	r.fail("bad operand type for unary %s: '%s'", e.op, typeName(v))
	return nil
}

func (e *binaryExpr) eval(r *renderer, s *scope) any {
	a, b := r.eval(e.left, s), r.eval(e.right, s)
	r.line = e.line
	switch e.op {
	case "+":
		return r.add(e.escaped(r, e.left, a), e.escaped(r, e.right, b))
	case "%":
		if format, ok := a.(string); ok {
			return r.percent(format, b)
		}
	case "*":
		if v, ok := r.repeat(a, b); ok {
			return v
		}
		if v, ok := r.repeat(b, a); ok {
			return v
		}
	}
	return r.arithmetic(e.op, a, b)
}

func (r *renderer) add(a, b any) any {
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return r.concat(x, y)
		}
		if u, ok := b.(*undefined); ok {
			r.fail("%s", u.why())
		}
		r.fail("can only concatenate str (not \"%s\") to str", typeName(b))
	case *List:
		if y, ok := b.(*List); ok && x.kind == y.kind && x.kind != kindGenerator {
			r.list(len(x.Items) + len(y.Items))
			return &List{Items: slices.Concat(x.Items, y.Items), kind: x.kind}
		}
	}
	return r.arithmetic("+", a, b)
}

// repeat returns sequence * count.
func (r *renderer) repeat(a, b any) (any, bool) {
	n, ok := b.(int64)
	if !ok {
		return nil, false
	}
	n = max(n, 0)
	switch x := a.(type) {
	case string:
		r.repeated(len(x), n)
		return strings.Repeat(x, int(n)), true
	case *List:
		r.repeated(itemBytes*len(x.Items), n)
		return &List{Items: slices.Repeat(x.Items, int(n)), kind: x.kind}, true
	}
	return nil, false
}

func (e *filterExpr) eval(r *renderer, s *scope) any {
	return e.apply(r, r.eval(e.input, s), s)
}

func (e *filterExpr) apply(r *renderer, input any, s *scope) any {
	a := r.evalArgs(e.args, s)
	r.line = e.line
	r.work(callSteps)
	return e.run(r, input, a)
}

func (e *testExpr) eval(r *renderer, s *scope) any {
	input, a := r.eval(e.input, s), r.evalArgs(e.args, s)
	r.line = e.line
	r.work(callSteps)
	return e.run(r, input, a)
}

func (e *attrExpr) eval(r *renderer, s *scope) any {
	object := r.eval(e.object, s)
	r.line = e.line
	return r.attr(object, e.name)
}

// attr returns object.name: a method or attribute, or else an item.
func (r *renderer) attr(object any, name string) any {
	if v, ok := r.member(object, name); ok {
		return v
	}
	if d, ok := object.(*Dict); ok {
		if v, ok := r.lookIn(d, name); ok {
			return v
		}
	}
	return undefinedAttr(object, name)
}

// member returns the attribute that Python's getattr finds.
func (r *renderer) member(object any, name string) (any, bool) {
	switch o := object.(type) {
	case *undefined:
		r.fail("%s", o.why())
	case *Namespace:
		return r.lookIn(o.attrs, name)
	case *loop:
		return r.loopAttr(o, name)
	case *macro:
		if name == "name" {
			return o.node.name, true
		}
	}
	if m, ok := method(object, name); ok {
		r.take(listBytes)
		return &function{name, func(r *renderer, a *args) any { return m(r, object, a) }}, true
	}
	return nil, false
}

func (e *itemExpr) eval(r *renderer, s *scope) any {
	object, index := r.eval(e.object, s), r.eval(e.index, s)
	r.line = e.line
	if v, ok := r.item(object, index); ok {
		return v
	}
	name, ok := index.(string)
	if !ok {
		return r.noElement(object, index)
	}
	if v, ok := r.member(object, name); ok {
		return v
	}
	return undefinedAttr(object, name)
}

// noElement returns the value of object[index] if there is no such element.
func (r *renderer) noElement(object, index any) *undefined {
	at := typeName(index)
	if number(index) != nil || index == nil {
		at = r.repr(index)
	}
	return &undefined{message: fmt.Sprintf("%s object has no element %s", typeName(object),
		excerpt(at, maxNameBytes))}
}

// item returns Python's object[index].
func (r *renderer) item(object, index any) (any, bool) {
	switch o := object.(type) {
	case *undefined:
		r.fail("%s", o.why())
	case *Dict:
		if _, unhashable := index.(*undefined); unhashable {
			return nil, false
		}
		return r.lookIn(o, index)
	case *List:
		if i, ok := sequenceIndex(index, len(o.Items)); ok && o.kind != kindGenerator {
			return o.Items[i], true
		}
	case string:
		r.read(len(o))
		if i, ok := sequenceIndex(index, utf8.RuneCountInString(o)); ok {
			for _, c := range o {
				if i == 0 {
					return string(c), true
				}
				i--
			}
		}
	}
	return nil, false
}

// sequenceIndex resolves an index, which may be negative, into a sequence of n items.
func sequenceIndex(index any, n int) (int, bool) {
	if b, ok := index.(bool); ok {
		index = asInt(b)
	}
	i, ok := index.(int64)
	if i < 0 {
		i += int64(n)
	}
	return int(i), ok && i >= 0 && i < int64(n)
}

func (e *sliceExpr) eval(r *renderer, s *scope) any {
	object := r.eval(e.object, s)
	var bounds [3]any
	for i, b := range []expr{e.from, e.to, e.step} {
		if b != nil {
			bounds[i] = r.eval(b, s)
		}
	}
	r.line = e.line
	switch o := object.(type) {
	case string:
		r.read(len(o))
		r.take(4 * len(o))
		runes := []rune(o)
		var b strings.Builder
		for i := range r.slice(bounds, len(runes)) {
			b.WriteRune(runes[i])
		}
		return b.String()
	case *List:
		if o.kind != kindGenerator {
			items := []any{}
			for i := range r.slice(bounds, len(o.Items)) {
				items = append(items, o.Items[i])
			}
			return &List{Items: items, kind: o.kind}
		}
	case *undefined:
		r.fail("%s", o.why())
	}
	r.fail("'%s' object cannot be sliced", typeName(object))
	return nil
}

// slice returns the indices that [from:to:step] selects from n items. It counts each as an element.
func (r *renderer) slice(bounds [3]any, n int) iter.Seq[int] {
	step := int64(1)
	if bounds[2] != nil {
		step = r.toInt("a slice's step", bounds[2])
		if step == 0 {
			r.fail("slice step cannot be zero")
		}
	}
	lo, hi := int64(0), int64(n) // the range of bounds
	if step < 0 {
		lo, hi = -1, int64(n)-1
	}
	clamp := func(v any, otherwise int64) int64 {
		if v == nil {
			return otherwise
		}
		i := r.toInt("a slice's bound", v)
		if i < 0 {
			i += int64(n)
		}
		return min(max(i, lo), hi)
	}
	from, to := clamp(bounds[0], lo), clamp(bounds[1], hi)
	if step < 0 {
		from, to = clamp(bounds[0], hi), clamp(bounds[1], lo)
	}
	step = min(max(step, -int64(n)-1), int64(n)+1) // a larger step changes nothing
	return func(yield func(int) bool) {
		for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
			r.step()
			r.take(itemBytes)
			if !yield(int(i)) {
				return
			}
		}
	}
}

func (e *callExpr) eval(r *renderer, s *scope) any {
	callee := r.eval(e.callee, s)
	a := r.evalArgs(e.args, s)
	r.line = e.line
	return r.call(callee, a)
}
