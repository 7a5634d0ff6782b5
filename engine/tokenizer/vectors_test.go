package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vector is a text and its ids from Hugging Face tokenizers.
type vector struct {
	Text        string  `json:"text"`
	IDs         []int32 `json:"ids"`
	WithSpecial []int32 `json:"with_special"` // nil: not recorded
	Decoded     string  `json:"decoded"`
	DecodedSkip *string `json:"decoded_skip"` // nil: equal to Decoded, or not recorded
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// checkVectors compares Encode, Decode and Stream with the reference.
func checkVectors(t *testing.T, tok *Tokenizer, vectors []vector) {
	t.Helper()
	if len(vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors {
		if got := tok.Encode(v.Text, EncodeOptions{}); !slices.Equal(got, v.IDs) {
			t.Errorf("Encode(%q)\n got %v\nwant %v\n(%s)", v.Text, got, v.IDs, spell(tok, got))
		}
		if v.WithSpecial != nil {
			if got := tok.Encode(v.Text, EncodeOptions{AddSpecial: true}); !slices.Equal(got,
				v.WithSpecial) {
				t.Errorf("Encode(%q, AddSpecial)\n got %v\nwant %v", v.Text, got, v.WithSpecial)
			}
		}
		want := map[bool]string{false: v.Decoded}
		if v.DecodedSkip != nil {
			want[true] = *v.DecodedSkip
		} else if !slices.ContainsFunc(v.IDs, tok.IsSpecial) {
			want[true] = v.Decoded
		}
		for skip, want := range want {
			if got := tok.Decode(v.IDs, skip); got != want {
				t.Errorf("Decode(%v, %v)\n got %q\nwant %q", v.IDs, skip, got, want)
			}
			if got := streamed(tok, v.IDs, skip); got != want {
				t.Errorf("Stream(%v, %v)\n got %q\nwant %q", v.IDs, skip, got, want)
			}
		}
	}
}

func streamed(tok *Tokenizer, ids []int32, skipSpecial bool) string {
	var b strings.Builder
	s := tok.NewStream(skipSpecial)
	for _, id := range ids {
		b.WriteString(s.Add(id))
	}
	b.WriteString(s.Close())
	return b.String()
}

// spell returns the texts of the tokens, separated by "|".
func spell(tok *Tokenizer, ids []int32) string {
	var parts []string
	for _, id := range ids {
		parts = append(parts, string(tok.TokenBytes(id)))
	}
	return strings.Join(parts, "|")
}

// TestVectors encodes the texts of testdata/make_vectors.py with each of its tokenizers, and
// compares with the recorded ids.
func TestVectors(t *testing.T) {
	paths, _ := filepath.Glob("testdata/vectors_*.json")
	if len(paths) < 8 {
		t.Fatalf("found %d vector files, expected 8", len(paths))
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var file struct {
				Tokenizer json.RawMessage `json:"tokenizer"`
				Vectors   []vector        `json:"vectors"`
			}
			readJSON(t, path, &file)
			tok, err := Parse(file.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			checkVectors(t, tok, file.Vectors)
		})
	}
}
