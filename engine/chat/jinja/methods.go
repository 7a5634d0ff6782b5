package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Python's methods of strings, dictionaries and lists, except those that change their object. As in
// transformers' immutable sandbox, a template cannot change the messages.

type methodFunc func(r *renderer, self any, a *args) any

// method returns the method of an object that has the given name.
func method(object any, name string) (methodFunc, bool) {
	var m methodFunc
	switch object.(type) {
	case string:
		m = stringMethods[name]
	case *Dict:
		m = dictMethods[name]
	case *List:
		m = listMethods[name]
	}
	return m, m != nil
}

// stringFunc computes a method of a string from its bound arguments.
type stringFunc func(r *renderer, s string, v []any) any

// onString makes a method with these parameters from f.
func onString(name string, params []string, f stringFunc) methodFunc {
	return func(r *renderer, self any, a *args) any {
		return f(r, self.(string), r.bind(a, name, params...))
	}
}

// mapped returns a method without arguments that maps a string to another. f must map a string as
// it maps its pieces.
func mapped(name string, f func(s string) string) methodFunc {
	return onString(name, nil,
		func(r *renderer, s string, _ []any) any { return r.mapPieces(s, f) })
}

// all returns a method that reports whether the string has characters and f holds for all of them.
func all(name string, f func(rune) bool) methodFunc {
	return onString(name, nil, func(r *renderer, s string, _ []any) any {
		holds := s != ""
		r.pieces(s, func(piece string) bool {
			holds = strings.IndexFunc(piece, func(c rune) bool { return !f(c) }) < 0
			return holds
		})
		return holds
	})
}

// inCase returns a method that reports whether the string has letters with two cases, and all of
// them are as change makes them.
func inCase(name string, change func(string) string) methodFunc {
	return onString(name, nil,
		func(r *renderer, s string, _ []any) any { return r.isCased(s, change) })
}

// onWhole returns a method that reports whether f holds for the string.
func onWhole(name string, f func(string) bool) methodFunc {
	return onString(name, nil, func(r *renderer, s string, _ []any) any {
		r.read(len(s))
		return f(s)
	})
}

var stringMethods map[string]methodFunc

func init() {
	stringMethods = map[string]methodFunc{
		"upper":    mapped("upper", upper),
		"lower":    mapped("lower", lower),
		"casefold": mapped("casefold", fold),
		"title": onString("title", nil,
			func(r *renderer, s string, _ []any) any { return r.titleMethod(s) }),
		"capitalize": onString("capitalize", nil,
			func(r *renderer, s string, _ []any) any { return r.capitalize(s) }),
		"swapcase":  mapped("swapcase", swapCase),
		"isdigit":   all("isdigit", isDigit),
		"isdecimal": all("isdecimal", unicode.IsDigit),
		"isnumeric": all("isnumeric", unicode.IsNumber),
		"isalpha":   all("isalpha", unicode.IsLetter),
		"isalnum": all("isalnum",
			func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isspace":      all("isspace", isSpace),
		"isidentifier": onWhole("isidentifier", isIdentifier),
		"istitle":      onWhole("istitle", isTitle),
		"isupper":      inCase("isupper", strings.ToUpper),
		"islower":      inCase("islower", strings.ToLower),
		"strip":        onString("strip", []string{"chars?"}, stripWith(true, true)),
		"lstrip":       onString("lstrip", []string{"chars?"}, stripWith(true, false)),
		"rstrip":       onString("rstrip", []string{"chars?"}, stripWith(false, true)),
		"split":        onString("split", []string{"sep?", "maxsplit?"}, split),
		"rsplit":       onString("rsplit", []string{"sep?", "maxsplit?"}, rsplit),
		"splitlines":   onString("splitlines", []string{"keepends?"}, splitLines),
		"partition":    onString("partition", []string{"sep"}, partition(strings.Index, false)),
		"rpartition":   onString("rpartition", []string{"sep"}, partition(strings.LastIndex, true)),
		"startswith": onString("startswith", []string{"prefix", "start?", "end?"},
			hasAffix(strings.HasPrefix)),
		"endswith": onString("endswith", []string{"suffix", "start?", "end?"},
			hasAffix(strings.HasSuffix)),
		"expandtabs": onString("expandtabs", []string{"tabsize?"}, expandTabs),
		"removeprefix": onString("removeprefix", []string{"prefix"},
			func(r *renderer, s string, v []any) any {
				return strings.TrimPrefix(s, r.affix("prefix", v[0]))
			}),
		"removesuffix": onString("removesuffix", []string{"suffix"},
			func(r *renderer, s string, v []any) any {
				return strings.TrimSuffix(s, r.affix("suffix", v[0]))
			}),
		"find":   onString("find", []string{"sub"}, find(strings.Index)),
		"rfind":  onString("rfind", []string{"sub"}, find(strings.LastIndex)),
		"index":  onString("index", []string{"sub"}, mustFind(strings.Index)),
		"rindex": onString("rindex", []string{"sub"}, mustFind(strings.LastIndex)),
		"count": onString("count", []string{"sub"}, func(r *renderer, s string, v []any) any {
			sub := r.text("sub", v[0])
			r.read(len(s) + len(sub))
			return int64(strings.Count(s, sub))
		}),
		"replace": onString("replace", []string{"old", "new", "count?"},
			func(r *renderer, s string, v []any) any {
				return r.replace(s, r.text("old", v[0]), r.text("new", v[1]),
					r.orInt("count", v[2], -1))
			}),
		"join": onString("join", []string{"iterable"}, func(r *renderer, s string, v []any) any {
			var parts []string
			items := r.iterate(v[0])
			r.list(len(items))
			for _, item := range items {
				parts = append(parts, r.text("join: an item", item))
			}
			return r.join(parts, s)
		}),
		"ljust":  onString("ljust", []string{"width", "fillchar?"}, justify('<')),
		"rjust":  onString("rjust", []string{"width", "fillchar?"}, justify('>')),
		"center": onString("center", []string{"width", "fillchar?"}, justify('^')),
		"zfill": onString("zfill", []string{"width"}, func(r *renderer, s string, v []any) any {
			width := r.width(v[0])
			r.read(len(s))
			r.charge(len(s) + width)
			return spec{fill: '0', align: '=', width: width}.pad(s, '=')
		}),
		"format": func(r *renderer, self any, a *args) any {
			return r.formatMethod(self.(string), a)
		},
	}
}

var dictMethods = map[string]methodFunc{
	"keys": func(r *renderer, self any, a *args) any {
		r.bind(a, "keys")
		return &List{Items: self.(*Dict).keys, shown: "dict_keys"}
	},
	"values": func(r *renderer, self any, a *args) any {
		r.bind(a, "values")
		return &List{Items: self.(*Dict).values, shown: "dict_values"}
	},
	"items": func(r *renderer, self any, a *args) any {
		r.bind(a, "items")
		return &List{Items: r.pairs(self.(*Dict)), shown: "dict_items"}
	},
	"get": func(r *renderer, self any, a *args) any {
		v := r.bind(a, "get", "key", "default?")
		if value, ok := r.lookIn(self.(*Dict), v[0]); ok {
			return value
		}
		if v[1] == (absent{}) {
			return nil
		}
		return v[1]
	},
	"copy": func(r *renderer, self any, a *args) any {
		r.entries(self.(*Dict).Len())
		return self.(*Dict).Clone()
	},
	"update": refuse("update"), "pop": refuse("pop"), "popitem": refuse("popitem"),
	"clear": refuse("clear"), "setdefault": refuse("setdefault"),
}

var listMethods = map[string]methodFunc{
	"index": func(r *renderer, self any, a *args) any {
		v := r.bind(a, "index", "value")
		for i, item := range self.(*List).Items {
			if r.equal(item, v[0]) {
				return int64(i)
			}
		}
		r.fail("%s is not in the list", excerpt(r.repr(v[0]), maxNameBytes))
		return nil
	},
	"count": func(r *renderer, self any, a *args) any {
		v, n := r.bind(a, "count", "value"), int64(0)
		for _, item := range self.(*List).Items {
			if r.equal(item, v[0]) {
				n++
			}
		}
		return n
	},
	"copy":   func(_ *renderer, self any, _ *args) any { return self },
	"append": refuse("append"), "extend": refuse("extend"), "insert": refuse("insert"),
	"pop": refuse("pop"), "remove": refuse("remove"), "clear": refuse("clear"),
	"sort": refuse("sort"), "reverse": refuse("reverse"),
}

func refuse(name string) methodFunc {
	return func(r *renderer, self any, _ *args) any {
		r.fail("%s.%s() is refused: values in a template cannot be changed; "+
			"build a new one with + or namespace()", typeName(self), name)
		return nil
	}
}

func stripWith(left, right bool) stringFunc {
	return func(r *renderer, s string, v []any) any {
		cut := isSpace
		if v[0] != (absent{}) && v[0] != nil {
			cut = r.anyOf(r.text("chars", v[0]))
		}
		counted := func(c rune) bool { r.step(); return cut(c) }
		if left {
			s = strings.TrimLeftFunc(s, counted)
		}
		if right {
			s = strings.TrimRightFunc(s, counted)
		}
		return s
	}
}

// anyOf returns a function that reports whether chars has a character.
func (r *renderer) anyOf(chars string) func(rune) bool {
	const few = 8
	if len(chars) <= few {
		return func(c rune) bool { return strings.ContainsRune(chars, c) }
	}
	set := map[rune]bool{}
	for _, c := range chars {
		r.work(callSteps)
		set[c] = true
	}
	return func(c rune) bool { return set[c] }
}

// affix returns v, which must be a string that is compared with another.
func (r *renderer) affix(what string, v any) string {
	s := r.text(what, v)
	r.work(len(s) / bytesPerStep)
	return s
}

func (r *renderer) textList(parts []string) *List {
	r.list(2 * len(parts)) // each with its string header
	l := &List{Items: make([]any, len(parts))}
	for i, p := range parts {
		l.Items[i] = p
	}
	return l
}

// separator returns the separator of a split ("" for runs of white space) and the maximum number of
// splits (-1: no limit).
func (r *renderer) separator(v []any) (sep string, cuts int) {
	if v[0] != (absent{}) && v[0] != nil {
		if sep = r.text("sep", v[0]); sep == "" {
			r.fail("empty separator")
		}
	}
	cuts = int(min(r.orInt("maxsplit", v[1], -1), maxTextBytes))
	if cuts < 0 {
		cuts = -1
	}
	return sep, cuts
}

// part counts one more part of a text.
func (r *renderer) part() {
	r.take(itemBytes)
	r.work(callSteps)
}

func split(r *renderer, s string, v []any) any {
	sep, cuts := r.separator(v)
	if sep != "" {
		r.find(s, sep)
		parts := []string{}
		for cuts < 0 || len(parts) < cuts {
			i := strings.Index(s, sep)
			if i < 0 {
				break
			}
			r.part()
			parts, s = append(parts, s[:i]), s[i+len(sep):]
		}
		return r.textList(append(parts, s))
	}
	r.read(len(s))
	parts := []string{}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 || len(parts) == cuts {
			if cuts < 0 || len(parts) < cuts {
				s = strings.TrimRightFunc(s, isSpace)
			}
			parts = append(parts, s)
			break
		}
		r.part()
		parts, s = append(parts, s[:i]), s[i:]
	}
	return r.textList(parts)
}

func rsplit(r *renderer, s string, v []any) any {
	sep, cuts := r.separator(v)
	r.read(len(s) + len(sep))
	parts := []string{}
	if sep == "" {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
			i := strings.LastIndexFunc(s, isSpace)
			if i < 0 || len(parts) == cuts {
				if cuts < 0 || len(parts) < cuts {
					s = strings.TrimLeftFunc(s, isSpace)
				}
				parts = append(parts, s)
				break
			}
			_, n := utf8.DecodeRuneInString(s[i:])
			r.part()
			parts, s = append(parts, s[i+n:]), s[:i]
		}
	} else {
		for cuts < 0 || len(parts) < cuts {
			i := strings.LastIndex(s, sep)
			if i < 0 {
				break
			}
			r.part()
			parts, s = append(parts, s[i+len(sep):]), s[:i]
		}
		parts = append(parts, s)
	}
	slices.Reverse(parts)
	return r.textList(parts)
}

func splitLines(r *renderer, s string, v []any) any {
	keep := orBool(v[0], false)
	r.read(len(s))
	var parts []string
	for s != "" {
		r.part()
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			parts = append(parts, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		end := i
		if keep {
			end += n
		}
		parts, s = append(parts, s[:end]), s[i+n:]
	}
	return r.textList(parts)
}

func partition(index func(s, sub string) int, missingFirst bool) stringFunc {
	return func(r *renderer, s string, v []any) any {
		sep := r.text("sep", v[0])
		if sep == "" {
			r.fail("empty separator")
		}
		r.find(s, sep)
		r.list(2 * len("abc"))
		parts := []any{s, "", ""}
		if i := index(s, sep); i >= 0 {
			parts = []any{s[:i], sep, s[i+len(sep):]}
		} else if missingFirst {
			parts = []any{"", "", s}
		}
		return &List{Items: parts, kind: kindTuple}
	}
}

func hasAffix(has func(s, affix string) bool) stringFunc {
	return func(r *renderer, s string, v []any) any {
		s, ok := r.between(s, v[1], v[2])
		if !ok {
			return false
		}
		if l, ok := v[0].(*List); ok && l.kind == kindTuple {
			return slices.ContainsFunc(l.Items,
				func(x any) bool { r.step(); return has(s, r.affix("an affix", x)) })
		}
		return has(s, r.affix("the affix", v[0]))
	}
}

// between returns s[start:end]. It returns false if start is after the end.
func (r *renderer) between(s string, start, end any) (string, bool) {
	given := func(v any) bool { return v != nil && v != (absent{}) }
	if !given(start) && !given(end) {
		return s, true
	}
	r.read(len(s))
	r.take(4 * len(s))
	runes := []rune(s)
	bound := func(v any, otherwise int) int {
		if !given(v) {
			return otherwise
		}
		i := r.toInt("a position", v)
		if i < 0 {
			i = max(i+int64(len(runes)), 0)
		}
		return int(min(i, int64(len(runes))+1))
	}
	from, to := bound(start, 0), min(bound(end, len(runes)), len(runes))
	if from > to {
		return "", false
	}
	return string(runes[from:to]), true
}

// expandTabs is str.expandtabs: blanks up to the next multiple of the size, in each line.
func expandTabs(r *renderer, s string, v []any) any {
	size := 8
	if v[0] != (absent{}) {
		size = r.width(v[0])
	}
	tabs := strings.Count(s, "\t")
	r.read(len(s))
	r.repeated(max(size, 1), int64(tabs))
	r.charge(len(s))
	var b strings.Builder
	column := 0
	for _, c := range s {
		switch {
		case c == '\t' && size > 0:
			n := size - column%size
			b.WriteString(strings.Repeat(" ", n))
			column += n
		case c == '\t':
		default:
			b.WriteRune(c)
			column++
			if c == '\n' || c == '\r' {
				column = 0
			}
		}
	}
	return b.String()
}

// find makes a method that returns a position in characters, not bytes.
func find(index func(s, sub string) int) stringFunc {
	return func(r *renderer, s string, v []any) any {
		sub := r.text("sub", v[0])
		r.read(len(s) + len(sub))
		i := index(s, sub)
		if i < 0 {
			return int64(-1)
		}
		return int64(utf8.RuneCountInString(s[:i]))
	}
}

func mustFind(index func(s, sub string) int) stringFunc {
	return func(r *renderer, s string, v []any) any {
		i := find(index)(r, s, v)
		if i == int64(-1) {
			r.fail("substring not found")
		}
		return i
	}
}

func (r *renderer) replace(s, old, new string, count int64) string {
	r.find(s, old)
	n := strings.Count(s, old)
	if count >= 0 {
		n = int(min(int64(n), count))
	}
	if grow := len(new) - len(old); grow > 0 && n > r.maxText/grow {
		r.checkLength(r.maxText + 1)
	}
	r.charge(max(len(s)+n*(len(new)-len(old)), 0))
	if old == "" {
		r.work(callSteps * n)
		return strings.Replace(s, old, new, n)
	}
	var b strings.Builder
	b.Grow(len(s) + n*(len(new)-len(old)))
	for range n {
		r.work(callSteps)
		i := strings.Index(s, old)
		b.WriteString(s[:i])
		b.WriteString(new)
		s = s[i+len(old):]
	}
	b.WriteString(s)
	return b.String()
}

func (r *renderer) join(parts []string, sep string) string {
	n := 0
	for _, p := range parts {
		r.step()
		n += len(p) + len(sep)
		r.checkLength(n)
	}
	r.charge(n)
	return strings.Join(parts, sep)
}

// width returns a bounded width argument.
func (r *renderer) width(v any) int {
	n := r.toInt("width", v)
	if n > maxWidth {
		r.fail("the width exceeds %d", maxWidth)
	}
	return int(max(n, 0))
}

func justify(align byte) stringFunc {
	return func(r *renderer, s string, v []any) any {
		fill := r.orText("fillchar", v[1], " ")
		c, n := utf8.DecodeRuneInString(fill)
		if n != len(fill) || n == 0 {
			r.fail("the fill character must be exactly one character long")
		}
		width := r.width(v[0])
		r.read(len(s))
		r.charge(len(s) + len(fill)*width)
		if missing := width - utf8.RuneCountInString(s); align == '^' && missing > 0 {
			// If missing is odd, str.center pads one character more on the left when width is odd,
			// and on the right when width is even.
			left := missing/2 + missing&width&1
			return strings.Repeat(fill, left) + s + strings.Repeat(fill, missing-left)
		}
		return spec{fill: c, align: align, width: width}.pad(s, align)
	}
}

func (r *renderer) capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	r.charge(len(s))
	return strings.ToTitle(s[:n]) + r.mapPieces(s[n:], strings.ToLower)
}

// titleMethod is str.title: every run of letters gets one capital.
func (r *renderer) titleMethod(s string) string {
	inWord := false
	return r.mapRunes(s, func(c rune) rune {
		was := inWord
		inWord = unicode.IsLetter(c)
		if was {
			return unicode.ToLower(c)
		}
		return unicode.ToTitle(c)
	})
}

func swapCase(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, s)
}
