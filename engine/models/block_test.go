package models_test

// A block that drafts tokens in files of its own, as people publish it.

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// splitMTP returns f without its block, and a folder with the block alone, whose names begin with
// prefix.
func (f folder) splitMTP(prefix string) (model, block folder) {
	model = folder{config: f.config, tensors: map[string]safetensors.Tensor{}}
	block = folder{config: f.config, tensors: map[string]safetensors.Tensor{}}
	for name, x := range f.tensors {
		if _, rest, ok := strings.Cut(name, "mtp."); ok {
			block.put(prefix+rest, x)
		} else {
			model.put(name, x)
		}
	}
	return model, block
}

// readDemo returns the demo model.
func readDemo(t *testing.T) folder {
	t.Helper()
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	c, err := safetensors.OpenFS(files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	config, err := fs.ReadFile(files, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	f := folder{config: string(config), tensors: map[string]safetensors.Tensor{}}
	for _, name := range c.Names() {
		x, _ := c.Tensor(name)
		f.put(name, x)
	}
	return f
}

// draftedBy returns the logits of what the block of a model drafts after 24 tokens. prepare may
// change the folder of the model, and attach a block.
func (f folder) draftedBy(t *testing.T, d kernels.Device,
	prepare func(dir string) (block string)) []float32 {
	t.Helper()
	src := checkpoint.Source{Dir: f.write(t)}
	block := prepare(src.Dir)
	config, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(src, config, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if block != "" {
		if err := w.AttachBlock(checkpoint.Source{Dir: block}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := models.LoadDrafter(w)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Spec().Drafts {
		t.Fatal("the model has no block that drafts")
	}
	r := runner.New(d, m, runner.Options{KV: cache.Plain(kernels.F32), Pages: 1, Slots: 1,
		BatchRows: 24, LogitsRows: 24})
	ids := someTokens(24)
	span := kernels.Span{Rows: 23, Pages: []int32{0}}
	if _, err := r.Step(ids[:23], []kernels.Span{span}, nil); err != nil {
		t.Fatal(err)
	}
	span.Rows, span.Pos = 1, 23
	logits, err := r.Draft(ids[23:], []kernels.Span{span}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(logits)
}

// in writes the tensors of f to a file of the folder dir.
func (f folder) in(t *testing.T, dir, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.write(t), "model.safetensors"))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBlockFiles: a block in a file beside the model's, or in a folder of its own, drafts what it
// drafts among the tensors of the model, whatever its names begin with. config.json says that the
// model has none, as that of a conversion without it may.
func TestBlockFiles(t *testing.T) {
	d := cpuDevice(t, 2)
	originals := map[string]folder{"demo": readDemo(t)}
	for _, name := range []string{"qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"} {
		originals[name] = withMTP(readTiny(t, name), "model.layers.3.").mlx()
	}
	for name, original := range originals {
		want := original.draftedBy(t, d, func(string) string { return "" })
		for _, prefix := range []string{"", "mtp.", "language_model.mtp."} {
			model, block := original.splitMTP(prefix)
			model.config = strings.Replace(model.config, `"mtp_num_hidden_layers": 1`,
				`"mtp_num_hidden_layers": 0`, 1)
			for _, file := range []string{"mtp.safetensors", "mtp/weights.safetensors",
				"model-mtp.safetensors", ""} {
				got := model.draftedBy(t, d, func(dir string) string {
					if file == "" {
						return block.write(t)
					}
					block.in(t, dir, file)
					return ""
				})
				if !slices.Equal(got, want) {
					t.Errorf("%s, %q with names %q: other drafts", name, file, prefix)
				}
			}
		}
	}
}

// TestBlockPacking: a block may be packed in other bits than config.json says of the model.
func TestBlockPacking(t *testing.T) {
	d := cpuDevice(t, 2)
	f := readDemo(t)
	want := f.draftedBy(t, d, func(string) string { return "" })
	var config map[string]any
	if err := json.Unmarshal([]byte(f.config), &config); err != nil {
		t.Fatal(err)
	}
	packing := config["quantization"].(map[string]any)
	maps.DeleteFunc(packing,
		func(name string, _ any) bool { return strings.Contains(name, "mtp.") })
	config["mtplx_mtp_quantization"] = map[string]any{"bits": 4, "group_size": 32}
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	f.config = string(data)
	if got := f.draftedBy(t, d, func(string) string { return "" }); !slices.Equal(got, want) {
		t.Error("among the model's tensors: other drafts")
	}
	model, block := f.splitMTP("mtp.")
	if got := model.draftedBy(t, d, func(dir string) string {
		block.in(t, dir, "mtp.safetensors")
		return ""
	}); !slices.Equal(got, want) {
		t.Error("beside the model's tensors: other drafts")
	}
}

// TestBlockFolder: the folder that mlx-vlm makes of the demo model's block (testdata/mtp.py) has
// the tensors that TestBlockFiles puts into one, and is known by its config.
func TestBlockFolder(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "mtp", "folder.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Config  json.RawMessage
		Tensors map[string][3]any
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	_, block := readDemo(t).splitMTP("")
	got := map[string][3]any{}
	for name, x := range block.tensors {
		var shape []any
		for _, n := range x.Shape {
			shape = append(shape, float64(n))
		}
		got[name] = [3]any{string(x.DType), shape, fmt.Sprintf("%x", sha256.Sum256(x.Data))}
	}
	for name := range want.Tensors {
		if !reflect.DeepEqual(got[name], want.Tensors[name]) {
			t.Errorf("%s: %v, mlx-vlm has %v", name, got[name], want.Tensors[name])
		}
	}
	if len(got) != len(want.Tensors) {
		t.Errorf("%d tensors, mlx-vlm has %d", len(got), len(want.Tensors))
	}
	c, err := checkpoint.ParseConfig(want.Config)
	if err != nil || !models.IsBlock(c) {
		t.Errorf("the config is not that of a block, %v", err)
	}
	if err := models.Check(c); problem.From(err).Code != problem.UnknownArchitecture {
		t.Errorf("as a model: got %v", err)
	}
}

// TestCheckBlock: a block drafts for models of its family with its shapes.
func TestCheckBlock(t *testing.T) {
	config := func(text string) *checkpoint.Config {
		t.Helper()
		c, err := checkpoint.ParseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	block := config(`{"model_type": "qwen3_5_mtp",
		"text_config": {"model_type": "qwen3_5_text", "hidden_size": 64, "vocab_size": 320}}`)
	silent := config(`{"model_type": "qwen3_5_mtp", "vocab_size": 320}`)
	want := "its config.json does not state hidden_size, this model has 64"
	if err := models.CheckBlock(config(`{"model_type": "qwen3_5", "hidden_size": 64,
		"vocab_size": 320}`), silent); err == nil || err.Error() != want {
		t.Errorf("a block without hidden_size: got %v, expected %q", err, want)
	}
	for _, c := range []struct{ model, want string }{
		{`{"model_type": "qwen3_5", "text_config": {"hidden_size": 64, "vocab_size": 320}}`, ""},
		{`{"model_type": "qwen3_8_moe", "hidden_size": 64, "vocab_size": 320}`, ""},
		{`{"model_type": "qwen3_5", "hidden_size": 128, "vocab_size": 320}`,
			"it drafts for a model with hidden_size 64, this one has 128"},
		{`{"model_type": "qwen3_5", "hidden_size": 64, "vocab_size": 321}`,
			"it drafts for a model with vocab_size 320, this one has 321"},
		{`{"model_type": "llama", "hidden_size": 64, "vocab_size": 320}`,
			"it drafts for models of type qwen3_5, this one is of type llama"},
	} {
		got := ""
		if err := models.CheckBlock(config(c.model), block); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, expected %q", c.model, got, c.want)
		}
	}
}
