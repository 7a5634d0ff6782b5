package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// configVocabulary has the tokens 0 to 4, and as added tokens <x>, which is special, and <y>.
const configVocabulary = `{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<v>":3,"Ġ":4},
	"merges":["a b"]},"decoder":{"type":"ByteLevel"},
	"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"added_tokens":[
	{"id":5,"content":"<x>","special":true},{"id":6,"content":"<y>"}]}`

// TestConfigTokens checks the added tokens of tokenizer_config.json. The expected ids, texts
// without special tokens, and names are what AutoTokenizer of transformers 5.23.0 made of the same
// files with tokenizer_class PreTrainedTokenizerFast.
func TestConfigTokens(t *testing.T) {
	const flags = `"lstrip":false,"rstrip":false,"single_word":false,"normalized":false`
	decoder := func(entries string) string { return `{"added_tokens_decoder":{` + entries + `}}` }
	for _, tt := range []struct {
		about, config    string
		specialMap, more string // special_tokens_map.json and added_tokens.json; "": none
		text             string
		ids              []int32
		skipped          string // decoded without special tokens
		special          string
	}{
		{"no config", "", "", "", "a<x>b<y>a", []int32{0, 5, 1, 6, 0}, "ab<y>a", ""},
		{"a new token", decoder(`"7":{"content":"<n>",` + flags + `,"special":true}`), "", "",
			"a<n>b", []int32{0, 7, 1}, "ab", ""},
		{"an id after a gap", decoder(`"9":{"content":"<n>","special":true}`), "", "", "a<n>b",
			[]int32{0, 7, 1}, "ab", ""},
		{"two", decoder(`"10":{"content":"<m>"},"9":{"content":"<n>"}`), "", "", "<n><m>",
			[]int32{7, 8}, "<n><m>", ""},
		{"strips", decoder(`"5":{"content":"<x>","lstrip":true,"rstrip":true,"special":true}`), "",
			"", "ab  <x>  ab", []int32{2, 5, 2}, "abab", ""},
		{"strips on the right", decoder(`"5":{"content":"<x>","rstrip":true,"special":true}`), "",
			"", "ab  <x>  ab", []int32{2, 4, 4, 5, 2}, "ab  ab", ""},
		{"no longer special", decoder(`"5":{"content":"<x>",` + flags + `,"special":false}`), "",
			"", "a<x>b", []int32{0, 5, 1}, "ab", ""},
		{"special", decoder(`"6":{"content":"<y>",` + flags + `,"special":true}`), "", "",
			"a<y>b", []int32{0, 6, 1}, "ab", ""},
		{"a single word", decoder(`"6":{"content":"<y>","single_word":true}`), "", "",
			"<y>a <y> ", []int32{0, 4, 6, 4}, "a <y> ", ""},
		{"another name for an id", decoder(`"6":{"content":"<z>","special":true}`), "", "",
			"a<y>b<z>", []int32{0, 6, 1, 7}, "a<y>b", ""},
		{"a token of the model", decoder(`"3":{"content":"<v>","special":true}`), "", "",
			"a<v>b", []int32{0, 3, 1}, "ab", ""},
		{"empty", decoder(`"7":{"content":""}`), "", "", "ab", []int32{2}, "ab", ""},
		{"an eos_token of the model", `{"eos_token":"<v>"}`, "", "", "a<v>b", []int32{0, 3, 1},
			"ab", "eos_token=<v>"},
		{"a new eos_token", `{"eos_token":"<q>"}`, "", "", "a<q>b", []int32{0, 7, 1}, "ab",
			"eos_token=<q>"},
		{"a new eos_token with flags",
			`{"eos_token":{"__type":"AddedToken","content":"<q>","lstrip":true}}`, "", "",
			"ab <q> b", []int32{2, 7, 4, 1}, "ab b", "eos_token=<q>"},
		{"an eos_token with other flags",
			`{"eos_token":{"__type":"AddedToken","content":"<x>","lstrip":true}}`, "", "",
			"ab <x> b", []int32{2, 4, 5, 4, 1}, "ab  b", "eos_token=<x>"},
		{"eos_token is not special", `{"eos_token":"<y>"}`, "", "", "a<y>b", []int32{0, 6, 1},
			"ab", "eos_token=<y>"},
		{"nor in the decoder", `{"eos_token":"<y>","added_tokens_decoder":{"6":{"content":"<y>",` +
			flags + `,"special":false}}}`, "", "", "a<y>b", []int32{0, 6, 1}, "ab",
			"eos_token=<y>"},
		{"and not in the decoder", `{"eos_token":"<y>","added_tokens_decoder":{"5":{"content":` +
			`"<x>",` + flags + `,"special":true}}}`, "", "", "a<y>b", []int32{0, 6, 1}, "a<y>b",
			"eos_token=<y>"},
		{"a token for images", `{"image_token":"<y>"}`, "", "", "a<y>b", []int32{0, 6, 1}, "ab",
			"image_token=<y>"},
		{"a list", `{"extra_special_tokens":["<e>","<y>"]}`, "", "", "a<e>b<y>",
			[]int32{0, 7, 1, 6}, "ab<y>", ""},
		{"an old list", `{"additional_special_tokens":["<e>","<x>"]}`, "", "", "a<e>b<x>",
			[]int32{0, 7, 1, 5}, "ab", ""},
		{"names", `{"extra_special_tokens":{"image_token":"<e>"}}`, "", "", "a<e>b",
			[]int32{0, 7, 1}, "ab", "image_token=<e>"},
		{"the order", `{"extra_special_tokens":["<e>"],"b_token":"<b>","a_token":"<a>",` +
			`"eos_token":"<q>","added_tokens_decoder":{"7":{"content":"<n>","special":true}}}`, "",
			"", "<n><q><b><a><e>", []int32{7, 8, 9, 10, 11}, "",
			"a_token=<a> b_token=<b> eos_token=<q>"},
		{"a map", `{"eos_token":"<x>"}`, `{"eos_token":"<q>","image_token":"<x>"}`, "",
			"a<x>b<q>", []int32{0, 5, 1, 7}, "ab", "eos_token=<q> image_token=<x>"},
		{"a map beside a decoder", `{"eos_token":"<x>","added_tokens_decoder":{"5":{"content":` +
			`"<x>",` + flags + `,"special":true}}}`, `{"eos_token":"<y>"}`, "", "a<x>b<y>",
			[]int32{0, 5, 1, 6}, "ab<y>", "eos_token=<x>"},
		{"added_tokens.json", "", "", `{"<e>":7,"<y>":6}`, "a<e>b<y>", []int32{0, 7, 1, 6},
			"a<e>b<y>", ""},
		{"added_tokens.json, special", `{"eos_token":"<e>"}`, "", `{"<e>":7,"<y>":6}`,
			"a<e>b<y>", []int32{0, 7, 1, 6}, "ab<y>", "eos_token=<e>"},
		{"null", `{"eos_token":null,"pad_token":""}`, "", "", "a<x>", []int32{0, 5}, "a",
			"pad_token="},
	} {
		config, err := ParseConfig(configFiles(tt.config, tt.specialMap, tt.more))
		if err != nil {
			t.Errorf("%s: %v", tt.about, err)
			continue
		}
		tok, err := ParseWithConfig([]byte(configVocabulary), config, 0)
		if err != nil {
			t.Errorf("%s: %v", tt.about, err)
			continue
		}
		got := tok.Encode(tt.text, EncodeOptions{})
		if skipped := tok.Decode(got, true); !slices.Equal(got, tt.ids) || skipped != tt.skipped {
			t.Errorf("%s: %q: got %v, %q, want %v, %q", tt.about, tt.text, got, skipped, tt.ids,
				tt.skipped)
		}
		var special []string
		for name, text := range config.Special {
			special = append(special, name+"="+text)
		}
		slices.Sort(special)
		if s := strings.Join(special, " "); s != tt.special {
			t.Errorf("%s: special tokens %q, want %q", tt.about, s, tt.special)
		}
	}
}

// configFiles returns files with these contents, but for empty ones.
func configFiles(contents ...string) ConfigFiles {
	var data [3][]byte
	for i, text := range contents {
		if text != "" {
			data[i] = []byte(text)
		}
	}
	return ConfigFiles{data[0], data[1], data[2]}
}

// TestConfigNormalized checks when a token of tokenizer_config.json matches normalized text.
func TestConfigNormalized(t *testing.T) {
	file := strings.Replace(configVocabulary, `"decoder"`,
		`"normalizer":{"type":"Lowercase"},"decoder"`, 1)
	for config, want := range map[string][]int32{
		`{"added_tokens_decoder":{"7":{"content":"<N>"}}}`:                                  {0, 7, 1, 7},
		`{"added_tokens_decoder":{"7":{"content":"<N>","special":true}}}`:                   {0, 1, 7},
		`{"added_tokens_decoder":{"7":{"content":"<N>","special":true,"normalized":true}}}`: {0, 7, 1, 7},
		`{"eos_token":"<N>"}`: {0, 1, 7},
	} {
		c, err := ParseConfig(configFiles(config))
		if err != nil {
			t.Fatal(err)
		}
		tok, err := ParseWithConfig([]byte(file), c, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("a<n>b<N>", EncodeOptions{}); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", config, got, want)
		}
	}
}

// TestConfigLimit checks that tokens for which the model has no embedding stay text.
func TestConfigLimit(t *testing.T) {
	c, err := ParseConfig(configFiles(
		`{"eos_token":"<x>","pad_token":"<p>","extra_special_tokens":["<q>"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]string{0: "7 true 8 true", 9: "7 true 8 true",
		8: "7 true 0 false", 7: "0 false 0 false"} {
		tok, err := ParseWithConfig([]byte(configVocabulary), c, limit)
		if err != nil {
			t.Fatal(err)
		}
		p, hasP := tok.TokenID("<p>")
		q, hasQ := tok.TokenID("<q>")
		if got := fmt.Sprint(p, hasP, q, hasQ); got != want {
			t.Errorf("limit %d: got %s, want %s", limit, got, want)
		}
		if id, ok := tok.TokenID("<x>"); !ok || id != 5 {
			t.Errorf("limit %d: <x> is %d, %t", limit, id, ok)
		}
	}
}

// TestConfigPieces checks the tokens that a tokenizer_config.json adds to a tokenizer.model.
func TestConfigPieces(t *testing.T) {
	c, err := ParseConfig(configFiles(`{"eos_token":"<s>","added_tokens_decoder":{
		"4":{"content":"<n>","special":true},"5":{"content":"<m>"},"2":{"content":"▁a","special":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	file := pieceFile([]testPiece{{"<s>", 0, controlToken}, {"▁a", -1, normalToken},
		{"▁", -2, normalToken}}, []any{modelTypeField, bpeModel}, nil)
	tok, err := ParseSentencePiece(file, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int32{"<s>": 1, "▁a": 2, "<n>": 4, "<m>": 5} {
		if id, ok := tok.TokenID(token); !ok || id != want {
			t.Errorf("%s is %d, %t, want %d", token, id, ok, want)
		}
	}
	if got := tok.Encode("<n><m>", EncodeOptions{}); !slices.Equal(got, []int32{4, 5}) {
		t.Errorf("got %v", got)
	}
	if !tok.IsSpecial(4) || tok.IsSpecial(5) || tok.IsSpecial(2) {
		t.Error("<n> is not special, or <m> or ▁a is")
	}
}

func TestConfigErrors(t *testing.T) {
	for config, want := range map[string]string{
		`[]`:                                   `tokenizer_config.json has "[]", expected an object`,
		` null `:                               "tokenizer_config.json has null, expected an object",
		` `:                                    "tokenizer_config.json is not valid JSON",
		`{"eos_token`:                          "tokenizer_config.json is not valid JSON",
		`{} {}`:                                "tokenizer_config.json is not valid JSON",
		"{\"a\":\"\xff\"}":                     "not valid UTF-8",
		`{"added_tokens_decoder":[]}`:          "added_tokens_decoder has",
		`{"added_tokens_decoder":{"x":{}}}`:    `added_tokens_decoder has "x"`,
		`{"added_tokens_decoder":{"-1":{}}}`:   `added_tokens_decoder has "-1"`,
		`{"added_tokens_decoder":{"1":"<s>"}}`: `added_tokens_decoder has "1"`,
		`{"added_tokens_decoder":{"1":{"content":1}}}`: `added_tokens_decoder has "1"`,
	} {
		if _, err := ParseConfig(configFiles(config)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
	if _, err := ParseConfig(configFiles("", `[]`)); err == nil ||
		!strings.Contains(err.Error(), "special_tokens_map.json has") {
		t.Errorf("special_tokens_map.json: got %v", err)
	}
	if _, err := ParseConfig(configFiles("", "", `{"a":"b"}`)); err == nil ||
		!strings.Contains(err.Error(), "added_tokens.json") {
		t.Errorf("added_tokens.json: got %v", err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"eos_token":"<q>","extra_special_tokens":["<e>"],`+
		`"added_tokens_decoder":{"7":{"content":"<n>","special":true}}}`), []byte(`{}`), []byte(`{}`))
	f.Add([]byte(`{"extra_special_tokens":{"a":"b"}}`), []byte(`{"eos_token":"b"}`),
		[]byte(`{"<e>":7}`))
	f.Fuzz(func(t *testing.T, config, specialMap, added []byte) {
		c, err := ParseConfig(ConfigFiles{config, specialMap, added})
		if err != nil {
			return
		}
		tok, err := ParseWithConfig([]byte(configVocabulary), c, 1<<16)
		if err == nil && tok.VocabSize() > 1<<16 {
			t.Errorf("%d tokens", tok.VocabSize())
		}
	})
}
