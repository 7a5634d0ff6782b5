package tokenizer

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// tiktokenFile returns a tiktoken.model with all bytes and these tokens.
func tiktokenFile(tokens ...string) []byte {
	var b strings.Builder
	for i := range 256 {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	for i, token := range tokens {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), 256+i)
	}
	return []byte(b.String())
}

// TestTiktoken checks where words end, the order of merges, and the tokens that
// tokenizer_config.json names. The expected ids are worked out by hand.
func TestTiktoken(t *testing.T) {
	const config = `{"added_tokens_decoder":{"7":{"content":"no","special":true},
		"262":{"content":"[BOS]","special":true},"263":{"content":"<think>","special":false},
		"264":{"content":"<|im_end|>","special":true}}}`
	// Each token but the bytes is a rank lower than those before it.
	file := tiktokenFile("ab", "bc", "abc", "中", "中a", " b")
	named, err := ParseConfig(ConfigFiles{TokenizerConfig: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := ParseTiktoken(file, named)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{
		"abc":                     {258},      // a token as a whole
		"abcb":                    {258, 'b'}, // ab and c, and then abc
		"bcb":                     {257, 'b'}, // bc before cb
		"中a":                      {259, 'a'}, // Han ends a word, though 中a is a token
		"a b":                     {'a', 261}, // a space begins a word
		"1234":                    {'1', '2', '3', '4'},
		"[BOS]a<think><|im_end|>": {262, 'a', 263, 264},
		"<|reserved_token_517|>":  {517},
		"<|reserved_token_518|>":  ids("<|reserved_token_518|>"),
		"no":                      {'n', 'o'},
	} {
		if got := tok.Encode(text, EncodeOptions{AddSpecial: true}); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		if got := tok.Decode(want, false); got != text {
			t.Errorf("%v: got %q, want %q", want, got, text)
		}
	}
	for token, want := range map[int32]bool{262: true, 263: false, 264: true, 265: true,
		258: false} {
		if tok.IsSpecial(token) != want {
			t.Errorf("token %d is special: %t", token, !want)
		}
	}
	if n := tok.VocabSize(); n != 262+kimiSpecialTokens {
		t.Errorf("%d tokens", n)
	}
	shield := tok.NewShield()
	hidden := tok.Encode(shield.Hide("[BOS]<think>"), EncodeOptions{Shield: shield})
	if want := append(ids("[BOS]"), 263); !slices.Equal(hidden, want) {
		t.Errorf("in a message: got %v, want %v", hidden, want)
	}
}

// ids returns the bytes of a text as tokens.
func ids(text string) (out []int32) {
	for i := range len(text) {
		out = append(out, int32(text[i]))
	}
	return out
}

func TestTiktokenErrors(t *testing.T) {
	file := string(tiktokenFile())
	for _, tt := range []struct{ file, want string }{
		{"", "has no tokens"},
		{"YQ==", "line 1 has 1 fields"},
		{"YQ== 0 1", "line 1 has 3 fields"},
		{"YQ== 1", `line 1 has the rank "1", expected 0`},
		{"YQ== x", `line 1 has the rank "x"`},
		{"YQ== 0\nYQ 1", "the token of line 2 is not base64"},
		{"!! 0", "the token of line 1 is not base64"},
	} {
		_, err := ParseTiktoken([]byte(tt.file), &Config{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.20q: got %v, want %q", tt.file, err, tt.want)
		}
	}
	if _, err := ParseTiktoken([]byte(file), &Config{}); err != nil {
		t.Errorf("without a config: %v", err)
	}
}
