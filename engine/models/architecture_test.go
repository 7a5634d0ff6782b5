package models_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/kernels"
)

const toyModelConfig = `{"model_type": "toy", "vocab_size": 256, "hidden_size": 64,
	"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
	"max_position_embeddings": 128, "quantization": {"bits": 4, "group_size": 32}}`

// TestToyArchitecture checks that one file (toy_test.go) and one registry entry are enough to add
// an architecture.
func TestToyArchitecture(t *testing.T) {
	config, err := checkpoint.ParseConfig([]byte(toyModelConfig))
	if err != nil {
		t.Fatal(err)
	}
	d := cpuDevice(t, 2)
	open := func() (models.Model, error) {
		w, err := checkpoint.Open(checkpoint.Random([]byte(toyModelConfig)), config, d)
		if err != nil {
			t.Fatal(err)
		}
		return models.Load(w)
	}
	if _, err := open(); err == nil {
		t.Fatal("Load accepts the toy architecture, although it is not registered yet")
	}
	t.Cleanup(models.Register("toy", models.LoadToy))
	if !slices.Contains(models.Architectures(), "toy") {
		t.Error("Architectures does not list the toy architecture")
	}
	m, err := open()
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{3, 1, 4, 1, 5, 9, 2, 6}
	r := &rig{Runner: runner.New(d, m, runner.Options{KV: cache.Plain(kernels.F32), Pages: 1,
		Slots: 1, BatchRows: len(ids), LogitsRows: len(ids)})}
	r.pages[0] = []int32{0}
	whole := r.score(ids, len(ids))
	if got := r.score(ids, 3); !equalBits(got, whole) {
		t.Error("computing the prompt in chunks of 3 changes the logits")
	}
	if equalBits(whole[:1], whole[1:2]) {
		t.Error("two tokens have the same logits")
	}
}

// TestEncodersHaveOracle: every encoder has a row of the oracle of embeddings, of which the vectors
// in testdata are made.
func TestEncodersHaveOracle(t *testing.T) {
	const dir = "../testdata/vectors"
	rows, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, row := range rows {
		data, err := os.ReadFile(filepath.Join(dir, row.Name(), "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := checkpoint.ParseConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		has[c.ModelType] = true
	}
	for _, name := range models.Supported() {
		if !slices.Contains(models.Architectures(), name) && !has[name] {
			t.Errorf("%s has no row in build/oracle/embeddings/rows.py and none in %s", name, dir)
		}
	}
}
