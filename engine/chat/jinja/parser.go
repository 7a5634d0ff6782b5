package jinja

import "fmt"

// The statements of a recursive-descent parser over the lexer's tokens. Expressions
// are in expression.go. Grammar: jinja2/parser.py, version 3.1.

// maxNesting bounds the parser's recursion, and with it the tree's depth.
const maxNesting = 150

// refused maps each statement that is not supported to the reason.
var refused = map[string]string{
	"include": "reads files", "import": "reads files", "from": "reads files",
	"extends":    "reads files",
	"block":      "belongs to template inheritance",
	"do":         "is an extension that chat templates do not have",
	"autoescape": "has no meaning in a prompt",
	"trans":      "is an extension that chat templates do not have",
}

type parser struct {
	tokens  []token
	pos     int
	depth   int
	loops   int       // nesting depth of for loops in the current macro
	uses    macroUses // of the current macro
	content bool      // a for loop iterates over a variable, attribute or key named content
	names   map[string]bool
	ifs     int // nesting depth of if statements
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) fail(t token, format string, args ...any) {
	panic(&Error{Line: t.line, Message: fmt.Sprintf(format, args...)})
}

// enter counts one level of recursion; the caller defers the returned function.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.peek(), "nested deeper than %d levels", maxNesting)
	}
	return func() { p.depth-- }
}

func (p *parser) isOp(op string) bool {
	t := p.peek()
	return t.kind == tokOp && t.text == op
}

func (p *parser) isName(name string) bool {
	t := p.peek()
	return t.kind == tokName && t.text == name
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expectOp(op string) {
	if !p.skipOp(op) {
		p.fail(p.peek(), "expected '%s', got %v", op, p.peek())
	}
}

func (p *parser) expectName(name string) {
	if !p.skipName(name) {
		p.fail(p.peek(), "expected '%s', got %v", name, p.peek())
	}
}

func (p *parser) name() string {
	t := p.next()
	if t.kind != tokName {
		p.fail(t, "expected a name, got %v", t)
	}
	return t.text
}

func (p *parser) blockEnd() {
	if t := p.next(); t.kind != tokBlockEnd {
		p.fail(t, "expected the end of the tag, got %v", t)
	}
}

// body parses statements up to a block tag whose name is one of ends. It consumes and returns that
// name, but not the rest of the tag. If ends is empty, it parses to the end of the template.
func (p *parser) body(ends ...string) (nodes []node, end string) {
	defer p.enter()()
	for {
		t := p.next()
		switch t.kind {
		case tokEOF:
			if len(ends) > 0 {
				p.fail(t, "expected {%% %s %%} before the end of the template", ends[len(ends)-1])
			}
			return nodes, ""
		case tokText:
			nodes = append(nodes, &textNode{t.text})
		case tokVarBegin:
			value := p.tuple(true)
			if e := p.next(); e.kind != tokVarEnd {
				p.fail(e, "expected '}}', got %v", e)
			}
			nodes = append(nodes, &outputNode{value, t.line})
		case tokBlockBegin:
			name := p.name()
			for _, e := range ends {
				if name == e {
					return nodes, name
				}
			}
			nodes = append(nodes, p.statement(name, t))
		default:
			p.fail(t, "unexpected %v", t)
		}
	}
}

// block parses the last body of a statement, and the ends of the tags before and after it.
func (p *parser) block(end string) []node {
	p.blockEnd()
	nodes, _ := p.body(end)
	p.blockEnd()
	return nodes
}

func (p *parser) statement(name string, t token) node {
	switch name {
	case "if":
		return p.ifStatement(t)
	case "for":
		return p.forStatement(t)
	case "set":
		return p.setStatement(t)
	case "macro":
		return p.macroStatement(t)
	case "call":
		return p.callStatement(t)
	case "filter":
		filters := p.filterChain(p.name())
		return &filterNode{filters, p.block("endfilter"), t.line}
	case "with":
		return p.withStatement()
	case "generation":
		return &scopeNode{p.block("endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			p.fail(t, "'%s' is outside a loop", name)
		}
		p.blockEnd()
		if name == "break" {
			return &controlNode{controlBreak}
		}
		return &controlNode{controlContinue}
	}
	if why, ok := refused[name]; ok {
		p.fail(t, "the statement '%s' is not supported: it %s", name, why)
	}
	p.fail(t, "unknown statement '%s'", name)
	return nil
}

func (p *parser) ifStatement(t token) node {
	n := &ifNode{line: t.line}
	p.ifs++
	defer func() { p.ifs-- }()
	for {
		n.conds = append(n.conds, p.tuple(false))
		p.blockEnd()
		body, end := p.body("elif", "else", "endif")
		n.bodies = append(n.bodies, body)
		if end == "elif" {
			continue
		}
		if end == "else" {
			n.otherwise = p.block("endif")
		} else {
			p.blockEnd()
		}
		return n
	}
}

func (p *parser) forStatement(t token) node {
	n := &forNode{line: t.line, target: p.target(false)}
	p.expectName("in")
	n.iterable = p.tuple(false)
	switch e := n.iterable.(type) {
	case *nameExpr:
		p.content = p.content || e.name == "content"
	case *attrExpr:
		p.content = p.content || e.name == "content"
	case *itemExpr:
		key, ok := e.index.(*literal)
		p.content = p.content || ok && key.value == "content"
	}
	if p.skipName("if") {
		n.filter = p.expression()
	}
	n.recursive = p.skipName("recursive")
	p.blockEnd()
	p.loops++
	body, end := p.body("else", "endfor")
	p.loops--
	n.body = body
	if end == "else" {
		n.otherwise = p.block("endfor")
	} else {
		p.blockEnd()
	}
	return n
}

func (p *parser) setStatement(t token) node {
	to := p.target(true)
	if p.skipOp("=") {
		n := &setNode{to, p.tuple(true), t.line}
		p.blockEnd()
		return n
	}
	n := &setBlockNode{target: to, line: t.line}
	if p.skipOp("|") {
		n.filters = p.filterChain(p.name())
	}
	n.body = p.block("endset")
	return n
}

// target parses the target of an assignment: a name or a tuple of targets. withAttr also allows a
// namespace attribute.
func (p *parser) target(withAttr bool) target {
	defer p.enter()()
	one := func() target {
		if p.skipOp("(") {
			to := p.target(withAttr)
			p.expectOp(")")
			return to
		}
		t := p.peek()
		to := target{name: p.name()}
		switch to.name {
		case "true", "false", "none", "True", "False", "None":
			p.fail(t, "cannot assign to '%s'", to.name)
		}
		if withAttr && p.skipOp(".") {
			to.attr = p.name()
		}
		return to
	}
	first := one()
	if !p.isOp(",") {
		return first
	}
	list := []target{first}
	for p.skipOp(",") {
		if p.peek().kind != tokName && !p.isOp("(") || p.isName("in") {
			break
		}
		list = append(list, one())
	}
	return target{tuple: list}
}

// signature parses the parameters (a, b=1, ...) of a macro or call block.
func (p *parser) signature(n *macroNode) {
	p.expectOp("(")
	for !p.skipOp(")") {
		if len(n.params) > 0 {
			p.expectOp(",")
		}
		n.params = append(n.params, p.name())
		if p.skipOp("=") {
			n.defaults = append(n.defaults, p.expression())
		} else if len(n.defaults) > 0 {
			p.fail(p.peek(), "a parameter without a default follows one with a default")
		}
	}
}

// macroBody parses the body of a macro. There, break and continue cannot refer to loops around the
// macro.
func (p *parser) macroBody(n *macroNode, end string) {
	loops, uses := p.loops, p.uses
	p.loops, p.uses = 0, macroUses{}
	n.body = p.block(end)
	n.uses = p.uses
	p.loops, p.uses = loops, uses
}

func (p *parser) macroStatement(t token) node {
	n := &macroNode{name: p.name(), line: t.line}
	p.signature(n)
	p.macroBody(n, "endmacro")
	return n
}

func (p *parser) callStatement(t token) node {
	n := &callNode{caller: &macroNode{name: "caller", line: t.line}, line: t.line}
	if p.isOp("(") {
		p.signature(n.caller)
	}
	call, ok := p.expression().(*callExpr)
	if !ok {
		p.fail(t, "{%% call %%} needs a call, such as {%% call name(x) %%}")
	}
	n.call = call
	p.macroBody(n.caller, "endcall")
	return n
}

func (p *parser) withStatement() node {
	n := &withNode{}
	for p.peek().kind != tokBlockEnd {
		if len(n.names) > 0 {
			p.expectOp(",")
		}
		n.names = append(n.names, p.name())
		p.expectOp("=")
		n.values = append(n.values, p.expression())
	}
	n.body = p.block("endwith")
	return n
}

// filterChain parses the rest of "name(args) | name ..." after the first name. The input of the
// chain is a rendered body.
func (p *parser) filterChain(name string) []*filterExpr {
	chain := []*filterExpr{p.filter(nil, name)}
	for p.skipOp("|") {
		chain = append(chain, p.filter(nil, p.name()))
	}
	return chain
}
