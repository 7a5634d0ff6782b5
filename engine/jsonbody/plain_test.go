package jsonbody

import (
	"bytes"
	"testing"
)

// TestPlain: every byte at every place in eight bytes, among others that are near the ones that end
// a plain text.
func TestPlain(t *testing.T) {
	for _, around := range []byte{' ', '!', '#', '[', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff} {
		for c := range 256 {
			for at := range 19 {
				text := bytes.Repeat([]byte{around}, 19)
				text[at] = byte(c)
				want := len(text)
				if c == '"' || c == '\\' || c < 0x20 {
					want = at
				}
				if got := plain(text); got != want {
					t.Fatalf("%q: got %d, expected %d", text, got, want)
				}
			}
		}
	}
}
