package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestOffsetsIn checks where the tokens of a text begin in it, for pipelines that change the text.
func TestOffsetsIn(t *testing.T) {
	composed := func() *Tokenizer {
		return parseLlama(t, `"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},`+
			`{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"added_tokens":[`+
			`{"id":300,"content":"<s>","special":true},`+
			`{"id":301,"content":"<m>","lstrip":true,"special":true}],`+
			`"post_processor":{"type":"TemplateProcessing","single":[`+
			`{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],`+
			`"special_tokens":{"<s>":{"ids":[300]}}}`)
	}
	llama := func() *Tokenizer { return parseLlama(t, "") }
	pieces := func() *Tokenizer {
		return parsePieces(t, []testPiece{{"<s>", 0, controlToken}, {"▁a", -1, 0}, {"b", -1, 0},
			{"▁", -2, 0}}, []any{modelTypeField, bpeModel}, nil)
	}
	for _, tt := range []struct {
		name string
		tok  *Tokenizer
		text string
		want []int
	}{
		{"a space before the text", llama(), "abé ab", []int{0, 1, 2, 2, 3, 5}},
		{"and only that", llama(), "", nil},
		{"spaces", llama(), "a  b", []int{0, 1, 2, 3}},
		{"special tokens in the text", demo(t), "x<|im_end|>é<|im_end|>", []int{0, 1, 11, 11, 12}},
		{"byte by byte", demo(t), "🙂z", []int{0, 0, 0, 0, 1}},
		{"composed", demo(t), "xe\u0301z", []int{0, 1, 1, 3}},
		{"an added token", composed(), "ab", []int{0, 0}},
		{"the same token as text", composed(), "<s>ab", []int{0, 0, 3}},
		{"a ligature", composed(), "aﬁz", []int{0, 0, 1, 1, 2}},
		{"spaces before a token", composed(), "a  <m>b", []int{0, 0, 3, 6}},
		{"Korean", composed(), "\u1112\u1161\u11abz", []int{0, 0, 0, 0, 3}},
		{"words", bertTokenizer(t), "Hé\u0301LLO  wörld!日 日", []int{0, 0, 3, 6, 13, 14, 15, 17}},
		{"dropped spaces", pieces(), "  a   a b", []int{0, 2, 3, 7, 8}},
		{"unknown text", pieces(), "aΩΩb a", []int{0, 0, 1, 3, 4}},
	} {
		ids := tt.tok.Encode(tt.text, EncodeOptions{AddSpecial: true})
		if got := tt.tok.OffsetsIn(tt.text, ids); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q has the tokens %s at %v, want %v", tt.name, tt.text,
				spell(tt.tok, ids), got, tt.want)
		}
	}
}

// TestOffsetsOfDecodedText checks that each token begins where the text of those before it ends, in
// texts and in streams.
func TestOffsetsOfDecodedText(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	parts := []string{"a", "ab", " ", "  ", "é", "日本", "🙂", "\n", "z", "The ", "it's"}
	for _, tok := range []*Tokenizer{demo(t), parseLlama(t, "")} {
		for range 500 {
			var b strings.Builder
			for range random.IntN(12) {
				b.WriteString(parts[random.IntN(len(parts))])
			}
			ids := tok.Encode(b.String(), EncodeOptions{})
			if tok.Decode(ids, false) != b.String() {
				continue // an incomplete character
			}
			inText := tok.OffsetsIn(b.String(), ids)
			stream := NewOffsets(tok.NewStream(true))
			for i, id := range ids {
				before := tok.Decode(ids[:i], true)
				want := utf8.RuneCountInString(strings.TrimRight(before, replacement))
				if got := stream.Add(id); got != want || inText[i] != want {
					t.Fatalf("%q: token %d of %s begins at %d in a stream and at %d in the text, "+
						"want %d", b.String(), i, spell(tok, ids), got, inText[i], want)
				}
			}
		}
	}
}

// TestOffsetsOfStream checks streams whose tokens are not the text: a special token, an incomplete
// character, and a continuation.
func TestOffsetsOfStream(t *testing.T) {
	tok := demo(t)
	end, _ := tok.TokenID("<|im_end|>")
	ids := slices.Concat(byteIDs(t, tok, "a"), []int32{end}, byteIDs(t, tok, "é\xe2\x82b\xff"),
		[]int32{end}, byteIDs(t, tok, "c"))
	if got, want := offsetsOf(tok.NewStream(true), ids), []int{0, 1, 1, 1, 2, 2, 3, 4, 5,
		5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	tok = parseLlama(t, "")
	const spaceA = 283
	for _, tt := range []struct {
		prompt, ids []int32
		text        string
		want        []int
	}{
		{nil, []int32{spaceA, spaceA}, "a a", []int{0, 1}},
		{[]int32{spaceA}, []int32{spaceA, spaceA}, " a a", []int{0, 2}},
		{nil, []int32{0xe2, 0x82, spaceA}, "\ufffd\ufffd a", []int{0, 0, 2}},
	} {
		if got := offsetsOf(tok.NewContinuation(tt.prompt), tt.ids); !slices.Equal(got, tt.want) {
			t.Errorf("%v after %v: got %v, want %v", tt.ids, tt.prompt, got, tt.want)
		}
		s, text := tok.NewContinuation(tt.prompt), ""
		for _, id := range tt.ids {
			text += s.Add(id)
		}
		if text += s.Close(); text != tt.text {
			t.Errorf("%v after %v: got %q, want %q", tt.ids, tt.prompt, text, tt.text)
		}
	}
}

func bertTokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Parse([]byte(`{"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{` +
		`"[UNK]":0,"[CLS]":1,"[SEP]":2,"he":3,"##llo":4,"world":5,"日":6,"!":7}},` +
		`"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,` +
		`"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},` +
		`"post_processor":{"type":"BertProcessing","cls":["[CLS]",1],"sep":["[SEP]",2]},` +
		`"decoder":{"type":"WordPiece"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// FuzzOffsetsIn checks that offsets never decrease and are in the text.
func FuzzOffsetsIn(f *testing.F) {
	f.Add("He\u0301llo <s> ﬁ  日本 각\u0301\u0323 İ ßﷺ\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		text = toValidUTF8(text)
		for _, tok := range []*Tokenizer{demo(t), parseLlama(t, `"normalizer":{"type":"NFKD"}`),
			bertTokenizer(t)} {
			last := 0
			ids := tok.Encode(text, EncodeOptions{AddSpecial: true})
			for i, at := range tok.OffsetsIn(text, ids) {
				if at < last || at > utf8.RuneCountInString(text) {
					t.Fatalf("token %d of %q begins at %d, the one before at %d", i, text, at, last)
				}
				last = at
			}
		}
	})
}

func offsetsOf(s *Stream, ids []int32) (offsets []int) {
	o := NewOffsets(s)
	for _, id := range ids {
		offsets = append(offsets, o.Add(id))
	}
	return offsets
}
