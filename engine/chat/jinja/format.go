package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// Python's str and repr. The % operator and str.format are in printf.go.

// str returns Python's str(v), which {{ v }} prints.
func (r *renderer) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case *undefined:
		return ""
	}
	return r.repr(v)
}

// repr returns Python's repr(v).
func (r *renderer) repr(v any) string {
	var b strings.Builder
	r.writeRepr(&b, v, 0)
	return b.String()
}

func (r *renderer) writeRepr(b *strings.Builder, v any, depth int) {
	r.step()
	if depth > maxValueDepth {
		r.fail("values nested deeper than %d levels cannot be printed", maxValueDepth)
	}
	r.checkLength(b.Len()) // a small value may have a very long text
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		r.work(8 * bigIntSteps)
		b.WriteString(v.String())
	case float64:
		b.WriteString(floatRepr(v))
	case string:
		r.read(2 * len(v))
		r.charge(len(v))
		before := b.Len()
		b.WriteString(stringRepr(v))
		r.grown(b, before+len(v))
	case *undefined:
		b.WriteString("Undefined")
	case *List:
		r.writeListRepr(b, v, depth)
	case *Dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			r.take(itemBytes)
			if i > 0 {
				b.WriteString(", ")
			}
			r.writeRepr(b, k, depth+1)
			b.WriteString(": ")
			r.writeRepr(b, v.values[i], depth+1)
		}
		b.WriteByte('}')
	case *Namespace:
		b.WriteString("<Namespace ")
		r.writeRepr(b, v.attrs, depth+1)
		b.WriteByte('>')
	default:
		b.WriteString("<" + typeName(v) + ">")
	}
}

func (r *renderer) writeListRepr(b *strings.Builder, l *List, depth int) {
	if strings.HasSuffix(l.shown, ")") { // a range
		b.WriteString(l.shown)
		return
	}
	if l.shown != "" {
		b.WriteString(l.shown + "(")
		defer b.WriteByte(')')
	}
	open, end := byte('['), byte(']')
	if l.kind == kindTuple {
		open, end = '(', ')'
	}
	b.WriteByte(open)
	for i, item := range l.Items {
		r.take(itemBytes)
		if i > 0 {
			b.WriteString(", ")
		}
		r.writeRepr(b, item, depth+1)
	}
	if l.kind == kindTuple && len(l.Items) == 1 {
		b.WriteByte(',')
	}
	b.WriteByte(end)
}

// floatRepr returns the shortest text that parses to f, in Python's form: with an
// exponent below 1e-4 and from 1e16, otherwise with a point.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsRune(s, '.') {
		s += ".0"
	}
	return s
}

func stringRepr(s string) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			writeHex(&b, `\x`, c, 2)
		case c < 0x10000:
			writeHex(&b, `\u`, c, 4)
		default:
			writeHex(&b, `\U`, c, 8)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

// writeHex writes a prefix and the hexadecimal digits of c, as %0*x does. It is much faster.
func writeHex(b *strings.Builder, prefix string, c rune, digits int) {
	b.WriteString(prefix)
	for i := digits - 1; i >= 0; i-- {
		b.WriteByte("0123456789abcdef"[c>>(4*i)&15])
	}
}
