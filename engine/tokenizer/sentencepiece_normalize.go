package tokenizer

// Normalization as SentencePiece does it. Source: https://github.com/google/sentencepiece,
// src/normalizer.cc

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// pieceNormalizer replaces characters by those of chars, and writes spaces as a symbol.
// User-defined symbols stay as they are. Their spaces, and those of a replacement, count together:
// only the first ones can be dropped.
type pieceNormalizer struct {
	chars   *charsMap    // nil: none
	symbols *addedTokens // user-defined
	dummy   bool         // add a space to the text
	suffix  bool         // at its end, not at its beginning
	squeeze bool         // drop spaces at both ends, and those after a space
	space   string       // what a space is written as
}

// normalize is the normalizeStep.
func (n *pieceNormalizer) normalize(e *encoder, text string) string {
	s := pieceScanner{n: n, e: e, text: text}
	w := spaceWriter{space: n.space, squeeze: n.squeeze, after: n.squeeze}
	at := 0
	for n.squeeze && at < len(text) && e.err == nil {
		part, size, ok := s.match(at)
		if !ok {
			part, size = text[at:at+1], 1
		}
		if part != " " {
			break
		}
		at += size
	}
	if at == len(text) || e.err != nil {
		return ""
	}
	w.out = make([]byte, 0, len(text)-at+(len(text)-at)/4+2*len(n.space))
	if n.dummy && !n.suffix {
		w.out = append(w.out, n.space...)
	}
	for at < len(text) && e.err == nil {
		part, size, ok := s.match(at)
		if !ok {
			size = s.plain(at)
			part = text[at : at+size]
		}
		if e.grow(len(part) - size + strings.Count(part, " ")*(len(n.space)-1)) {
			w.write(part, ok)
		}
		at += size
	}
	for n.squeeze && bytes.HasSuffix(w.out, []byte(n.space)) {
		w.out = w.out[:len(w.out)-len(n.space)]
	}
	if n.dummy && n.suffix {
		w.out = append(w.out, n.space...)
	}
	return string(w.out)
}

// pieceScanner finds what a pieceNormalizer keeps or replaces in a text.
type pieceScanner struct {
	n        *pieceNormalizer
	e        *encoder
	text     string
	from, to int // the next symbol, if it has been searched
	searched bool
	checkAt  int
}

// symbol finds the next symbol that begins at text[at:] or later.
func (s *pieceScanner) symbol(at int) {
	if s.searched && at <= s.from {
		return
	}
	s.searched = true
	var token *addedToken
	if s.from, s.to, token = s.n.symbols.find(s.e, s.text, at); token == nil {
		s.from, s.to = len(s.text), len(s.text)
	}
}

// match returns what the text at a position becomes, and how many bytes of it. ok is false if the
// character there has no replacement.
func (s *pieceScanner) match(at int) (part string, size int, ok bool) {
	if at >= s.checkAt {
		if s.checkAt += checkBytes; s.e.check() {
			return "", 0, false
		}
	}
	if s.symbol(at); at == s.from {
		return s.text[at:s.to], s.to - at, true
	}
	if s.n.chars == nil {
		return "", 0, false
	}
	return s.n.chars.find(s.text[at:], true)
}

// plain returns the number of bytes up to the next match. There is none at the position itself.
func (s *pieceScanner) plain(at int) int {
	if s.n.chars == nil {
		return s.from - at
	}
	end := at
	for end == at || end < len(s.text) {
		if end > at {
			if _, _, ok := s.match(end); ok || s.e.err != nil {
				break
			}
		}
		_, size := utf8.DecodeRuneInString(s.text[end:])
		end += size
	}
	return end - at
}

// spaceWriter writes text, in which it replaces spaces.
type spaceWriter struct {
	out     []byte
	space   string
	squeeze bool
	after   bool // the last character was a space
}

// write writes a part. If whole is true, the part counts as one character.
func (w *spaceWriter) write(part string, whole bool) {
	if whole && w.squeeze && w.after {
		part = strings.TrimLeft(part, " ")
	}
	for part != "" {
		i := strings.IndexByte(part, ' ')
		if i != 0 {
			w.after = false
		}
		if i < 0 {
			w.out = append(w.out, part...)
			return
		}
		w.out = append(w.out, part[:i]...)
		if whole || !w.squeeze || !w.after {
			w.out = append(w.out, w.space...)
		}
		w.after = true
		part = part[i+1:]
	}
}
