package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Python's % operator and str.format. Widths and precisions are bounded, since a
// template could pad to gigabytes.

// spec is a format specification. A zero value means "not given", except for precision, where -1
// does.
type spec struct {
	fill      rune
	align     byte // < > ^ =
	sign      byte // + or space
	alternate bool
	width     int
	comma     bool
	precision int
	verb      byte
}

// maxWidth bounds widths and precisions.
const maxWidth = 10_000

// digits reads a decimal number at s[i:].
func (r *renderer) digits(s string, i int) (n, to int) {
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if n = n*10 + int(s[i]-'0'); n > maxWidth {
			r.fail("a format width or precision exceeds %d", maxWidth)
		}
	}
	return n, i
}

// pad pads text to the width.
func (f spec) pad(text string, defaultAlign byte) string {
	missing := f.width - utf8.RuneCountInString(text)
	if missing <= 0 {
		return text
	}
	fill, align := f.fill, f.align
	if fill == 0 {
		fill = ' '
	}
	if align == 0 {
		align = defaultAlign
	}
	space := func(n int) string { return strings.Repeat(string(fill), n) }
	switch align {
	case '<':
		return text + space(missing)
	case '^':
		return space(missing/2) + text + space(missing-missing/2)
	case '=':
		at := 0
		if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") ||
			strings.HasPrefix(text, " ") {
			at = 1
		}
		return text[:at] + space(missing) + text[at:]
	}
	return space(missing) + text
}

// formatNumber formats an integer or float as the verb says, without padding.
func (r *renderer) formatNumber(f spec, v any) string {
	var s string
	r.work(2 * callSteps)
	switch n := number(v).(type) {
	case *big.Int:
		r.work(n.BitLen() / 4)
		switch f.verb {
		case 'd', 'i', 'u', 0:
			s = n.String()
		case 'x':
			s = n.Text(16)
		case 'X':
			s = strings.ToUpper(n.Text(16))
		case 'o':
			s = n.Text(8)
		case 'b':
			s = n.Text(2)
		default:
			s = r.formatFloat(f, bigFloat(n))
		}
	case float64:
		s = r.formatFloat(f, n)
	default:
		r.fail("format %%%c needs a number, got %s", f.verb, typeName(v))
	}
	if f.comma {
		s = groupThousands(s)
	}
	if f.sign != 0 && !strings.HasPrefix(s, "-") {
		s = string(f.sign) + s
	}
	return s
}

func (r *renderer) formatFloat(f spec, n float64) string {
	precision := f.precision
	r.work(precision/charsPerStep + 1)
	if precision < 0 {
		precision = 6
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return floatRepr(n)
	}
	switch f.verb {
	case 'f', 'F':
		return strconv.FormatFloat(n, 'f', precision, 64)
	case '%':
		return strconv.FormatFloat(n*100, 'f', precision, 64) + "%"
	case 'e', 'E':
		return strconv.FormatFloat(n, f.verb, precision, 64)
	case 'g', 'G':
		return generalFloat(n, max(precision, 1), f.verb)
	case 0:
		if f.precision < 0 {
			return floatRepr(n)
		}
		return generalFloat(n, max(precision, 1), 'g')
	}
	r.fail("unknown format code '%c' for a float", f.verb)
	return ""
}

// generalFloat is C's %g. Go's %g switches to exponents at other values.
func generalFloat(n float64, precision int, verb byte) string {
	exp := 0
	if e := strconv.FormatFloat(n, 'e', precision-1, 64); n != 0 {
		exp, _ = strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	}
	if exp < -4 || exp >= precision {
		s := strconv.FormatFloat(n, 'e', precision-1, 64)
		i := strings.IndexByte(s, 'e')
		mantissa := s[:i]
		if strings.ContainsRune(mantissa, '.') {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		s = mantissa + s[i:]
		if verb == 'G' {
			s = strings.ToUpper(s)
		}
		return s
	}
	s := strconv.FormatFloat(n, 'f', precision-1-exp, 64)
	if strings.ContainsRune(s, '.') {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func groupThousands(s string) string {
	from := 0
	if strings.HasPrefix(s, "-") {
		from = 1
	}
	to := strings.IndexAny(s, ".e")
	if to < 0 {
		to = len(s)
	}
	for i := to - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent returns format % values.
func (r *renderer) percent(format string, values any) string {
	var b strings.Builder
	list := []any{values}
	if t, ok := values.(*List); ok && t.kind == kindTuple {
		list = t.Items
	}
	used := 0
	next := func() any {
		if used++; used > len(list) {
			r.fail("not enough arguments for the format string")
		}
		return list[used-1]
	}
	mapped := false
	r.read(len(format))
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		r.work(callSteps)
		i++
		f := spec{precision: -1}
		var value any = absent{}
		if i < len(format) && format[i] == '(' {
			end := strings.IndexByte(format[i:], ')')
			d, ok := values.(*Dict)
			if end < 0 || !ok {
				r.fail("a format with (name) needs a mapping")
			}
			name := format[i+1 : i+end]
			if value, ok = r.lookIn(d, name); !ok {
				r.fail("the format's mapping has no key '%s'", excerpt(name, maxNameBytes))
			}
			mapped = true
			i += end + 1
		}
		i = r.percentSpec(format, i, &f, next)
		if f.verb == '%' {
			b.WriteByte('%')
			continue
		}
		if value == (absent{}) {
			value = next()
		}
		text := r.percentValue(f, value)
		r.charge(len(text))
		b.WriteString(text)
		r.checkLength(b.Len())
	}
	if _, isDict := values.(*Dict); used < len(list) && !mapped && !isDict {
		r.fail("not all arguments converted during string formatting")
	}
	r.charge(b.Len())
	return b.String()
}

// percentSpec reads flags, width, precision and verb at format[i:] and returns
// the verb's index.
func (r *renderer) percentSpec(format string, i int, f *spec, next func() any) int {
	for ; i < len(format); i++ {
		switch c := format[i]; c {
		case '-':
			f.align = '<'
		case '+', ' ':
			f.sign = max(f.sign, c) // '+' > ' '
		case '0':
			f.fill = '0'
		case '#':
			f.alternate = true
		default:
			goto width
		}
	}
width:
	star := func(n *int) {
		if i < len(format) && format[i] == '*' {
			*n = int(min(max(r.toInt("a format width", next()), 0), maxWidth))
			i++
			return
		}
		*n, i = r.digits(format, i)
	}
	star(&f.width)
	if i < len(format) && format[i] == '.' {
		i++
		star(&f.precision)
	}
	if i >= len(format) {
		r.fail("incomplete format")
	}
	f.verb = format[i]
	return i
}

func (r *renderer) percentValue(f spec, value any) string {
	var text string
	switch f.verb {
	case 's', 'r', 'a':
		text = r.str(value)
		if f.verb != 's' {
			text = r.repr(value)
		}
		text = r.firstRunes(text, f.precision)
		f.fill = 0
	case 'c':
		text = r.str(value)
		if n, ok := value.(int64); ok {
			text = string(rune(min(max(n, 0), unicode.MaxRune)))
		}
	case 'd', 'i', 'u':
		if n, ok := value.(float64); ok {
			value = r.truncate(n)
		}
		text = r.formatNumber(f, value)
	case 'x', 'X', 'o', 'e', 'E', 'f', 'F', 'g', 'G':
		text = r.formatNumber(f, value)
		if prefix := map[byte]string{'x': "0x", 'X': "0X", 'o': "0o"}[f.verb]; f.alternate {
			text = prefix + text
		}
	default:
		r.fail("unsupported format character '%c'", f.verb)
	}
	if f.align == '<' {
		f.fill = 0
	} else if f.fill == '0' {
		f.align = '='
	}
	return r.padded(f, text, '>')
}

// padded is f.pad, counted.
func (r *renderer) padded(f spec, text string, defaultAlign byte) string {
	if f.width > 0 {
		r.read(len(text))
		r.charge(len(text) + utf8.UTFMax*f.width)
	}
	return f.pad(text, defaultAlign)
}

// firstRunes returns the first n characters of text, or text if n is negative.
func (r *renderer) firstRunes(text string, n int) string {
	if n < 0 {
		return text
	}
	for i := range text {
		r.step()
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// truncate returns Python's int(f).
func (r *renderer) truncate(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		r.fail("cannot convert float %s to integer", floatRepr(f))
	}
	n, _ := big.NewFloat(f).Int(nil)
	return intValue(n)
}

// formatMethod is str.format with the fields {}, {0} and {name}.
func (r *renderer) formatMethod(format string, a *args) string {
	var b strings.Builder
	auto, numbered := 0, false
	r.read(len(format))
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '{' && c != '}' {
			b.WriteByte(c)
			continue
		}
		if i+1 < len(format) && format[i+1] == c {
			b.WriteByte(c)
			i++
			continue
		}
		r.work(callSteps)
		end := strings.IndexByte(format[i:], '}')
		if c == '}' || end < 0 {
			r.fail("single '%c' in the format string", c)
		}
		field, layout, _ := strings.Cut(format[i+1:i+end], ":")
		field, conversion, _ := strings.Cut(field, "!")
		switch {
		case field == "" && numbered, field != "" && '0' <= field[0] && field[0] <= '9' && auto > 0:
			r.fail("the format string numbers some fields, but not all")
		case field == "":
			field = strconv.Itoa(auto)
			auto++
		case '0' <= field[0] && field[0] <= '9':
			numbered = true
		}
		value := r.formatField(field, a)
		if conversion == "r" {
			value = r.repr(value)
		} else if conversion == "s" {
			value = r.str(value)
		}
		text := r.formatValue(layout, value)
		r.charge(len(text))
		b.WriteString(text)
		r.checkLength(b.Len())
		i += end
	}
	r.charge(b.Len())
	return b.String()
}

func (r *renderer) formatField(field string, a *args) any {
	if n, err := strconv.Atoi(field); err == nil && n >= 0 {
		if n >= len(a.pos) {
			r.fail("the format string refers to argument %d of %d", n, len(a.pos))
		}
		return a.pos[n]
	}
	r.work(len(a.names))
	for i, name := range a.names {
		if name == field {
			return a.named[i]
		}
	}
	r.fail("the format string refers to '%s', which is not an argument",
		excerpt(field, maxNameBytes))
	return nil
}

// formatValue applies "[[fill]align][sign][#][0][width][,][.precision][verb]".
func (r *renderer) formatValue(layout string, v any) string {
	f := spec{precision: -1}
	if c, n := utf8.DecodeRuneInString(layout); n < len(layout) && n > 0 &&
		strings.IndexByte("<>^=", layout[n]) >= 0 {
		f.fill, f.align, layout = c, layout[n], layout[n+1:]
	} else if layout != "" && strings.IndexByte("<>^=", layout[0]) >= 0 {
		f.align, layout = layout[0], layout[1:]
	}
	flag := func(set string) byte {
		if layout == "" || strings.IndexByte(set, layout[0]) < 0 {
			return 0
		}
		c := layout[0]
		layout = layout[1:]
		return c
	}
	if f.sign = flag("+- "); f.sign == '-' {
		f.sign = 0
	}
	f.alternate = flag("#") != 0
	if flag("0") != 0 && f.align == 0 {
		f.fill, f.align = '0', '='
	}
	var i int
	f.width, i = r.digits(layout, 0)
	layout = layout[i:]
	f.comma = flag(",") != 0
	if flag(".") != 0 {
		f.precision, i = r.digits(layout, 0)
		layout = layout[i:]
	}
	if len(layout) > 1 {
		r.fail("invalid format specifier '%s'", excerpt(layout, maxNameBytes))
	}
	if layout != "" {
		f.verb = layout[0]
	}
	if _, isBool := v.(bool); number(v) != nil && f.verb != 's' && !(isBool && f.verb == 0) {
		return r.padded(f, r.formatNumber(f, v), '>')
	}
	if f.verb != 0 && f.verb != 's' {
		r.fail("unknown format code '%c' for a %s", f.verb, typeName(v))
	}
	return r.padded(f, r.firstRunes(r.str(v), f.precision), '<')
}
