package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// pieceDecoder is the decoder of SentencePiece. It writes ▁ as a space, except where encoding has
// put one at the beginning of the text, and joins the bytes of byte tokens to characters. Each byte
// that is not part of a character becomes U+FFFD. Source:
// https://github.com/google/sentencepiece, src/sentencepiece_processor.cc
type pieceDecoder struct {
	next    decodeStage
	dummy   bool // one ▁ at the beginning of the text is dropped
	squeeze bool // one ▁ at the beginning of each token is dropped until there is text

	begun   bool   // no ▁ is dropped any more
	token   []byte // a byte of a character is a token that is not valid UTF-8
	pending []byte // of an incomplete character
}

func (d *pieceDecoder) write(part []byte) { d.token = append(d.token, part...) }

func (d *pieceDecoder) endToken() {
	token := d.token
	d.token = d.token[:0]
	if len(token) == 1 && token[0] >= utf8.RuneSelf {
		d.addByte(token[0])
		return
	}
	d.flush()
	space := []byte(string(metaspace))
	if !d.begun && (d.dummy || d.squeeze) && bytes.HasPrefix(token, space) {
		token = token[len(space):]
		d.begun = !d.squeeze
	}
	d.begun = d.begun || len(token) > 0
	for {
		i := bytes.Index(token, space)
		if i < 0 {
			break
		}
		d.next.write(token[:i])
		d.next.write([]byte(" "))
		token = token[i+len(space):]
	}
	d.next.write(token)
}

// addByte adds a byte to the incomplete character, and writes what is certain.
func (d *pieceDecoder) addByte(b byte) {
	for d.pending = append(d.pending, b); len(d.pending) > 0; {
		r, size := utf8.DecodeRune(d.pending)
		invalid := r == utf8.RuneError && size <= 1
		if invalid {
			if _, open := subpart(d.pending); open {
				return
			}
			d.next.write([]byte(replacement))
		} else {
			d.next.write(d.pending[:size])
		}
		d.begun = true
		d.pending = append(d.pending[:0], d.pending[size:]...)
	}
}

// flush writes the bytes of an incomplete character.
func (d *pieceDecoder) flush() {
	for range d.pending {
		d.next.write([]byte(replacement))
		d.begun = true
	}
	d.pending = d.pending[:0]
}

func (d *pieceDecoder) end() {
	d.flush()
	d.token, d.begun = d.token[:0], false
	d.next.endToken()
	d.next.end()
}
