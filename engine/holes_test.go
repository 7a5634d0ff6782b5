package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// zeroed returns a copy of the demo model whose weights are zeros from one share of its file to
// another.
func zeroed(t *testing.T, from, to float64) engine.Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, demoSource(t).FS); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	first := len(f.Mapping())
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		first = min(first, x.From)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := float64(len(data) - first)
	clear(data[first+int(from*size) : first+int(to*size)])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return engine.Source{Dir: dir}
}

// TestHoles: a model whose file has zeros in place of several tensors is refused, also if a part of
// it has arrived.
func TestHoles(t *testing.T) {
	for name, hole := range map[string][2]float64{"all": {0, 1}, "the end": {0.7, 1},
		"in the middle": {0.4, 0.6}} {
		_, err := engine.Open(t.Context(), zeroed(t, hole[0], hole[1]),
			engine.Options{ContextTokens: 512})
		p := problem.From(err)
		if err == nil || p.Code != problem.ModelBroken || !strings.Contains(p.Why, "all zeros") {
			t.Errorf("%s: got %v, expected that the weights are incomplete", name, err)
		}
	}
}
