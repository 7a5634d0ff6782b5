package jinja

import (
	"math/big"
	"strconv"
	"strings"
)

// Expressions, from the loosest binding to the tightest:
//
//	a if b else c · or · and · not · comparisons, in · + - · ~ · * / // % · ** ·
//	unary + - · .name [index] (call) · |filter, is test

func (p *parser) expression() expr {
	defer p.enter()()
	e := p.or()
	for p.skipName("if") {
		c := &condExpr{cond: p.or(), then: e}
		if p.skipName("else") {
			c.otherwise = p.expression()
		}
		e = c
	}
	return e
}

// tuple parses one expression or, with commas, a tuple of them. withCond allows
// "a if b": in the head of a for loop, "if" begins the filter instead.
func (p *parser) tuple(withCond bool) expr {
	one := p.or
	if withCond {
		one = p.expression
	}
	first := one()
	if !p.isOp(",") {
		return first
	}
	items := []expr{first}
	for p.skipOp(",") {
		if t := p.peek(); t.kind == tokVarEnd || t.kind == tokBlockEnd || p.isOp(")") {
			break
		}
		items = append(items, one())
	}
	return &listExpr{items, kindTuple}
}

func (p *parser) or() expr {
	e := p.and()
	for p.skipName("or") {
		e = &logicExpr{true, e, p.and()}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.skipName("and") {
		e = &logicExpr{false, e, p.not()}
	}
	return e
}

func (p *parser) not() expr {
	defer p.enter()()
	if p.skipName("not") {
		return &notExpr{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	first := p.sum()
	var c *compareExpr
	for {
		t := p.peek()
		op := ""
		switch {
		case t.kind == tokOp && (t.text == "==" || t.text == "!=" || t.text == "<" ||
			t.text == "<=" || t.text == ">" || t.text == ">="):
			p.pos++
			op = t.text
		case p.skipName("in"):
			op = "in"
		case p.isName("not") && p.tokens[p.pos+1].kind == tokName && p.tokens[p.pos+1].text == "in":
			p.pos += 2
			op = "not in"
		}
		if op == "" {
			break
		}
		if c == nil {
			c = &compareExpr{first: first, line: t.line}
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, p.sum())
	}
	if c == nil {
		return first
	}
	return c
}

// binary parses a left-associative level: operands, each parsed by next(), joined by ops.
func (p *parser) binary(next func() expr, ops ...string) expr {
	e := next()
	for {
		t := p.peek()
		found := false
		for _, op := range ops {
			if p.skipOp(op) {
				right := next()
				e, found = &binaryExpr{op, e, right, t.line, sumsMarkup(op, e, right)}, true
				break
			}
		}
		if !found {
			return e
		}
	}
}

func (p *parser) sum() expr { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() expr {
	parts := []expr{p.product()}
	for p.skipOp("~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &concatExpr{parts}
}

func (p *parser) product() expr { return p.binary(p.power, "*", "//", "/", "%") }

func (p *parser) power() expr {
	return p.binary(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(withFilter bool) expr {
	defer p.enter()()
	t := p.peek()
	var e expr
	switch {
	case p.skipOp("-"):
		e = &unaryExpr{"-", p.unary(false), t.line}
	case p.skipOp("+"):
		e = &unaryExpr{"+", p.unary(false), t.line}
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	if withFilter {
		e = p.filters(e)
	}
	return e
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &literal{true}
		case "false", "False":
			return &literal{false}
		case "none", "None":
			return &literal{nil}
		case "varargs":
			p.uses.varargs = true
		case "kwargs":
			p.uses.kwargs = true
		}
		p.names[t.text] = true
		return &nameExpr{t.text, t.line}
	case tokString:
		parts := []string{t.text}
		for p.peek().kind == tokString {
			parts = append(parts, p.next().text)
		}
		return &literal{strings.Join(parts, "")}
	case tokInt:
		return &literal{p.integer(t)}
	case tokFloat:
		f, _ := strconv.ParseFloat(t.text, 64) // a number that is too large is +Inf, as in Python
		return &literal{f}
	case tokOp:
		switch t.text {
		case "(":
			if p.skipOp(")") {
				return &listExpr{nil, kindTuple}
			}
			e := p.tuple(true)
			p.expectOp(")")
			return e
		case "[":
			return &listExpr{p.items("]"), kindList}
		case "{":
			return p.dict(t)
		}
	}
	p.fail(t, "expected an expression, got %v", t)
	return nil
}

func (p *parser) integer(t token) any {
	const maxDigits = 1000
	if len(t.text) > maxDigits {
		p.fail(t, "a number of %d digits is too long", len(t.text))
	}
	n, ok := new(big.Int).SetString(t.text, 0)
	if !ok {
		n, ok = new(big.Int).SetString(t.text, 10) // leading zeros are not octal
	}
	if !ok {
		p.fail(t, "not a number: %v", t)
	}
	return intValue(n)
}

// items parses expressions up to the closing bracket, with an optional trailing
// comma.
func (p *parser) items(end string) []expr {
	var list []expr
	for !p.skipOp(end) {
		if len(list) > 0 {
			p.expectOp(",")
			if p.skipOp(end) {
				break
			}
		}
		list = append(list, p.expression())
	}
	return list
}

func (p *parser) dict(t token) expr {
	d := &dictExpr{line: t.line}
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			p.expectOp(",")
			if p.skipOp("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.expectOp(":")
		d.values = append(d.values, p.expression())
	}
	return d
}

func (p *parser) postfix(e expr) expr {
	for {
		t := p.peek()
		switch {
		case p.skipOp("."):
			switch n := p.next(); n.kind {
			case tokName:
				e = &attrExpr{e, n.text, t.line}
			case tokInt:
				e = &itemExpr{e, &literal{p.integer(n)}, t.line}
			default:
				p.fail(n, "expected a name after '.', got %v", n)
			}
		case p.skipOp("["):
			e = p.subscript(e, t)
		case p.isOp("("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) call(callee expr) expr {
	t := p.peek()
	return &callExpr{callee, p.arguments(), t.line}
}

// subscript parses the rest of object[...]: an index or a slice.
func (p *parser) subscript(object expr, t token) expr {
	var parts [3]expr
	n := 0
	slice := false
	for {
		switch {
		case p.skipOp("]"):
			if !slice && parts[0] == nil {
				p.fail(t, "expected an index between '[' and ']'")
			}
			if slice {
				return &sliceExpr{object, parts[0], parts[1], parts[2], t.line}
			}
			return &itemExpr{object, parts[0], t.line}
		case p.isOp(":") && n < 2:
			p.pos++
			n++
			slice = true
		default:
			if parts[n] != nil || p.isOp(":") {
				p.fail(p.peek(), "expected ']', got %v", p.peek())
			}
			parts[n] = p.expression()
		}
	}
}

func (p *parser) arguments() argExprs {
	var a argExprs
	p.expectOp("(")
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			p.expectOp(",")
			if p.skipOp(")") {
				break
			}
		}
		t := p.peek()
		switch {
		case p.skipOp("**"):
			a.doubleStar = p.expression()
		case p.skipOp("*"):
			a.star = p.expression()
		case t.kind == tokName && p.tokens[p.pos+1].kind == tokOp && p.tokens[p.pos+1].text == "=":
			p.pos += 2
			a.names, a.named = append(a.names, t.text), append(a.named, p.expression())
		default:
			if len(a.names) > 0 || a.star != nil || a.doubleStar != nil {
				p.fail(t, "a positional argument follows a named one")
			}
			a.positional = append(a.positional, p.expression())
		}
	}
	return a
}

// filters parses the |filter, "is test" and calls after an operand.
func (p *parser) filters(e expr) expr {
	for {
		switch {
		case p.skipOp("|"):
			e = p.filter(e, p.name())
		case p.skipName("is"):
			e = p.test(e)
		case p.isOp("("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) filter(input expr, name string) *filterExpr {
	f := &filterExpr{input: input, name: name, line: p.tokens[p.pos-1].line}
	var ok bool
	if f.run, ok = filters[name]; !ok {
		p.unknown(p.tokens[p.pos-1], "filter", name)
		f.run = func(r *renderer, _ any, _ *args) any {
			r.fail("there is no filter '%s'", excerpt(name, maxNameBytes))
			return nil
		}
	}
	if p.isOp("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) test(input expr) expr {
	negate := p.skipName("not")
	t := p.peek()
	e := &testExpr{input: input, line: t.line}
	name := p.name()
	var ok bool
	if e.run, ok = predicates[name]; !ok {
		p.unknown(t, "test", name)
		e.run = func(r *renderer, _ any, _ *args) bool {
			r.fail("there is no test '%s'", excerpt(name, maxNameBytes))
			return false
		}
	}
	if p.isOp("(") {
		e.args = p.arguments()
	} else if p.startsTestArgument() {
		e.args.positional = []expr{p.postfix(p.primary())}
	}
	if negate {
		return &notExpr{e}
	}
	return e
}

// unknown is called for a filter or test that does not exist. As in Jinja2, it fails only when it
// runs if it is inside an if statement: a template may ask for it where another program has it.
func (p *parser) unknown(t token, kind, name string) {
	if p.ifs == 0 {
		p.fail(t, "there is no %s '%s'", kind, name)
	}
}

// startsTestArgument reports whether the next token is an argument without
// parentheses, as in "x is divisibleby 3".
func (p *parser) startsTestArgument() bool {
	t := p.peek()
	switch t.kind {
	case tokName:
		switch t.text {
		case "else", "or", "and", "not", "if", "is", "in", "recursive":
			return false
		}
		return true
	case tokString, tokInt, tokFloat:
		return true
	case tokOp:
		return t.text == "[" || t.text == "{"
	}
	return false
}
