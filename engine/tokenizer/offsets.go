package tokenizer

// Where the texts of tokens begin in a text, in characters. A token that begins inside a character
// has the offset of that character.

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Offsets finds the offsets of tokens in the text of a Stream. A token without text has the offset
// of the next one. An Offsets is not safe for concurrent use.
type Offsets struct {
	stream *Stream
	chars  int    // characters that the stream has returned
	open   []byte // of an incomplete character
}

// NewOffsets returns the Offsets of the tokens that are added to stream by Add.
func NewOffsets(stream *Stream) *Offsets { return &Offsets{stream: stream} }

// Add adds the next token to the stream, and returns the offset of its text.
func (o *Offsets) Add(id int32) int {
	at := o.chars
	if o.stream.skips(id) {
		return at
	}
	raw := o.stream.t.TokenBytes(id)
	if len(raw) > 0 && utf8.RuneStart(raw[0]) {
		at += o.invalid()
	}
	o.chars += utf8.RuneCountInString(o.stream.Add(id))
	open, from := append(o.open, raw...), 0
	for from < len(open) && !isOpen(open[from:]) {
		_, size := utf8.DecodeRune(open[from:])
		from += size
	}
	o.open = append(open[:0], open[from:]...)
	return at
}

// invalid returns how many U+FFFD the incomplete character becomes if the next token does not
// continue it.
func (o *Offsets) invalid() int {
	if o.stream.t.byteLevel {
		return min(len(o.open), 1)
	}
	return len(o.open)
}

// isOpen reports whether b is the beginning of a character.
func isOpen(b []byte) bool {
	if utf8.FullRune(b) {
		return false
	}
	_, open := subpart(b)
	return open
}

// OffsetsIn returns the offset in text of each of the tokens that encoding text with AddSpecial has
// given. They may spell the text in another way, for example composed or in lower case. The special
// tokens around the text have no text. Where the tokens do not spell the text at all, as the
// unknown token does not, offsets are approximate.
func (t *Tokenizer) OffsetsIn(text string, ids []int32) []int {
	a := &aligner{text: text}
	s := t.NewStream(false)
	offsets := make([]int, len(ids))
	end := len(ids)
	if from := end - len(t.suffix); from >= len(t.prefix) && slices.Equal(ids[from:], t.suffix) {
		end = from
	}
	for i, id := range ids {
		switch {
		case i < len(t.prefix) && id == t.prefix[i]:
		case i < end:
			offsets[i] = a.add(s.Add(id))
		default:
			offsets[i] = utf8.RuneCountInString(text)
		}
	}
	return offsets
}

// aligner finds the texts of tokens in a text. Both are compared by their letters; see letters.
// What is none, as spaces and marks, may be missing on either side.
type aligner struct {
	text  string
	at    int    // bytes before the place of the next token
	chars int    // characters before it
	rest  []rune // letters of the character before that place that no token has had
	lost  bool   // the last token was not found
}

// maxLost is how many bytes are searched for a token after one that was not found.
const maxLost = 1 << 10

// add returns the offset of the next token's text.
func (a *aligner) add(token string) int {
	if a.lost {
		a.search(strings.TrimSpace(token))
	}
	a.skip(token)
	begin := *a
	for _, r := range token {
		if !a.take(r) {
			*a = begin
			a.rest, a.lost = nil, true
			break
		}
	}
	if len(begin.rest) > 0 {
		return begin.chars - 1
	}
	return begin.chars
}

// search goes on at the next place that has a token.
func (a *aligner) search(token string) {
	window := a.text[a.at:min(a.at+maxLost, len(a.text))]
	if i := strings.Index(window, token); i >= 0 && token != "" {
		a.chars += utf8.RuneCountInString(window[:i])
		a.at += i
		a.lost = false
	}
}

// next returns the next character of the text, or -1.
func (a *aligner) next() rune {
	if a.at == len(a.text) {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(a.text[a.at:])
	return r
}

func (a *aligner) advance() {
	_, size := utf8.DecodeRuneInString(a.text[a.at:])
	a.at += size
	a.chars++
}

// skip goes past what is missing in a token before its first character.
func (a *aligner) skip(token string) {
	if token == "" || len(a.rest) > 0 {
		return
	}
	first, _ := utf8.DecodeRuneInString(token)
	for r := a.next(); r >= 0 && r != first && len(letters(nil, r)) == 0; r = a.next() {
		if unicode.IsMark(first) || isSpace(first) && isSpace(r) {
			return
		}
		a.advance()
	}
}

// take goes past a character of a token. It reports whether the text has it, too.
func (a *aligner) take(r rune) bool {
	if len(a.rest) == 0 && a.next() == r {
		a.advance()
		return true
	}
	var scratch [8]rune
	wanted := letters(scratch[:0], r)
	if len(wanted) == 0 {
		next := a.next()
		if len(a.rest) == 0 && next >= 0 && len(letters(nil, next)) == 0 &&
			isSpace(r) == isSpace(next) {
			a.advance()
		}
		return true
	}
	for _, letter := range wanted {
		for len(a.rest) == 0 {
			next := a.next()
			if next < 0 {
				return false
			}
			a.rest = letters(a.rest[:0], next)
			a.advance()
		}
		if a.rest[0] != letter {
			return false
		}
		a.rest = a.rest[1:]
	}
	return true
}

func isSpace(r rune) bool { return r == metaspace || unicode.IsSpace(r) }

// letters appends what normalizers keep of a character: its compatibility decomposition in lower
// case without spaces, marks and controls.
func letters(dst []rune, r rune) []rune {
	if r < utf8.RuneSelf {
		if r > ' ' && r < 0x7f {
			dst = append(dst, unicode.ToLower(r))
		}
		return dst
	}
	for _, part := range norm.NFKD.String(string(r)) {
		dst = appendLetter(dst, part)
	}
	return dst
}

func appendLetter(dst []rune, r rune) []rune {
	if isSpace(r) || unicode.In(r, unicode.M, unicode.C) {
		return dst
	}
	return append(dst, unicode.ToLower(r))
}
