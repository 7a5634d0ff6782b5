package tokenizer

// The alphabet of byte-level BPE, in which tokenizer.json spells tokens, and the parts ByteLevel of
// a normalizer and of a pre_tokenizer, which spell text in it. For byte-level BPE itself, words are
// not spelled; see isByteLevel in config.go.

import (
	"strings"
	"unicode/utf8"
)

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

// gpt2Pattern is the regular expression that ByteLevel uses if use_regex is true.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func byteLevelSplitter(t *Tokenizer, p *part) error {
	f := struct {
		AddPrefixSpace bool `json:"add_prefix_space"`
		UseRegex       bool `json:"use_regex"`
	}{true, true}
	if err := p.read(&f); err != nil {
		return err
	}
	if f.AddPrefixSpace {
		t.splitters = append(t.splitters, prefixSpace{})
	}
	if f.UseRegex {
		if err := t.addPattern(gpt2Pattern, "Isolated", false); err != nil {
			return err
		}
	}
	if !t.byteLevel {
		t.splitters = append(t.splitters, byteSpeller{})
	}
	return nil
}

// prefixSpace implements add_prefix_space of the ByteLevel pre-tokenizer.
type prefixSpace struct{}

func (prefixSpace) split(e *encoder, at int, text string) {
	if !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	e.split(at+1, text)
}

// byteSpeller spells text in the byte-level alphabet.
type byteSpeller struct{}

func (byteSpeller) split(e *encoder, at int, text string) {
	e.split(at+1, spellBytes(e, text))
}

func byteLevelNormalizer(t *Tokenizer, _ *part) (normalizeStep, error) {
	t.faithful = false // a token's length counts spelled bytes
	return spellBytes, nil
}

func spellBytes(e *encoder, s string) string {
	size := 0
	for i := range len(s) {
		size += utf8.RuneLen(runeOfByte[s[i]])
	}
	if size == len(s) || !e.grow(size-len(s)) {
		return s
	}
	return string(appendByteLevel(make([]byte, 0, size), s))
}
