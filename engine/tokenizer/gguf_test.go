package tokenizer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ggufFile returns the header of a GGUF file with the given keys, in the order of the arguments: a
// key, then its value.
func ggufFile(pairs ...any) []byte {
	var b bytes.Buffer
	number := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	text := func(s string) {
		number(uint64(len(s)))
		b.WriteString(s)
	}
	b.WriteString("GGUF")
	number(uint32(3))
	number(uint64(0))
	number(uint64(len(pairs) / 2))
	for i := 0; i < len(pairs); i += 2 {
		text(pairs[i].(string))
		switch v := pairs[i+1].(type) {
		case string:
			number(uint32(8))
			text(v)
		case uint32:
			number(uint32(4))
			number(v)
		case bool:
			number(uint32(7))
			number(v)
		case []string:
			number([]uint32{9, 8})
			number(uint64(len(v)))
			for _, s := range v {
				text(s)
			}
		case []float32:
			number([]uint32{9, 6})
			number(uint64(len(v)))
			number(v)
		case []int32:
			number([]uint32{9, 5})
			number(uint64(len(v)))
			number(v)
		default:
			panic(fmt.Sprintf("%T", v))
		}
	}
	return b.Bytes()
}

const ggml = "tokenizer.ggml."

// ggufFiles has a small file of each kind, by name.
func ggufFiles() map[string][]byte {
	return map[string][]byte{
		"gpt2": ggufFile("general.name", "x", "general.tags", []string{"a", "b"},
			ggml+"model", "gpt2", ggml+"pre", "gpt-2",
			ggml+"tokens", []string{"<s>", "a", "b", "Ġ", "ab", "Ġab"},
			ggml+"token_type", []int32{3, 1, 1, 1, 1, 1},
			ggml+"merges", []string{"a b", "Ġ ab"}, ggml+"bos_token_id", uint32(0),
			ggml+"add_bos_token", true),
		"llama": ggufFile(ggml+"model", "llama",
			ggml+"tokens", []string{"<unk>", "<s>", "<0x21>", "▁", "a", "b", "ab", "▁a", "▁ab"},
			ggml+"scores", []float32{0, 0, 0, -4, -5, -6, -2, -1, -3},
			ggml+"token_type", []int32{2, 3, 6, 1, 1, 1, 1, 1, 1}, ggml+"bos_token_id", uint32(1)),
		"gemma4": ggufFile(ggml+"model", "gemma4",
			ggml+"tokens", []string{"<unk>", "▁", "a", "b", "▁a", "\n"},
			ggml+"token_type", []int32{2, 1, 1, 1, 1, 4}, ggml+"merges", []string{"▁ a"}),
		"bert": ggufFile(ggml+"model", "bert",
			ggml+"tokens", []string{"[UNK]", "[CLS]", "[SEP]", "▁a", "b", "▁!"},
			ggml+"token_type", []int32{3, 3, 3, 1, 1, 1}, ggml+"cls_token_id", uint32(1),
			ggml+"seperator_token_id", uint32(2)),
	}
}

// TestGGUF encodes by hand with a vocabulary of each kind.
func TestGGUF(t *testing.T) {
	files := ggufFiles()
	for _, c := range []struct {
		kind, text string
		want       []int32
	}{
		{"gpt2", "ab aba", []int32{0, 4, 5, 1}},
		// The merge to ▁a has the highest score, so ▁ab is made of ▁a and b.
		{"llama", "ab! ab", []int32{1, 8, 2, 8}},
		{"gemma4", "a\nab a", []int32{2, 5, 2, 3, 4}},
		{"bert", "Ab ax!", []int32{1, 3, 4, 0, 5, 2}},
	} {
		tok, err := ParseGGUF(bytes.NewReader(files[c.kind]))
		if err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		if got := tok.Encode(c.text, EncodeOptions{AddSpecial: true}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q is %v, expected %v", c.kind, c.text, got, c.want)
		}
	}
}

// TestGGUFRefuses checks that a damaged header is refused, and costs no more than its bytes.
func TestGGUFRefuses(t *testing.T) {
	whole := ggufFiles()["gpt2"]
	for n := range whole {
		if _, err := ParseGGUF(bytes.NewReader(whole[:n])); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, len(whole))
		}
	}
	count := bytes.Index(whole, []byte(ggml+"merges")) + len(ggml+"merges") + 8
	huge := slices.Clone(whole)
	binary.LittleEndian.PutUint64(huge[count:], 1<<21)
	used := allocated(func() {
		if _, err := ParseGGUF(bytes.NewReader(huge)); err == nil {
			t.Error("an array of 2^21 texts was accepted")
		}
	})
	if used > 8<<20 {
		t.Errorf("%d MB were allocated", used>>20)
	}
	for want, file := range map[string][]byte{
		"does not begin": []byte("GGML...."), "its version is 9": []byte("GGUF\x09\x00\x00\x00"),
		`"rwkv", which is not supported`: ggufFile(ggml+"model", "rwkv"),
		"has no tokens":                  ggufFile(ggml+"model", "gpt2"),
		`pre is "new"`: ggufFile(ggml+"model", "gpt2", ggml+"pre", "new",
			ggml+"tokens", []string{"a"}),
		"1 tokens, 2 scores": ggufFile(ggml+"model", "llama", ggml+"tokens", []string{"a"},
			ggml+"scores", []float32{1, 2}),
		"type 9": ggufFile(ggml+"model", "llama", ggml+"tokens", []string{"a"},
			ggml+"token_type", []int32{9}),
	} {
		if _, err := ParseGGUF(bytes.NewReader(file)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
}
