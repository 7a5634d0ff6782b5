package models_test

// The models with which the shared tests of this package run every architecture. What a test needs
// to know about one, such as whether it has a window, follows from its layers.

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/models/modelstest"
	"headroom/kernels"
)

var tinyTree = os.DirFS(filepath.Join("testdata", "tiny"))

// architectures lists the models that are called like their type: one of every architecture.
var architectures = listArchitectures()

func listArchitectures() (names []string) {
	// TestEveryTypeHasAModel reports the error.
	found, _ := modelstest.Find(tinyTree, models.Architectures())
	for _, m := range found {
		if !m.Shares() {
			names = append(names, m.Folder)
		}
	}
	return names
}

// TestEveryTypeHasAModel checks that the shared tests run every registered type, and that every
// cache format changes its model: quantized formats have groups of at least 32 elements.
func TestEveryTypeHasAModel(t *testing.T) {
	if _, err := modelstest.Find(tinyTree, models.Architectures()); err != nil {
		t.Error(err)
	}
	for _, name := range architectures {
		for i, layer := range layersOf(t, name) {
			if layer.HeadDim%32 != 0 {
				t.Errorf("testdata/tiny/%s: layer %d has heads of %d, which no format quantizes, "+
					"expected a multiple of 32", name, i, layer.HeadDim)
			}
		}
	}
}

// TestTypesThatShareAModel checks that types that compute the same as another give the same logits.
// The tensors of a multimodal model are named as in Hugging Face's originals and as in MLX's
// conversions.
func TestTypesThatShareAModel(t *testing.T) {
	d := cpuDevice(t, 2)
	found, _ := modelstest.Find(tinyTree, models.Architectures())
	for _, m := range found {
		if !m.Shares() {
			continue
		}
		original := readTiny(t, m.Folder)
		want := original.logits(t, d)
		config, err := m.Config(tinyTree)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, f folder) {
			f.config = string(config)
			if !equalBits(f.logits(t, d), want) {
				t.Errorf("%s, %s: other logits than %s", m.Type, what, m.Folder)
			}
		}
		if m.Inside == "" {
			check("same names", original)
			continue
		}
		check("names of Hugging Face", original.rename(func(name string) string {
			name = strings.TrimPrefix(name, "language_model.")
			return strings.Replace(name, "model.", "model.language_model.", 1)
		}))
		check("names of MLX", original.rename(func(name string) string {
			return "language_model." + strings.TrimPrefix(name, "language_model.")
		}))
	}
}

// layersOf returns the cache of each layer of a tiny model.
func layersOf(t testing.TB, name string) []cache.LayerSpec {
	t.Helper()
	return readTiny(t, name).load(t, kernels.NewDryRun()).Spec().Layers
}

// slides reports whether a layer has a window, so that its keys and values are in a ring.
func slides(layers []cache.LayerSpec) bool {
	return slices.ContainsFunc(layers, func(s cache.LayerSpec) bool { return s.Window > 0 })
}

// keepsAll reports whether a layer keeps the keys and values of every token.
func keepsAll(layers []cache.LayerSpec) bool {
	return slices.ContainsFunc(layers, func(s cache.LayerSpec) bool {
		return s.KVHeads > 0 && s.Window == 0
	})
}

// recurs reports whether a layer has a recurrent state.
func recurs(layers []cache.LayerSpec) bool {
	return slices.ContainsFunc(layers, cache.LayerSpec.Recurrent)
}

// TestMissing: the list of what mlx-lm runs and Headroom does not names no type that runs by now.
func TestMissing(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "build", "oracle", "models", "MISSING.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for name := range strings.SplitSeq(cells[2], ",") {
			if named++; slices.Contains(models.Architectures(), strings.TrimSpace(name)) {
				t.Errorf("MISSING.md has %s, which runs", name)
			}
		}
	}
	if named < 50 {
		t.Errorf("MISSING.md names %d files", named)
	}
}
