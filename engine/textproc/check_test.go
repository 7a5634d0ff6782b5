package textproc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine/checkpoint"
)

// TestBeyondVocabulary: an added token that the model lacks is found at the beginning of a
// tokenizer.json, and nothing else is an error.
func TestBeyondVocabulary(t *testing.T) {
	many := make([]string, 3000) // 300 KB
	for i := range many {
		many[i] = fmt.Sprintf(`{"id": %d, "content": "<unused%d>", "special": %s true}`, i, i,
			strings.Repeat(" ", 60))
	}
	const pad = `{"id": 320, "content": "[PAD]", "special": true}`
	for _, c := range []struct {
		name, file string
		tokens     int
		want       string
	}{
		{"one more", `{"version": "1.0", "added_tokens": [{"id": 3, "content": "a"}, ` + pad + `]}`,
			320, `its token 320 is "[PAD]", the model's vocab_size is 320`},
		{"a byte order mark", "\uFEFF" + `{"added_tokens": [` + pad + `]}`, 320, ""},
		{"enough", `{"added_tokens": [` + pad + `]}`, 321, ""},
		{"none", `{"added_tokens": [], "model": {}}`, 320, ""},
		{"null", `{"added_tokens": null, "model": {}}`, 320, ""},
		{"after the model", `{"model": {}, "added_tokens": [` + pad + `]}`, 320, ""},
		{"no object", `[1]`, 320, ""},
		{"no tokens", `{"added_tokens": [1, ` + pad + `]}`, 320, ""},
		{"cut off", `{"added_tokens": [{"id": 3`, 320, ""},
		{"empty", ``, 320, ""},
		{"early of many", `{"added_tokens": [` + strings.Join(many, ",") + `]}`, 2000,
			`its token 2000 is "<unused2000>", the model's vocab_size is 2000`},
		{"late of many", `{"added_tokens": [` + strings.Join(many, ",") + `]}`, 2990, ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(c.file),
			0o600); err != nil {
			t.Fatal(err)
		}
		if got := BeyondVocabulary(checkpoint.Source{Dir: dir}, c.tokens); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
	if got := BeyondVocabulary(checkpoint.Source{Dir: t.TempDir()}, 1); got != "" {
		t.Errorf("without a tokenizer: %q", got)
	}
}
