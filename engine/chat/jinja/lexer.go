package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The lexer splits a template into text and the tokens inside its tags. It applies
// all rules about white space, so that the parser need not know them:
//
//	{%- -%}   strip all white space before and after
//	{%+ +%}   turn the two rules below off on this side
//	lstrip    strip blanks between the start of a line and a block or comment
//	trim      strip one newline directly after a block or comment
//
// Line ends become "\n", and one newline at the end of the template is dropped, as
// by default in Jinja2. Source: jinja2/lexer.py, version 3.1.

type tokenKind uint8

const (
	tokEOF      tokenKind = iota
	tokText               // template text outside tags
	tokVarBegin           // {{
	tokVarEnd             // }}
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString // text holds the unescaped string
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokenKind
	text string
	line int
}

// String returns the name of a token for error messages.
func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokVarBegin, tokBlockBegin, tokVarEnd:
		return "'" + t.text + "'"
	case tokBlockEnd:
		return "the end of the tag"
	}
	return fmt.Sprintf("%q", excerpt(t.text, maxNameBytes))
}

type lexer struct {
	src    string
	pos    int
	line   int
	tokens []token
}

func lex(source string) []token {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{src: source, line: 1}
	lineStart := true // pos is at the start of a line
	for {
		at := l.nextTag()
		if at < 0 {
			l.emit(tokText, l.src[l.pos:])
			l.emit(tokEOF, "")
			return l.tokens
		}
		text, open := l.src[l.pos:at], l.src[at:at+2]
		l.line += strings.Count(text, "\n")
		l.pos = at + 2
		sign := l.sign()
		l.emit(tokText, stripBefore(text, sign, open, lineStart))
		switch open {
		case "{#":
			l.comment()
		case "{{":
			l.emit(tokVarBegin, open)
			l.tag(tokVarEnd, "}}")
		default:
			if !l.raw() {
				l.emit(tokBlockBegin, open)
				l.tag(tokBlockEnd, "%}")
			}
		}
		lineStart = l.src[l.pos-1] == '\n'
	}
}

func (l *lexer) emit(kind tokenKind, text string) {
	if kind == tokText && text == "" {
		return
	}
	l.add(token{kind, text, l.line})
}

func (l *lexer) add(t token) {
	if len(l.tokens) == maxTokens {
		l.fail("the template has more than %d tokens", maxTokens)
	}
	l.tokens = append(l.tokens, t)
}

func (l *lexer) fail(format string, args ...any) {
	panic(&Error{Line: l.line, Message: fmt.Sprintf(format, args...)})
}

// nextTag returns the index of the next "{%", "{{" or "{#", or -1.
func (l *lexer) nextTag() int {
	for i := l.pos; ; i++ {
		j := strings.IndexByte(l.src[i:], '{')
		if j < 0 || i+j+1 >= len(l.src) {
			return -1
		}
		i += j
		if c := l.src[i+1]; c == '%' || c == '{' || c == '#' {
			return i
		}
	}
}

// sign consumes the - or + after a tag's opening.
func (l *lexer) sign() byte {
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		l.pos++
		return l.src[l.pos-1]
	}
	return 0
}

// stripBefore applies the rules for the text before a tag.
func stripBefore(text string, sign byte, open string, lineStart bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || open == "{{" {
		return text
	}
	from := strings.LastIndexByte(text, '\n') + 1
	if (from > 0 || lineStart) && strings.TrimLeftFunc(text[from:], isSpace) == "" {
		return text[:from]
	}
	return text
}

// advance moves over n bytes, counting lines.
func (l *lexer) advance(n int) {
	l.line += strings.Count(l.src[l.pos:l.pos+n], "\n")
	l.pos += n
}

// skipSpace moves over white space.
func (l *lexer) skipSpace() {
	rest := l.src[l.pos:]
	l.advance(len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
}

// closing consumes the end of a tag with its sign, and the white space that the rules strip after
// it. It returns false if the end of the tag is not next.
func (l *lexer) closing(end string) bool {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, "-"+end):
		l.pos += 1 + len(end)
		l.skipSpace()
	case strings.HasPrefix(rest, "+"+end) && end != "}}":
		l.pos += 1 + len(end)
	case strings.HasPrefix(rest, end):
		l.pos += len(end)
		if end != "}}" && l.pos < len(l.src) && l.src[l.pos] == '\n' {
			l.advance(1)
		}
	default:
		return false
	}
	return true
}

func (l *lexer) comment() {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		l.fail("the comment is never closed with '#}'")
	}
	if i > 0 && (l.src[l.pos+i-1] == '-' || l.src[l.pos+i-1] == '+') {
		i--
	}
	l.advance(i)
	l.closing("#}")
}

// raw handles {% raw %} up to {% endraw %}. It returns false for any other tag.
func (l *lexer) raw() bool {
	begin, line := l.pos, l.line
	l.skipSpace()
	name := "raw"
	if !strings.HasPrefix(l.src[l.pos:], name) {
		l.pos, l.line = begin, line
		return false
	}
	l.pos += len(name)
	l.skipSpace()
	switch rest := l.src[l.pos:]; {
	case strings.HasPrefix(rest, "-%}"):
		l.pos += 3
		l.skipSpace()
	case strings.HasPrefix(rest, "%}"): // no newline is trimmed here
		l.pos += 2
	default:
		l.pos, l.line = begin, line
		return false
	}
	for from := l.pos; ; {
		i := strings.Index(l.src[l.pos:], "{%")
		if i < 0 {
			l.fail("the raw block is never closed with '{%% endraw %%}'")
		}
		text := l.src[from : l.pos+i]
		l.advance(i + 2)
		sign := l.sign()
		l.skipSpace()
		if !strings.HasPrefix(l.src[l.pos:], "endraw") {
			continue
		}
		l.pos += len("endraw")
		l.skipSpace()
		if l.closing("%}") {
			l.emit(tokText, stripBefore(text, sign, "{%", false))
			return true
		}
	}
}

// tag splits the inside of a tag into tokens, up to and including its end.
func (l *lexer) tag(endKind tokenKind, end string) {
	var open []byte // brackets not yet closed; inside them "}}" is not an end
	for {
		l.skipSpace()
		if l.pos >= len(l.src) {
			l.fail("a tag is never closed with '%s'", end)
		}
		line := l.line
		if len(open) == 0 && l.closing(end) {
			l.add(token{endKind, end, line})
			return
		}
		c := l.src[l.pos]
		switch r, _ := utf8.DecodeRuneInString(l.src[l.pos:]); {
		case c == '"' || c == '\'':
			l.str(c)
		case c >= '0' && c <= '9':
			l.number()
		case c == '_' || unicode.IsLetter(r):
			l.name()
		default:
			open = l.operator(open)
		}
	}
}

func (l *lexer) name() {
	rest := l.src[l.pos:]
	n := strings.IndexFunc(rest, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if n < 0 {
		n = len(rest)
	}
	l.emit(tokName, rest[:n])
	l.pos += n
}

var twoByteOps = map[string]bool{"//": true, "**": true, "==": true, "!=": true, ">=": true,
	"<=": true}

func (l *lexer) operator(open []byte) []byte {
	if l.pos+2 <= len(l.src) && twoByteOps[l.src[l.pos:l.pos+2]] {
		l.emit(tokOp, l.src[l.pos:l.pos+2])
		l.pos += 2
		return open
	}
	c := l.src[l.pos]
	switch c {
	case '(', '[', '{':
		open = append(open, c)
	case ')', ']', '}':
		pair := map[byte]byte{')': '(', ']': '[', '}': '{'}
		if len(open) == 0 || open[len(open)-1] != pair[c] {
			l.fail("unexpected '%c'", c)
		}
		open = open[:len(open)-1]
	case '+', '-', '/', '*', '%', '~', '>', '<', '=', '.', ':', '|', ',', ';':
	default:
		r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
		l.fail("unexpected character %q", r)
	}
	l.emit(tokOp, string(c))
	l.pos++
	return open
}

// number reads an integer (decimal, 0x, 0o, 0b, with underscores) or a float.
func (l *lexer) number() {
	digits := func(i int) int { // the end of digits and underscores from i
		for i < len(l.src) && (l.src[i] >= '0' && l.src[i] <= '9' || l.src[i] == '_') {
			i++
		}
		return i
	}
	isDigit := func(i int) bool { return i < len(l.src) && l.src[i] >= '0' && l.src[i] <= '9' }
	kind, to := tokInt, digits(l.pos)
	afterDot := l.pos > 0 && l.src[l.pos-1] == '.' // a.0.b is two lookups, not a float
	if rest := l.src[l.pos:]; len(rest) > 2 && rest[0] == '0' &&
		strings.ContainsRune("xXoObB", rune(rest[1])) {
		to = l.pos + 2
		for to < len(l.src) && strings.IndexByte("0123456789abcdefABCDEF_", l.src[to]) >= 0 {
			to++
		}
	} else if !afterDot {
		if to < len(l.src) && l.src[to] == '.' && isDigit(to+1) {
			kind, to = tokFloat, digits(to+1)
		}
		if to < len(l.src) && (l.src[to] == 'e' || l.src[to] == 'E') {
			exp := to + 1
			if exp < len(l.src) && (l.src[exp] == '+' || l.src[exp] == '-') {
				exp++
			}
			if isDigit(exp) {
				kind, to = tokFloat, digits(exp)
			}
		}
	}
	l.emit(kind, strings.ReplaceAll(l.src[l.pos:to], "_", ""))
	l.pos = to
}

func (l *lexer) str(quote byte) {
	line := l.line
	for i := l.pos + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case quote:
			text, err := unescape(l.src[l.pos+1 : i])
			if err != nil {
				l.fail("%s", err)
			}
			l.advance(i + 1 - l.pos)
			l.add(token{tokString, text, line})
			return
		}
	}
	l.fail("a string is never closed with %c", quote)
}

// simpleEscapes are Python's one-letter escapes.
var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b",
	'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape decodes a string literal as Python's unicode-escape codec does: an
// unknown escape keeps its backslash.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if text, ok := simpleEscapes[s[i]]; ok {
			b.WriteString(text)
			continue
		}
		base, from, count := rune(16), i+1, map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if s[i] >= '0' && s[i] <= '7' {
			base, from, count = 8, i, 1
			for count < 3 && from+count < len(s) && s[from+count] >= '0' && s[from+count] <= '7' {
				count++
			}
		}
		if count == 0 {
			b.WriteByte('\\')
			b.WriteByte(s[i])
			continue
		}
		var r rune
		for k := range count {
			d := -1
			if from+k < len(s) {
				d = strings.IndexByte("0123456789abcdef", s[from+k]|0x20)
			}
			if d < 0 || s[from+k] < '0' || r > utf8.MaxRune {
				return "", fmt.Errorf("the escape \\%c needs %d digits", s[i], count)
			}
			r = r*base + rune(d)
		}
		b.WriteRune(r) // a surrogate, or a value that is too large, becomes U+FFFD
		i = from + count - 1
	}
	return b.String(), nil
}

// isSpace is Python's str.isspace for one character. It includes four separators
// that unicode.IsSpace does not.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}
