package jinja

// Statements and scopes. A failure is a panic with an *Error, which Parse and Render return. The
// bounds of a rendering are in budget.go.

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a template. The longest real one has 40 KB and about 10,000 tokens.
const (
	maxSourceBytes = 1 << 20
	maxTokens      = 200_000 // which bounds the syntax tree
)

// Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct {
	body        []node
	listContent bool
	names       map[string]bool // of the variables that it reads
}

// Parse parses a template. Every error is an *Error.
func Parse(source string) (t *Template, err error) {
	p := &parser{names: map[string]bool{}}
	defer recoverInto(&err, func() int {
		if p.pos < len(p.tokens) {
			return p.tokens[p.pos].line
		}
		return 0
	})
	if len(source) > maxSourceBytes {
		return nil, &Error{Message: fmt.Sprintf("the template has %d bytes, expected at most %d",
			len(source), maxSourceBytes)}
	}
	if !utf8.ValidString(source) {
		return nil, &Error{Message: "the template is not valid UTF-8"}
	}
	p.tokens = lex(source)
	body, _ := p.body()
	return &Template{body, p.content, p.names}, nil
}

// LoopsOverContent reports whether the template has a for loop over a variable, attribute or key
// named content. Such a template supports messages whose content is a list.
func (t *Template) LoopsOverContent() bool { return t.listContent }

// Reads reports whether the template reads a variable with a name, which it may have set itself.
func (t *Template) Reads(name string) bool { return t.names[name] }

// Render renders the template with vars as its global variables and the parameter now as the time
// of strftime_now. Values in vars must have types that FromJSON returns, and must not change during
// the call. Rendering stops soon after ctx ends. Every error is an *Error.
func (t *Template) Render(ctx context.Context, vars *Dict, now time.Time) (text string, err error) {
	text, _, err = t.render(ctx, vars, now)
	return text, err
}

// render is like Render, and also returns what the rendering has used.
func (t *Template) render(ctx context.Context, vars *Dict, now time.Time) (text string, used budget,
	err error) {
	r := &renderer{vars: vars, now: now, budget: newBudget(ctx, sizeOf(vars))}
	defer func() { used = r.budget }()
	defer recoverInto(&err, func() int { return r.line })
	return r.capture(func() { r.run(t.body, &scope{}) }), used, nil
}

// renderer is the state of one rendering.
type renderer struct {
	budget
	vars *Dict
	now  time.Time
	out  *strings.Builder
	sums sums
	line int // of the current statement or call, for errors
}

func (r *renderer) fail(format string, args ...any) {
	panic(&Error{Line: r.line, Message: fmt.Sprintf(format, args...)})
}

func (r *renderer) write(s string) {
	r.charge(len(s))
	r.checkLength(r.out.Len() + len(s))
	r.out.WriteString(s)
}

// capture returns what f writes.
func (r *renderer) capture(f func()) string {
	outer := r.out
	r.out = &strings.Builder{}
	f()
	s := r.out.String()
	r.out = outer
	return s
}

// scope has the variables of a block. Lookups continue in the parent.
type scope struct {
	parent *scope
	names  []string
	values []any
	kept   bool // a macro or a loop refers to it, so it may outlive the block
}

// get returns a variable. It counts the names that it looks at, which a template can multiply.
func (r *renderer) get(s *scope, name string) (any, bool) {
	for ; s != nil; s = s.parent {
		r.work(len(s.names) / charsPerStep)
		for i, n := range s.names {
			if n == name {
				return s.values[i], true
			}
		}
	}
	return nil, false
}

// set sets a variable of the block.
func (r *renderer) set(s *scope, name string, value any) {
	r.work(len(s.names) / charsPerStep)
	for i, n := range s.names {
		if n == name {
			s.values[i] = value
			return
		}
	}
	if s.kept {
		r.take(2 * itemBytes)
	}
	s.names, s.values = append(s.names, name), append(s.values, value)
}

// keep counts the memory of s and of the blocks around it, which a value now refers to.
func (r *renderer) keep(s *scope) {
	for ; s != nil && !s.kept; s = s.parent {
		s.kept = true
		r.take(scopeBytes + 2*itemBytes*len(s.names))
	}
}

// control is how a statement ended.
type control uint8

const (
	controlNone control = iota
	controlBreak
	controlContinue
)

// run executes statements until one breaks or continues the loop around them.
func (r *renderer) run(body []node, s *scope) control {
	r.enter()
	for _, n := range body {
		r.step()
		if c := n.exec(r, s); c != controlNone {
			r.leave()
			return c
		}
	}
	r.leave()
	return controlNone
}

func (n *textNode) exec(r *renderer, s *scope) control {
	r.write(n.text)
	return controlNone
}

func (n *outputNode) exec(r *renderer, s *scope) control {
	r.line = n.line
	r.write(r.str(r.eval(n.value, s)))
	return controlNone
}

func (n *ifNode) exec(r *renderer, s *scope) control {
	r.line = n.line
	for i, cond := range n.conds {
		if truth(r.eval(cond, s)) {
			return r.run(n.bodies[i], s)
		}
	}
	return r.run(n.otherwise, s)
}

func (n *setNode) exec(r *renderer, s *scope) control {
	r.line = n.line
	r.assign(n.target, r.eval(n.value, s), s)
	return controlNone
}

func (n *setBlockNode) exec(r *renderer, s *scope) control {
	text := r.capture(func() { r.run(n.body, &scope{parent: s}) })
	r.line = n.line
	r.assign(n.target, r.applyFilters(n.filters, text, s), s)
	return controlNone
}

func (n *filterNode) exec(r *renderer, s *scope) control {
	text := r.capture(func() { r.run(n.body, &scope{parent: s}) })
	r.line = n.line
	r.write(r.str(r.applyFilters(n.filters, text, s)))
	return controlNone
}

func (r *renderer) applyFilters(chain []*filterExpr, value any, s *scope) any {
	for _, f := range chain {
		value = f.apply(r, value, s)
	}
	return value
}

func (n *withNode) exec(r *renderer, s *scope) control {
	inner := &scope{parent: s}
	for i, name := range n.names {
		r.set(inner, name, r.eval(n.values[i], s))
	}
	return r.run(n.body, inner)
}

func (n *scopeNode) exec(r *renderer, s *scope) control {
	return r.run(n.body, &scope{parent: s})
}

func (n *controlNode) exec(*renderer, *scope) control { return n.control }

func (n *macroNode) exec(r *renderer, s *scope) control {
	r.take(listBytes)
	r.keep(s)
	r.set(s, n.name, &macro{n, s})
	return controlNone
}

func (n *callNode) exec(r *renderer, s *scope) control {
	r.line = n.line
	callee := r.eval(n.call.callee, s)
	r.keep(s)
	a := r.evalArgs(n.call.args, s)
	a.names, a.named = append(a.names, "caller"), append(a.named, &macro{n.caller, s})
	r.write(r.str(r.call(callee, a)))
	return controlNone
}

// assign binds a target: a name, a namespace attribute, or a tuple of them.
func (r *renderer) assign(t target, value any, s *scope) {
	switch {
	case t.tuple != nil:
		items := r.iterate(value)
		if len(items) != len(t.tuple) {
			r.fail("expected %d values to unpack, got %d", len(t.tuple), len(items))
		}
		for i, sub := range t.tuple {
			r.assign(sub, items[i], s)
		}
	case t.attr != "":
		object, _ := r.get(s, t.name)
		ns, ok := object.(*Namespace)
		if !ok {
			r.fail("cannot set the attribute '%s': '%s' is not a namespace", t.attr, t.name)
		}
		r.put(ns.attrs, t.attr, value)
	default:
		r.set(s, t.name, value)
	}
}

// loop is the variable "loop" inside a for.
type loop struct {
	node    *forNode
	scope   *scope // of the for statement, also for recursive calls
	items   []any
	index   int
	depth   int
	changed []any // arguments of the last loop.changed call
}

func (n *forNode) exec(r *renderer, s *scope) control {
	r.line = n.line
	r.loop(n, s, r.eval(n.iterable, s), 0)
	return controlNone
}

// loop runs a for over value; depth counts recursive calls.
func (r *renderer) loop(n *forNode, s *scope, value any, depth int) {
	items := r.iterate(value)
	if n.filter != nil {
		var kept []any
		for _, item := range items {
			r.work(2 * callSteps)
			inner := &scope{parent: s}
			r.assign(n.target, item, inner)
			if truth(r.eval(n.filter, inner)) {
				r.take(itemBytes)
				kept = append(kept, item)
			}
		}
		items = kept
	}
	r.take(listBytes)
	r.keep(s)
	l := &loop{node: n, scope: s, items: items, depth: depth}
	for l.index = 0; l.index < len(items); l.index++ {
		r.work(2 * callSteps)
		inner := &scope{parent: s}
		r.set(inner, "loop", l)
		r.assign(n.target, items[l.index], inner)
		if r.run(n.body, inner) == controlBreak {
			break
		}
	}
	if len(items) == 0 {
		r.run(n.otherwise, &scope{parent: s})
	}
}

// loopAttr returns an attribute of the loop variable.
func (r *renderer) loopAttr(l *loop, name string) (any, bool) {
	at := func(i int) any {
		if i < 0 || i >= len(l.items) {
			return undefinedName("loop." + name)
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return int64(l.index + 1), true
	case "index0":
		return int64(l.index), true
	case "revindex":
		return int64(len(l.items) - l.index), true
	case "revindex0":
		return int64(len(l.items) - l.index - 1), true
	case "first":
		return l.index == 0, true
	case "last":
		return l.index == len(l.items)-1, true
	case "length":
		return int64(len(l.items)), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		return at(l.index - 1), true
	case "nextitem":
		return at(l.index + 1), true
	case "cycle":
		r.take(listBytes)
		return &function{"cycle", func(r *renderer, a *args) any {
			if len(a.pos) == 0 {
				r.fail("no items for cycling given")
			}
			return a.pos[l.index%len(a.pos)]
		}}, true
	case "changed":
		r.take(listBytes)
		return &function{"changed", func(r *renderer, a *args) any {
			same := l.changed != nil && r.equal(&List{Items: l.changed}, &List{Items: a.pos})
			r.list(len(a.pos))
			l.changed = append([]any{}, a.pos...)
			return !same
		}}, true
	}
	return nil, false
}
