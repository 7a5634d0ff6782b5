package engine_test

// A block that drafts tokens, in a folder of its own, given as a draft model.

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/safetensors"
)

// splitDemo is splitModel of the demo model.
func splitDemo(t *testing.T, change func(config map[string]any)) (model, block engine.Source) {
	t.Helper()
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	return splitModel(t, files, blockFolder{"qwen3_5_mtp", afterMTP}, change)
}

// blockFolder is how a block is kept in a folder of its own.
type blockFolder struct {
	modelType string
	// tensor returns the name of a tensor of the block there, and whether it is one.
	tensor func(name string) (own string, ok bool)
}

func afterMTP(name string) (own string, ok bool) {
	_, own, ok = strings.Cut(name, "mtp.")
	return own, ok
}

// afterTwoLayers is for a block that is the layer after the two of a tiny model.
func afterTwoLayers(name string) (own string, ok bool) {
	rest, ok := strings.CutPrefix(name, "model.layers.2.")
	switch part, _, _ := strings.Cut(rest, "."); part {
	case "eh_proj", "enorm", "hnorm":
		return "model." + rest, ok
	case "shared_head":
		return "model.shared_head_norm.weight", ok
	}
	return "model.mtp_block." + rest, ok
}

// splitTensors returns copies of a model's tensors, and of those of its block.
func splitTensors(t *testing.T, dir string, folder blockFolder) (others,
	own []safetensors.Tensor) {
	t.Helper()
	for _, file := range []string{"model.safetensors", "mtp.safetensors"} {
		all, err := safetensors.OpenFile(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		for _, name := range all.Names() {
			x, _ := all.Tensor(name)
			x.Data = bytes.Clone(x.Data)
			if rest, ok := folder.tensor(name); ok {
				x.Name = rest
				own = append(own, x)
			} else {
				others = append(others, x)
			}
		}
	}
	return others, own
}

// splitModel writes a model without its block to a folder, and the block to another one, as mlx-vlm
// does (engine/models/testdata/mtp.py). change may change the config of the block.
func splitModel(t *testing.T, files fs.FS, folder blockFolder,
	change func(config map[string]any)) (model, block engine.Source) {
	t.Helper()
	model, block = engine.Source{Dir: t.TempDir()}, engine.Source{Dir: t.TempDir()}
	if err := os.CopyFS(model.Dir, files); err != nil {
		t.Fatal(err)
	}
	others, own := splitTensors(t, model.Dir, folder)
	write := func(dir, name string, data []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(model.Dir, "mtp.safetensors")) // its block may be here
	for dir, tensors := range map[string][]safetensors.Tensor{model.Dir: others, block.Dir: own} {
		var file bytes.Buffer
		err := safetensors.Write(&file, tensors, nil)
		write(dir, "model.safetensors", file.Bytes(), err)
	}
	var config map[string]any
	data, err := os.ReadFile(filepath.Join(model.Dir, "config.json"))
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	config["model_type"] = folder.modelType
	if change != nil {
		change(config)
	}
	data, err = json.Marshal(config)
	write(block.Dir, "config.json", data, err)
	return model, block
}

// TestDraftBlock: a block given as a draft model is the model's own. Its drafts are right as often
// as those of the demo model's block, and answers are the same.
func TestDraftBlock(t *testing.T) {
	src, block := splitDemo(t, nil)
	plain := openModel(t, src, engine.Options{})
	o := engine.Options{Speculate: engine.SpeculateMTP, DraftModel: &engine.DraftModel{
		Source: block, Name: "block", Required: true}}
	ahead, own := openModel(t, src, o), open(t, engine.Options{Speculate: engine.SpeculateMTP})
	var want plainAnswers
	for _, p := range demoCases(t, 300)[:4] {
		want.add(t, plain, engine.Request{Prompt: encode(plain, p), MaxTokens: 40})
	}
	var counts [2][2]int64
	for i, e := range []*engine.Engine{ahead, own} {
		e.DraftDepth(2)
		want.alone(t, e, "depth 2")
		s := e.Stats()
		counts[i] = [2]int64{s.AcceptedTokens, s.DraftTokens}
		if s.DraftModelTokens != 0 {
			t.Errorf("a draft model has drafted %d tokens", s.DraftModelTokens)
		}
	}
	if counts[0] != counts[1] || counts[0][0] == 0 {
		t.Errorf("%d drafts were right, of the model's own %d", counts[0], counts[1])
	}
	with, without := ahead.Info(), plain.Info()
	if with.KVBytesPerToken <= without.KVBytesPerToken ||
		with.Need.WeightsBytes <= without.Need.WeightsBytes || with.SizeBytes <= without.SizeBytes {
		t.Errorf("with the block %+v, without %+v", with.Description, without.Description)
	}
}

// TestDraftBlockStored: the keys and values of a block depend on it, so the cache on disk of a
// model with one block is not that with another, or with none.
func TestDraftBlockStored(t *testing.T) {
	src, block := splitDemo(t, nil)
	open := func(o engine.Options) string {
		t.Helper()
		o.BlockStore = openStore(t, t.TempDir())
		e := openModel(t, src, o)
		defer e.Close()
		return e.StoredModel().Fingerprint
	}
	with := engine.Options{Speculate: engine.SpeculateAuto,
		DraftModel: &engine.DraftModel{Source: block, Required: true}}
	first, none := open(with), open(engine.Options{})
	path := filepath.Join(block.Dir, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if other := open(with); other == first || first == none || none == "" {
		t.Errorf("fingerprints %s, %s with another block, %s without", first, other, none)
	}
}

// TestDraftBlockRefused: a block that cannot be used is refused with a sentence if it is required.
// Otherwise the model runs without it, and the log says why.
func TestDraftBlockRefused(t *testing.T) {
	src, block := splitDemo(t, nil)
	_, narrow := splitDemo(t, func(c map[string]any) {
		c["text_config"].(map[string]any)["hidden_size"] = 128
	})
	_, empty := splitDemo(t, nil)
	if err := os.Remove(filepath.Join(empty.Dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	_, other := splitDemo(t, nil)
	var file bytes.Buffer
	if err := safetensors.Write(&file, []safetensors.Tensor{{Name: "fc.weight",
		DType: safetensors.F32, Shape: []int{3, 5}, Data: make([]byte, 60)},
		{Name: "pre_fc_norm_hidden.weight", DType: safetensors.F32, Shape: []int{1},
			Data: make([]byte, 4)}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other.Dir, "model.safetensors"), file.Bytes(),
		0o600); err != nil {
		t.Fatal(err)
	}
	auto := engine.Options{Speculate: engine.SpeculateAuto}
	for _, c := range []struct {
		name       string
		src, block engine.Source
		o          engine.Options
		why        string
	}{
		{"other shapes", src, narrow, auto, "hidden_size 128, this one has 256"},
		{"another family", tinySource(t, "llama"), block, auto, "this one is of type llama"},
		{"as a model", src, block, engine.Options{Speculate: engine.SpeculateDraft}, "not a model"},
		{"a limited cache", src, block, engine.Options{Speculate: engine.SpeculateAuto,
			MaxKVTokens: 64}, "limited KV cache"},
		{"no weights", src, empty, auto, "no model*.safetensors found"},
		{"other tensors", src, other, auto, "of shape 3 x 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.o
			o.DraftModel = &engine.DraftModel{Source: c.block, Name: "block", Required: true}
			_, err := engine.Describe(c.src, o)
			if err == nil || !strings.Contains(err.Error(), "draft model cannot be used") ||
				!strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v, expected %q", err, c.why)
			}
			var log bytes.Buffer
			logTo(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			o.DraftModel.Required = false
			openModel(t, c.src, o)
			if got := log.String(); strings.Count(got, "\n") != 1 ||
				!strings.Contains(got, "draft_model=block") {
				t.Errorf("opening the model logged %s", got)
			}
		})
	}
}

// TestDraftTarget: a block and a small model fit a model that they can draft for.
func TestDraftTarget(t *testing.T) {
	src, block := splitDemo(t, nil)
	target, err := engine.NewDraftTarget(src)
	if err != nil {
		t.Fatal(err)
	}
	spaced := engine.Source{Dir: t.TempDir()} // the same vocabulary in other bytes
	if err := os.CopyFS(spaced.Dir, os.DirFS(src.Dir)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(spaced.Dir, "tokenizer.json")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		src  engine.Source
		why  string
	}{{"itself", src, ""}, {"a block", block, ""}, {"other bytes", spaced, ""},
		{"another vocabulary", otherVocabulary(t), "its vocabulary is another one"},
		{"no model", engine.Source{Dir: t.TempDir()}, "no config.json"}} {
		err := target.Fits(c.src)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: got %v, expected %q", c.name, err, c.why)
		}
	}
	if !engine.IsDrafter(block) || engine.IsDrafter(src) {
		t.Error("a block is taken for a model, or a model for a block")
	}
}
