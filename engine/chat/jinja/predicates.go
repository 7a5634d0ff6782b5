package jinja

// Jinja's tests. They classify types as Jinja2 does: a boolean is a number but not an integer, and
// strings and mappings are sequences.

import (
	"math/big"
	"strings"
)

// predicate is what Jinja calls a test: "value is name(args)".
type predicate func(r *renderer, v any, a *args) bool

// predicates holds every test by name.
var predicates = map[string]predicate{
	"defined":   func(_ *renderer, v any, _ *args) bool { return !isUndefined(v) },
	"undefined": func(_ *renderer, v any, _ *args) bool { return isUndefined(v) },
	"none":      func(_ *renderer, v any, _ *args) bool { return v == nil },
	"true":      func(_ *renderer, v any, _ *args) bool { return v == true },
	"false":     func(_ *renderer, v any, _ *args) bool { return v == false },
	"boolean":   func(_ *renderer, v any, _ *args) bool { _, ok := v.(bool); return ok },
	"string":    func(_ *renderer, v any, _ *args) bool { _, ok := v.(string); return ok },
	"float":     func(_ *renderer, v any, _ *args) bool { _, ok := v.(float64); return ok },
	"number":    func(_ *renderer, v any, _ *args) bool { return number(v) != nil },
	"mapping":   func(_ *renderer, v any, _ *args) bool { _, ok := v.(*Dict); return ok },
	"iterable":  func(_ *renderer, v any, _ *args) bool { return iterable(v) },
	"integer":   isInteger,
	"sequence":  isSequence,
	"callable":  isCallable,
	"odd": func(r *renderer, v any, _ *args) bool {
		return r.equal(r.arithmetic("%", v, int64(2)), int64(1))
	},
	"even": func(r *renderer, v any, _ *args) bool { return r.isMultiple(v, 2) },
	"divisibleby": func(r *renderer, v any, a *args) bool {
		return r.isMultiple(v, r.toInt("divisibleby", r.bind(a, "divisibleby", "num")[0]))
	},
	"lower": func(r *renderer, v any, _ *args) bool {
		return r.isCased(r.str(v), strings.ToLower)
	},
	"upper": func(r *renderer, v any, _ *args) bool {
		return r.isCased(r.str(v), strings.ToUpper)
	},
	"escaped": func(*renderer, any, *args) bool { return false },
	"sameas": func(r *renderer, v any, a *args) bool {
		return same(v, r.bind(a, "sameas", "other")[0])
	},
	"in": func(r *renderer, v any, a *args) bool {
		return r.contains(r.bind(a, "in", "seq")[0], v)
	},
	"==": relationTest("=="), "eq": relationTest("=="), "equalto": relationTest("=="),
	"!=": relationTest("!="), "ne": relationTest("!="),
	"<": relationTest("<"), "lt": relationTest("<"), "lessthan": relationTest("<"),
	"<=": relationTest("<="), "le": relationTest("<="),
	">": relationTest(">"), "gt": relationTest(">"), "greaterthan": relationTest(">"),
	">=": relationTest(">="), "ge": relationTest(">="),
}

func relationTest(op string) predicate {
	return func(r *renderer, v any, a *args) bool {
		return r.relation(op, v, r.bind(a, op, "other")[0])
	}
}

func isInteger(_ *renderer, v any, _ *args) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

// isSequence reports whether v has a length and can be indexed. As in Jinja2, that
// includes strings and mappings.
func isSequence(_ *renderer, v any, _ *args) bool {
	switch v := v.(type) {
	case string, *Dict, *undefined:
		return true
	case *List:
		return v.kind != kindGenerator
	}
	return false
}

func isCallable(_ *renderer, v any, _ *args) bool {
	switch v.(type) {
	case *function, *macro, *loop, *undefined:
		return true
	}
	return false
}

// same is Python's "is" for values where it is well defined: None, booleans and objects.
func same(a, b any) bool { return typeName(a) == typeName(b) && a == b }

// isCased reports whether s has a letter that exists in two cases, and change does not change s.
func (r *renderer) isCased(s string, change func(string) string) bool {
	cased, changed := false, false
	r.pieces(s, func(piece string) bool {
		r.work(4 * len(piece) / charsPerStep)
		cased = cased || strings.ToLower(piece) != strings.ToUpper(piece)
		changed = change(piece) != piece
		return !changed
	})
	return cased && !changed
}

// isMultiple reports whether v % n is zero.
func (r *renderer) isMultiple(v any, n int64) bool { return !truth(r.arithmetic("%", v, n)) }
