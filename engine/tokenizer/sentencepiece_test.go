package tokenizer

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

// testPiece is a token of a tokenizer.model. The zero kind is a normal token.
type testPiece struct {
	text  string
	score float32
	kind  tokenKind
}

// appendField appends a field of a message of Protocol Buffers.
func appendField(dst []byte, number int, value any) []byte {
	tag := func(wire int) { dst = binary.AppendUvarint(dst, uint64(number<<3|wire)) }
	switch v := value.(type) {
	case []byte:
		tag(2)
		dst = binary.AppendUvarint(dst, uint64(len(v)))
		dst = append(dst, v...)
	case string:
		return appendField(dst, number, []byte(v))
	case float32:
		tag(5)
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	case bool:
		if v {
			return appendField(dst, number, 1)
		}
		return appendField(dst, number, 0)
	case int:
		tag(0)
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	return dst
}

// pieceFile returns a tokenizer.model. Its first token is <unk>. trainer and normalizer are numbers
// and values of fields.
func pieceFile(pieces []testPiece, trainer, normalizer []any) []byte {
	var file []byte
	for _, p := range append([]testPiece{{"<unk>", 0, unknownToken}}, pieces...) {
		message := appendField(nil, 1, p.text)
		message = appendField(message, 2, p.score)
		message = appendField(message, 3, int(max(p.kind, normalToken)))
		file = appendField(file, 1, message)
	}
	for i, fields := range [][]any{trainer, normalizer} {
		var message []byte
		for at := 0; at < len(fields); at += 2 {
			message = appendField(message, fields[at].(int), fields[at+1])
		}
		file = appendField(file, i+2, message)
	}
	return file
}

// bytePieces returns the 256 byte tokens.
func bytePieces() (pieces []testPiece) {
	for b := range 256 {
		pieces = append(pieces, testPiece{byteSpelling(b), 0, byteTokenKind})
	}
	return pieces
}

func byteSpelling(b int) string {
	const digits = "0123456789ABCDEF"
	return "<0x" + string(digits[b>>4]) + string(digits[b&15]) + ">"
}

// parsePieces parses a tokenizer.model with the fields of its trainer and normalizer.
func parsePieces(t testing.TB, pieces []testPiece, trainer, normalizer []any) *Tokenizer {
	t.Helper()
	tok, err := parseAlone(pieceFile(pieces, trainer, normalizer))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Numbers of fields.
const (
	modelTypeField, suffixField, fallbackField = 3, 24, 35
	charsField, dummyField, extraField         = 2, 3, 4
)

// TestUnigramTie: of two ways to split a text whose scores are equal, the one whose last token is
// longer is taken. Scores are sums in single precision.
func TestUnigramTie(t *testing.T) {
	tok := func(a, bc, ab, c testPiece) *Tokenizer {
		a.text, bc.text, ab.text, c.text = "a", "bc", "ab", "c"
		return parsePieces(t, []testPiece{a, bc, ab, c, {"b", -1, 0}}, nil,
			[]any{dummyField, false, extraField, false})
	}
	score := func(score float32) testPiece { return testPiece{score: score} }
	symbol := testPiece{kind: userToken}
	const a, bc, ab, c = 1, 2, 3, 4
	for name, tt := range map[string]struct {
		tok  *Tokenizer
		want []int32
	}{
		"equal": {tok(score(-1), score(-1), score(-1), score(-1)), []int32{a, bc}},
		// In double precision, the sum of ab and c is larger by 7e-9.
		"equal when rounded": {tok(score(-0.1), score(-0.6), score(-0.3), score(-0.4)),
			[]int32{a, bc}},
		"a symbol has 0.1": {tok(score(0), symbol, score(0.05), score(0)), []int32{a, bc}},
		"symbols":          {tok(score(-1), symbol, symbol, score(-1)), []int32{a, bc}},
		"a symbol before a token": {tok(score(-1), score(-0.1), symbol, score(-1)), []int32{ab,
			c}},
		"a token before a symbol": {tok(score(1), score(1), symbol, score(-1)), []int32{a, bc}},
		"a symbol of less than 0.1": {tok(score(0.1), symbol, score(0.3), score(0)), []int32{ab,
			c}},
	} {
		if got := tt.tok.Encode("abc", EncodeOptions{}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// TestPieceSymbols: user-defined symbols are found in the text before it is normalized, and stay as
// they are. In BPE, nothing is merged with them.
func TestPieceSymbols(t *testing.T) {
	pieces := []testPiece{{"▁", -9, 0}, {"a", -9, 0}, {"b", -9, 0}, {"c", -9, 0}, {"▁a", -1, 0},
		{"ab", 0, userToken}, {"abc", 0, userToken}, {"bca", 0, userToken}, {"▁▁", 0, userToken},
		{" c", 0, userToken}}
	const space, a, b, c, spaceA, ab, abc, bca, spaces = 1, 2, 3, 4, 5, 6, 7, 8, 9
	for _, tt := range []struct {
		text  string
		extra bool // spaces are dropped
		want  []int32
	}{
		{"abca", false, []int32{space, abc, a}}, // the longest symbol at the first place
		{"bcab", false, []int32{space, bca, b}}, // bca has taken the beginning of ab
		{"  a", false, []int32{spaces, spaceA}}, // the first two of the three spaces
		{" a", false, []int32{spaces, a}},       // the symbol takes the added space
		{" a", true, []int32{spaceA}},           // the space is dropped before
		{"▁▁a", true, []int32{spaces, spaceA}},  // ▁ in the text is no space
		{"b c", false, []int32{space, b, space, c}},
		// its space is written as ▁, so it is not found
		{"b  c", true, []int32{space, b, space, c}}, // that space follows a space
		{"b▁ ", true, []int32{space, b}},
	} {
		tok := parsePieces(t, pieces, []any{modelTypeField, bpeModel},
			[]any{extraField, tt.extra})
		if got := tok.Encode(tt.text, EncodeOptions{}); !slices.Equal(got, tt.want) {
			t.Errorf("%q, extra spaces dropped %t: got %v, want %v", tt.text, tt.extra, got,
				tt.want)
		}
	}
}

// TestPieceBPE: characters that are no tokens can be parts of tokens, and merges to unused tokens
// are undone.
func TestPieceBPE(t *testing.T) {
	pieces := []testPiece{{"a", -9, 0}, {"xy", -1, 0}, {"ab", -2, 0}, {"aba", -1, unusedToken},
		{"a日", -3, 0}, {"c", -4, unusedToken}}
	const unknown, a, xy, ab, aSun = 0, 1, 2, 3, 5
	spelled := func(text string) (ids []int32) {
		for i := range len(text) {
			ids = append(ids, int32(len(pieces)+1)+int32(text[i]))
		}
		return ids
	}
	for text, tt := range map[string]struct{ without, with []int32 }{ // without and with bytes
		"xy": {[]int32{xy}, []int32{xy}},
		"xxyy": {[]int32{unknown, xy, unknown}, slices.Concat(spelled("x"), []int32{xy},
			spelled("y"))},
		"a日":   {[]int32{aSun}, []int32{aSun}},
		"日x日":  {[]int32{unknown}, spelled("日x日")},
		"aba":  {[]int32{ab, a}, []int32{ab, a}},
		"acca": {[]int32{a, unknown, a}, slices.Concat([]int32{a}, spelled("cc"), []int32{a})},
	} {
		for _, fallback := range []bool{false, true} {
			all, want := pieces, tt.without
			if fallback {
				all, want = append(slices.Clone(pieces), bytePieces()...), tt.with
			}
			tok := parsePieces(t, all, []any{modelTypeField, bpeModel, fallbackField, fallback},
				[]any{dummyField, false, extraField, false})
			if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, want) {
				t.Errorf("%q, bytes %t: got %v, want %v", text, fallback, got, want)
			}
			long := strings.Repeat(text, 3*longWordBytes)
			if got, want := tok.Encode(long, EncodeOptions{}), wholeWord(t, tok,
				long); !slices.Equal(
				got, want) {
				t.Errorf("%q many times, bytes %t: %d tokens in parts, %d as a whole", text,
					fallback, len(got), len(want))
			}
		}
	}
}

// wholeWord returns the ids of a word without dividing it into parts.
func wholeWord(t *testing.T, tok *Tokenizer, word string) []int32 {
	e := tok.newEncoder()
	e.begin(t.Context(), word, EncodeOptions{})
	return tok.model.(*bpe).appendBPE(e, nil, word)
}

// TestPieceDecoder checks what is dropped at the beginning of a text, and that only byte tokens are
// bytes.
func TestPieceDecoder(t *testing.T) {
	const space, two, a, spaceA, named, twoA, control = 1, 2, 3, 4, 5, 6, 7
	pieces := []testPiece{{"▁", -1, 0}, {"▁▁", -1, 0}, {"a", -1, 0}, {"▁a", -1, 0},
		{"<0x41>", -1, 0}, {"▁▁a", -1, 0}, {"<s>", 0, controlToken}}
	const dummy, extra, neither = "dummy", "extra", "neither"
	for _, tt := range []struct {
		ids  []int32
		want map[string]string
	}{
		{[]int32{spaceA, spaceA}, map[string]string{dummy: "a a", extra: "a a", neither: " a a"}},
		{[]int32{twoA}, map[string]string{dummy: " a", extra: " a", neither: "  a"}},
		{[]int32{space, spaceA}, map[string]string{dummy: " a", extra: "a", neither: "  a"}},
		{[]int32{two, a}, map[string]string{dummy: " a", extra: " a", neither: "  a"}},
		{[]int32{control, spaceA}, map[string]string{dummy: "a", extra: "a", neither: " a"}},
		{[]int32{a, named}, map[string]string{dummy: "a<0x41>", extra: "a<0x41>",
			neither: "a<0x41>"}},
	} {
		for name, want := range tt.want {
			tok := parsePieces(t, pieces, nil,
				[]any{dummyField, name == dummy, extraField, name == extra})
			if got := tok.Decode(tt.ids, true); got != want {
				t.Errorf("%v, %s: got %q, want %q", tt.ids, name, got, want)
			}
			if got := streamed(tok, tt.ids, true); got != want {
				t.Errorf("%v, %s: streamed %q, want %q", tt.ids, name, got, want)
			}
		}
	}
	tok := parsePieces(t, append(bytePieces(), testPiece{"▁a", -1, 0}), []any{fallbackField, true},
		nil)
	for want, ids := range map[string][]int32{
		" A":             {1 + ' ', 1 + 'A'}, // a byte is never the added space
		"▁":              {1 + 0xe2, 1 + 0x96, 1 + 0x81},
		"\ufffd\ufffd a": {1 + 0xe2, 1 + 0x96, 257},
		"\ufffd":         {1 + 0x96},
	} {
		if got := tok.Decode(ids, true); got != want {
			t.Errorf("%v: got %q, want %q", ids, got, want)
		}
		if got := streamed(tok, ids, true); got != want {
			t.Errorf("%v: streamed %q, want %q", ids, got, want)
		}
	}
	if got := tok.TokenBytes(1 + 0xe2); string(got) != "\xe2" {
		t.Errorf("a byte is %q", got)
	}
}

// TestPieceRefuses checks what is refused as the reference implementation refuses it.
func TestPieceRefuses(t *testing.T) {
	a := []testPiece{{"a", -1, 0}}
	for want, file := range map[string][]byte{
		"2 unknown tokens":       pieceFile([]testPiece{{"?", 0, unknownToken}}, nil, nil),
		"byte_fallback is false": pieceFile([]testPiece{{"<0x41>", 0, byteTokenKind}}, nil, nil),
		`the byte "<0x4a>"`: pieceFile([]testPiece{{"<0x4a>", 0, byteTokenKind}},
			[]any{fallbackField, true}, nil),
		"tokens for 255 bytes": pieceFile(bytePieces()[1:], []any{fallbackField, true}, nil),
		"zero byte":            pieceFile([]testPiece{{"a\x00", -1, 0}}, nil, nil),
		"there twice":          pieceFile([]testPiece{{"a", -1, 0}, {"a", 0, userToken}}, nil, nil),
		`twice: "<s>"`: pieceFile([]testPiece{{"<s>", 0, controlToken}, {"<s>", -1, 0}},
			[]any{modelTypeField, bpeModel}, nil),
		"model_type 3": pieceFile(a, []any{modelTypeField, 3}, nil),
		"denormalizer_spec is not supported": appendField(pieceFile(a, nil, nil), 5,
			appendField(nil, 2, "x")),
	} {
		if _, err := parseAlone(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := parseAlone(pieceFile([]testPiece{{"<s>", 0, controlToken},
		{"<s>", -1, 0}}, nil, nil)); err != nil {
		t.Errorf("a reserved and a normal token spelled alike: %v", err)
	}
}

// parseAlone parses a tokenizer.model of a model without a tokenizer_config.json.
func parseAlone(data []byte) (*Tokenizer, error) { return ParseSentencePiece(data, &Config{}, 0) }
