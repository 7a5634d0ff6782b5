package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// The tokenizer of the bundled model has Qwen3.5's pipeline and 2,093 tokens.
const demoPath = "../../app/demo/model/tokenizer.json"

var loadDemo = sync.OnceValues(func() (*Tokenizer, error) { return Load(demoPath) })

func demo(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := loadDemo()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestDemo encodes texts and chat prompts with the demo model's tokenizer, and compares the ids
// with those of Hugging Face tokenizers.
func TestDemo(t *testing.T) {
	for _, path := range []string{"testdata/demo_vectors.json", "testdata/demo_prompts.json"} {
		var vectors []vector
		readJSON(t, path, &vectors)
		checkVectors(t, demo(t), vectors)
	}
}

func TestLookups(t *testing.T) {
	tok := demo(t)
	if got := tok.VocabSize(); got != 2093 {
		t.Errorf("VocabSize = %d, expected 2093", got)
	}
	end, ok := tok.TokenID("<|im_end|>")
	if !ok || end != 2086 || !tok.IsSpecial(end) || string(tok.TokenBytes(end)) != "<|im_end|>" {
		t.Errorf("<|im_end|> is %d (%t), special %t, bytes %q; expected 2086, special, its text",
			end, ok, tok.IsSpecial(end), tok.TokenBytes(end))
	}
	think, ok := tok.TokenID("<think>")
	if !ok || think != 2087 || tok.IsSpecial(think) {
		t.Errorf("<think> is %d (%t), special %t; expected 2087, not special",
			think, ok, tok.IsSpecial(think))
	}
	if space, ok := tok.TokenID("Ġ"); !ok || string(tok.TokenBytes(space)) != " " {
		t.Errorf("Ġ is %d (%t), bytes %q, expected a space", space, ok, tok.TokenBytes(space))
	}
	for _, id := range []int32{-1, 2093, 1 << 30} {
		if tok.TokenBytes(id) != nil || tok.IsSpecial(id) || tok.Decode([]int32{id}, false) != "" {
			t.Errorf("id %d is not in the vocabulary, but has bytes or is special", id)
		}
	}
	if _, ok := tok.TokenID("no such token"); ok {
		t.Error("TokenID found a token that does not exist")
	}
	got, err := tok.AppendEncode(t.Context(), []int32{7}, "", EncodeOptions{})
	if err != nil || !slices.Equal(got, []int32{7}) {
		t.Errorf("AppendEncode of an empty text gave %v, %v, expected [7]", got, err)
	}
}

// TestInvalidUTF8 expects one U+FFFD for each maximal subpart, as in table 3-8 of the Unicode
// Standard and the tables after it.
func TestInvalidUTF8(t *testing.T) {
	tok := demo(t)
	for in, want := range map[string]string{
		"ok":                                        "ok",
		"a\xffb":                                    "a\ufffdb",
		"\xc0\xaf\xe0\x80\xbf\xf0":                  "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd",
		"\xed\xa0\x80\xed\xbf\xbfA":                 "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA",
		"\xf4\x91\x92\x93\xff\x41\x80\xbfB":         "\ufffd\ufffd\ufffd\ufffd\ufffdA\ufffd\ufffdB",
		"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA":         "\ufffd\ufffd\ufffd\ufffdA",
		"\xf0\x9f\x99":                              "\ufffd",
		"\xf0\x9f\x99\xf0\x9f\x99\x82":              "\ufffd🙂",
		"\ufffd stays \xe2\x82 one \xe2\x82\xac ok": "\ufffd stays \ufffd one € ok",
	} {
		if got := toValidUTF8(in); got != want {
			t.Errorf("toValidUTF8(%q) = %q, expected %q", in, got, want)
		}
		if got := tok.Decode(tok.Encode(in, EncodeOptions{}), false); got != want {
			t.Errorf("%q came back as %q, expected %q", in, got, want)
		}
	}
}

// byteIDs returns the ids of the single bytes of s.
func byteIDs(t testing.TB, tok *Tokenizer, s string) []int32 {
	t.Helper()
	var ids []int32
	for i := range len(s) {
		id, ok := tok.TokenID(string(runeOfByte[s[i]]))
		if !ok {
			t.Fatalf("byte %#x has no id", s[i])
		}
		ids = append(ids, id)
	}
	return ids
}

func TestStreamHoldsHalfCharacters(t *testing.T) {
	tok := demo(t)
	end, _ := tok.TokenID("<|im_end|>")
	tests := []struct {
		name  string
		ids   []int32
		want  []string // after each Add
		close string
	}{
		{"emoji in single bytes", byteIDs(t, tok, "a🙂b"), []string{"a", "", "", "", "🙂", "b"}, ""},
		{"incomplete at the end", byteIDs(t, tok, "é€"[:4]), []string{"", "é", "", ""}, "\ufffd"},
		{"incomplete in the middle", byteIDs(t, tok, "\xe2\x82a"), []string{"", "", "\ufffda"}, ""},
		{"invalid first bytes", byteIDs(t, tok, "\x80\xff"), []string{"\ufffd", "\ufffd"}, ""},
		{"special token inside a character",
			slices.Concat(byteIDs(t, tok, "\xc3"), []int32{end}, byteIDs(t, tok, "\xa9")),
			[]string{"", "", "é"}, ""},
	}
	for _, tt := range tests {
		s := tok.NewStream(true)
		for i, id := range tt.ids {
			if got := s.Add(id); got != tt.want[i] {
				t.Errorf("%s: Add %d gave %q, expected %q", tt.name, i, got, tt.want[i])
			}
		}
		if got := s.Close(); got != tt.close {
			t.Errorf("%s: Close gave %q, expected %q", tt.name, got, tt.close)
		}
		if got := s.Close(); got != "" {
			t.Errorf("%s: second Close gave %q", tt.name, got)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok, err := Load(demoPath) // with an empty word cache
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	readJSON(t, "testdata/demo_prompts.json", &vectors)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, v := range vectors {
				if got := tok.Encode(v.Text, EncodeOptions{}); !slices.Equal(got, v.IDs) {
					t.Errorf("Encode(%.40q…) differs when run concurrently", v.Text)
				}
			}
		})
	}
	group.Wait()
}

// small returns a tokenizer.json with the given parts. Unless they include a model, its vocab has
// the 256 bytes and "ab".
func small(parts string) string {
	var vocab []string
	for b, r := range runeOfByte {
		vocab = append(vocab, fmt.Sprintf("%q:%d", string(r), b))
	}
	if parts != "" {
		parts = "," + parts
	}
	if !strings.Contains(parts, "pre_tokenizer") {
		parts += `,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}`
	}
	if strings.Contains(parts, `"model"`) {
		return "{" + parts[1:] + "}"
	}
	return `{"model":{"type":"BPE","vocab":{` + strings.Join(vocab, ",") +
		`,"ab":256},"merges":["a b"]}` + parts + `}`
}

func TestParseRefuses(t *testing.T) {
	model := func(fields string) string { return `"model":{"type":"BPE",` + fields + `}` }
	tests := []struct{ name, json, want string }{
		{"not JSON", "x", "not a tokenizer.json"},
		{"empty", "{}", `type "" is not supported`},
		{"Unigram scores", `{"model":{"type":"Unigram","vocab":[["a","b"]]}}`,
			"expected a number"},
		{"Unigram unk_id", `{"model":{"type":"Unigram","unk_id":1,"vocab":[["a",-1.5]]}}`,
			"unk_id is 1"},
		{"long piece", `{"model":{"type":"Unigram","vocab":[["` + strings.Repeat("a", 300) +
			`",-1.5]]}}`, "the limit is 256"},
		{"WordPiece", `{"model":{"type":"WordPiece","vocab":{}}}`, "vocab is empty"},
		{"no vocab", small(model(`"merges":[]`)), "vocab"},
		{"empty vocab", small(model(`"vocab":{},"merges":[]`)), "vocab is empty"},
		{"merge of unknown", small(model(`"vocab":{"a":0,"b":1},"merges":["a b"]`)),
			`merge 0: vocab must have "a", "b" and "ab"`},
		{"merge of one", small(model(`"vocab":{"a":0},"merges":["a"]`)), "two tokens"},
		{"merge of three", small(model(`"vocab":{"a":0},"merges":[["a","b","c"]]`)), "two tokens"},
		{"vocab array", small(model(`"vocab":["a"],"merges":[]`)),
			"expected an object from token to id"},
		{"vocab null", small(model(`"vocab":null,"merges":[]`)), "expected an object"},
		{"id as text", small(model(`"vocab":{"a":"1"},"merges":[]`)), "expected an integer"},
		{"fractional id", small(model(`"vocab":{"a":1.5},"merges":[]`)), "expected an integer"},
		{"token twice", small(model(`"vocab":{"a":1,"\u0061":2},"merges":[]`)),
			`"a" appears twice`},
		{"merges object", small(model(`"vocab":{"a":1},"merges":{}`)), "expected an array"},
		{"merge number", small(model(`"vocab":{"a":1},"merges":[7]`)), "expected a string"},
		{"not UTF-8", "{\"a\":\"\xff\"}", "not valid UTF-8"},
		{"id twice", small(model(`"vocab":{"a":0,"b":0},"merges":[]`)), "id 0 for both"},
		{"negative id", small(model(`"vocab":{"a":-1},"merges":[]`)), "id -1, expected 0"},
		{"huge id", small(model(`"vocab":{"a":2000000000},"merges":[]`)),
			"id 2000000000, expected 0"},
		{"byte_fallback", small(model(`"byte_fallback":true,"vocab":{"a":0},"merges":[]`)),
			"byte_fallback"},
		{"unknown unk_token", small(model(`"unk_token":"?","vocab":{"a":0},"merges":[]`)),
			"unk_token"},
		{"Metaspace", small(`"pre_tokenizer":{"type":"Metaspace","replacement":"ab"}`),
			"expected one character"},
		{"prepend_scheme", small(
			`"pre_tokenizer":{"type":"Metaspace","prepend_scheme":"last"}`), `"last" is unknown`},
		{"delimiter", small(`"pre_tokenizer":{"type":"CharDelimiterSplit"}`),
			"expected one character"},
		{"length", small(`"pre_tokenizer":{"type":"FixedLength","length":0}`), "at least 1"},
		{"unknown splitter", small(`"pre_tokenizer":{"type":"Cut"}`), `"Cut" is not supported`},
		{"null in a Sequence", small(`"normalizer":{"type":"Sequence","normalizers":[null]}`),
			"null for a part"},
		{"dropout", small(model(`"dropout":0.1,"vocab":{"a":0},"merges":[]`)), "dropout"},
		{"short merge", small(model(
			`"continuing_subword_prefix":"##","vocab":{"a":0},"merges":["a a"]`)), "is shorter"},
		{"bad regex",
			small(`"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}`),
			"regular expression"},
		{"empty pattern", small(
			`"pre_tokenizer":{"type":"Split","pattern":{"String":""},"behavior":"Isolated"}`),
			"must have a String"},
		{"bad behavior",
			small(`"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Cut"}`),
			`"Cut" is unknown`},
		{"unknown normalizer", small(`"normalizer":{"type":"Upper"}`), `"Upper" is not supported`},
		{"Bert", small(`"post_processor":{"type":"BertProcessing"}`), "no sep or no cls"},
		{"Bert id", small(
			`"post_processor":{"type":"BertProcessing","sep":["x",999],"cls":["y",0]}`), "id 999"},
		{"template without text",
			small(`"post_processor":{"type":"TemplateProcessing","single":[]}`),
			"single has 0 Sequence parts"},
		{"template of unknown", small(
			`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}]}`), `lacks "x"`},
		{"template id",
			small(
				`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[999]}}}`), "id 999"},
		{"unknown decoder", small(`"decoder":{"type":"Glue"}`), `"Glue" is not supported`},
		{"Strip", small(`"decoder":{"type":"Strip","content":"","start":1,"stop":0}`),
			"expected one character"},
		{"BPEDecoder", small(`"decoder":{"type":"BPEDecoder","suffix":""}`), "suffix is empty"},
		{"added token's id taken", small(`"added_tokens":[{"id":5,"content":"<x>"}]`),
			"belongs to"},
	}
	for _, tt := range tests {
		_, err := Parse([]byte(tt.json))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, expected one with %q", tt.name, err, tt.want)
		}
	}
}

// TestAddedTokenKeepsItsText checks an intended difference from the reference: an added token
// decodes to exactly its text.
func TestAddedTokenKeepsItsText(t *testing.T) {
	// "é" is the byte 0xe9 in the byte-level alphabet.
	tok, err := Parse([]byte(
		small(`"added_tokens":[{"id":300,"content":"<é>"},{"id":301,"content":"｜Ġ｜"}]`)))
	if err != nil {
		t.Fatal(err)
	}
	const text = "a<é>b｜Ġ｜"
	ids := tok.Encode(text, EncodeOptions{})
	if want := []int32{'a', 300, 'b', 301}; !slices.Equal(ids, want) {
		t.Errorf("ids = %v, expected %v", ids, want)
	}
	if got := tok.Decode(ids, false); got != text {
		t.Errorf("%v decode to %q, expected %q", ids, got, text)
	}
}

// TestIgnoreMerges checks that with ignore_merges a word in the vocabulary is one token, even if no
// merge produces it.
func TestIgnoreMerges(t *testing.T) {
	for ignore, want := range map[bool][]int32{false: {3, 0, 1, 1, 0}, true: {2, 1, 0}} {
		tok, err := Parse([]byte(
			small(
				fmt.Sprintf(
					`"model":{"type":"BPE","ignore_merges":%v,"vocab":{"a":0,"b":1,"Ġab":2,"Ġ":3},"merges":[]},`+
						`"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"String":"|"},"behavior":"Removed"},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}`, ignore))))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(" ab|ba", EncodeOptions{}); !slices.Equal(got, want) {
			t.Errorf("ignore_merges %v: ids %v, expected %v", ignore, got, want)
		}
	}
}

// TestLongWord encodes a megabyte without a space. With quadratic time or memory, the test would
// not finish.
func TestLongWord(t *testing.T) {
	tok := demo(t)
	for _, unit := range []string{"a", "the", "thx🙂", "\u0301"} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		if got := tok.Decode(tok.Encode(text, EncodeOptions{}), false); got != nfc(text) {
			t.Errorf("1 MiB of %q came back as %d bytes, expected %d", unit, len(got), len(text))
		}
	}
}

// FuzzParse checks that Parse returns an error or a working tokenizer for any input.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		small(`"added_tokens":[{"id":300,"content":"<x>","lstrip":true,"normalized":true}],"normalizer":{"type":"NFC"}`),
		small(`"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+"},"behavior":"MergedWithNext","invert":true},{"type":"Digits"},{"type":"ByteLevel"}]}`),
		`{"model":{"type":"BPE","unk_token":"a","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"ByteLevel"}}`,
		llama(`"added_tokens":[{"id":300,"content":"<x>","rstrip":true,"special":true}]`),
		llama(`"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Metaspace","prepend_scheme":"first"},{"type":"BertPreTokenizer"},{"type":"UnicodeScripts"},{"type":"FixedLength"},{"type":"Whitespace"},{"type":"ByteLevel"},{"type":"Punctuation"}]},"decoder":{"type":"Sequence","decoders":[{"type":"Strip","content":"a","start":1,"stop":2},{"type":"WordPiece"},{"type":"BPEDecoder"},{"type":"CTC"},{"type":"ByteLevel"},{"type":"Metaspace"}]}`),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		begin := time.Now()
		defer func() {
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		}()
		tok, err := Parse(data)
		if err != nil {
			return
		}
		ids := tok.Encode("aab 12\r\n <x> e\u0301", EncodeOptions{AddSpecial: true})
		for _, id := range ids {
			if tok.TokenBytes(id) == nil || int(id) >= tok.VocabSize() {
				t.Fatalf("encoding gave id %d, which is not in the vocabulary", id)
			}
		}
		if got := tok.Decode(ids, false); !utf8.ValidString(got) ||
			got != streamed(tok, ids, false) {
			t.Fatalf("decoded %q, streamed %q", got, streamed(tok, ids, false))
		}
	})
}

// FuzzRoundTrip checks that decoding the ids of a text gives the text in NFC, both with Decode and
// with a Stream.
func FuzzRoundTrip(f *testing.F) {
	f.Add("It's 2024; don't   panic.\n\n\tTabs\r\n")
	f.Add("e\u0301 🙂 \u1100\u1161\u11a8 हिन्दी 'ſ")
	f.Add("\xff\xe2\x82 a\u0301\u0323" + strings.Repeat("\u0301", 40))
	f.Fuzz(func(t *testing.T, text string) {
		tok := demo(t)
		ids := tok.Encode(text, EncodeOptions{})
		for _, id := range ids {
			if id >= 2084 { // an added token; the text around it is normalized separately
				return
			}
		}
		want := nfc(toValidUTF8(text))
		if got := tok.Decode(ids, false); got != want {
			t.Fatalf("%q came back as %q, expected %q", text, got, want)
		}
		if got := streamed(tok, ids, false); got != want {
			t.Fatalf("%q was streamed as %q, expected %q", text, got, want)
		}
	})
}
