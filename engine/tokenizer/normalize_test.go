package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// TestComposeEqualsNFC checks that compose(formC.decompose(s)) equals the NFC of x/text. Its
// texts have fewer marks in a row than the 30 that x/text allows.
func TestComposeEqualsNFC(t *testing.T) {
	// Base characters that compose in one or two steps, Hangul, a composition exclusion, and marks
	// of several classes, some of which block each other.
	runes := []rune("aeAEouUnñÅ\u212b\u0958\u1100\u1161\u11a8\uac00\u0915\u0ddc" +
		"\u0300\u0301\u0302\u0308\u030a\u0323\u0327\u0328\u0331\u0338\u0345\u093c\u0dca\u3099\U0001d165\U0001d15e")
	random := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		var b strings.Builder
		for range 1 + random.IntN(8) {
			b.WriteRune(runes[random.IntN(len(runes))])
		}
		s := b.String()
		if got, want := compose(formC.decompose(s)), norm.NFC.String(s); got != want {
			t.Fatalf("%+q composes to %+q, expected %+q", s, got, want)
		}
	}
}

// TestNFCOfManyMarks checks that more than 30 marks in a row are reordered and composed, and that
// nothing is inserted.
func TestNFCOfManyMarks(t *testing.T) {
	below, above := strings.Repeat("\u0323", 20), strings.Repeat("\u0301", 20)
	for in, want := range map[string]string{
		"e" + above + above: "é" + above[2:] + above,
		// U+0323 sorts before U+0301. There is no composed form of ẹ with U+0301.
		"e" + above + below + "f":       "ẹ" + below[2:] + above + "f",
		"x" + above + below + "e\u0301": "x" + below + above + "é",
		// Marks of one class keep their order.
		"x" + strings.Repeat("\u0301\u0300\u0323", 20): "x" + strings.Repeat("\u0323", 20) +
			strings.Repeat("\u0301\u0300", 20),
		"\u034f" + above + above: "\u034f" + above + above,
	} {
		if got := nfc(in); got != want {
			t.Errorf("nfc(%+q)\n = %+q, expected\n   %+q", in, got, want)
		}
	}
}
