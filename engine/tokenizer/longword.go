package tokenizer

// Words of many kilobytes, such as text without spaces or one character a million times. Byte-pair
// encoding needs about 32 bytes of memory for each byte of a word. So a word that has too many
// tokens in any case is refused before, and other words are encoded in parts.

import "math"

// longWordBytes is the length from which a word counts as long.
const longWordBytes = 4 << 10

// maxIncompleteBytes bounds a word if some bytes have no token, because then nothing is known about
// the number of its tokens before.
const maxIncompleteBytes = 8 << 20

// measure sets longest and longestWith.
func (m *bpe) measure(pieces *pieceTable) {
	m.longestWith = make([]uint16, 1<<16)
	for id := range int32(pieces.size()) {
		if pieces.added(id) {
			continue
		}
		b := pieces.bytes(id)
		m.longest = max(m.longest, len(b))
		for i := 1; i < len(b); i++ {
			at := &m.longestWith[int(b[i-1])<<8|int(b[i])]
			*at = max(*at, uint16(min(len(b), math.MaxUint16)))
		}
	}
}

// with returns the length of the longest token that has the bytes of word at i and i+1 side by
// side.
func (m *bpe) with(word string, i int) uint16 {
	if i < 0 || i+1 >= len(word) {
		return 0
	}
	return m.longestWith[int(word[i])<<8|int(word[i+1])]
}

// longWord appends the ids of a long word. No token spans two bytes that are not adjacent in any
// token, so the parts between such bytes can be encoded alone.
func (e *encoder) longWord(word string) {
	m := &e.model
	if !m.complete {
		if len(word) > maxIncompleteBytes {
			e.fail(ErrWord)
			return
		}
		e.ids = e.appendBPE(e.ids, word)
		return
	}
	if m.ignoreMerges && len(word) <= m.longest || e.tooMany(word) {
		if e.err == nil {
			e.ids = e.appendBPE(e.ids, word)
		}
		return
	}
	from := 0
	for i := range len(word) - 1 {
		if i&(checkBytes-1) == 0 && e.check() {
			return
		}
		if m.with(word, i) == 0 {
			e.ids = e.appendBPE(e.ids, word[from:i+1])
			if from = i + 1; e.append() {
				return
			}
		}
	}
	e.ids = e.appendBPE(e.ids, word[from:])
}

// tooMany reports whether the ids of word exceed the limit in any case, and then ends the encoding.
//
// A token of n bytes covers n bytes of word. Each of them is beside another byte of the token, and
// no token with these two is longer than with says. So each byte adds at least one part in n.
func (e *encoder) tooMany(word string) bool {
	if e.limit <= 0 {
		return false
	}
	tokens, left := float64(len(e.ids)-e.base), uint16(0)
	for i := range len(word) {
		right := e.model.with(word, i)
		tokens += 1 / float64(max(left, right, 1))
		left = right
		if i&(checkBytes-1) == 0 && (e.check() || tokens > float64(e.limit)+1) {
			break
		}
	}
	if tokens > float64(e.limit)+1 { // 1 for rounding
		e.fail(ErrTooLong)
	}
	return e.err != nil
}
