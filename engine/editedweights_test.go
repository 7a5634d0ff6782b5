package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
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

// TestEditedWhileLoaded edits a model's files in place, while it is loaded or after that, and asks.
// Then the files are as before, and the model is loaded again. What other weights have computed
// must not come from the store, and what is computed then is stored.
func TestEditedWhileLoaded(t *testing.T) {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	for _, while := range []bool{false, true} {
		dir, store := t.TempDir(), t.TempDir()
		if err := os.CopyFS(dir, files); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "model.safetensors")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cached := func(progress func(float64), loaded func()) int {
			t.Helper()
			blocks := openStore(t, store)
			defer blocks.Close()
			e := openModel(t, engine.Source{Dir: dir}, engine.Options{BlockStore: blocks,
				Progress: progress})
			defer e.Close()
			loaded()
			history := system("Answer briefly. ", 200)
			return ask(t, e, &history, questions[0]).usage.CachedTokens
		}
		edit := sync.OnceFunc(func() {
			edited := slices.Clone(whole)
			for at := len(whole) / 2; at < len(whole); at += 1000 {
				edited[at] ^= 0x11
			}
			writeAt(t, path, 0, edited)
		})
		nothing := func() {}
		if while { // Prefault reports progress once it has the digest
			cached(func(float64) { edit() }, nothing)
		} else {
			cached(nil, edit)
		}
		writeAt(t, path, 0, whole)
		if n := cached(nil, nothing); n != 0 {
			t.Errorf("edited while it was loaded: %t: %d tokens came from the edited weights",
				while, n)
		}
		if n := cached(nil, nothing); n < 256 {
			t.Errorf("only %d tokens came from the cache of the whole weights", n)
		}
	}
}

// writeAt writes to a file in place, again and again until the time of its change is another one.
func writeAt(t *testing.T, path string, at int, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := f.WriteAt(data, int64(at)); err != nil {
			t.Fatal(err)
		}
		if after, err := f.Stat(); err != nil {
			t.Fatal(err)
		} else if !after.ModTime().Equal(before.ModTime()) {
			return
		}
	}
}
