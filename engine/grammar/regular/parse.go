package regular

// Parsing patterns. What no implementation of ECMA-262 agrees on, or no regular expression can say,
// is an error: backreferences, lookbehind, word boundaries. As without the flag u, punctuation that
// needs no backslash may have one, and { } ] may stand for themselves.

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Limits of a pattern.
const (
	maxPatternBytes = 8 << 10
	maxNesting      = 50
	maxCount        = 1_000_000 // product of nested counts
)

const maxRune = unicode.MaxRune

type patternParser struct {
	text  string
	at    int
	depth int
}

func (p *patternParser) fail(at int, reason string) {
	panic(&PatternError{Pattern: p.text, Offset: at, Reason: reason})
}

// ParsePattern parses a pattern. The error is a *PatternError.
func ParsePattern(pattern string) (parsed Pattern, err error) {
	p := &patternParser{text: pattern}
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(*PatternError)
			if !ok {
				panic(r)
			}
			err = failed
		}
	}()
	if len(pattern) > maxPatternBytes {
		p.fail(0, "a pattern may have "+strconv.Itoa(maxPatternBytes)+" bytes at most")
	}
	if !utf8.ValidString(pattern) {
		p.fail(0, "it is not UTF-8")
	}
	root, _ := p.choice()
	if p.more() {
		p.fail(p.at, "unmatched )")
	}
	return Pattern{root}, nil
}

func (p *patternParser) more() bool { return p.at < len(p.text) }

func (p *patternParser) peek(s string) bool { return strings.HasPrefix(p.text[p.at:], s) }

func (p *patternParser) take(s string) bool {
	if p.peek(s) {
		p.at += len(s)
		return true
	}
	return false
}

func (p *patternParser) next() rune {
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += size
	return r
}

// choice parses alternatives up to a closing parenthesis or the end. count is the largest product
// of nested counts.
func (p *patternParser) choice() (out *part, count int) {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.at, "its groups are nested too deeply")
	}
	at := p.at
	first, count := p.sequence()
	kids := []*part{first}
	for p.take("|") {
		kid, n := p.sequence()
		kids, count = append(kids, kid), max(count, n)
	}
	p.depth--
	if len(kids) == 1 {
		return first, count
	}
	out = &part{kind: partChoice, kids: kids, at: at}
	for _, kid := range kids {
		out.looks = out.looks || kid.looks
		out.nullable = out.nullable || kid.nullable
	}
	return out, count
}

func (p *patternParser) sequence() (out *part, count int) {
	out = &part{kind: partSeq, nullable: true, at: p.at}
	count = 1
	for p.more() && !p.peek("|") && !p.peek(")") {
		kid, n := p.term()
		out.kids, count = append(out.kids, kid), max(count, n)
		out.looks = out.looks || kid.looks
		out.nullable = out.nullable && kid.nullable
	}
	return out, count
}

func (p *patternParser) term() (*part, int) {
	at := p.at
	kid, count := p.atom()
	kid.at = at
	low, high, ok := p.quantifier()
	if !ok {
		return kid, count
	}
	if kid.kind == partStart || kid.kind == partEnd || kid.kind == partLook {
		p.fail(at, "an assertion is repeated")
	}
	if count *= max(low, high, 1); count > maxCount {
		p.fail(at, "its counts are too large")
	}
	if _, _, again := p.quantifier(); again {
		p.fail(p.at, "a quantifier follows another")
	}
	return &part{kind: partRepeat, kids: []*part{kid}, min: low, max: high, looks: kid.looks,
		nullable: kid.nullable || low == 0, at: at}, count
}

// quantifier parses * + ? {n} {n,} {n,m}, lazy or not. Both match the same texts.
func (p *patternParser) quantifier() (low, high int, ok bool) {
	switch {
	case p.take("*"):
		low, high = 0, Unlimited
	case p.take("+"):
		low, high = 1, Unlimited
	case p.take("?"):
		low, high = 0, 1
	case p.peek("{"):
		if low, high, ok = p.counts(); !ok {
			return 0, 0, false
		}
	default:
		return 0, 0, false
	}
	p.take("?")
	return low, high, true
}

func (p *patternParser) counts() (low, high int, ok bool) {
	at := p.at
	length := strings.IndexByte(p.text[at:], '}')
	if length < 0 {
		return 0, 0, false
	}
	from, to, two := strings.Cut(p.text[at+1:at+length], ",")
	if !isDigits(from) || two && to != "" && !isDigits(to) {
		return 0, 0, false
	}
	low, err := strconv.Atoi(from)
	high = low
	if two {
		high = Unlimited
	}
	if to != "" && err == nil {
		high, err = strconv.Atoi(to)
	}
	if err != nil || max(low, high) > maxCount {
		p.fail(at, "a count is too large")
	}
	if high != Unlimited && high < low {
		p.fail(at, "the counts are not in order")
	}
	p.at += length + 1
	return low, high, true
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func (p *patternParser) atom() (*part, int) {
	at := p.at
	switch r := p.next(); r {
	case '^':
		return &part{kind: partStart, looks: true}, 1
	case '$':
		return &part{kind: partEnd, looks: true}, 1
	case '(':
		return p.group(at)
	case '[':
		return &part{kind: partSet, set: p.class(at)}, 1
	case '.':
		return &part{kind: partSet, set: Complement(lineEnds())}, 1
	case '*', '+', '?':
		p.fail(at, "nothing is before the quantifier")
	case '{':
		p.at = at
		if _, _, ok := p.counts(); ok {
			p.fail(at, "nothing is before the quantifier")
		}
		p.at = at + 1
		return &part{kind: partSet, set: single('{')}, 1
	case '\\':
		return &part{kind: partSet, set: p.escape(at, false)}, 1
	default:
		return &part{kind: partSet, set: single(r)}, 1
	}
	return nil, 0
}

func (p *patternParser) group(at int) (*part, int) {
	look, negative := false, false
	switch {
	case p.take("?:"):
	case p.take("?="):
		look = true
	case p.take("?!"):
		look, negative = true, true
	case p.peek("?<=") || p.peek("?<!"):
		p.fail(at, "lookbehind is not supported")
	case p.take("?<"):
		end := strings.IndexByte(p.text[p.at:], '>')
		if end <= 0 {
			p.fail(at, "the name of a group has no end")
		}
		p.at += end + 1
	case p.peek("?"):
		p.fail(at, "this kind of group is not supported")
	}
	kid, count := p.choice()
	if !p.take(")") {
		p.fail(at, "unmatched (")
	}
	if look {
		return &part{kind: partLook, kids: []*part{kid}, negative: negative, looks: true}, count
	}
	// A part of its own, whose offset is that of the parenthesis.
	return &part{kind: partSeq, kids: []*part{kid}, looks: kid.looks, nullable: kid.nullable}, count
}

func single(r rune) []RuneRange { return []RuneRange{{r, r}} }

func lineEnds() []RuneRange {
	return []RuneRange{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}
}

func wordSet() []RuneRange {
	return []RuneRange{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
}

// spaceSet is WhiteSpace and LineTerminator of ECMA-262.
func spaceSet() []RuneRange {
	return []RuneRange{{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A},
		{0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}}
}

// class parses a class after its [.
func (p *patternParser) class(at int) []RuneRange {
	negative := p.take("^")
	var out []RuneRange
	for {
		if !p.more() {
			p.fail(at, "unmatched [")
		}
		if p.take("]") {
			break
		}
		from := p.at
		low := p.classAtom()
		if !p.peek("-") || p.peek("-]") {
			out = append(out, low...)
			continue
		}
		p.at++
		if !p.more() {
			p.fail(at, "unmatched [")
		}
		high := p.classAtom()
		if !isSingle(low) || !isSingle(high) {
			out = append(append(append(out, low...), high...), single('-')...)
			continue
		}
		if high[0].Hi < low[0].Lo {
			p.fail(from, "a range of characters is not in order")
		}
		out = append(out, RuneRange{low[0].Lo, high[0].Hi})
	}
	out = Normal(out)
	if negative {
		return Complement(out)
	}
	return out
}

func isSingle(set []RuneRange) bool { return len(set) == 1 && set[0].Lo == set[0].Hi }

func (p *patternParser) classAtom() []RuneRange {
	at := p.at
	r := p.next()
	if r == '\\' {
		return p.escape(at, true)
	}
	return single(r)
}

// escape parses what follows a backslash, and returns the characters for which it stands.
func (p *patternParser) escape(at int, inClass bool) []RuneRange {
	if !p.more() {
		p.fail(at, "a backslash is at the end")
	}
	switch r := p.next(); r {
	case 'd':
		return []RuneRange{{'0', '9'}}
	case 'D':
		return Complement([]RuneRange{{'0', '9'}})
	case 'w':
		return wordSet()
	case 'W':
		return Complement(wordSet())
	case 's':
		return spaceSet()
	case 'S':
		return Complement(spaceSet())
	case 't':
		return single('\t')
	case 'n':
		return single('\n')
	case 'v':
		return single('\v')
	case 'f':
		return single('\f')
	case 'r':
		return single('\r')
	case 'b':
		if inClass {
			return single('\b')
		}
		p.fail(at, `\b (a word boundary) is not supported`)
	case 'B':
		p.fail(at, `\B (no word boundary) is not supported`)
	case 'p', 'P':
		return p.property(at, r == 'P')
	case 'c':
		if p.more() && isLetter(p.text[p.at]) {
			return single(p.next() % 32)
		}
		p.fail(at, `\c needs a letter`)
	case '0':
		if !p.more() || p.text[p.at] < '0' || p.text[p.at] > '9' {
			return single(0)
		}
		p.fail(at, "octal escapes are not supported")
	case 'x':
		return single(p.hex(at, 2))
	case 'u':
		return single(p.unicodeEscape(at))
	default:
		switch {
		case '1' <= r && r <= '9':
			p.fail(at, "backreferences are not supported")
		case r < utf8.RuneSelf && isLetter(byte(r)):
			p.fail(at, `\`+string(r)+" has no meaning")
		}
		return single(r)
	}
	return nil
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func (p *patternParser) hex(at, digits int) rune {
	if p.at+digits > len(p.text) {
		p.fail(at, "an escape is too short")
	}
	n, err := strconv.ParseUint(p.text[p.at:p.at+digits], 16, 32)
	if err != nil {
		p.fail(at, "an escape has a digit that is not hexadecimal")
	}
	p.at += digits
	return rune(n)
}

// unicodeEscape parses what follows \u: four digits, two such escapes for a character beyond
// U+FFFF, or digits in braces.
func (p *patternParser) unicodeEscape(at int) rune {
	if p.take("{") {
		end := strings.IndexByte(p.text[p.at:], '}')
		if end <= 0 || end > 6 {
			p.fail(at, "an escape in braces has 1 to 6 digits")
		}
		r := p.hex(at, end)
		p.at++
		if r > maxRune {
			p.fail(at, "an escape is no character")
		}
		return r
	}
	r := p.hex(at, 4)
	if 0xD800 <= r && r < 0xDC00 && p.peek(`\u`) {
		back := p.at
		p.at += 2
		if low := p.hex(at, 4); 0xDC00 <= low && low < 0xE000 {
			return 0x10000 + (r-0xD800)<<10 + (low - 0xDC00)
		}
		p.at = back
	}
	return r
}

// property parses what follows \p.
func (p *patternParser) property(at int, negative bool) []RuneRange {
	end := strings.IndexByte(p.text[p.at:], '}')
	if !p.take("{") || end < 0 {
		p.fail(at, `\p needs the name of a property in braces`)
	}
	name := p.text[p.at : p.at+end-1]
	p.at += end
	set, ok := namedSet(name)
	if !ok {
		p.fail(at, "the property "+strconv.Quote(name)+" is not known")
	}
	if negative {
		return Complement(set)
	}
	return set
}

// categoryNames are the long names of general categories in use.
var categoryNames = map[string]string{
	"Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
	"Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M",
	"Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N",
	"Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
	"Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd",
	"Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi",
	"Final_Punctuation": "Pf", "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm",
	"Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z",
	"Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
	"Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Private_Use": "Co",
}

// namedSets has the sets that namedSet has returned, by name. There are a few hundred.
var namedSets sync.Map

// namedSet returns the characters with a property, such as Letter, gc=L or Script=Greek.
func namedSet(name string) ([]RuneRange, bool) {
	if set, ok := namedSets.Load(name); ok {
		return slices.Clone(set.([]RuneRange)), true
	}
	set, ok := findSet(name)
	if ok {
		namedSets.Store(name, slices.Clone(set))
	}
	return set, ok
}

func findSet(name string) ([]RuneRange, bool) {
	property, value, two := strings.Cut(name, "=")
	if !two {
		value = name
	}
	if long, ok := categoryNames[value]; ok {
		value = long
	}
	category, script := !two, false
	switch property {
	case "General_Category", "gc":
		category = true
	case "Script", "sc":
		script = two
	}
	switch {
	case category && value == "LC":
		return union(unicode.Lu, unicode.Ll, unicode.Lt), true
	case category && unicode.Categories[value] != nil && value != "Cs" && value != "C" &&
		value != "Cn":
		return union(unicode.Categories[value]), true
	case script && unicode.Scripts[value] != nil:
		return union(unicode.Scripts[value]), true
	case two:
		return nil, false
	}
	switch name {
	case "Any":
		return []RuneRange{{0, maxRune}}, true
	case "ASCII":
		return []RuneRange{{0, 0x7F}}, true
	case "Alphabetic", "Alpha":
		return union(unicode.L, unicode.Nl, unicode.Other_Alphabetic), true
	case "Uppercase", "Upper":
		return union(unicode.Lu, unicode.Other_Uppercase), true
	case "Lowercase", "Lower":
		return union(unicode.Ll, unicode.Other_Lowercase), true
	case "White_Space", "space":
		return union(unicode.White_Space), true
	}
	if table := unicode.Properties[name]; table != nil && !strings.HasPrefix(name, "Other_") {
		return union(table), true
	}
	return nil, false
}

func union(tables ...*unicode.RangeTable) (out []RuneRange) {
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			out = append(out, RuneRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			out = append(out, RuneRange{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return Normal(out)
}
