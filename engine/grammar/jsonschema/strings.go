package jsonschema

// Strings. Each character has one spelling in the grammar, so an expression over spellings is one
// over characters, and complements are exact.

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"headroom/engine/grammar/regular"
)

// texts has one way to write strings, or several, if the notation has several quotation marks. An
// expression has the strings in all ways, with their quotation marks if there are several.
type texts struct {
	ways     []*way
	*way     // the one that is being built
	anyText  regular.Expr
	patterns map[string]regular.Expr
}

func newTexts(s *regular.Space, n *Notation) texts {
	t := texts{patterns: map[string]regular.Expr{}}
	for _, quote := range n.Quotes {
		t.ways = append(t.ways, newWay(s, n, quote))
	}
	t.way = t.ways[0]
	t.anyText = t.inAllWays(s, func() regular.Expr {
		return s.Repeat(t.anyCharacter, 0, regular.Unlimited)
	})
	return t
}

// inAllWays returns the strings of an expression that build returns for one way.
func (t *texts) inAllWays(s *regular.Space, build func() regular.Expr) regular.Expr {
	if len(t.ways) == 1 {
		return build()
	}
	defer func(before *way) { t.way = before }(t.way)
	var all []regular.Expr
	for _, t.way = range t.ways {
		quote := s.Text(t.quote)
		all = append(all, s.Concat(quote, build(), quote))
	}
	return s.Or(all...)
}

// spelled returns the text of a string in one of the ways, as expressions have it.
func (t *texts) spelled(s string) string { return t.quote + t.content(s) + t.quote }

// bothTexts returns the strings of both sets. All sets are within anyText, which is left out: an
// expression without an intersection is matched faster.
func (c *compiler) bothTexts(a, b regular.Expr) regular.Expr {
	switch {
	case a == c.anyText:
		return b
	case b == c.anyText:
		return a
	}
	return c.space.And(a, b)
}

// otherTexts returns the strings of a that are not in b.
func (c *compiler) otherTexts(a, b regular.Expr) regular.Expr {
	switch b {
	case regular.None:
		return a
	case c.anyText:
		return regular.None
	}
	return c.space.And(a, c.space.Not(b))
}

// stringKeywords returns the strings that the keywords of a schema allow.
func (c *compiler) stringKeywords(v *value) regular.Expr {
	e := c.anyText
	low, high := c.count(v, "minLength", 0), c.count(v, "maxLength", regular.Unlimited)
	switch {
	case high != regular.Unlimited && low > high:
		return regular.None
	case low > 0 || high != regular.Unlimited:
		e = c.inAllWays(c.space, func() regular.Expr {
			return c.space.Repeat(c.anyCharacter, low, high)
		})
	}
	if pattern := v.get("pattern"); pattern != nil {
		if pattern.kind != text {
			invalid(v, "pattern is not a string")
		}
		e = c.bothTexts(e, c.pattern(v, "pattern", pattern.text))
	}
	if format := v.get("format"); format != nil && !c.o.AnnotateFormats {
		if format.kind != text {
			invalid(v, "format is not a string")
		}
		e = c.bothTexts(e, c.inAllWays(c.space, func() regular.Expr {
			return c.format(v, format.text)
		}))
	}
	return e
}

// oneOfTexts returns the strings of a list. Texts with a common beginning share it, so that each
// character of an answer excludes most of them at once.
func (c *compiler) oneOfTexts(list []string) regular.Expr {
	if len(list) == 0 {
		return regular.None
	}
	return c.inAllWays(c.space, func() regular.Expr {
		spelled := make([]string, len(list))
		for i, s := range list {
			spelled[i] = c.content(s)
			c.spend(1 + len(s))
		}
		slices.Sort(spelled)
		return c.beginnings(slices.Compact(spelled))
	})
}

// beginnings returns the expression of texts that are sorted.
func (c *compiler) beginnings(list []string) regular.Expr {
	switch len(list) {
	case 0:
		return regular.None
	case 1:
		return c.space.Text(list[0])
	}
	first, last := list[0], list[len(list)-1]
	n := 0
	for n < len(first) && first[n] == last[n] {
		n++
	}
	if n > 0 {
		rest := make([]string, len(list))
		for i, s := range list {
			rest[i] = s[n:]
		}
		return c.space.Concat(c.space.Text(first[:n]), c.beginnings(rest))
	}
	var parts []regular.Expr
	if first == "" {
		parts = append(parts, regular.Empty)
		list = list[1:]
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n][0] == list[0][0] {
			n++
		}
		parts = append(parts, c.beginnings(list[:n]))
		list = list[n:]
	}
	return c.space.Or(parts...)
}

// Quote returns the text of a string in the grammars, which have one for each string.
func Quote(s string) string { return `"` + quoteContent(s) + `"` }

// count returns the value of a keyword that counts.
func (c *compiler) count(v *value, keyword string, missing int) int {
	n := v.get(keyword)
	if n == nil {
		return missing
	}
	count, ok := n.natural()
	if !ok {
		invalid(v, keyword+" is not a whole number")
	}
	return count
}

// pattern returns the strings in which a pattern matches.
func (c *compiler) pattern(v *value, keyword, pattern string) regular.Expr {
	if e, ok := c.patterns[pattern]; ok {
		return e
	}
	c.spend(1 + len(pattern))
	parsed, err := regular.ParsePattern(pattern)
	e := regular.None
	if err == nil {
		e = c.inAllWays(c.space, func() (in regular.Expr) {
			if err == nil {
				in, err = parsed.Search(c.space, c.spellings)
			}
			return in
		})
	}
	if err != nil {
		reason := err.Error()
		var failed *regular.PatternError
		if errors.As(err, &failed) {
			reason = "at offset " + strconv.Itoa(failed.Offset) + " of the pattern: " +
				failed.Reason
		}
		unsupported(v, keyword, reason)
	}
	c.patterns[pattern] = e
	return e
}

func (c *compiler) spellings(set []regular.RuneRange) regular.Expr {
	c.spend(len(set) / 32)
	key := make([]byte, 0, 8*len(set))
	for _, r := range set {
		key = binary.LittleEndian.AppendUint32(key, uint32(r.Lo))
		key = binary.LittleEndian.AppendUint32(key, uint32(r.Hi))
	}
	e, ok := c.sets[string(key)]
	if !ok {
		before := c.space.Work()
		e = c.characters(c.space, set)
		c.spend((c.space.Work() - before) / newPartsPerStep)
		c.sets[string(key)] = e
	}
	return e
}
