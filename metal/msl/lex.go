package msl

// Words and marks of a source, with the place a person would look for them: `#line` directives, which the include-inliner writes,
// are followed here as every compiler does.

import (
	"regexp"
	"strconv"
	"strings"
)

// token is one word, number or mark.
type token struct {
	text  string
	pos   int // byte offset in the source
	file  string
	line  int
	ident bool
}

// end is the byte offset behind t.
func (t token) end() int { return t.pos + len(t.text) }

var (
	blank         = regexp.MustCompile(`^(?:\s+|//[^\n]*|(?s:/\*.*?\*/)|#(?:\\\n|[^\n])*)`)
	word          = regexp.MustCompile(`(?s)^(?:[A-Za-z_]\w*|\.?\d[\w.]*(?:[eE][+-]?\d+\w*)?|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[\[|\]\]|::|->|<<=|>>=|<<|&&|\|\||[+\-*/%&|^=!<>]=|\+\+|--|.)`)
	lineDirective = regexp.MustCompile(`^#line (\d+) "([^"\n]*)"`)
)

// lex cuts text into tokens; it never fails, since what is no word is a mark of one character.
func lex(file, text string) []token {
	var tokens []token
	line := 1
	for at := 0; at < len(text); {
		if m := blank.FindString(text[at:]); m != "" {
			if d := lineDirective.FindStringSubmatch(m); d != nil {
				file = d[2]
				line, _ = strconv.Atoi(d[1])
				line-- // the directive counts the line after itself
			}
			line += strings.Count(m, "\n")
			at += len(m)
			continue
		}
		m := word.FindString(text[at:])
		if m == "" { // a byte that is no UTF-8
			m = text[at : at+1]
		}
		c := m[0]
		tokens = append(tokens, token{text: m, pos: at, file: file, line: line, ident: c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'})
		line += strings.Count(m, "\n")
		at += len(m)
	}
	return tokens
}

// tokens with bounds: whatever a broken source leads to, at answers.
type tokens []token

// at is token i, the zero token outside.
func (ts tokens) at(i int) token {
	if i < 0 || i >= len(ts) {
		return token{}
	}
	return ts[i]
}

// closing is the index of the mark that closes the one at i, len(ts) if none does.
func (ts tokens) closing(i int, open, close string) int {
	depth := 0
	for ; i < len(ts); i++ {
		switch ts[i].text {
		case open:
			depth++
		case close:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(ts)
}

// closingAngle is closing for "<" at i, or -1 where it is no template bracket.
func (ts tokens) closingAngle(i int) int {
	depth := 0
	for ; i < len(ts); i++ {
		switch ts[i].text {
		case "<":
			depth++
		case ">":
			depth--
		case ">>":
			depth -= 2
		case ";", "{":
			return -1
		}
		if depth <= 0 {
			return i
		}
	}
	return -1
}

// words joins tokens [from, to) by spaces.
func (ts tokens) words(from, to int) string {
	var b strings.Builder
	for i := from; i < min(to, len(ts)); i++ {
		if i > from {
			b.WriteByte(' ')
		}
		b.WriteString(ts[i].text)
	}
	return b.String()
}
