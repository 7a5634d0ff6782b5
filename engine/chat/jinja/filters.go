package jinja

// Filters on text and numbers, and the table of all filters. Filters count what they read and make,
// so that no chain of filters exceeds the bounds of a rendering.

import (
	"html"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// filter is a function that a template applies with |. Filters on sequences are in sequences.go.
type filter func(r *renderer, v any, a *args) any

// filters has every filter by name. init fills it, because map and select look up
// filters in it.
var filters map[string]filter

func init() {
	filters = map[string]filter{
		"abs": absFilter, "attr": attrFilter, "batch": batchFilter,
		"capitalize": capitalizeFilter, "center": centerFilter, "count": lengthFilter,
		"d": defaultFilter, "default": defaultFilter, "dictsort": dictSortFilter,
		"e": onText(escapeHTML), "escape": onText(escapeHTML), "first": firstFilter,
		"float": floatFilter, "forceescape": onText(escapeHTML), "format": formatFilter,
		"groupby": groupByFilter, "indent": indentFilter, "int": intFilter, "items": itemsFilter,
		"join": joinFilter, "last": lastFilter, "length": lengthFilter, "list": listFilter,
		"lower": onText(lower), "map": mapFilter, "max": extremeFilter("max", 1),
		"min": extremeFilter("min", -1), "reject": selectFilter(false),
		"rejectattr": selectAttrFilter(false), "replace": replaceFilter, "reverse": reverseFilter,
		"round": roundFilter, "safe": stringFilter, "select": selectFilter(true),
		"selectattr": selectAttrFilter(true), "slice": sliceFilter, "sort": sortFilter,
		"string": stringFilter, "sum": sumFilter, "title": titleFilter,
		"tojson": toJSONFilter, "trim": trimFilter, "truncate": truncateFilter,
		"unique": uniqueFilter, "upper": onText(upper), "wordcount": wordCountFilter,
	}
}

func stringFilter(r *renderer, v any, a *args) any {
	r.bind(a, "the filter")
	return r.str(v)
}

// onText returns a filter that maps the value's text to another text. f must map a text as it maps
// its pieces.
func onText(f func(string) string) filter {
	return func(r *renderer, v any, a *args) any {
		r.bind(a, "the filter")
		return r.mapPieces(r.str(v), f)
	}
}

func capitalizeFilter(r *renderer, v any, a *args) any {
	r.bind(a, "the filter")
	return r.capitalize(r.str(v))
}

// escapeHTML escapes as markupsafe does.
func escapeHTML(s string) string { return html.EscapeString(s) }

// titleFilter differs from str.title: words end only at blanks, -, and opening
// brackets.
func titleFilter(r *renderer, v any, a *args) any {
	r.bind(a, "the filter")
	start := true
	return r.mapRunes(r.str(v), func(c rune) rune {
		was := start
		start = isSpace(c) || strings.ContainsRune("-({[<", c)
		if was {
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	})
}

// mapRunes returns s with f applied to each character.
func (r *renderer) mapRunes(s string, f func(rune) rune) string {
	return r.mapPieces(s, func(piece string) string { return strings.Map(f, piece) })
}

func trimFilter(r *renderer, v any, a *args) any {
	return stripWith(true, true)(r, r.str(v), r.bind(a, "trim", "chars?"))
}

func defaultFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "default", "default_value?", "boolean?")
	if isUndefined(v) || orBool(p[1], false) && !truth(v) {
		if p[0] == (absent{}) {
			return ""
		}
		return p[0]
	}
	return v
}

func attrFilter(r *renderer, v any, a *args) any {
	name := r.text("attr's name", r.bind(a, "attr", "name")[0])
	if m, ok := r.member(v, name); ok { // not an item, unlike v.name
		return m
	}
	return undefinedAttr(v, name)
}

func absFilter(r *renderer, v any, a *args) any {
	r.bind(a, "abs")
	switch n := number(v).(type) {
	case *big.Int:
		return intValue(new(big.Int).Abs(n))
	case float64:
		return math.Abs(n)
	}
	r.fail("bad operand type for abs(): '%s'", typeName(v))
	return nil
}

// intFilter converts a value to an integer. For a value that is not a number, it returns the
// argument default, or 0.
func intFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "int", "default?", "base?")
	var otherwise any = int64(0)
	if p[0] != (absent{}) {
		otherwise = p[0]
	}
	switch x := v.(type) {
	case bool, int64, *big.Int:
		return r.arithmetic("+", x, int64(0))
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return otherwise
		}
		return r.truncate(x)
	case string:
		r.read(len(x))
		s := strings.TrimFunc(x, isSpace)
		if len(s) > maxIntBits/4 {
			return otherwise
		}
		base := int(r.orInt("base", p[1], 10))
		if base < 2 || base > 36 {
			r.fail("int() base must be between 2 and 36")
		}
		s = asciiDigits(s)
		digits := strings.ToLower(s)
		if prefix := map[int]string{16: "0x", 8: "0o", 2: "0b"}[base]; prefix != "" {
			digits = strings.TrimPrefix(digits, prefix)
		}
		if n, ok := new(big.Int).SetString(digits, base); ok {
			return intValue(n)
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return r.truncate(f)
		}
	case *undefined:
		r.fail("%s", x.why())
	}
	return otherwise
}

func floatFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "float", "default?")
	switch n := number(v).(type) {
	case *big.Int:
		return bigFloat(n)
	case float64:
		return n
	}
	if s, ok := v.(string); ok {
		r.read(len(s))
		if f, err := strconv.ParseFloat(asciiDigits(strings.TrimFunc(s, isSpace)), 64); err == nil {
			return f
		}
	}
	if p[0] == (absent{}) {
		return 0.0
	}
	return p[0]
}

func roundFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "round", "precision?", "method?")
	digits := int(min(max(r.orInt("precision", p[0], 0), -300), 300))
	f, ok := floatOf(v)
	if !ok {
		r.fail("round needs a number, got %s", typeName(v))
	}
	scale := math.Pow(10, float64(digits))
	switch method := r.orText("method", p[1], "common"); method {
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	case "common":
	default:
		r.fail("round's method must be common, ceil or floor, got '%s'", method)
	}
	var rounded float64
	if digits >= 0 { // FormatFloat rounds correctly, like Python's round
		rounded, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
	} else {
		rounded = math.RoundToEven(f*scale) / scale
	}
	if isInteger(r, v, nil) && digits < 0 {
		return r.truncate(rounded)
	}
	if isInteger(r, v, nil) {
		return v
	}
	return rounded
}

func floatOf(v any) (float64, bool) {
	switch n := number(v).(type) {
	case *big.Int:
		return bigFloat(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func formatFilter(r *renderer, v any, a *args) any {
	if len(a.names) > 0 {
		if len(a.pos) > 0 {
			r.fail("format takes positional or keyword arguments, not both")
		}
		return r.percent(r.str(v), r.dictOf("format", a))
	}
	return r.percent(r.str(v), &List{Items: a.pos, kind: kindTuple})
}

func replaceFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "replace", "old", "new", "count?")
	count := int64(-1)
	if p[2] != (absent{}) && p[2] != nil {
		count = r.toInt("count", p[2])
	}
	return r.replace(r.str(v), r.str(p[0]), r.str(p[1]), count)
}

func centerFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "center", "width?")
	return justify('^')(r, r.str(v), []any{r.orInt("width", p[0], 80), absent{}})
}

// indentFilter indents every line except the first and empty ones. The argument first includes the
// first line, and blank includes empty lines.
func indentFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "indent", "width?", "first?", "blank?")
	indent, isText := p[0].(string)
	if !isText {
		indent = strings.Repeat(" ", r.width(r.orInt("width", p[0], 4)))
	}
	s := r.str(v)
	r.charge(len(s) + 1)
	lines := splitLines(r, s+"\n", []any{absent{}}).(*List).Items
	r.list(len(lines))
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = line.(string)
		if i == 0 && orBool(p[1], false) || i > 0 && (out[i] != "" || orBool(p[2], false)) {
			r.charge(len(indent) + len(out[i]))
			out[i] = indent + out[i]
		}
	}
	return r.join(out, "\n")
}

func truncateFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "truncate", "length?", "killwords?", "end?", "leeway?")
	length, end := r.orInt("length", p[0], 255), r.orText("end", p[2], "...")
	s := r.str(v)
	r.read(len(s) + len(end))
	r.take(4 * (len(s) + len(end)))
	runes, tail := []rune(s), []rune(end)
	if length < int64(len(tail)) {
		r.fail("truncate: expected a length of at least %d, got %d", len(tail), length)
	}
	if int64(len(runes)) <= length+r.orInt("leeway", p[3], 5) {
		return s
	}
	r.charge(len(s) + len(end))
	head := string(runes[:length-int64(len(tail))])
	if !orBool(p[1], false) {
		if i := strings.LastIndexByte(head, ' '); i >= 0 {
			head = head[:i]
		}
	}
	return head + end
}

func wordCountFilter(r *renderer, v any, a *args) any {
	r.bind(a, "wordcount")
	words, inWord := int64(0), false
	r.pieces(r.str(v), func(piece string) bool {
		for _, c := range piece {
			is := c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c)
			if is && !inWord {
				words++
			}
			inWord = is
		}
		return true
	})
	return words
}

func toJSONFilter(r *renderer, v any, a *args) any {
	p := r.bind(a, "tojson", "ensure_ascii?", "indent?", "separators?", "sort_keys?")
	style := jsonStyle{
		ascii:    orBool(p[0], false), // the default of transformers
		sortKeys: orBool(p[3], false), itemSep: ", ", keySep: ": ",
	}
	if p[1] != (absent{}) && p[1] != nil {
		style.multiline, style.itemSep = true, ","
		if s, ok := p[1].(string); ok {
			style.indent = s
		} else {
			style.indent = strings.Repeat(" ", r.width(p[1]))
		}
	}
	if p[2] != (absent{}) && p[2] != nil {
		seps := r.iterate(p[2])
		if len(seps) != 2 {
			r.fail("tojson: separators must be two strings")
		}
		style.itemSep, style.keySep = r.text("separators", seps[0]), r.text("separators", seps[1])
	}
	return r.toJSON(style, v)
}
