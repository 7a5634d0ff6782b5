package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/safetensors"
)

// TestEditedWeights changes one row of the embedding in place and restarts. The keys and values of
// the old weights must not be used. Those of a copy in another folder are.
func TestEditedWeights(t *testing.T) {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	dir, other, store := t.TempDir(), t.TempDir(), t.TempDir()
	for _, to := range []string{dir, other} {
		if err := os.CopyFS(to, files); err != nil {
			t.Fatal(err)
		}
	}
	cached := func(dir string) int {
		t.Helper()
		blocks := openStore(t, store)
		defer blocks.Close()
		e := openModel(t, engine.Source{Dir: dir}, engine.Options{BlockStore: blocks})
		defer e.Close()
		history := system("Answer briefly. ", 200)
		return ask(t, e, &history, questions[0]).usage.CachedTokens
	}
	if first, again, copied := cached(dir), cached(dir), cached(other); first != 0 ||
		again < 256 || copied != again {
		t.Fatalf("cached tokens: first %d, again %d, in another folder %d", first, again, copied)
	}
	path := filepath.Join(dir, "model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	row, _ := f.Tensor("language_model.model.embed_tokens.weight")
	if len(row.Data) == 0 {
		t.Fatal("the demo model's embedding has another name")
	}
	at := row.From + len(row.Data)/3
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 0x55
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := cached(dir); n != 0 {
		t.Errorf("%d tokens came from the cache of the weights before the edit", n)
	}
}
