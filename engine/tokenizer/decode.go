package tokenizer

import (
	"slices"
	"sync"
)

// Decode returns the text of ids. If skipSpecial is true, it omits special tokens. It ignores ids
// that are not in the vocabulary. Bytes that are not valid UTF-8, such as an incomplete character
// at the end, become U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	if !t.byteLevel {
		s := t.NewStream(skipSpecial)
		for _, id := range ids {
			s.add(id)
		}
		s.stage.end()
		return string(s.text)
	}
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
	keep        map[int32]bool // special tokens that are not skipped
	pending     []byte         // up to three bytes of an incomplete character, in byte-level BPE
	text        []byte         // what Add returns
	stage       decodeStage    // the first; nil for byte-level BPE
	drop        int            // bytes of text that are not returned; see begin
}

// NewStream returns a Stream. If skipSpecial is true, the Stream omits special tokens.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	s := &Stream{t: t, skipSpecial: skipSpecial}
	if !t.byteLevel {
		s.stage = (*streamEnd)(s)
		for i := len(t.decoders) - 1; i >= 0; i-- {
			s.stage = t.decoders[i](s.stage)
		}
	}
	return s
}

// Keep returns the stream, which does not omit the given special tokens. The caller must not change
// the map.
func (s *Stream) Keep(special map[int32]bool) *Stream {
	s.keep = special
	return s
}

// NewContinuation returns a Stream of tokens that continue a prompt. It omits special tokens. If
// the prompt has text, the continuation keeps the space at its beginning, which a text of its own
// would lose.
func (t *Tokenizer) NewContinuation(prompt []int32) *Stream {
	s := t.NewStream(true)
	if slices.ContainsFunc(prompt, func(id int32) bool { return !t.IsSpecial(id) }) {
		s.begin()
	}
	return s
}

// begin puts the stream behind the text of another token.
func (s *Stream) begin() *Stream {
	if s.stage != nil {
		s.drop = len(otherToken)
		s.stage.write([]byte(otherToken))
		s.stage.endToken()
	}
	return s
}

const otherToken = "x"

// Add adds the next id and returns the text that it completes. It returns "" if the text depends on
// later ids, for example because the bytes so far end inside a character.
func (s *Stream) Add(id int32) string {
	if s.stage != nil {
		s.text = s.text[:0]
		s.add(id)
		return string(s.text)
	}
	if s.skips(id) {
		return ""
	}
	s.pending = append(s.pending, s.t.pieces.bytes(id)...)
	text, rest := appendCertain(s.text[:0], s.pending)
	s.pending = append(s.pending[:0], rest...)
	s.text = text
	return string(text)
}

// skips reports whether the stream omits a token.
func (s *Stream) skips(id int32) bool {
	return s.skipSpecial && s.t.pieces.special(id) && !s.keep[id]
}

// add passes a token to the stages.
func (s *Stream) add(id int32) {
	if !s.t.pieces.used(id) || s.skips(id) {
		return
	}
	s.stage.write(s.t.pieces.bytes(id))
	s.stage.endToken()
}

// Close ends the text, and returns what Add has held back: in byte-level BPE U+FFFD if the last
// character is incomplete. After Close the stream is empty and can be used again.
func (s *Stream) Close() string {
	if s.stage != nil {
		s.text = s.text[:0]
		s.stage.end()
		return string(s.text)
	}
	if len(s.pending) == 0 {
		return ""
	}
	s.pending = s.pending[:0]
	return replacement
}

// streamEnd is the end of the stages of a Stream.
type streamEnd Stream

func (s *streamEnd) write(part []byte) {
	dropped := min(s.drop, len(part))
	s.drop -= dropped
	s.text = append(s.text, part[dropped:]...)
}

func (s *streamEnd) endToken() {}
func (s *streamEnd) end()      {}

// buildTexts sets texts.
func (t *Tokenizer) buildTexts() {
	t.texts = func() *pieceTable { return &t.pieces }
	if t.byteLevel {
		return
	}
	t.texts = sync.OnceValue(func() *pieceTable {
		out := pieceTable{flags: t.pieces.flags}
		s := t.NewStream(false)
		for id := range int32(t.pieces.size()) {
			piece := t.pieces.bytes(id)
			if b, ok := t.byteTokens[id]; ok {
				out.blob = append(out.blob, b)
			} else if b, ok := byteToken(piece); ok && t.hasByteFallback {
				out.blob = append(out.blob, b)
			} else if piece != nil {
				s.text = s.text[:0]
				s.begin().add(id)
				s.stage.end()
				out.blob = append(out.blob, s.text...)
			}
			out.ends = append(out.ends, uint32(len(out.blob)))
		}
		return &out
	})
}
