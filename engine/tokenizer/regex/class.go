package regex

// Sets of characters: building them from names, ranges and set operations, and the compiled form
// that the matcher tests.

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// span is a range of characters; both ends belong to it.
type span struct{ lo, hi rune }

// set is a set of characters. Its spans are in ascending order, do not overlap and do not touch.
type set []span

// single returns the set of one character.
func single(r rune) set { return set{{r, r}} }

// normal sorts and joins spans in place.
func normal(spans []span) set {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
		} else {
			out = append(out, s)
		}
	}
	return out
}

func (s set) union(t set) set { return normal(slices.Concat(s, t)) }

func (s set) negate() set {
	var out set
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			out = append(out, span{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, span{next, unicode.MaxRune})
	}
	return out
}

func (s set) intersect(t set) set { return s.negate().union(t.negate()).negate() }

func (s set) has(r rune) bool {
	i, found := slices.BinarySearchFunc(s, r, func(s span, r rune) int {
		switch {
		case s.hi < r:
			return -1
		case s.lo > r:
			return 1
		}
		return 0
	})
	return found && i < len(s)
}

// folding lists the characters that have another case.
var folding = sync.OnceValue(func() (runes []rune) {
	for r := rune(0); r <= 0x1e943; r++ { // the last one is an Adlam letter
		if unicode.SimpleFold(r) != r {
			runes = append(runes, r)
		}
	}
	return runes
})

// fold adds the other cases of each character.
func (s set) fold() set {
	out := slices.Clone(s)
	for _, r := range folding() {
		if s.has(r) {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				out = append(out, span{f, f})
			}
		}
	}
	return normal(out)
}

// tables returns the union of Unicode tables.
func tables(ts ...*unicode.RangeTable) set {
	var spans []span
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			spans = append(spans, span{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			spans = append(spans, span{r, r})
		}
	}
	for _, t := range ts {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return normal(spans)
}

// category returns the characters whose general category begins with name, for example "L" or
// "Lu", with those that Go's tables lack.
func category(name string) set {
	s := tables(unicode.Categories[name])
	for _, a := range added {
		if strings.HasPrefix(a.category, name) {
			s = append(s, span{a.from, a.to})
		}
	}
	return normal(s)
}

var (
	digits  = sync.OnceValue(func() set { return category("Nd") })
	spaces  = sync.OnceValue(func() set { return tables(unicode.White_Space) })
	hex     = set{{'0', '9'}, {'A', 'F'}, {'a', 'f'}}
	anyRune = set{{0, unicode.MaxRune}}
	notLine = single('\n').negate()

	// wordSet has, as in Oniguruma, the numbers of Latin-1 but not the others of \p{No}. Within a
	// class, \w has none of them; it is classWordSet there.
	wordSet = sync.OnceValue(func() set {
		return classWordSet().union(set{{0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}})
	})
	classWordSet = sync.OnceValue(func() set {
		return slices.Concat(alphabetic(), category("M"), category("Nd"), category("Pc")).sorted()
	})
)

func (s set) sorted() set { return normal(s) }

func alphabetic() set {
	return slices.Concat(category("L"), category("Nl"), tables(unicode.Other_Alphabetic),
		addedAlphabetic).sorted()
}

// named returns the set of a name in \p{name}. As in Unicode, case, spaces, hyphens and underscores
// do not matter.
func named(name string) (set, bool) {
	name = plainName(name)
	if s, ok := posix(name); ok {
		return s, true
	}
	if s, ok := derived(name); ok {
		return s, true
	}
	if short, ok := longNames[name]; ok {
		name = short
	}
	for key := range unicode.Categories {
		if strings.EqualFold(key, name) && key != "LC" && key != "Cn" {
			return category(key), true
		}
	}
	for _, list := range []map[string]*unicode.RangeTable{unicode.Scripts, unicode.Properties} {
		for key, table := range list {
			if plainName(key) == name {
				return tables(table), true
			}
		}
	}
	return nil, false
}

var namePunctuation = strings.NewReplacer(" ", "", "_", "", "-", "")

func plainName(name string) string { return strings.ToLower(namePunctuation.Replace(name)) }

// derived returns the sets that Unicode defines through others.
func derived(name string) (set, bool) {
	switch name {
	case "any":
		return anyRune, true
	case "assigned":
		return unassigned().negate(), true
	case "cn", "unassigned":
		return unassigned(), true
	case "c", "other":
		return slices.Concat(category("Cc"), category("Cf"), category("Co"), category("Cs"),
			unassigned()).sorted(), true
	case "alphabetic":
		return alphabetic(), true
	case "lc", "casedletter":
		return slices.Concat(category("Lu"), category("Ll"), category("Lt")).sorted(), true
	case "lowercase":
		return category("Ll").union(tables(unicode.Other_Lowercase)), true
	case "uppercase":
		return category("Lu").union(tables(unicode.Other_Uppercase)), true
	}
	return nil, false
}

func unassigned() set {
	var s set
	for _, name := range []string{"L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co", "Cs"} {
		s = append(s, category(name)...)
	}
	return s.sorted().negate()
}

// posix returns the set of a POSIX bracket such as [:alpha:]; \p accepts these names too.
func posix(name string) (set, bool) {
	switch name {
	case "alnum":
		return alphabetic().union(digits()), true
	case "alpha":
		return alphabetic(), true
	case "ascii":
		return set{{0, 0x7f}}, true
	case "blank":
		return category("Zs").union(single('\t')), true
	case "cntrl":
		return category("Cc"), true
	case "digit":
		return digits(), true
	case "graph", "print":
		hidden := slices.Concat(spaces(), category("Cc"), category("Cs"), unassigned()).sorted()
		if name == "print" {
			hidden = hidden.intersect(category("Zs").negate())
		}
		return hidden.negate(), true
	case "lower":
		return derived("lowercase")
	case "punct":
		return category("P"), true
	case "space":
		return spaces(), true
	case "upper":
		return derived("uppercase")
	case "xdigit":
		return hex, true
	case "word":
		return classWordSet(), true
	}
	return nil, false
}

// longNames maps the long names of general categories to the short ones.
var longNames = map[string]string{
	"letter": "L", "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt",
	"modifierletter": "Lm", "otherletter": "Lo", "mark": "M", "combiningmark": "M",
	"nonspacingmark": "Mn", "spacingmark": "Mc", "enclosingmark": "Me", "number": "N",
	"decimalnumber": "Nd", "letternumber": "Nl", "othernumber": "No", "punctuation": "P",
	"connectorpunctuation": "Pc", "dashpunctuation": "Pd", "openpunctuation": "Ps",
	"closepunctuation": "Pe", "initialpunctuation": "Pi", "finalpunctuation": "Pf",
	"otherpunctuation": "Po", "symbol": "S", "mathsymbol": "Sm", "currencysymbol": "Sc",
	"modifiersymbol": "Sk", "othersymbol": "So", "separator": "Z", "spaceseparator": "Zs",
	"lineseparator": "Zl", "paragraphseparator": "Zp", "control": "Cc", "format": "Cf",
	"surrogate": "Cs", "privateuse": "Co",
}

// class is a compiled set. ASCII is a bitmap, and so is the basic plane if the set has many ranges.
type class struct {
	ascii [2]uint64
	wide  set           // the other characters
	basic *[1024]uint64 // below U+10000; nil: search wide
}

// fewRanges is the number of ranges that are searched without a bitmap.
const fewRanges = 4

func newClass(s set) *class {
	c := &class{}
	for r := range rune(utf8.RuneSelf) {
		if s.has(r) {
			c.ascii[r>>6] |= 1 << (r & 63)
		}
	}
	c.wide = s.intersect(set{{utf8.RuneSelf, unicode.MaxRune}})
	if len(c.wide) <= fewRanges {
		return c
	}
	c.basic = new([1024]uint64)
	for _, s := range c.wide {
		for r := s.lo; r <= min(s.hi, 0xffff); r++ {
			c.basic[r>>6] |= 1 << (r & 63)
		}
	}
	return c
}

// hasASCII reports whether the class has an ASCII character.
func (c *class) hasASCII(b byte) bool { return c.ascii[b>>6]>>(b&63)&1 != 0 }

func (c *class) hasWide(r rune) bool {
	if c.basic != nil && r <= 0xffff {
		return c.basic[r>>6]>>(r&63)&1 != 0
	}
	if len(c.wide) <= fewRanges {
		for _, s := range c.wide {
			if r <= s.hi {
				return r >= s.lo
			}
		}
		return false
	}
	return c.wide.has(r)
}

// width returns the length of the character at text[i:] if the class has it, and otherwise 0.
func (c *class) width(text string, i int) int {
	if i >= len(text) {
		return 0
	}
	if b := text[i]; b < utf8.RuneSelf {
		return int(c.ascii[b>>6] >> (b & 63) & 1)
	}
	r, size := utf8.DecodeRuneInString(text[i:])
	if c.hasWide(r) {
		return size
	}
	return 0
}

// widthBefore is width for the character that ends at i.
func (c *class) widthBefore(text string, i int) int {
	if i == 0 {
		return 0
	}
	if b := text[i-1]; b < utf8.RuneSelf {
		return int(c.ascii[b>>6] >> (b & 63) & 1)
	}
	r, size := utf8.DecodeLastRuneInString(text[:i])
	if c.hasWide(r) {
		return size
	}
	return 0
}
