package regex

// Compiling the tree to instructions. The compiler works backwards: it knows what comes next.
//
// Instructions that can be reached in several ways at one position have a bit in the memo (the
// field mark), so that nothing is matched twice. A repetition of one character is one instruction.

import (
	"fmt"
	"math"
	"unicode/utf8"
)

type code uint8

const (
	codeMatch  code = iota
	codeByte        // the ASCII character b
	codeRune        // the character r
	codeClass       // a character of class
	codeLoop        // up to max characters of class, as many as possible
	codeAlt         // the targets in order
	codeAssert      // an assertion about the position
	codeNext        // lookahead for one character of class
	codePrev        // lookbehind for one character of class
	codeLook        // lookaround number look
	codeMark        // nothing; it has a mark
)

type instruction struct {
	code       code
	b          byte
	assert     assertion
	negative   bool // codeNext, codePrev, codeLook
	possessive bool // codeLoop
	r          rune
	class      *class
	max        int32 // codeLoop; unlimited: no maximum
	next       int32
	mark       int32 // number of the bit in the memo; -1: none
	look       int32
	exit       int32    // codeAlt: where to go if it has a mark already; -1: nowhere, fail
	targets    []int32  // codeAlt: at most 64
	filter     *filters // codeAlt
}

const (
	unlimited  = math.MaxInt32
	maxTargets = 64
)

// filters has for each first byte the targets of an alternation that it may begin, as bits.
type filters struct {
	ascii [utf8.RuneSelf]uint64
	wide  uint64 // for all other characters
	end   uint64 // for the end of the text
}

// at returns the targets that may match text[i:].
func (f *filters) at(text string, i int) uint64 {
	switch {
	case i >= len(text):
		return f.end
	case text[i] < utf8.RuneSelf:
		return f.ascii[text[i]]
	}
	return f.wide
}

// Regexp is a compiled expression. It is immutable and safe for concurrent use; each search needs
// a Matcher.
type Regexp struct {
	code  []instruction
	start int32
	marks int // bits in the memo for each position
	looks []lookaround
	cost  int
}

// Cost returns how many steps a search may take for each character, at most MaxCost.
func (re *Regexp) Cost() int { return re.cost }

// Compile compiles an expression. Its errors name the part that is not valid or not supported, or
// the limit that is exceeded.
func Compile(pattern string) (re *Regexp, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *syntaxError:
			err = fmt.Errorf("regular expression %.200q: %w", pattern, e)
		default:
			panic(e)
		}
	}()
	if len(pattern) > maxPatternBytes {
		return nil, fmt.Errorf("a regular expression has %d bytes, the limit is %d", len(pattern),
			maxPatternBytes)
	}
	if !utf8.ValidString(pattern) {
		return nil, fmt.Errorf("regular expression %.200q is not valid UTF-8", pattern)
	}
	p := &parser{text: pattern}
	tree := p.alternation()
	if p.more() {
		fail("a closing parenthesis has no opening one")
	}
	c := &compiler{re: &Regexp{}, classes: map[string]*class{}, cost: new(int)}
	c.re.start = c.compile(tree, c.add(instruction{code: codeMatch}))
	c.finish()
	c.re.cost = *c.cost
	return c.re, nil
}

type compiler struct {
	re      *Regexp
	classes map[string]*class
	cost    *int // of the whole expression, lookarounds included
	calls   int
	nfa     bool // compile a lookaround, for the set of threads in look.go
	reverse bool // for a text that is read backwards
}

// add adds an instruction and its cost: what a search may do with it at each character. That is a
// step for the instruction, one for each target, and one for each repetition in a loop that has a
// maximum. Without a maximum, failing at one character fails at all of them; see Matcher.loop.
func (c *compiler) add(in instruction) int32 {
	*c.cost += 1 + len(in.targets)
	if in.code == codeLoop && in.max != unlimited {
		*c.cost += int(in.max)
	}
	if *c.cost > MaxCost {
		fail("it takes more than %d steps for each character: its repetitions are too large",
			MaxCost)
	}
	in.mark, in.exit = -1, -1
	c.re.code = append(c.re.code, in)
	return int32(len(c.re.code) - 1)
}

func (c *compiler) marked(in instruction) int32 {
	at := c.add(in)
	if !c.nfa {
		c.re.code[at].mark = int32(c.re.marks)
		c.re.marks++
	}
	return at
}

// class returns the compiled class of s. Equal sets share one.
func (c *compiler) class(s set) *class {
	var spelled []byte
	for _, r := range s {
		spelled = utf8.AppendRune(utf8.AppendRune(spelled, r.lo), r.hi)
	}
	key := string(spelled)
	if known := c.classes[key]; known != nil {
		return known
	}
	if len(c.classes) >= maxClasses {
		fail("it has more than %d different classes", maxClasses)
	}
	c.classes[key] = newClass(s)
	return c.classes[key]
}

// join returns next, or a mark before it, so that what follows is matched once for each position.
func (c *compiler) join(next int32) int32 {
	in := &c.re.code[next]
	if c.nfa || in.mark >= 0 || in.code == codeMatch {
		return next
	}
	return c.marked(instruction{code: codeMark, next: next})
}

// compile adds the instructions of n, which continue at next, and returns the first of them.
func (c *compiler) compile(n *node, next int32) int32 {
	if c.calls++; c.calls > 10*MaxCost { // (?:){1000} has no instructions
		fail("its repetitions are too large")
	}
	switch n.op {
	case opSet:
		return c.character(n.set, next)
	case opConcat:
		for i := range n.kids {
			kid := n.kids[len(n.kids)-1-i]
			if c.reverse {
				kid = n.kids[i]
			}
			next = c.compile(kid, next)
		}
	case opAlternate:
		next = c.join(next)
		targets := make([]int32, len(n.kids))
		for i, kid := range n.kids {
			targets[i] = c.compile(kid, next)
		}
		return c.alternation(targets)
	case opRepeat:
		return c.repeat(n, next)
	case opAssert:
		return c.add(instruction{code: codeAssert, assert: n.assert, next: next})
	case opLook:
		return c.lookaround(n, next)
	}
	return next
}

func (c *compiler) character(s set, next int32) int32 {
	if len(s) == 1 && s[0].lo == s[0].hi {
		if r := s[0].lo; r < utf8.RuneSelf {
			return c.add(instruction{code: codeByte, b: byte(r), r: r, next: next})
		}
		return c.add(instruction{code: codeRune, r: s[0].lo, next: next})
	}
	return c.add(instruction{code: codeClass, class: c.class(s), next: next})
}

// alternation adds an alternation of the targets, as a tree if there are many.
func (c *compiler) alternation(targets []int32) int32 {
	for len(targets) > maxTargets {
		var groups []int32
		for from := 0; from < len(targets); from += maxTargets {
			part := targets[from:min(from+maxTargets, len(targets))]
			groups = append(groups, c.marked(instruction{code: codeAlt, targets: part}))
		}
		targets = groups
	}
	return c.marked(instruction{code: codeAlt, targets: targets})
}

func (c *compiler) repeat(n *node, next int32) int32 {
	kid := n.kids[0]
	simple := kid.op == opSet && !c.nfa
	switch {
	case n.possessive && (kid.op != opSet || n.min > 1 || n.max > 1):
		fail("possessive repetition is supported only for one character or class")
	case n.possessive && c.nfa:
		fail("possessive repetition inside a lookaround is not supported")
	case simple && !n.lazy:
		next = c.loop(n, next)
	case n.max < 0:
		next = c.star(n, next)
	default:
		next = c.join(next)
		out := next
		for range n.max - n.min { // (kid(kid(kid)?)?)?
			next = c.choice(c.compile(kid, next), out, n.lazy)
		}
	}
	for range n.min {
		next = c.compile(kid, next)
	}
	return next
}

// loop adds a repetition of one character, without the minimum.
func (c *compiler) loop(n *node, next int32) int32 {
	most := n.max - n.min
	if n.max < 0 {
		most = unlimited
	}
	if most == 0 {
		return next
	}
	if most > 1 && most != unlimited {
		next = c.join(next)
	}
	in := instruction{code: codeLoop, class: c.class(n.kids[0].set), max: int32(most), next: next,
		possessive: n.possessive}
	if c.re.code[next].code == codeMatch {
		in.possessive = true // what follows always matches
		return c.add(in)
	}
	return c.marked(in)
}

// star adds a repetition without a maximum and without the minimum. If the repeated part matches
// nothing, the loop ends there: it is back at its start, which has a mark, and goes on to next.
func (c *compiler) star(n *node, next int32) int32 {
	next = c.join(next)
	again := c.choice(0, next, n.lazy) // the target for the repeated part is set below
	body := c.compile(n.kids[0], again)
	loop := &c.re.code[again]
	loop.exit = next
	if n.lazy {
		loop.targets[1] = body
	} else {
		loop.targets[0] = body
	}
	return again
}

// choice adds an alternation of body and out.
func (c *compiler) choice(body, out int32, lazy bool) int32 {
	if lazy {
		body, out = out, body
	}
	return c.marked(instruction{code: codeAlt, targets: []int32{body, out}})
}

func (c *compiler) lookaround(n *node, next int32) int32 {
	if s, ok := oneCharacter(n.kids[0]); ok {
		in := instruction{code: codeNext, class: c.class(s), negative: n.negative, next: next}
		if n.behind {
			in.code = codePrev
		}
		return c.add(in)
	}
	inner := &compiler{re: &Regexp{looks: c.re.looks}, classes: c.classes, cost: c.cost, nfa: true,
		reverse: !n.behind}
	inner.re.start = inner.compile(n.kids[0], inner.add(instruction{code: codeMatch}))
	c.re.looks = append(inner.re.looks, lookaround{code: inner.re.code, start: inner.re.start,
		behind: n.behind})
	if len(c.re.looks) > maxLookarounds {
		fail("it has more than %d lookarounds of several characters", maxLookarounds)
	}
	return c.add(instruction{code: codeLook, look: int32(len(c.re.looks) - 1),
		negative: n.negative, next: next})
}

// oneCharacter returns the set of a tree that matches exactly one character.
func oneCharacter(n *node) (set, bool) {
	switch n.op {
	case opSet:
		return n.set, true
	case opConcat:
		if len(n.kids) == 1 {
			return oneCharacter(n.kids[0])
		}
	case opAlternate:
		var all set
		for _, kid := range n.kids {
			s, ok := oneCharacter(kid)
			if !ok {
				return nil, false
			}
			all = append(all, s...)
		}
		return normal(all), true
	}
	return nil, false
}

// finish computes the filters. The first alternation is reached once for each start of a match, so
// it needs no mark.
func (c *compiler) finish() {
	first := &c.re.code[c.re.start]
	if first.code != codeAlt {
		c.re.start = c.add(instruction{code: codeAlt, targets: []int32{c.re.start}})
	} else if !c.isTarget(c.re.start) {
		first.mark = -1
	}
	for i := range c.re.code {
		in := &c.re.code[i]
		if in.code != codeAlt {
			continue
		}
		in.filter = &filters{}
		for bit, target := range in.targets {
			f := firstSet{budget: maxFirstSteps}
			f.visit(c.re.code, target)
			f.apply(in.filter, uint(bit))
		}
	}
}

// isTarget reports whether an instruction continues at at.
func (c *compiler) isTarget(at int32) bool {
	for i := range c.re.code {
		in := &c.re.code[i]
		if in.code != codeMatch && in.code != codeAlt && in.next == at {
			return true
		}
		for _, target := range in.targets {
			if target == at {
				return true
			}
		}
	}
	return false
}

// maxFirstSteps bounds the search for first characters. Beyond it, every character may be one.
const maxFirstSteps = 200

// firstSet collects the first characters of what an instruction matches.
type firstSet struct {
	ascii     [2]uint64
	wide, end bool
	budget    int
}

func (f *firstSet) all() {
	f.ascii, f.wide, f.end = [2]uint64{math.MaxUint64, math.MaxUint64}, true, true
}

func (f *firstSet) visit(code []instruction, at int32) {
	if f.budget--; f.budget < 0 {
		f.all()
		return
	}
	switch in := &code[at]; in.code {
	case codeMatch:
		f.all()
	case codeByte:
		f.ascii[in.b>>6] |= 1 << (in.b & 63)
	case codeRune:
		f.wide = true
	case codeClass:
		f.class(in.class)
	case codeLoop:
		f.class(in.class)
		f.visit(code, in.next)
	case codeAlt:
		for _, target := range in.targets {
			f.visit(code, target)
		}
	default: // an assertion only restricts what follows
		f.visit(code, in.next)
	}
}

func (f *firstSet) class(c *class) {
	f.ascii[0] |= c.ascii[0]
	f.ascii[1] |= c.ascii[1]
	f.wide = f.wide || len(c.wide) > 0
}

func (f *firstSet) apply(to *filters, bit uint) {
	for b := range to.ascii {
		to.ascii[b] |= f.ascii[b>>6] >> (b & 63) & 1 << bit
	}
	if f.wide {
		to.wide |= 1 << bit
	}
	if f.end {
		to.end |= 1 << bit
	}
}
