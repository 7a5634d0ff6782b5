package chat

// This file converts arguments that are Python literals instead of JSON. The whole text must be one
// literal.

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// pythonLiteral converts a Python literal to JSON: models that were trained on
// Python write {'a': True} instead of {"a": true}. It supports dicts with string
// keys, lists, tuples (as lists), strings, numbers, True, False and None.
// Source: https://docs.python.org/3/reference/lexical_analysis.html#literals
func pythonLiteral(text string) (string, bool) {
	p := literalParser{text: strings.ToValidUTF8(text, "\uFFFD")}
	if !p.value(0) {
		return "", false
	}
	p.skip()
	return p.out.String(), p.at == len(p.text)
}

// literalParser parses text from at on and writes JSON to out. Its methods return
// false where the text is not a literal.
type literalParser struct {
	text string
	at   int
	out  strings.Builder
}

const maxLiteralDepth = 64

func (p *literalParser) skip() { p.at = skipSpaces(p.text, p.at) }

// take consumes word if it is next.
func (p *literalParser) take(word string) bool {
	if !strings.HasPrefix(p.text[p.at:], word) {
		return false
	}
	p.at += len(word)
	return true
}

func (p *literalParser) value(depth int) bool {
	p.skip()
	if p.at == len(p.text) || depth > maxLiteralDepth {
		return false
	}
	switch c := p.text[p.at]; c {
	case '{':
		return p.items(depth, '{', '}', "}")
	case '[':
		return p.items(depth, '[', ']', "]")
	case '(':
		return p.items(depth, '[', ']', ")")
	case '\'', '"':
		s, ok := p.str(c)
		p.out.WriteString(quote(s))
		return ok
	}
	n := strings.IndexAny(p.text[p.at:], ",:]}) \t\r\n")
	if n < 0 {
		n = len(p.text) - p.at
	}
	word := p.text[p.at : p.at+n]
	p.at += n
	if json, ok := map[string]string{"True": "true", "False": "false", "None": "null",
		"true": "true", "false": "false", "null": "null"}[word]; ok {
		p.out.WriteString(json)
		return true
	}
	json, ok := number(word, false)
	p.out.WriteString(json)
	return ok
}

// items reads the items between brackets, with an optional trailing comma.
func (p *literalParser) items(depth int, open, end byte, closing string) bool {
	p.at++
	p.out.WriteByte(open)
	for n := 0; ; n++ {
		if p.skip(); p.take(closing) {
			break
		}
		if n > 0 {
			p.out.WriteByte(',')
		}
		if open == '{' && !p.key() || !p.value(depth+1) {
			return false
		}
		if p.skip(); !p.take(",") && !strings.HasPrefix(p.text[p.at:], closing) {
			return false
		}
	}
	p.out.WriteByte(end)
	return true
}

// key reads a key such as 'name' and the colon after it.
func (p *literalParser) key() bool {
	if p.at == len(p.text) || p.text[p.at] != '\'' && p.text[p.at] != '"' {
		return false
	}
	s, ok := p.str(p.text[p.at])
	if p.skip(); !ok || !p.take(":") {
		return false
	}
	p.out.WriteString(quote(s) + ":")
	return true
}

// str reads a string that ends with delimiter.
func (p *literalParser) str(delimiter byte) (string, bool) {
	var b strings.Builder
	for p.at++; p.at < len(p.text); {
		switch c := p.text[p.at]; {
		case c == delimiter:
			p.at++
			return b.String(), true
		case c == '\\':
			r, ok := p.escape()
			if !ok {
				return "", false
			}
			b.WriteString(r)
		default:
			r, size := utf8.DecodeRuneInString(p.text[p.at:])
			b.WriteRune(r)
			p.at += size
		}
	}
	return "", false
}

// escape reads an escape sequence. An escape that Python does not define stays unchanged.
func (p *literalParser) escape() (string, bool) {
	p.at++
	if p.at == len(p.text) {
		return "", false
	}
	c := p.text[p.at]
	if i := strings.IndexByte(`nrtbf\'"`, c); i >= 0 {
		p.at++
		return "\n\r\t\b\f\\'\""[i : i+1], true
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 {
		return `\`, true
	}
	from := p.at + 1
	if from+digits > len(p.text) {
		return "", false
	}
	r, err := strconv.ParseUint(p.text[from:from+digits], 16, 32)
	if err != nil {
		return "", false
	}
	p.at = from + digits
	return string(rune(r)), true
}
