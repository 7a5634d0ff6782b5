package tokenizer

// Decode returns the text of ids. If skipSpecial is true, it omits special tokens. It ignores ids
// that are not in the vocabulary. Bytes that are not valid UTF-8, such as an incomplete character
// at the end, become U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	size := 0
	for _, id := range ids {
		size += len(t.pieces.bytes(id))
	}
	b := make([]byte, 0, size)
	for _, id := range ids {
		if !skipSpecial || !t.pieces.special(id) {
			b = append(b, t.pieces.bytes(id)...)
		}
	}
	return toValidUTF8(string(b))
}

// Stream decodes ids one at a time. It returns pieces of text that consist of complete characters.
// All pieces together equal the text that Decode returns for all ids. A Stream is not safe for
// concurrent use.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	pending     []byte // up to three bytes of an incomplete character
	text        []byte // scratch memory of Add
}

// NewStream returns a Stream. If skipSpecial is true, the Stream omits special tokens.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial}
}

// Add adds the next id and returns the text that it completes. It returns "" if the bytes so far
// end inside a character.
func (s *Stream) Add(id int32) string {
	if s.skipSpecial && s.t.pieces.special(id) {
		return ""
	}
	s.pending = append(s.pending, s.t.pieces.bytes(id)...)
	text, rest := appendCertain(s.text[:0], s.pending)
	s.pending = append(s.pending[:0], rest...)
	s.text = text
	return string(text)
}

// Close ends the text. It returns U+FFFD if the last character is incomplete, and otherwise "".
// After Close the stream is empty and can be used again.
func (s *Stream) Close() string {
	if len(s.pending) == 0 {
		return ""
	}
	s.pending = s.pending[:0]
	return replacement
}
