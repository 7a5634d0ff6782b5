package tokenizer

// Decode returns the text of ids, without special tokens if skipSpecial. Ids
// outside the vocabulary are left out. Bytes that are not UTF-8, such as half a
// character at the end, become U+FFFD.
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

// Stream decodes ids one at a time. The pieces it returns, joined, are what
// Decode returns for all ids together; each is whole characters. Not safe for
// concurrent use.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	pending     []byte // up to three bytes of an unfinished character
	text        []byte // scratch
}

// NewStream returns a stream that leaves out special tokens if skipSpecial.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial}
}

// Add takes the next id and returns the text that is now certain; empty while
// the bytes so far end inside a character.
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

// Close ends the text: it returns U+FFFD if a character stayed unfinished, else
// the empty string. The stream is then empty and may be used again.
func (s *Stream) Close() string {
	if len(s.pending) == 0 {
		return ""
	}
	s.pending = s.pending[:0]
	return replacement
}
