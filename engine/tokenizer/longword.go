package tokenizer

// Words of many kilobytes, such as text without spaces, one character a million times, or a whole
// text if the model does not split it into words. Byte-pair encoding needs about 32 bytes of memory
// for each byte of a word. So a word that has too many tokens in any case is refused before, and
// other words are encoded in parts. That is also faster, because parts are short and in the cache.

import (
	"iter"
	"math"
	"slices"
	"unicode/utf8"
)

// longWordBytes is the length from which a word of byte-level BPE counts as long.
const longWordBytes = 4 << 10

// maxIncompleteBytes bounds a word if nothing is known about the number of its tokens before,
// because some characters have no token.
const maxIncompleteBytes = 8 << 20

// pairTable has for two adjacent characters, or bytes in byte-level BPE, the length in bytes of the
// longest token in which they are adjacent, and 0 if there is none. For rare characters the length
// may be that of other ones, if those have longer tokens.
type pairTable struct {
	bytes  bool     // pairs of bytes, not of characters
	common []uint16 // of two characters below commonRunes; see commonIndex
	others []uint16 // by a hash of the characters; nil: no others
}

const (
	commonRunes = 0x180
	otherPairs  = 1 << 20 // a power of two
	metaspace   = '▁'     // counts as common, in place of the last common character
)

func commonIndex(r rune) uint32 {
	if r == metaspace {
		return commonRunes - 1
	}
	return uint32(r)
}

func (p *pairTable) at(left, right rune) *uint16 {
	a, b := commonIndex(left), commonIndex(right)
	if a < commonRunes && b < commonRunes && left != commonRunes-1 && right != commonRunes-1 {
		return &p.common[a*commonRunes+b]
	}
	hash := (a*0x9e3779b1 ^ b) * 0x85ebca6b
	return &p.others[hash>>12&(otherPairs-1)]
}

// add notes that left and right are adjacent in a token of n bytes.
func (p *pairTable) add(left, right rune, n int) {
	length := p.at(left, right)
	*length = max(*length, uint16(min(n, math.MaxUint16)))
}

// fillBytes adds the tokens of t, which are bytes, and returns the length of the longest.
func (p *pairTable) fillBytes(t *Tokenizer) (longest int) {
	p.bytes = true
	p.common = make([]uint16, commonRunes*commonRunes)
	for id := range int32(t.pieces.size()) {
		if t.pieces.added(id) {
			continue
		}
		b := t.pieces.bytes(id)
		longest = max(longest, len(b))
		for i := 1; i < len(b); i++ {
			p.add(rune(b[i-1]), rune(b[i]), len(b))
		}
	}
	return longest
}

// fill adds tokens and returns the length of the longest.
func (p *pairTable) fill(tokens iter.Seq[string]) (longest int) {
	p.common = make([]uint16, commonRunes*commonRunes)
	p.others = make([]uint16, otherPairs)
	for token := range tokens {
		longest = max(longest, len(token))
		last := rune(-1)
		for _, r := range token {
			if last >= 0 {
				p.add(last, r, len(token))
			}
			last = r
		}
	}
	return longest
}

// measure sets pairs and what depends on the tokens.
func (m *bpe) measure(t *Tokenizer) (longest int, faithful bool) {
	known := m.hasAllBytes()
	if m.bytes {
		m.longest = m.pairs.fillBytes(t)
		m.complete, m.separable = known, known
		return m.longest, known
	}
	m.longest = m.pairs.fill(m.tokens(t))
	m.separable = m.prefix == "" && m.suffix == "" && (known || m.hasUnknown && !m.byteFallback) &&
		!m.mergesSpecial() && (m.pieces == nil || m.pieces.unused == nil)
	m.complete = m.separable && (known || !m.fuseUnknown)
	return m.longest, m.complete
}

// tokens returns what merges can make.
func (m *bpe) tokens(t *Tokenizer) iter.Seq[string] {
	if m.pieces != nil {
		return slices.Values(m.pieces.tokens)
	}
	return func(yield func(string) bool) {
		for token, id := range t.vocab {
			if !t.pieces.added(id) && !yield(token) {
				return
			}
		}
	}
}

// mergesSpecial reports whether a merge has the unknown token or a byte, which do not spell the
// text that they stand for.
func (m *bpe) mergesSpecial() bool {
	special := map[int32]bool{}
	if m.hasUnknown {
		special[m.unknownID] = true
	}
	if m.byteFallback {
		for _, id := range m.byteID {
			special[id] = true
		}
	}
	for pair := range m.merges {
		if special[int32(pair>>32)] || special[int32(uint32(pair))] {
			return true
		}
	}
	return false
}

// unit returns the character at word[i:], or the byte in byte-level BPE, and its length.
func (p *pairTable) unit(word string, i int) (rune, int) {
	if p.bytes || word[i] < utf8.RuneSelf {
		return rune(word[i]), 1
	}
	return utf8.DecodeRuneInString(word[i:])
}

// separate reports whether a word can be encoded in two parts that end and begin with left and
// right.
func (m *bpe) separate(left, right rune) bool {
	if *m.pairs.at(left, right) > 0 {
		return false
	}
	return m.bytes || m.byteFallback || !m.fuseUnknown || m.isToken(left) || m.isToken(right)
}

// longWord appends the ids of a long word. No token spans two characters that are not adjacent in
// any token, so the parts between such characters can be encoded alone.
func (m *bpe) longWord(e *encoder, word string) {
	if !m.complete && len(word) > maxIncompleteBytes {
		e.fail(ErrWord)
		return
	}
	if !m.separable {
		e.ids = m.appendBPE(e, e.ids, word)
		return
	}
	if m.complete && len(word) > longWordBytes && m.pairs.tooMany(e, word) || e.err != nil {
		return
	}
	last, size := m.pairs.unit(word, 0)
	from, checkAt := 0, checkBytes
	for i := size; i < len(word); i += size {
		var next rune
		if next, size = m.pairs.unit(word, i); m.separate(last, next) {
			m.part(e, word[from:i])
			if from = i; e.append() {
				return
			}
		}
		if last = next; i >= checkAt {
			if checkAt += checkBytes; e.check() {
				return
			}
		}
	}
	m.part(e, word[from:])
}

// part appends the ids of a part of a word.
func (m *bpe) part(e *encoder, part string) {
	if m.ignoreMerges { // the cache has the ids of words, which may be other ones
		e.ids = m.appendBPE(e, e.ids, part)
		return
	}
	if ids, ok := m.cache.get(part); ok {
		e.ids = append(e.ids, ids...)
		return
	}
	start := len(e.ids)
	if e.ids = m.appendBPE(e, e.ids, part); e.err == nil {
		m.cache.put(part, e.ids[start:])
	}
}

// tooMany reports whether the ids of word exceed the limit in any case, and then ends the encoding.
//
// A token of n bytes covers n bytes of word. Each character in it is beside another one of the
// token, and no token with these two is longer than the table says. So a character of k bytes adds
// at least k/n tokens.
func (p *pairTable) tooMany(e *encoder, word string) bool {
	if e.limit <= 0 {
		return false
	}
	tokens, left, checkAt := float64(len(e.ids)-e.base), uint16(0), 0
	next, size := p.unit(word, 0)
	for i := 0; i < len(word); {
		here, width := next, size
		right := uint16(0)
		if i += width; i < len(word) {
			next, size = p.unit(word, i)
			right = *p.at(here, next)
		}
		tokens += float64(width) / float64(max(left, right, uint16(width)))
		left = right
		if i >= checkAt {
			if checkAt += checkBytes; e.check() || tokens > float64(e.limit)+1 {
				break
			}
		}
	}
	if tokens > float64(e.limit)+1 { // 1 for rounding
		e.fail(ErrTooLong)
	}
	return e.err != nil
}
