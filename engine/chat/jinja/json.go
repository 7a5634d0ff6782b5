package jinja

// This file reads and writes JSON like Python's json module. Models were trained on prompts from
// json.dumps, so key order, separators, numbers and escapes must match byte for byte.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FromJSON parses one JSON value into template values: nil, bool, int64, *big.Int, float64, string,
// *List and *Dict. Objects keep the order of their keys. A repeated key keeps its first position
// and its last value, as in Python. Integers beyond 64 bits stay integers, and 2.0 stays a float.
// Integers of more than 1,024 digits and values nested deeper than 500 levels are errors.
func FromJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := readJSON(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

func readJSON(dec *json.Decoder, depth int) (any, error) {
	t, err := dec.Token()
	if err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if depth > maxValueDepth {
		return nil, fmt.Errorf("JSON nested deeper than %d levels", maxValueDepth)
	}
	switch t := t.(type) {
	case json.Number:
		return jsonNumber(t.String())
	case json.Delim:
		if t == '[' {
			l := &List{Items: []any{}}
			for dec.More() {
				v, err := readJSON(dec, depth+1)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err := dec.Token()
			return l, err
		}
		d := NewDict()
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := readJSON(dec, depth+1)
			if err != nil {
				return nil, err
			}
			d.set(key, v) // key is a string: the decoder accepts no other keys
		}
		_, err := dec.Token()
		return d, err
	}
	return t, nil // nil, bool or string
}

func jsonNumber(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // infinite if out of range, as in Python
		return f, nil
	}
	if len(s) > maxIntBits/4 {
		return nil, fmt.Errorf("an integer of %d digits is too long", len(s))
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("invalid number %q", s)
	}
	return intValue(n), nil
}

// jsonStyle holds the arguments of json.dumps that tojson accepts.
type jsonStyle struct {
	ascii           bool
	indent          string
	multiline       bool
	sortKeys        bool
	itemSep, keySep string
}

// toJSON returns v as Python's json.dumps writes it, without HTML escapes.
func (r *renderer) toJSON(style jsonStyle, v any) string {
	var b strings.Builder
	r.writeJSON(&b, &style, v, 0)
	return b.String()
}

func (r *renderer) writeJSON(b *strings.Builder, style *jsonStyle, v any, depth int) {
	r.step()
	if depth > maxValueDepth {
		r.fail("values nested deeper than %d levels cannot be written as JSON", maxValueDepth)
	}
	r.checkLength(b.Len())
	switch v := v.(type) {
	case string:
		r.writeJSONString(b, v, style.ascii)
	case *List:
		if v.kind == kindGenerator {
			r.fail("tojson: an object of type generator is not JSON serializable")
		}
		r.writeJSONGroup(b, style, depth, '[', ']', len(v.Items), func(i int) {
			r.writeJSON(b, style, v.Items[i], depth+1)
		})
	case *Dict:
		if style.sortKeys {
			v = r.sortedByKey(v)
		}
		r.writeJSONGroup(b, style, depth, '{', '}', v.Len(), func(i int) {
			r.writeJSONString(b, r.jsonKey(v.keys[i]), style.ascii)
			r.charge(len(style.keySep))
			b.WriteString(style.keySep)
			r.writeJSON(b, style, v.values[i], depth+1)
		})
	default:
		b.WriteString(r.jsonScalar(v))
	}
}

// writeJSONGroup writes n elements between brackets, with the separators and line breaks of style.
func (r *renderer) writeJSONGroup(b *strings.Builder, style *jsonStyle, depth int, open, end byte,
	n int, element func(i int)) {
	newline := func(depth int) {
		if style.multiline && n > 0 {
			r.repeated(len(style.indent), int64(depth))
			b.WriteByte('\n')
			b.WriteString(strings.Repeat(style.indent, depth))
		}
	}
	b.WriteByte(open)
	for i := range n {
		r.take(itemBytes)
		if i > 0 {
			r.charge(len(style.itemSep))
			b.WriteString(style.itemSep)
		}
		newline(depth + 1)
		element(i)
	}
	newline(depth)
	b.WriteByte(end)
}

func (r *renderer) jsonScalar(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64, *big.Int:
		return r.repr(v)
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		}
		return floatRepr(v)
	}
	r.fail("tojson: an object of type %s is not JSON serializable", typeName(v))
	return ""
}

func (r *renderer) jsonKey(k any) string {
	if s, ok := k.(string); ok {
		return s
	}
	return r.jsonScalar(k)
}

func (r *renderer) sortedByKey(d *Dict) *Dict {
	sorted := NewDict()
	for _, pair := range r.sorted(r.pairs(d), func(v any) any { return v.(*List).Items[0] }, true,
		false) {
		kv := pair.(*List).Items
		r.put(sorted, kv[0], kv[1])
	}
	return sorted
}

func (r *renderer) writeJSONString(b *strings.Builder, s string, ascii bool) {
	r.charge(len(s))
	r.read(len(s))
	before := b.Len()
	defer func() { r.grown(b, before+len(s)) }()
	b.WriteByte('"')
	from := 0
	for i, c := range s {
		text := ""
		switch {
		case c == '"' || c == '\\':
			text = `\` + string(c)
		case c == '\n':
			text = `\n`
		case c == '\r':
			text = `\r`
		case c == '\t':
			text = `\t`
		case c == '\b':
			text = `\b`
		case c == '\f':
			text = `\f`
		case c < 0x20 || ascii && c >= 0x7f:
			b.WriteString(s[from:i])
			if c >= 0x10000 {
				writeHex(b, `\u`, 0xd800+(c-0x10000)>>10, 4)
				writeHex(b, `\u`, 0xdc00+(c-0x10000)&0x3ff, 4)
			} else {
				writeHex(b, `\u`, c, 4)
			}
			from = i + utf8.RuneLen(c)
			continue
		default:
			continue
		}
		b.WriteString(s[from:i])
		b.WriteString(text)
		from = i + utf8.RuneLen(c)
	}
	b.WriteString(s[from:])
	b.WriteByte('"')
}
