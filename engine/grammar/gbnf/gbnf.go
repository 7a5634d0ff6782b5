// Package gbnf reads grammars in GBNF, the notation of llama.cpp (grammars/README.md there), which
// vLLM's and XGrammar's EBNF resembles.
//
//	root   ::= "yes" | "no" | list     # the answer is a root
//	list   ::= "[" item ("," item)* "]"
//	item   ::= [^,\]]+
//
// Literals have the escapes \" \\ \n \r \t \xHH \uHHHH and \UHHHHHHHH, classes also \] \[ \- and
// \^. A dot is any character. Parts are repeated by * + ? {m} {m,} {m,n}. A rule may refer to
// itself anywhere, also on the left. Rules without recursion become regular expressions.
package gbnf

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

// Error says where a grammar is wrong.
type Error struct {
	Line, Column int // from 1; the column in bytes
	Message      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Limits of a grammar.
const (
	maxDepth = 200    // of groups
	maxCount = 10_000 // of a repetition
)

type op uint8

const (
	opLiteral op = iota // text
	opClass             // one character of ranges
	opRule              // the rule name
	opSeq               // kids in order
	opChoice            // one of kids
	opRepeat            // kids[0], min to max times
)

type node struct {
	op       op
	at       int // in the text
	text     string
	ranges   []regular.RuneRange
	kids     []*node
	min, max int
}

// Build adds the grammar of a text to b and returns the node of its rule root. An error is an
// *Error.
func Build(b *grammar.Builder, text string) (start grammar.Node, err error) {
	p := &parser{text: text, rules: map[string]*node{}}
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			err = failed
		}
	}()
	p.parse()
	if p.rules["root"] == nil {
		p.fail(len(text), `there is no rule "root"`)
	}
	t := &translator{parser: p, b: b, parts: map[string]part{}, state: map[string]int{},
		recursive: map[string]bool{}}
	for _, name := range p.names {
		t.findRecursion(name)
	}
	return t.node(t.rule(p.rules["root"], "root")), nil
}

type parser struct {
	text  string
	at    int
	depth int
	names []string // of the rules, in order
	rules map[string]*node
}

func (p *parser) fail(at int, format string, args ...any) {
	before := p.text[:min(at, len(p.text))]
	line := 1 + strings.Count(before, "\n")
	panic(&Error{line, len(before) - strings.LastIndexByte(before, '\n'),
		fmt.Sprintf(format, args...)})
}

// space skips white space and comments, and line breaks unless a rule may end there.
func (p *parser) space(breaks bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || breaks && (c == '\n' || c == '\r'):
			p.at++
		case c == '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' ||
		c == '_'
}

func (p *parser) name() string {
	from := p.at
	for isName(p.peek()) {
		p.at++
	}
	if from == p.at {
		p.fail(from, "expected the name of a rule")
	}
	return p.text[from:p.at]
}

func (p *parser) parse() {
	for p.space(true); p.at < len(p.text); p.space(true) {
		at := p.at
		name := p.name()
		if p.rules[name] != nil {
			p.fail(at, "rule %q is defined twice", name)
		}
		p.space(false)
		if !strings.HasPrefix(p.text[p.at:], "::=") {
			p.fail(p.at, `expected "::=" after the name of a rule`)
		}
		p.at += 3
		p.space(true)
		p.names = append(p.names, name)
		p.rules[name] = p.choice(false)
		p.space(false)
		if c := p.peek(); c != 0 && c != '\n' && c != '\r' {
			p.fail(p.at, "unexpected %q", c)
		}
	}
}

// choice parses alternatives. Inside of a group, line breaks are white space.
func (p *parser) choice(group bool) *node {
	n := &node{op: opChoice, at: p.at, kids: []*node{p.sequence(group)}}
	for p.space(group); p.peek() == '|'; p.space(group) {
		p.at++
		p.space(true)
		n.kids = append(n.kids, p.sequence(group))
	}
	return n
}

func (p *parser) sequence(group bool) *node {
	n := &node{op: opSeq, at: p.at}
	for {
		p.space(group)
		switch c := p.peek(); {
		case c == '"':
			n.kids = append(n.kids, p.repeats(p.literal()))
		case c == '[':
			n.kids = append(n.kids, p.repeats(p.class()))
		case c == '.':
			n.kids = append(n.kids, p.repeats(&node{op: opClass, at: p.at,
				ranges: []regular.RuneRange{{Lo: 0, Hi: utf8.MaxRune}}}))
		case c == '(':
			n.kids = append(n.kids, p.repeats(p.group()))
		case isName(c):
			if p.beginsRule() {
				return n
			}
			at := p.at
			rule := &node{op: opRule, at: at, text: p.name()}
			p.at-- // repeats skips the last byte of what it repeats
			n.kids = append(n.kids, p.repeats(rule))
		case c == '<' || c == '!':
			p.fail(p.at, "tokens such as <[1000]> are not supported")
		default:
			return n
		}
	}
}

// beginsRule reports whether a name is followed by "::=", so that another rule begins.
func (p *parser) beginsRule() bool {
	at := p.at
	defer func() { p.at = at }()
	p.name()
	p.space(false)
	return strings.HasPrefix(p.text[p.at:], "::=")
}

func (p *parser) group() *node {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.at, "more than %d groups are in each other", maxDepth)
	}
	at := p.at
	p.at++
	p.space(true)
	n := p.choice(true)
	if p.space(true); p.peek() != ')' {
		p.fail(at, "the group is not closed")
	}
	p.depth--
	return n
}

// repeats parses what follows a part, whose last byte is at p.at.
func (p *parser) repeats(n *node) *node {
	p.at++
	for {
		p.space(false)
		min, max := 0, regular.Unlimited
		switch p.peek() {
		case '*':
		case '+':
			min = 1
		case '?':
			max = 1
		case '{':
			min, max = p.counts()
		default:
			return n
		}
		n = &node{op: opRepeat, at: n.at, kids: []*node{n}, min: min, max: max}
		p.at++
	}
}

// counts parses {m}, {m,} or {m,n} up to the brace at its end.
func (p *parser) counts() (low, high int) {
	at := p.at
	end := strings.IndexByte(p.text[at:], '}')
	if end < 0 {
		p.fail(at, "the count is not closed")
	}
	from, to, ranged := strings.Cut(p.text[at+1:at+end], ",")
	number := func(s string, empty int) int {
		if s = strings.TrimSpace(s); s == "" && ranged {
			return empty
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > maxCount {
			p.fail(at, "expected a count from 0 to %d, got %q", maxCount, s)
		}
		return n
	}
	low = number(from, 0)
	if high = low; ranged {
		high = number(to, regular.Unlimited)
	}
	if high != regular.Unlimited && high < low {
		p.fail(at, "the count %d is smaller than %d", high, low)
	}
	p.at = at + end
	return low, high
}

func (p *parser) literal() *node {
	n := &node{op: opLiteral, at: p.at}
	var b strings.Builder
	for p.at++; p.peek() != '"'; {
		if c := p.peek(); c == 0 || c == '\n' {
			p.fail(n.at, "the literal is not closed")
		}
		p.character(&b)
	}
	n.text = b.String()
	return n
}

func (p *parser) class() *node {
	n := &node{op: opClass, at: p.at}
	p.at++
	negated := p.peek() == '^'
	if negated {
		p.at++
	}
	for p.peek() != ']' {
		if p.at >= len(p.text) {
			p.fail(n.at, "the class is not closed")
		}
		lo := p.rune()
		hi := lo
		if p.peek() == '-' && p.at+1 < len(p.text) && p.text[p.at+1] != ']' {
			p.at++
			hi = p.rune()
		}
		if hi < lo {
			p.fail(p.at, "the range %q-%q is empty", lo, hi)
		}
		n.ranges = append(n.ranges, regular.RuneRange{Lo: lo, Hi: hi})
	}
	n.ranges = regular.Normal(n.ranges)
	if negated {
		n.ranges = regular.Complement(n.ranges)
	}
	return n
}

func (p *parser) rune() rune {
	var b strings.Builder
	at := p.at
	p.character(&b)
	r, size := utf8.DecodeRuneInString(b.String())
	if size != b.Len() || r == utf8.RuneError && size == 1 {
		p.fail(at, "it is no character")
	}
	return r
}

// character parses a character or an escape. \xHH is a character too, below U+0100.
func (p *parser) character(b *strings.Builder) {
	if p.text[p.at] != '\\' {
		_, size := utf8.DecodeRuneInString(p.text[p.at:])
		b.WriteString(p.text[p.at : p.at+size])
		p.at += size
		return
	}
	at := p.at
	p.at++
	c := p.peek()
	p.at++
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits > 0 {
		if p.at+digits > len(p.text) {
			p.fail(at, "expected %d digits", digits)
		}
		n, err := strconv.ParseUint(p.text[p.at:p.at+digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			p.fail(at, "%s is no character", p.text[at:p.at+digits])
		}
		b.WriteRune(rune(n))
		p.at += digits
		return
	}
	short := map[byte]byte{'n': '\n', 'r': '\r', 't': '\t'}[c]
	switch {
	case short != 0:
		b.WriteByte(short)
	case c != 0 && strings.IndexByte(`"\[]-^/`, c) >= 0:
		b.WriteByte(c)
	default:
		p.at = at
		p.fail(at, "the escape %.2s is not known", p.text[at:])
	}
}
