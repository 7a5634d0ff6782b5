package tokenizer

// Between token ids and bytes: the alphabet in which the vocabulary is spelled, and the table that
// has every token's bytes unspelled, so that decoding is a look-up.

import "unicode/utf8"

// Byte-level BPE spells every byte as one printable character, so that its
// vocabulary is plain text: printable Latin-1 bytes stand for themselves, the
// rest, in order, for the characters from U+0100 on (space becomes Ġ).
// Source: bytes_to_unicode in https://github.com/openai/gpt-2, src/encoder.py
var (
	runeOfByte [256]rune
	byteOfRune = make(map[rune]byte, 256)
)

func init() {
	next := rune(0x100)
	for b := range runeOfByte {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		runeOfByte[b] = r
		byteOfRune[r] = byte(b)
	}
}

// appendSpelled appends the spelling of the bytes of word.
func appendSpelled(dst []byte, word string) []byte {
	for i := range len(word) {
		dst = utf8.AppendRune(dst, runeOfByte[word[i]])
	}
	return dst
}

// appendUnspelled appends the bytes that token spells; ok is false, and dst
// unchanged, if a character is outside the alphabet.
func appendUnspelled(dst []byte, token string) (_ []byte, ok bool) {
	start := len(dst)
	for _, r := range token {
		b, ok := byteOfRune[r]
		if !ok {
			return dst[:start], false
		}
		dst = append(dst, b)
	}
	return dst, true
}

// pieceTable maps ids to bytes: id's are blob[ends[id-1]:ends[id]].
type pieceTable struct {
	blob  []byte
	ends  []uint32
	flags []uint8
}

const (
	flagUsed    uint8 = 1 << iota
	flagSpecial       // decoding for people leaves it out
	flagAdded         // only in added_tokens, not in the model's vocab
)

func (p *pieceTable) size() int { return len(p.ends) }

func (p *pieceTable) bytes(id int32) []byte {
	if id < 0 || int(id) >= len(p.ends) || p.flags[id]&flagUsed == 0 {
		return nil
	}
	from := uint32(0)
	if id > 0 {
		from = p.ends[id-1]
	}
	to := p.ends[id]
	return p.blob[from:to:to]
}

func (p *pieceTable) special(id int32) bool {
	return id >= 0 && int(id) < len(p.flags) && p.flags[id]&flagSpecial != 0
}

func (p *pieceTable) added(id int32) bool { return p.flags[id]&flagAdded != 0 }
