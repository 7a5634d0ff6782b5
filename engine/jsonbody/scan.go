package jsonbody

// A strict check of a body before anything is built from it. encoding/json accepts bodies that mean
// different things to different programs: duplicate keys, and halves of surrogate pairs. Its values
// can also take many times the memory of their text.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"headroom/engine/generate"
)

// Limits of one body.
const (
	MaxDepth        = 128     // nested arrays and objects
	MaxValues       = 1 << 18 // values, without the token ids of a prompt
	MaxPromptTokens = 1 << 22 // token ids in prompt: several times the longest context
	MaxMessages     = 16384   // entries of messages
	MaxTools        = 1024    // entries of tools, and of functions
	MaxNameBytes    = 1024    // of a model or a function
)

// scanner checks one JSON text. Its methods advance at past what they have checked.
type scanner struct {
	data   []byte
	at     int
	depth  int
	values int
	tokens int
	prompt bool // inside the field prompt of the body
}

// scan checks that the body is one JSON value within the limits, without duplicate keys and without
// lone surrogates.
func scan(body []byte) error {
	s := scanner{data: body}
	err := s.value()
	if err == nil {
		if s.space(); s.at < len(body) {
			err = errSyntax
		}
	}
	if err == errSyntax {
		return syntaxError(body)
	}
	if err != nil {
		return err
	}
	return nil
}

// errSyntax means that encoding/json can tell better what is wrong.
var errSyntax = BadBody("The body is not valid JSON")

// syntaxError returns encoding/json's error for a body.
func syntaxError(body []byte) error {
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(body, &raw); errors.As(err, &syntax) {
		return BadBody("The body is not valid JSON: %s, at %s", syntax.Error(),
			position(body, syntax.Offset))
	}
	return errSyntax
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

func (s *scanner) value() *Error {
	s.space()
	c := s.peek()
	if s.prompt && s.depth > 1 && (c == '-' || c >= '0' && c <= '9') {
		s.tokens++
	} else {
		s.values++
	}
	switch {
	case s.values > MaxValues:
		return BadBody("The body has more than %d values", MaxValues)
	case s.tokens > MaxPromptTokens:
		return generate.BadParam("prompt", "at most %d token ids", MaxPromptTokens)
	}
	switch c {
	case '{':
		return s.nested(s.object)
	case '[':
		return s.nested(s.array)
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) nested(read func() *Error) *Error {
	if s.depth++; s.depth > MaxDepth {
		return BadBody("The body is nested too deeply: the limit is %d levels, at %s", MaxDepth,
			position(s.data, int64(s.at)+1))
	}
	s.at++ // the bracket
	err := read()
	s.depth--
	return err
}

func (s *scanner) object() *Error {
	var keys keySet
	for first := true; ; first = false {
		s.space()
		if first && s.peek() == '}' {
			s.at++
			return nil
		}
		begin := s.at
		if err := s.text(); err != nil {
			return err
		}
		key := decoded(s.data[begin:s.at])
		if !keys.add(key) {
			return BadBody("The body has the key %s twice in one object, at %s",
				Shorten(s.data[begin:s.at]), position(s.data, int64(begin)+1))
		}
		if s.space(); s.peek() != ':' {
			return errSyntax
		}
		s.at++
		if s.depth == 1 {
			s.prompt = string(key) == "prompt"
		}
		if err := s.value(); err != nil {
			return err
		}
		if done, err := s.next('}'); done || err != nil {
			return err
		}
	}
}

func (s *scanner) array() *Error {
	if s.space(); s.peek() == ']' {
		s.at++
		return nil
	}
	for {
		if err := s.value(); err != nil {
			return err
		}
		if done, err := s.next(']'); done || err != nil {
			return err
		}
	}
}

// next reads a comma, or the closing bracket.
func (s *scanner) next(closing byte) (done bool, err *Error) {
	s.space()
	switch s.peek() {
	case closing:
		s.at++
		return true, nil
	case ',':
		s.at++
		return false, nil
	}
	return false, errSyntax
}

func (s *scanner) word(word string) *Error {
	if !bytes.HasPrefix(s.data[s.at:], []byte(word)) {
		return errSyntax
	}
	s.at += len(word)
	return nil
}

func (s *scanner) number() *Error {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.digits() {
		return errSyntax
	}
	if s.peek() == '.' {
		s.at++
		if !s.digits() {
			return errSyntax
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return errSyntax
		}
	}
	return nil
}

func (s *scanner) digits() (some bool) {
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
		some = true
	}
	return some
}

// text checks a string.
func (s *scanner) text() *Error {
	if s.peek() != '"' {
		return errSyntax
	}
	for s.at++; s.at < len(s.data); {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c < 0x20:
			return errSyntax
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		default:
			s.at += plain(s.data[s.at:])
		}
	}
	return errSyntax
}

// plain returns how many bytes at the beginning of a string are neither its end nor an escape nor a
// control character. It looks at eight of them at once: long texts are most of a body.
func plain(text []byte) (n int) {
	const each = 0x0101010101010101
	for ; len(text)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(text[n:])
		quote, escape := x^each*'"', x^each*'\\'
		// The lowest bit that is set is of the first byte that is meant; see Warren, Hacker's
		// Delight, 6-1.
		found := (x-each*0x20)&^x | (quote-each)&^quote | (escape-each)&^escape
		if found &= each * 0x80; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(text) && text[n] != '"' && text[n] != '\\' && text[n] >= 0x20 {
		n++
	}
	return n
}

// decoded decodes a string with its quotes.
func decoded(quoted []byte) []byte {
	if inside := quoted[1 : len(quoted)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // it is valid
	return []byte(text)
}

// escape checks one escape sequence, or two that form a surrogate pair.
func (s *scanner) escape() *Error {
	begin := s.at
	s.at++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return nil
	case 'u':
	default:
		return errSyntax
	}
	unit, ok := s.unit()
	if !ok {
		return errSyntax
	}
	if unit < 0xD800 || unit > 0xDFFF {
		return nil
	}
	if low, ok := s.pairedUnit(); unit > 0xDBFF || !ok || low < 0xDC00 || low > 0xDFFF {
		return BadBody("The body has %s, which is half of a character, at %s. Send both halves of "+
			"a surrogate pair, or JSON encoded as UTF-8", s.data[begin:begin+6],
			position(s.data, int64(begin)+1))
	}
	return nil
}

// unit reads "uXXXX".
func (s *scanner) unit() (unit uint64, ok bool) {
	if len(s.data)-s.at < 5 {
		return 0, false
	}
	for _, c := range s.data[s.at+1 : s.at+5] { // ParseUint accepts more than digits
		if c >= utf8.RuneSelf || !isHex(c) {
			return 0, false
		}
	}
	unit, err := strconv.ParseUint(string(s.data[s.at+1:s.at+5]), 16, 16)
	s.at += 5
	return unit, err == nil
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// pairedUnit reads "\uXXXX" if it follows.
func (s *scanner) pairedUnit() (unit uint64, ok bool) {
	if !bytes.HasPrefix(s.data[s.at:], []byte(`\u`)) {
		return 0, false
	}
	s.at++
	return s.unit()
}

// keySet is the set of the keys of one object. Most objects have few keys.
type keySet struct {
	few  [][]byte
	many map[string]struct{} // nil: few has all keys
}

// add adds a key. It returns false if the set has it already.
func (k *keySet) add(key []byte) bool {
	const some = 16
	if k.many == nil {
		if slices.ContainsFunc(k.few, func(b []byte) bool { return bytes.Equal(b, key) }) {
			return false
		}
		if k.few = append(k.few, key); len(k.few) <= some {
			return true
		}
		k.many = make(map[string]struct{}, 2*some)
		for _, b := range k.few {
			k.many[string(b)] = struct{}{}
		}
		return true
	}
	if _, has := k.many[string(key)]; has {
		return false
	}
	k.many[string(key)] = struct{}{}
	return true
}
