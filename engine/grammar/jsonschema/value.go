package jsonschema

// JSON values with the order of their members, and the one text that stands for each value.

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	array
	object
)

var kindNames = [...]string{"null", "boolean", "number", "string", "array", "object"}

// value is a JSON value. path is where it is in the schema.
type value struct {
	kind    kind
	is      bool   // boolean
	text    string // text; number as written
	items   []*value
	members []member // object
	index   map[string]*value
	parent  *value
	token   string // its key or index in parent
	hash    uint64 // equal for values that are written alike
}

type member struct {
	key   string
	value *value
}

// get returns a member, nil if there is none.
func (v *value) get(key string) *value {
	if v.index != nil {
		return v.index[key]
	}
	for i := range v.members {
		if v.members[i].key == key {
			return v.members[i].value
		}
	}
	return nil
}

// path returns the JSON pointer of a value.
func (v *value) path() string {
	if v == nil || v.parent == nil {
		return ""
	}
	return v.parent.path() + "/" + escapePointer.Replace(v.token)
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// maxDepth bounds the nesting of a schema.
const maxDepth = 200

// maxBytes bounds a schema. The largest of JSONSchemaBench has 0.7 MB.
const maxBytes = 1 << 20

type parser struct {
	text   []byte
	at     int
	values int
}

// maxValues bounds the values of a schema.
const maxValues = 50_000

// parse parses a JSON text. Members may not have the same key.
func parse(data []byte) (*value, error) {
	if len(data) > maxBytes {
		return nil, &Invalid{Reason: "the schema has " + strconv.Itoa(len(data)) +
			" bytes, the limit is " + strconv.Itoa(maxBytes)}
	}
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, &Invalid{Reason: "the schema is not JSON"}
	}
	p := &parser{text: data}
	return p.value(nil, "", 0)
}

// space skips white space and returns the next byte.
func (p *parser) space() byte {
	for strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	return p.text[p.at]
}

func (p *parser) value(parent *value, token string, depth int) (*value, error) {
	v := &value{parent: parent, token: token}
	p.values++
	if depth > maxDepth {
		return nil, &Invalid{Reason: "the schema is nested more than " + strconv.Itoa(maxDepth) +
			" levels deep"}
	}
	if p.values > maxValues {
		return nil, &Invalid{Reason: "the schema has more than " + strconv.Itoa(maxValues) +
			" values"}
	}
	defer v.sum()
	switch c := p.space(); c {
	case '{':
		return v, p.object(v, depth)
	case '[':
		p.at++
		v.kind = array
		for p.space() != ']' {
			item, err := p.value(v, strconv.Itoa(len(v.items)), depth+1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, item)
			if p.space() == ',' {
				p.at++
			}
		}
		p.at++
	case '"':
		v.kind, v.text = text, p.string()
	case 't', 'f':
		v.kind, v.is = boolean, c == 't'
		p.at += len("true")
		if c == 'f' {
			p.at++
		}
	case 'n':
		p.at += len("null")
	default:
		v.kind = number
		from := p.at
		for p.at < len(p.text) && strings.IndexByte("+-.0123456789eE", p.text[p.at]) >= 0 {
			p.at++
		}
		v.text = string(p.text[from:p.at])
	}
	return v, nil
}

// sum computes the hash, of FNV-1a, from those of the values inside.
func (v *value) sum() {
	h := uint64(14695981039346656037)
	add := func(n uint64) { h = (h ^ n) * 1099511628211 }
	addText := func(s string) {
		for i := range len(s) {
			add(uint64(s[i]))
		}
		add(uint64(len(s)))
	}
	add(uint64(v.kind))
	if v.is {
		add(1)
	}
	addText(v.text)
	for _, item := range v.items {
		add(item.hash)
	}
	for _, m := range v.members {
		addText(m.key)
		add(m.value.hash)
	}
	v.hash = h
}

// same reports whether two values are written alike but for white space.
func same(a, b *value) bool {
	return a.hash == b.hash && a.kind == b.kind && a.is == b.is && a.text == b.text &&
		slices.EqualFunc(a.items, b.items, same) &&
		slices.EqualFunc(a.members, b.members, func(x, y member) bool {
			return x.key == y.key && same(x.value, y.value)
		})
}

func (p *parser) object(v *value, depth int) error {
	const indexed = 8
	p.at++
	v.kind = object
	for p.space() != '}' {
		key := p.string()
		if v.get(key) != nil {
			return &Invalid{Path: v.path(), Reason: "two members have the key " +
				strconv.Quote(key)}
		}
		p.space()
		p.at++ // the colon
		item, err := p.value(v, key, depth+1)
		if err != nil {
			return err
		}
		v.members = append(v.members, member{key, item})
		if v.index != nil {
			v.index[key] = item
		} else if len(v.members) == indexed {
			v.index = map[string]*value{}
			for _, m := range v.members {
				v.index[m.key] = m.value
			}
		}
		if p.space() == ',' {
			p.at++
		}
	}
	p.at++
	return nil
}

// string parses a string. The text is valid JSON.
func (p *parser) string() string {
	from := p.at
	escaped := false
	for p.at++; p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			escaped = true
			p.at++
		}
	}
	p.at++
	if !escaped {
		return string(p.text[from+1 : p.at-1])
	}
	var s string
	if err := json.Unmarshal(p.text[from:p.at], &s); err != nil {
		return ""
	}
	return s
}

// maxDigits bounds the digits of numbers in a schema that mean something for the grammar.
const maxDigits = 400

// rational returns the value of a number, nil if it has too many digits or none.
func (v *value) rational() *big.Rat {
	if v == nil || v.kind != number || len(v.text) > maxDigits {
		return nil
	}
	if at := strings.IndexAny(v.text, "eE"); at >= 0 {
		exponent, err := strconv.Atoi(v.text[at+1:])
		if err != nil || exponent > maxDigits || exponent < -maxDigits {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(v.text)
	if !ok {
		return nil
	}
	return r
}

// natural returns the value of a keyword that is a number of things. Draft 4 onwards allows 2.0.
func (v *value) natural() (int, bool) {
	r := v.rational()
	if r == nil || !r.IsInt() || r.Sign() < 0 {
		return 0, false
	}
	const most = 1 << 30 // nothing is as long
	if !r.Num().IsInt64() || r.Num().Int64() > most {
		return most, true
	}
	return int(r.Num().Int64()), true
}

// decimal returns the digits of a number without an exponent and without zeros at its end. ok is
// false if it has none: one third.
func decimal(r *big.Rat) (digits string, ok bool) {
	if r.IsInt() {
		return r.Num().String(), true
	}
	// A decimal fraction has a denominator with no prime factors but 2 and 5.
	d := new(big.Int).Set(r.Denom())
	places := 0
	for _, factor := range []*big.Int{big.NewInt(2), big.NewInt(5)} {
		n, m := 0, new(big.Int)
		for q := new(big.Int); ; n++ {
			if q.QuoRem(d, factor, m); m.Sign() != 0 {
				break
			}
			d.Set(q)
		}
		places = max(places, n)
	}
	if d.Cmp(big.NewInt(1)) != 0 {
		return "", false
	}
	return r.FloatString(places), true
}

// equal reports whether two values are equal as JSON Schema compares them: numbers by value,
// objects without the order of their members.
func equal(a, b *value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case boolean:
		return a.is == b.is
	case text:
		return a.text == b.text
	case number:
		x, y := a.rational(), b.rational()
		return x != nil && y != nil && x.Cmp(y) == 0 || a.text == b.text
	case array:
		return slices.EqualFunc(a.items, b.items, equal)
	case object:
		if len(a.members) != len(b.members) {
			return false
		}
		for _, m := range a.members {
			if other := b.get(m.key); other == nil || !equal(m.value, other) {
				return false
			}
		}
	}
	return true
}

// quoteContent returns what stands between the quotation marks of a string. Each character has one
// spelling: itself where JSON allows it, else the short escape if there is one.
func quoteContent(s string) string {
	var b bytes.Buffer
	for _, r := range s {
		b.WriteString(spelling(r))
	}
	return b.String()
}

func spelling(r rune) string {
	switch r {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	if r < ' ' {
		const hex = "0123456789abcdef"
		return `\u00` + string(hex[r>>4]) + string(hex[r&15])
	}
	return string(r)
}
