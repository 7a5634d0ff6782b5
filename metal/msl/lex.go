package msl

// The lexer. It follows #line directives, which Inline writes, so that every token has its place in
// the original file.

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is one word, number or punctuator.
type token struct {
	text  string
	pos   int // byte offset in the source
	file  string
	line  int
	ident bool
}

// end returns the byte offset after t.
func (t token) end() int { return t.pos + len(t.text) }

var lineDirective = regexp.MustCompile(`^#line (\d+) "([^"\n]*)"`)

// lex splits text into tokens. It never fails: a character that begins no other token is a
// punctuator.
func lex(file, text string) []token {
	var tokens []token
	line := 1
	for at := 0; at < len(text); {
		n, blank := next(text[at:])
		word := text[at : at+n]
		if !blank {
			c := word[0]
			tokens = append(tokens, token{text: word, pos: at, file: file, line: line,
				ident: letter(c) && !digit(c)})
		} else if word[0] == '#' {
			if d := lineDirective.FindStringSubmatch(word); d != nil {
				file = d[2]
				line, _ = strconv.Atoi(d[1])
				line-- // the directive gives the number of the next line
			}
		}
		line += strings.Count(word, "\n")
		at += n
	}
	return tokens
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// letter reports whether c may be part of a word: a letter, digit or underscore.
func letter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c)
}

// punctuators of two and three characters, the longer ones first.
var punctuators = []string{
	"<<=", ">>=", "[[", "]]", "::", "->", "<<", ">>", "&&", "||", "+=", "-=", "*=", "/=", "%=",
	"&=", "|=", "^=", "==", "!=", "<=", ">=", "++", "--",
}

// next returns the length of the first token in text. blank reports that it is white space, a
// comment or a directive rather than a token. text must not be empty.
func next(text string) (n int, blank bool) {
	c := text[0]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		return 1, true
	case strings.HasPrefix(text, "//"):
		return lineEnd(text), true
	case strings.HasPrefix(text, "/*"):
		if end := strings.Index(text[2:], "*/"); end >= 0 {
			return end + 4, true
		}
	case c == '#':
		for n = lineEnd(text); n < len(text) && text[n-1] == '\\'; {
			n += 1 + lineEnd(text[n+1:])
		}
		return n, true
	case c == '"' || c == '\'':
		return quoted(text), false
	case letter(c) || c == '.' && len(text) > 1 && digit(text[1]):
		number := !letter(c) || digit(c)
		for n = 1; n < len(text) && (letter(text[n]) || number && text[n] == '.'); n++ {
		}
		return n, false
	}
	for _, m := range punctuators {
		if strings.HasPrefix(text, m) {
			return len(m), false
		}
	}
	_, n = utf8.DecodeRuneInString(text)
	return n, false
}

// lineEnd returns the length of text's first line, without its newline.
func lineEnd(text string) int {
	if n := strings.IndexByte(text, '\n'); n >= 0 {
		return n
	}
	return len(text)
}

// quoted returns the length of the string or character literal that text begins with, or 1, the
// quote, if it does not end on its line.
func quoted(text string) int {
	for i := 1; i < len(text) && text[i] != '\n'; i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 1
}

// tokens is a list with bounds checks, for sources that are broken.
type tokens []token

// at returns token i, the zero token if there is none.
func (ts tokens) at(i int) token {
	if i < 0 || i >= len(ts) {
		return token{}
	}
	return ts[i]
}

// closing returns the index of the bracket that closes the one at i, len(ts) if there is none.
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

// closingAngle is closing for the "<" at i. It returns -1 if that is not a template bracket.
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

// words joins tokens [from, to) with spaces.
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
