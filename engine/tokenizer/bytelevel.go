package tokenizer

// The alphabet of byte-level BPE, in which tokenizer.json spells tokens, and a table with the bytes
// of every token, for decoding.

import "unicode/utf8"

// Byte-level BPE spells every byte as one printable character, so that its vocabulary is plain
// text. Bytes that are printable in Latin-1 are spelled as that character. The others are spelled,
// in order, as the characters from U+0100 on. For example, a space is Ġ. Source: bytes_to_unicode
// in https://github.com/openai/gpt-2, src/encoder.py
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

// appendByteLevel appends the bytes of word in the byte-level alphabet.
func appendByteLevel(dst []byte, word string) []byte {
	for i := range len(word) {
		dst = utf8.AppendRune(dst, runeOfByte[word[i]])
	}
	return dst
}

// appendBytes appends the bytes of a token that is spelled in the byte-level alphabet. If a
// character is not in the alphabet, ok is false and dst is unchanged.
func appendBytes(dst []byte, token string) (_ []byte, ok bool) {
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

// pieceTable maps ids to bytes. The bytes of id are blob[ends[id-1]:ends[id]].
type pieceTable struct {
	blob  []byte
	ends  []uint32
	flags []uint8
}

const (
	flagUsed    uint8 = 1 << iota
	flagSpecial       // omitted if skipSpecial is true
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
