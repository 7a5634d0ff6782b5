package tokenizer

// The normalizer Precompiled: SentencePiece's table of replacements, such as NFKC with exceptions.

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsMap is SentencePiece's precompiled_charsmap. It has the length of a double-array trie, the
// trie, and the replacements, each ended by a zero byte. The trie's values are offsets of
// replacements. Nothing in it is trusted.
// Source: https://github.com/google/sentencepiece, src/normalizer.cc; the trie is that of
// https://github.com/s-yata/darts-clone
type charsMap struct {
	trie         []uint32
	replacements string
}

func newCharsMap(data []byte) (*charsMap, error) {
	if len(data) < 4 {
		return nil, errors.New("precompiled_charsmap has no length")
	}
	size := uint64(binary.LittleEndian.Uint32(data))
	if data = data[4:]; size > uint64(len(data)) || size%4 != 0 || size == 0 {
		return nil, errors.New("precompiled_charsmap has a trie of another length than it says")
	}
	m := &charsMap{trie: make([]uint32, size/4), replacements: string(data[size:])}
	for i := range m.trie {
		m.trie[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if !utf8.ValidString(m.replacements) {
		return nil, errors.New("precompiled_charsmap has replacements that are not valid UTF-8")
	}
	return m, nil
}

// maxCharsKey bounds the part of a text that is looked up, because a trie that is not one may have
// no end. The longest keys of SentencePiece's own rules have 12 bytes.
const maxCharsKey = 128

// find returns the replacement of the shortest beginning of text that has one, or of the longest,
// and the length of that beginning.
func (m *charsMap) find(text string, longest bool) (replacement string, size int, ok bool) {
	value := uint32(0)
	unit := m.trie[0]
	at := trieOffset(unit)
	for i := 0; i < min(len(text), maxCharsKey) && text[i] != 0; i++ {
		if at ^= uint32(text[i]); at >= uint32(len(m.trie)) {
			break
		}
		if unit = m.trie[at]; unit&(1<<31|0xff) != uint32(text[i]) {
			break
		}
		at ^= trieOffset(unit)
		if unit>>8&1 == 0 || at >= uint32(len(m.trie)) {
			continue
		}
		value, size, ok = m.trie[at]&(1<<31-1), i+1, true
		if !longest {
			break
		}
	}
	if !ok || value > uint32(len(m.replacements)) {
		return "", 0, false
	}
	replacement, _, _ = strings.Cut(m.replacements[value:], "\x00")
	return replacement, size, utf8.ValidString(replacement)
}

func trieOffset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

func precompiledNormalizer(t *Tokenizer, p *part) (normalizeStep, error) {
	var f struct {
		Charsmap []byte `json:"precompiled_charsmap"`
	}
	if err := p.read(&f); err != nil {
		return nil, err
	}
	m, err := newCharsMap(f.Charsmap)
	if err != nil {
		return nil, err
	}
	t.faithful = false
	return m.normalize, nil
}

// normalize replaces characters as the reference does: a short grapheme as a whole, by the
// replacement of its shortest beginning, and other characters one by one.
func (m *charsMap) normalize(e *encoder, s string) string {
	var b strings.Builder
	done := 0 // s[:done] is in b
	// replace replaces s[from:to]. It reports whether the part has a replacement.
	replace := func(from, to int) bool {
		text, _, ok := m.find(s[from:to], false)
		if !ok || !e.grow(len(text)-(to-from)) {
			return ok
		}
		b.WriteString(s[done:from])
		b.WriteString(text)
		done = to
		return true
	}
	checkAt := 0
	for i := 0; i < len(s); {
		if i >= checkAt {
			if checkAt += checkBytes; e.check() {
				return s
			}
		}
		size := graphemeLen(s[i:])
		if size >= 6 || !replace(i, i+size) {
			for j, r := range s[i : i+size] {
				replace(i+j, i+j+utf8.RuneLen(r))
			}
		}
		i += size
	}
	if done == 0 && b.Len() == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// graphemeLen returns the length of the first grapheme of s, which is not empty.
func graphemeLen(s string) int {
	if s[0] < utf8.RuneSelf && s[0] != '\r' && (len(s) == 1 || s[1] < utf8.RuneSelf) {
		return 1
	}
	grapheme, _, _, _ := uniseg.FirstGraphemeClusterInString(s, -1)
	return len(grapheme)
}
