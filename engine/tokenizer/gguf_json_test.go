package tokenizer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"headroom/engine/gguf"
)

// metadataOf returns the metadata of a file.
func metadataOf(t testing.TB, file []byte) gguf.Metadata {
	t.Helper()
	h, err := gguf.ReadHeader(bytes.NewReader(file), nil)
	if err != nil {
		t.Fatal(err)
	}
	return h.Metadata
}

// TestGGUFToJSON writes a tokenizer.json for a vocabulary of each kind. It encodes and decodes like
// the one that is made of the GGUF file itself.
func TestGGUFToJSON(t *testing.T) {
	files := ggufFiles()
	files["users"] = ggufFile(ggml+"model", "llama",
		ggml+"tokens", []string{"<unk>", "<s>", "<0x21>", "▁", "a", "▁▁", "\n\n", "▁a"},
		ggml+"scores", []float32{0, 0, 0, -4, -5, 0, 0, -1},
		ggml+"token_type", []int32{2, 3, 6, 1, 1, 4, 4, 1}, ggml+"bos_token_id", uint32(1),
		ggml+"add_space_prefix", false)
	files["llama3"] = ggufFile(ggml+"model", "gpt2", ggml+"pre", "llama-bpe",
		ggml+"tokens", []string{"a", "b", "Ġ", "ab", "<|begin|>", "<think>"},
		ggml+"token_type", []int32{1, 1, 1, 1, 3, 4},
		ggml+"merges", []string{"a b", "x y"}, ggml+"bos_token_id", uint32(4))
	for kind, file := range files {
		data, err := GGUFToJSON(metadataOf(t, file))
		if kind == "bert" {
			if err == nil || !strings.Contains(err.Error(), `model is "bert"`) {
				t.Errorf("bert: %v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		got, err1 := Parse(data)
		want, err2 := ParseGGUF(bytes.NewReader(file))
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", kind, err1, err2)
		}
		for _, text := range []string{"", "ab aba", "ab! ab", "a\nab a", "aa<think>b", "a\n\n a",
			"<|begin|>ab", "<s>a"} {
			o := EncodeOptions{AddSpecial: true}
			a, b := got.Encode(text, o), want.Encode(text, o)
			if !slices.Equal(a, b) {
				t.Errorf("%s: %q is %v, and %v in the file", kind, text, a, b)
			}
			if x, y := got.Decode(a, false), want.Decode(b, false); x != y {
				t.Errorf("%s: %v is %q, and %q in the file", kind, a, x, y)
			}
		}
		var file struct {
			Model struct{ Vocab map[string]int32 }
		}
		if err := json.Unmarshal(data, &file); err != nil || len(file.Model.Vocab) == 0 {
			t.Errorf("%s: %d tokens, %v", kind, len(file.Model.Vocab), err)
		}
	}
	// Spaces of a token that was added by a user are those of the text.
	data, err := GGUFToJSON(metadataOf(t, files["users"]))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if ids := tok.Encode("a  a", EncodeOptions{}); !slices.Equal(ids, []int32{4, 5, 4}) {
		t.Errorf("a, two spaces and a are %v", ids)
	}
	if _, err := GGUFToJSON(metadataOf(t, ggufFile(ggml+"model", "gpt2", ggml+"pre", "gpt-2",
		ggml+"tokens", []string{"a"}, ggml+"bos_token_id", uint32(9),
		ggml+"add_bos_token", true))); err == nil {
		t.Error("a special token beyond the vocabulary was accepted")
	}
}
