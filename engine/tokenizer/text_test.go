package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// llama returns a tokenizer.json like that of Llama 2, with the given parts in place of or beside
// its own. Ids 0 to 255 are the bytes; then come ▁, the letters a to z, and "▁a", "ab", "▁ab".
func llama(parts string) string {
	var vocab []string
	add := func(token string) { vocab = append(vocab, fmt.Sprintf("%q:%d", token, len(vocab))) }
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b))
	}
	add("▁")
	for c := 'a'; c <= 'z'; c++ {
		add(string(c))
	}
	add("▁a")
	add("ab")
	add("▁ab")
	own := map[string]string{
		"model": `{"type":"BPE","byte_fallback":true,"fuse_unk":true,"vocab":{` +
			strings.Join(vocab, ",") + `},"merges":["▁ a","a b","▁ ab"]}`,
		"normalizer": `{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},` +
			`{"type":"Replace","pattern":{"String":" "},"content":"▁"}]}`,
		"decoder": `{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},` +
			`"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},` +
			`{"type":"Strip","content":" ","start":1,"stop":0}]}`,
	}
	out := parts
	for _, name := range []string{"model", "normalizer", "decoder"} {
		if !strings.Contains(parts, `"`+name+`"`) {
			out += "," + fmt.Sprintf("%q:%s", name, own[name])
		}
	}
	return "{" + strings.TrimPrefix(out, ",") + "}"
}

func parseLlama(t testing.TB, parts string) *Tokenizer {
	t.Helper()
	tok, err := Parse([]byte(llama(parts)))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestLlama encodes by hand: "▁ a" has a lower rank than "a b", so "▁ab" is never made, and é has
// no token, so it becomes its bytes.
func TestLlama(t *testing.T) {
	tok := parseLlama(t, "")
	const space, a, b = 256, 257, 258
	ids := tok.Encode("abé ab", EncodeOptions{})
	if want := []int32{283, b, 0xc3, 0xa9, 283, b}; !slices.Equal(ids, want) {
		t.Errorf("ids %v, expected %v", ids, want)
	}
	s := tok.NewStream(true)
	for i, want := range []string{"a", "b", "", "é", " a", "b"} {
		if got := s.Add(ids[i]); got != want {
			t.Errorf("Add %d gave %q, expected %q", i, got, want)
		}
	}
	if got := s.Close(); got != "" {
		t.Errorf("Close gave %q", got)
	}
	for id, want := range map[int32]string{space: " ", a: "a", 283: " a", 0xc3: "\xc3", 10: "\n"} {
		if got := string(tok.TokenBytes(id)); got != want {
			t.Errorf("TokenBytes(%d) = %q, expected %q", id, got, want)
		}
	}
	if tok.TokenBytes(-1) != nil || tok.TokenBytes(1000) != nil {
		t.Error("an id that does not exist has bytes")
	}
}

// TestByteRows checks that complete characters of a row of bytes are shown at once, and that each
// other byte becomes U+FFFD.
func TestByteRows(t *testing.T) {
	tok := parseLlama(t, "")
	s := tok.NewStream(true)
	ids := []int32{0xe2, 0x82, 0xac, 0xff, 0xe2, 0x82, 'z' - 'a' + 257, 0xf0, 0x9f}
	var got []string
	for _, id := range ids {
		got = append(got, s.Add(id))
	}
	got = append(got, s.Close())
	want := []string{"", "", "€", "\ufffd", "", "", "\ufffd\ufffdz", "", "", "\ufffd\ufffd"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, expected %q", got, want)
	}
	if got := tok.Decode(ids, false); got != strings.Join(want, "") {
		t.Errorf("Decode gave %q", got)
	}
}

// TestTextParts checks that a text that is one word has the same ids in parts and as a whole.
func TestTextParts(t *testing.T) {
	for _, fuse := range []bool{false, true} {
		model := `"model":{"type":"BPE","unk_token":"?","fuse_unk":` + fmt.Sprint(fuse) +
			`,"vocab":{"?":0,"a":1,"b":2,"é":3,"ab":4,"éa":5,"abé":6},` +
			`"merges":["a b","é a","ab é"]}`
		tok := parseLlama(t, model)
		m := tok.model.(*bpe)
		e := tok.newEncoder()
		text := strings.Repeat("abéaxyzbaé日本éabz", 2000)
		e.begin(t.Context(), text, EncodeOptions{})
		want := m.appendBPE(e, nil, text)
		e.ids = nil
		m.longWord(e, text)
		if !m.separable || !slices.Equal(e.ids, want) {
			t.Errorf("fuse_unk %v: %d ids in parts, %d as a whole", fuse, len(e.ids), len(want))
		}
	}
}

// TestGreatTexts is TestGreatPrompts for a model that encodes a text as one word.
func TestGreatTexts(t *testing.T) {
	tok := parseLlama(t, "")
	for name, text := range greatTexts() {
		start := time.Now()
		used := allocated(func() {
			ids, err := tok.EncodeContext(t.Context(), text, EncodeOptions{Limit: 40_960})
			if !errors.Is(err, ErrTooLong) {
				t.Errorf("%s: %d ids, error %v", name, len(ids), err)
			}
		})
		if used > 200<<20 || time.Since(start) > 10*time.Second {
			t.Errorf("%s: %d MB were allocated in %v", name, used>>20, time.Since(start))
		}
	}
	text := strings.Repeat("ab é ", 1<<18)
	if got := tok.Decode(tok.Encode(text, EncodeOptions{}), false); got != text {
		t.Errorf("%d bytes came back as %d", len(text), len(got))
	}
}

// TestTextOracle compares with stored results of the reference for random tokenizers; see
// build/oracle/tokenizers.
func TestTextOracle(t *testing.T) {
	for _, path := range []string{"testdata/oracle_bpe.jsonl", "testdata/oracle_words.jsonl"} {
		cases := 0
		eachOracleCase(t, path, func(line int, c *oracleCase) {
			cases++
			tok, err := Parse(c.Tokenizer)
			if err != nil {
				t.Fatalf("%s, line %d: %v", path, line, err)
			}
			checkOracleCase(t, line, tok, c)
		})
		if cases < 30 {
			t.Errorf("%s has %d tokenizers, expected at least 30", path, cases)
		}
	}
}

// TestUnigramParts checks that a long word has the same ids in parts and as a whole, and that its
// rounding is that of one sum.
func TestUnigramParts(t *testing.T) {
	tok, err := Parse([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1.1],` +
		`["b",-1.3],["ab",-2.4],["ba",-2.4],["é",-0.7],["aé",-1.8],["x",-3]]}}`))
	if err != nil {
		t.Fatal(err)
	}
	m := tok.model.(*unigram)
	text := strings.Repeat("abaéabx日本xbbaab日é", 500)
	got := tok.Encode(text, EncodeOptions{})
	e := tok.newEncoder()
	e.begin(t.Context(), text, EncodeOptions{})
	e.unknownFrom = -1
	m.part(e, text, 0, len(text), 0)
	m.endUnknown(e, text, len(text))
	if !slices.Equal(got, e.ids) || len(got) < 5000 {
		t.Errorf("%d ids in parts, %d as a whole", len(got), len(e.ids))
	}
}

// TestUnknown checks that a model without an unknown token refuses text that has no tokens.
func TestUnknown(t *testing.T) {
	for name, model := range map[string]string{
		"WordLevel": `{"type":"WordLevel","unk_token":"?","vocab":{"a":0}}`,
		"WordPiece": `{"type":"WordPiece","unk_token":"?","vocab":{"a":0}}`,
		"Unigram":   `{"type":"Unigram","vocab":[["a",-1]]}`,
	} {
		tok, err := Parse([]byte(`{"model":` + model + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tok.EncodeContext(t.Context(), "b", EncodeOptions{}); !errors.Is(err,
			ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
		if got := tok.Encode("a", EncodeOptions{}); !slices.Equal(got, []int32{0}) {
			t.Errorf("%s: a is %v", name, got)
		}
	}
}

// TestLongWordsOfOtherModels encodes 256 KB without a space, with a token whose beginning
// matches everywhere.
func TestLongWordsOfOtherModels(t *testing.T) {
	for name, model := range map[string]string{
		"WordPiece": `{"type":"WordPiece","max_input_chars_per_word":9999999,"vocab":` +
			`{"[UNK]":0,"a":1,"##a":2,"##` + strings.Repeat("a", 200) + `b":3}}`,
		"Unigram": `{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["aa",-1.5],["` +
			strings.Repeat("a", 200) + `b",-2]]}`,
	} {
		tok, err := Parse([]byte(`{"model":` + model + `,"decoder":{"type":"WordPiece"}}`))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if got := tok.Encode(strings.Repeat("a", 1<<18), EncodeOptions{}); len(got) < 1<<17 {
			t.Errorf("%s: %d ids", name, len(got))
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// TestTokenTakenByAnother checks that a token is dropped if the one before it has taken its text,
// with the spaces that both strip.
func TestTokenTakenByAnother(t *testing.T) {
	for lstrip, want := range map[bool][]int32{true: {300, 257}, false: {300, 300, 257}} {
		tok := parseLlama(t, fmt.Sprintf(`"added_tokens":[{"id":300,"content":"  ","lstrip":%v,`+
			`"rstrip":true}],"normalizer":{"type":"NFC"}`, lstrip))
		if got := tok.Encode("    a", EncodeOptions{}); !slices.Equal(got, want) {
			t.Errorf("lstrip %v: %v, expected %v", lstrip, got, want)
		}
	}
}
