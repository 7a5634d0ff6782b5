package jinja

// Calls of macros, builtins, filters and tests: evaluating arguments and matching them to
// parameters. Wrong arguments are errors that name the callee, as in Jinja2.

import (
	"math/big"
	"slices"
	"strings"
)

// args are the evaluated arguments of one call.
type args struct {
	pos   []any
	names []string
	named []any
}

// function is a builtin, or a method bound to its object.
type function struct {
	name string
	call func(r *renderer, a *args) any
}

// macro is the value of a macro: its node, and the scope in which it was defined.
type macro struct {
	node  *macroNode
	scope *scope
}

func (r *renderer) evalArgs(a argExprs, s *scope) *args {
	out := &args{}
	for _, e := range a.positional {
		out.pos = append(out.pos, r.eval(e, s))
	}
	for i, e := range a.named {
		out.names, out.named = append(out.names, a.names[i]), append(out.named, r.eval(e, s))
	}
	if a.star != nil {
		items := r.iterate(r.eval(a.star, s))
		r.list(len(items))
		out.pos = append(out.pos, items...)
	}
	if a.doubleStar != nil {
		d, ok := r.eval(a.doubleStar, s).(*Dict)
		if !ok {
			r.fail("the argument after ** must be a mapping")
		}
		r.entries(d.Len())
		for i, k := range d.keys {
			out.names, out.named = append(out.names, r.text("a keyword", k)),
				append(out.named, d.values[i])
		}
	}
	return out
}

func (r *renderer) call(callee any, a *args) any {
	r.work(callSteps)
	switch f := callee.(type) {
	case *function:
		return f.call(r, a)
	case *macro:
		return r.callMacro(f, a)
	case *loop:
		if !f.node.recursive {
			r.fail("this loop is not recursive: write {%% for ... recursive %%}")
		}
		v := r.bind(a, "loop", "iterable")
		return r.capture(func() { r.loop(f.node, f.scope, v[0], f.depth+1) })
	case *undefined:
		r.fail("%s", f.why())
	}
	r.fail("'%s' object is not callable", typeName(callee))
	return nil
}

// callMacro renders a macro's body with its parameters set. varargs and kwargs are
// set if the body mentions them, and caller if it was passed.
func (r *renderer) callMacro(m *macro, a *args) any {
	n := m.node
	line := r.line
	inner := &scope{parent: m.scope}
	r.work(len(a.pos) + len(a.names)*(1+len(n.params)/charsPerStep))
	positional := min(len(a.pos), len(n.params))
	for i := range positional {
		r.set(inner, n.params[i], a.pos[i])
	}
	if extra := a.pos[positional:]; len(extra) > 0 {
		if !n.uses.varargs {
			r.fail("macro '%s' takes at most %d argument(s)", n.name, len(n.params))
		}
		r.set(inner, "varargs", &List{Items: extra, kind: kindTuple})
	} else if n.uses.varargs {
		r.set(inner, "varargs", &List{Items: nil, kind: kindTuple})
	}
	kwargs := NewDict()
	for i, name := range a.names {
		switch at := slices.Index(n.params, name); {
		case at >= 0 && at < positional:
			r.fail("macro '%s' got two values for the argument '%s'", n.name, name)
		case at >= 0 || name == "caller":
			r.set(inner, name, a.named[i])
		case n.uses.kwargs:
			r.put(kwargs, name, a.named[i])
		default:
			r.fail("macro '%s' takes no keyword argument '%s'", n.name, name)
		}
	}
	if n.uses.kwargs {
		r.set(inner, "kwargs", kwargs)
	}
	for i, name := range n.params {
		r.work(len(inner.names) / charsPerStep)
		if slices.Contains(inner.names, name) {
			continue
		}
		var value any = &undefined{message: "parameter '" + excerpt(name, maxNameBytes) +
			"' was not provided"}
		if d := i - (len(n.params) - len(n.defaults)); d >= 0 {
			value = r.eval(n.defaults[d], inner)
		}
		r.set(inner, name, value)
	}
	text := r.capture(func() { r.run(n.body, inner) })
	r.line = line
	return text
}

// absent marks an optional argument that was not given.
type absent struct{}

// bind matches arguments to parameters by position and name. A parameter whose
// name ends in "?" is optional; if it is missing, its value is absent{}.
func (r *renderer) bind(a *args, fn string, params ...string) []any {
	if len(a.pos) > len(params) {
		r.fail("%s takes at most %d argument(s), got %d", fn, len(params), len(a.pos))
	}
	r.work(len(params) * (1 + len(a.names)/charsPerStep))
	out := make([]any, len(params))
	for i, p := range params {
		out[i] = absent{}
		if i < len(a.pos) {
			out[i] = a.pos[i]
		} else if at := slices.Index(a.names, strings.TrimSuffix(p, "?")); at >= 0 {
			out[i] = a.named[at]
		} else if !strings.HasSuffix(p, "?") {
			r.fail("%s needs the argument '%s'", fn, p)
		}
	}
	for _, name := range a.names {
		r.work(callSteps)
		at := slices.IndexFunc(params,
			func(p string) bool { return strings.TrimSuffix(p, "?") == name })
		if at < 0 {
			r.fail("%s has no argument '%s'", fn, excerpt(name, maxNameBytes))
		}
		if at < len(a.pos) {
			r.fail("%s got two values for the argument '%s'", fn, name)
		}
	}
	return out
}

// text returns v, which must be a string. The message of a type error begins with the string what.
func (r *renderer) text(what string, v any) string {
	s, ok := v.(string)
	if !ok {
		if u, ok := v.(*undefined); ok {
			r.fail("%s", u.why())
		}
		r.fail("%s must be a string, got %s", what, typeName(v))
	}
	return s
}

// toInt returns v, which must be an integer. The message of a type error begins with the string
// what. A value beyond 64 bits is clamped to ±2^62.
func (r *renderer) toInt(what string, v any) int64 {
	switch n := v.(type) {
	case bool:
		return asInt(n)
	case int64:
		return n
	case *big.Int:
		if n.Sign() < 0 {
			return -1 << 62
		}
		return 1 << 62
	case *undefined:
		r.fail("%s", n.why())
	}
	r.fail("%s must be an integer, got %s", what, typeName(v))
	return 0
}

// orText returns an optional string argument or its default. orInt and orBool do
// the same for integers and booleans.
func (r *renderer) orText(what string, v any, otherwise string) string {
	if v == (absent{}) {
		return otherwise
	}
	return r.text(what, v)
}

func (r *renderer) orInt(what string, v any, otherwise int64) int64 {
	if v == (absent{}) {
		return otherwise
	}
	return r.toInt(what, v)
}

func orBool(v any, otherwise bool) bool {
	if v == (absent{}) {
		return otherwise
	}
	return truth(v)
}
