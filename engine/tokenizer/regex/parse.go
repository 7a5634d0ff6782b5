package regex

// Parsing an expression to a tree, in the syntax of Oniguruma.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type op uint8

const (
	opEmpty     op = iota
	opSet          // one character of set
	opConcat       // kids in order
	opAlternate    // one of kids, the first that leads to a match
	opRepeat       // kids[0], min to max times
	opAssert       // assertion about a position
	opLook         // lookahead or lookbehind for kids[0]
)

type node struct {
	op         op
	set        set
	kids       []*node
	min, max   int // max -1: no maximum
	lazy       bool
	possessive bool
	assert     assertion
	negative   bool // opLook
	behind     bool // opLook
}

// assertion is an assertion about a position that the characters beside it decide.
type assertion uint8

const (
	lineStart      assertion = iota // ^
	lineEnd                         // $
	textStart                       // \A
	textEnd                         // \z
	lastLineEnd                     // \Z: the end, or a line break at the end
	wordBoundary                    // \b
	noWordBoundary                  // \B
)

type options struct{ ignoreCase, dotAll, extended bool }

type parser struct {
	text    string
	at      int
	depth   int
	options options
}

// syntaxError is a panic of the parser and the compiler, which Compile returns.
type syntaxError struct{ message string }

func (e *syntaxError) Error() string { return e.message }

func fail(format string, args ...any) { panic(&syntaxError{fmt.Sprintf(format, args...)}) }

func (p *parser) more() bool { return p.at < len(p.text) }

func (p *parser) peek(s string) bool { return strings.HasPrefix(p.text[p.at:], s) }

func (p *parser) take(s string) bool {
	if p.peek(s) {
		p.at += len(s)
		return true
	}
	return false
}

// next consumes a character.
func (p *parser) next() rune {
	if !p.more() {
		fail("the expression ends too early")
	}
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += size
	return r
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		fail("groups are nested deeper than %d", maxNesting)
	}
}

// alternation parses a|b|c up to a closing parenthesis or the end.
func (p *parser) alternation() *node {
	p.enter()
	defer func(o options) { p.depth--; p.options = o }(p.options)
	kids := []*node{p.concatenation()}
	for p.take("|") {
		kids = append(kids, p.concatenation())
	}
	if len(kids) == 1 {
		return kids[0]
	}
	return &node{op: opAlternate, kids: kids}
}

func (p *parser) concatenation() *node {
	n := &node{op: opConcat}
	for p.more() && !p.peek("|") && !p.peek(")") {
		if p.options.extended && p.comment() {
			continue
		}
		n.kids = append(n.kids, p.quantified(p.atom()))
	}
	return n
}

// comment skips white space or a comment in extended mode.
func (p *parser) comment() bool {
	if p.take("#") {
		for p.more() && p.next() != '\n' {
		}
		return true
	}
	if strings.IndexByte(" \t\n\v\f\r", p.text[p.at]) >= 0 {
		p.at++
		return true
	}
	return false
}

// quantified parses the quantifiers after an atom.
func (p *parser) quantified(n *node) *node {
	for {
		q := &node{op: opRepeat, kids: []*node{n}, max: -1}
		counted := false
		switch {
		case p.take("*"):
		case p.take("+"):
			q.min = 1
		case p.take("?"):
			q.max = 1
		case p.peek("{"):
			if q.min, q.max, counted = p.interval(); !counted {
				return n
			}
		default:
			return n
		}
		if n.op == opAssert || n.op == opLook {
			fail("a quantifier follows an assertion, which has no length")
		}
		if p.take("?") {
			q.lazy = true
		} else if !counted && p.take("+") { // {1,3}+ repeats the interval, as in Oniguruma
			q.possessive = true
		}
		p.enter() // a**** nests too
		defer func() { p.depth-- }()
		n = q
	}
}

// interval parses {n}, {n,}, {,m} or {n,m}. If the text is something else, it is literal: ok is
// false and nothing is consumed.
func (p *parser) interval() (low, high int, ok bool) {
	start := p.at
	p.at++
	first := p.digits()
	second, comma := first, p.take(",")
	if comma {
		second = p.digits()
	}
	if !p.take("}") || first == "" && second == "" {
		p.at = start
		return 0, 0, false
	}
	low, high = p.count(first, 0), p.count(second, -1)
	if high >= 0 && low > high {
		fail("the interval {%s,%s} has its maximum first", first, second)
	}
	return low, high, true
}

func (p *parser) digits() string {
	start := p.at
	for p.more() && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *parser) count(digits string, missing int) int {
	if digits == "" {
		return missing
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxRepeat {
		fail("a repetition of %.20s is above the limit of %d", digits, maxRepeat)
	}
	return n
}

// atom parses what a quantifier applies to.
func (p *parser) atom() *node {
	switch start := p.at; p.next() {
	case '(':
		return p.group()
	case '[':
		return &node{op: opSet, set: p.class()}
	case '.':
		if p.options.dotAll {
			return &node{op: opSet, set: anyRune}
		}
		return &node{op: opSet, set: notLine}
	case '^':
		return &node{op: opAssert, assert: lineStart}
	case '$':
		return &node{op: opAssert, assert: lineEnd}
	case '\\':
		return p.escape()
	case '*', '+', '?':
		fail("the quantifier %q follows nothing", p.text[start:p.at])
		return nil
	default:
		r, _ := utf8.DecodeRuneInString(p.text[start:])
		return p.literal(r)
	}
}

func (p *parser) literal(r rune) *node { return &node{op: opSet, set: p.folded(single(r))} }

func (p *parser) folded(s set) set {
	if p.options.ignoreCase {
		return s.fold()
	}
	return s
}

// group parses what follows an opening parenthesis.
func (p *parser) group() *node {
	var n *node
	look := func(behind, negative bool) *node {
		return &node{op: opLook, behind: behind, negative: negative,
			kids: []*node{p.alternation()}}
	}
	switch {
	case !p.take("?"):
		n = p.alternation()
	case p.take("#"):
		for p.next() != ')' {
		}
		return &node{op: opEmpty}
	case p.take(":"):
		n = p.alternation()
	case p.take("="):
		n = look(false, false)
	case p.take("!"):
		n = look(false, true)
	case p.take("<="):
		n = look(true, false)
	case p.take("<!"):
		n = look(true, true)
	case p.take(">"):
		fail("atomic groups (?>…) are not supported")
	case p.take("~"):
		fail("absent expressions (?~…) are not supported")
	case p.take("("):
		fail("conditional groups (?(…)…) are not supported")
	case p.take("<"), p.take("'"):
		for r := p.next(); r != '>' && r != '\''; r = p.next() {
			if r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) {
				fail("the name of a group has the character %q", r)
			}
		}
		n = p.alternation()
	default:
		return p.optionGroup()
	}
	if !p.take(")") {
		fail("a group is not closed")
	}
	return n
}

// optionGroup parses i-m) or i-m:…). Without a colon, the options hold to the end of the group
// around, alternatives included: a(?i)b|c is a(?i:b|c).
func (p *parser) optionGroup() *node {
	outer, on := p.options, true
	for {
		switch r := p.next(); r {
		case '-':
			on = false
		case 'i':
			p.options.ignoreCase = on
		case 'm':
			p.options.dotAll = on
		case 'x':
			p.options.extended = on
		case ':':
			n := p.alternation()
			p.options = outer
			if !p.take(")") {
				fail("a group is not closed")
			}
			return n
		case ')':
			n := p.alternation()
			p.options = outer
			return n
		default:
			fail("the group option %q is not supported", r)
		}
	}
}

// escape parses what follows a backslash outside a class.
func (p *parser) escape() *node {
	start := p.at
	switch p.next() {
	case 'A':
		return &node{op: opAssert, assert: textStart}
	case 'z':
		return &node{op: opAssert, assert: textEnd}
	case 'Z':
		return &node{op: opAssert, assert: lastLineEnd}
	case 'b':
		return &node{op: opAssert, assert: wordBoundary}
	case 'B':
		return &node{op: opAssert, assert: noWordBoundary}
	case 'N':
		return &node{op: opSet, set: notLine}
	case 'O':
		return &node{op: opSet, set: anyRune}
	case 'k', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		fail("backreferences such as \\%c are not supported", p.text[start])
	case 'G', 'K', 'R', 'X', 'y', 'Y', 'g', 'Q':
		fail("\\%c is not supported", p.text[start])
	}
	p.at = start
	if s, ok := p.classEscape(wordSet()); ok {
		return &node{op: opSet, set: s} // never folded: (?i)\p{Lu} does not match a
	}
	return p.literal(p.characterEscape())
}

// classEscape parses \d, \p{…} and other escapes that stand for a class, and consumes nothing else.
// words is what \w stands for.
func (p *parser) classEscape(words set) (s set, ok bool) {
	start := p.at
	r := p.next()
	switch r {
	case 'd', 'D':
		s = digits()
	case 's', 'S':
		s = spaces()
	case 'w', 'W':
		s = words
	case 'h', 'H':
		s = hex
	case 'p', 'P':
		return p.property(r == 'P', words), true
	default:
		p.at = start
		return nil, false
	}
	if unicode.IsUpper(r) {
		s = s.negate()
	}
	return s, true
}

// property parses {name} or {^name} after \p.
func (p *parser) property(negative bool, words set) set {
	end := strings.IndexByte(p.text[p.at:], '}')
	if !p.take("{") || end < 0 {
		fail("\\p must be followed by a name in braces")
	}
	if p.take("^") {
		negative = !negative
		end--
	}
	name := p.text[p.at : p.at+end-1]
	p.at += end
	s, ok := named(name)
	if strings.EqualFold(name, "word") {
		s = words
	}
	if !ok {
		fail("the property \\p{%.40s} is not supported", name)
	}
	if negative {
		return s.negate()
	}
	return s
}

// characterEscape parses an escape that stands for one character.
func (p *parser) characterEscape() rune {
	switch r := p.next(); r {
	case 'a':
		return '\a'
	case 'e':
		return '\x1b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'v':
		return '\v'
	case 'x':
		if p.take("{") {
			return p.code(1, 8, 16, true)
		}
		return p.code(1, 2, 16, false)
	case 'u':
		return p.code(4, 4, 16, false)
	case '0':
		p.at--
		return p.code(1, 3, 8, false)
	case 'c', 'C', 'M', 'o':
		fail("\\%c is not supported", r)
		return 0
	default:
		return r
	}
}

// code parses the number of a character, low to high digits long.
func (p *parser) code(low, high, base int, braced bool) rune {
	start := p.at
	for p.at-start < high && p.more() {
		if _, err := strconv.ParseUint(p.text[p.at:p.at+1], base, 8); err != nil {
			break
		}
		p.at++
	}
	digits := p.text[start:p.at]
	n, err := strconv.ParseUint(digits, base, 32)
	if len(digits) < low || err != nil || n > unicode.MaxRune || braced && !p.take("}") {
		fail("the code %.10q is not a character", digits)
	}
	return rune(n)
}

// class parses a class up to its closing bracket: a union, or an intersection of unions.
func (p *parser) class() set {
	p.enter()
	defer func() { p.depth-- }()
	negative := p.take("^")
	var whole, part set
	intersected, first := false, true
	seen := map[string]bool{} // escapes whose set is in part, so that a repetition costs nothing
	for ; ; first = false {
		switch {
		case !p.more():
			fail("a class is not closed")
		case p.take("]"):
			if !first {
				part = p.folded(normal(part))
				if intersected {
					part = whole.intersect(part)
				}
				if negative {
					part = part.negate()
				}
				return part
			}
			part = append(part, p.classRange(']')...)
		case p.take("&&"):
			part = p.folded(normal(part))
			if intersected {
				part = whole.intersect(part)
			}
			whole, part, intersected = part, nil, true
			clear(seen)
		case p.peek("[:"):
			if s, ok := p.bracket(); ok {
				part = append(part, s...)
				continue
			}
			fail("%.20q is not a POSIX bracket", p.text[p.at:])
		case p.take("["):
			part = append(part, p.class()...)
		default:
			start := p.at
			s := p.classItem()
			if item := p.text[start:p.at]; len(s) == 1 || !seen[item] {
				seen[item] = true
				part = append(part, s...)
			}
		}
	}
}

// classItem parses an escape, a character or a range.
func (p *parser) classItem() set {
	if !p.take("\\") {
		return p.classRange(p.next())
	}
	s, ok := p.classEscape(classWordSet())
	if !ok {
		if p.take("b") {
			return p.classRange('\b')
		}
		return p.classRange(p.characterEscape())
	}
	if p.peek("-") && !p.peek("-]") {
		fail("a class has a range that begins with an escape such as \\w")
	}
	return s
}

// classRange parses the rest of a range that begins with lo, if it is one.
func (p *parser) classRange(lo rune) set {
	if !p.peek("-") || p.peek("-]") || p.peek("-&&") || p.peek("-[") {
		return single(lo)
	}
	p.at++
	hi := p.next()
	if hi == '\\' {
		if p.more() && strings.IndexByte("dDsSwWhHpP", p.text[p.at]) >= 0 {
			fail("a class has a range that ends with an escape such as \\w")
		}
		if p.take("b") {
			hi = '\b'
		} else {
			hi = p.characterEscape()
		}
	}
	if hi < lo {
		fail("the range %q-%q in a class is empty", lo, hi)
	}
	return set{{lo, hi}}
}

// bracket parses [:name:] or [:^name:].
func (p *parser) bracket() (set, bool) {
	name, _, ok := strings.Cut(p.text[p.at+2:], ":]")
	if !ok || len(name) > 10 {
		return nil, false
	}
	plain, negative := strings.CutPrefix(name, "^")
	s, ok := posix(plain)
	if !ok {
		return nil, false
	}
	if plain == "punct" { // unlike \p{Punct}, it has the symbols of ASCII
		s = s.union(set{{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'}, {'`', '`'}, {'|', '|'},
			{'~', '~'}})
	}
	p.at += len("[:") + len(name) + len(":]")
	if negative {
		s = s.negate()
	}
	return slices.Clone(s), true
}
