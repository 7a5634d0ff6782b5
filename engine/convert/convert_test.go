package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/quantize"
)

// TestFamilies: every language model that Headroom runs can be converted.
func TestFamilies(t *testing.T) {
	for _, name := range models.Architectures() {
		if families[name] == nil {
			t.Errorf("%s has no row in families", name)
		}
	}
	for name := range families {
		if models.Check(&checkpoint.Config{ModelType: name}) != nil {
			t.Errorf("%s is in families, and Headroom does not run it", name)
		}
	}
}

const (
	hidden = 128
	width  = 192
)

// writeLlama writes an original with the given number of layers, and returns its folder.
func writeLlama(t *testing.T, layers, vocabulary int) string {
	t.Helper()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	var tensors []safetensors.Tensor
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]byte, 2*n)
		for i := range n {
			quantize.PutFloat(data, i, float32(r.NormFloat64()*0.05), kernels.BF16)
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, DType: safetensors.BF16,
			Shape: shape, Data: data})
	}
	add("model.embed_tokens.weight", vocabulary, hidden)
	add("model.norm.weight", hidden)
	for i := range layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		for _, name := range []string{"q", "k", "v", "o"} {
			add(p+"self_attn."+name+"_proj.weight", hidden, hidden)
		}
		add(p+"mlp.gate_proj.weight", width, hidden)
		add(p+"mlp.up_proj.weight", width, hidden)
		add(p+"mlp.down_proj.weight", hidden, width)
		add(p+"input_layernorm.weight", hidden)
		add(p+"post_attention_layernorm.weight", hidden)
		add(p+"self_attn.rotary_emb.inv_freq", 16)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"model.safetensors": b.String(),
		"config.json": fmt.Sprintf(`{"model_type": "llama", "hidden_size": %d, `+
			`"num_hidden_layers": %d, "intermediate_size": %d, "num_attention_heads": 4, `+
			`"vocab_size": %d, "rms_norm_eps": 1e-06, "torch_dtype": "bfloat16", `+
			`"_name_or_path": "x", "tie_word_embeddings": true, "eos_token_id": 1}`,
			hidden, layers, width, vocabulary),
		"generation_config.json": `{"eos_token_id": [1, 2]}`,
		"tokenizer.json":         `{}`,
		"chat_template.jinja":    `{{ messages }}`,
		"README.md":              "---\nlicense: mit\ntags:\n- chat\n---\n# A model\n",
		"notes.bin":              "not a part of the model",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func at(dir string) checkpoint.Source { return checkpoint.Source{Dir: dir} }

func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRun converts an original to 4 bits, and compares every part of the folder.
func TestRun(t *testing.T) {
	source, dest := writeLlama(t, 2, 96), filepath.Join(t.TempDir(), "a", "b")
	var last, total int64
	done, err := Run(t.Context(), at(source), dest, Options{Quantize: true, threads: 1,
		Progress: func(now, all int64) { last, total = now, all }})
	if err != nil {
		t.Fatal(err)
	}
	if done.Files != 1 || done.BitsPerWeight < 4.4 || done.BitsPerWeight > 4.7 ||
		last != total || total != done.Bytes {
		t.Errorf("result %+v, progress %d of %d", done, last, total)
	}
	from, err := safetensors.OpenDir(source)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := safetensors.OpenDir(dest)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	f := quantize.Defaults["affine"]
	for _, name := range from.Names() {
		want, _ := from.Tensor(name)
		got, ok := to.Tensor(name)
		if strings.Contains(name, "inv_freq") {
			if ok {
				t.Errorf("%s is in the result", name)
			}
			continue
		}
		if !strings.Contains(name, "proj") && !strings.Contains(name, "embed") {
			if !bytes.Equal(got.Data, want.Data) || got.DType != want.DType {
				t.Errorf("%s has changed", name)
			}
			continue
		}
		n := want.Elements()
		p := quantize.Packed{Codes: make([]byte, n/2), Scales: make([]byte, n/64*2),
			Biases: make([]byte, n/64*2)}
		f.Pack(cpu.Generic, p, want.Data, kernels.BF16)
		module := strings.TrimSuffix(name, ".weight")
		scales, _ := to.Tensor(module + ".scales")
		biases, _ := to.Tensor(module + ".biases")
		if !bytes.Equal(got.Data, p.Codes) || !bytes.Equal(scales.Data, p.Scales) ||
			!bytes.Equal(biases.Data, p.Biases) || got.Shape[1] != want.Shape[1]/8 {
			t.Errorf("%s is not packed as it should be", name)
		}
	}
	if string(read(t, dest, "config.json")) != `{
    "eos_token_id": [
        1,
        2
    ],
    "hidden_size": 128,
    "intermediate_size": 192,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "quantization": {
        "group_size": 64,
        "bits": 4,
        "mode": "affine"
    },
    "quantization_config": {
        "group_size": 64,
        "bits": 4,
        "mode": "affine"
    },
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": true,
    "torch_dtype": "bfloat16",
    "vocab_size": 96
}` {
		t.Errorf("config.json is %s", read(t, dest, "config.json"))
	}
	if got := string(read(t, dest, "README.md")); got != "---\nlicense: mit\nlibrary_name: mlx\n"+
		"pipeline_tag: text-generation\ntags:\n- chat\n- mlx\n---\n" {
		t.Errorf("README.md is %q", got)
	}
	var names []string
	entries, _ := os.ReadDir(dest)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "README.md chat_template.jinja config.json "+
		"generation_config.json model.safetensors model.safetensors.index.json tokenizer.json" {
		t.Errorf("the folder has %s", got)
	}
}

// files returns the content of all files of a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all[e.Name()] = string(read(t, dir, e.Name()))
	}
	return all
}

func equalFiles(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s has %d bytes and is not equal to that of %d", name, len(got[name]),
				len(text))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, expected %d", len(got), len(want))
	}
}

// TestResume stops after the second file and goes on. Finished files are kept, unless they have
// changed. The result is that of one run.
func TestResume(t *testing.T) {
	source, whole := writeLlama(t, 4, 96), filepath.Join(t.TempDir(), "whole")
	o := Options{Quantize: true, shardBytes: 100_000}
	done, err := Run(t.Context(), at(source), whole, o)
	if err != nil || done.Files < 4 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, damage := range []bool{false, true} {
		dest, stop, written := filepath.Join(t.TempDir(), "dest"), errors.New("stop"), 0
		stopped := o
		stopped.wrote = func(string) error {
			if written++; written == 2 {
				return stop
			}
			return nil
		}
		if _, err := Run(t.Context(), at(source), dest, stopped); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if exists(dest, "config.json") {
			t.Error("the unfinished folder has a config.json")
		}
		// As if the program was killed in the third file, or the second was changed later.
		third := fmt.Sprintf("model-00003-of-%05d.safetensors", done.Files)
		if err := os.WriteFile(filepath.Join(dest, third+partial), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		kept, warnings := 2, 0
		if damage {
			kept = 1
			path := filepath.Join(dest, fmt.Sprintf("model-00002-of-%05d.safetensors", done.Files))
			data := read(t, path)
			data[len(data)-1] ^= 1
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		again := o
		again.Warn = func(string) { warnings++ }
		result, err := Run(t.Context(), at(source), dest, again)
		if err != nil {
			t.Fatal(err)
		}
		if result.Kept != kept || warnings != 2-kept {
			t.Errorf("damage %v: %d files kept, %d warnings", damage, result.Kept, warnings)
		}
		equalFiles(t, files(t, dest), files(t, whole))
	}
}

// TestInterrupted: a context that ends stops the work, and the next run goes on.
func TestInterrupted(t *testing.T) {
	source, dest := writeLlama(t, 2, 96), filepath.Join(t.TempDir(), "dest")
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Quantize: true, Progress: func(int64, int64) { cancel() }}
	if _, err := Run(ctx, at(source), dest, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Progress = nil
	if _, err := Run(t.Context(), at(source), dest, o); err != nil {
		t.Error(err)
	}
}

// TestRefusals has what is refused before anything is written.
func TestRefusals(t *testing.T) {
	source := writeLlama(t, 1, 96)
	full := filepath.Join(t.TempDir(), "full")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(full, "letter.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	unknown := t.TempDir()
	if err := os.WriteFile(filepath.Join(unknown, "config.json"),
		[]byte(`{"model_type": "mamba9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "packed")
	if _, err := Run(t.Context(), at(source), packed, Options{Quantize: true}); err != nil {
		t.Fatal(err)
	}
	small := func(string) (int64, error) { return 1 << 20, nil }
	for name, c := range map[string]struct {
		source, dest string
		o            Options
		code         problem.Code
		says         string
	}{
		"disk":    {source, "", Options{free: small}, problem.DiskFull, "1.0 MB"},
		"folder":  {source, full, Options{}, problem.Exists, "letter.txt"},
		"itself":  {source, source, Options{}, problem.BadRequest, source},
		"unknown": {unknown, "", Options{}, problem.UnknownArchitecture, "mamba9"},
		"packed":  {packed, "", Options{}, problem.BadRequest, "affine"},
		"both":    {packed, "", Options{Quantize: true, Dequantize: true}, problem.BadRequest, ""},
		"bits":    {source, "", Options{Quantize: true, Bits: 7}, problem.BadRequest, "7 bits"},
		"unused":  {source, "", Options{Bits: 4}, problem.BadRequest, "not to be quantized"},
		"recipe": {source, "", Options{Quantize: true, Recipe: "mixed_9"}, problem.BadRequest,
			"mixed_9"},
		"mode": {source, "", Options{Quantize: true, Mode: "int4"}, problem.BadRequest, "int4"},
		"override": {source, "", Options{Quantize: true, Overrides: []string{"x=4"}},
			problem.BadRequest, "x=4"},
		"form": {source, "", Options{Quantize: true, Overrides: []string{"x"}},
			problem.BadRequest, `"x"`},
	} {
		dest := c.dest
		if dest == "" {
			dest = filepath.Join(t.TempDir(), "dest")
		}
		_, err := Run(t.Context(), at(c.source), dest, c.o)
		if p := problem.From(err); err == nil || p.Code != c.code ||
			!strings.Contains(p.Error(), c.says) {
			t.Errorf("%s: %v, expected %s with %q", name, err, c.code, c.says)
		}
		if c.dest == "" && exists(dest) {
			t.Errorf("%s: the folder was made", name)
		}
	}
	if string(read(t, full, "letter.txt")) != "x" {
		t.Error("letter.txt has changed")
	}
}

// TestForeignFiles: in an unfinished folder, nothing that others have put there is replaced, and no
// link is followed. Another conversion does not go on.
func TestForeignFiles(t *testing.T) {
	source, dest := writeLlama(t, 4, 96), filepath.Join(t.TempDir(), "dest")
	stop, o := errors.New("stop"), Options{shardBytes: 300_000}
	o.wrote = func(string) error { return stop }
	if _, err := Run(t.Context(), at(source), dest, o); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	o.wrote = nil
	other := o
	other.Quantize = true
	_, err := Run(t.Context(), at(source), dest, other)
	if problem.From(err).Code != problem.Exists {
		t.Errorf("another conversion went on: %v", err)
	}
	var second string
	c := &conversion{source: at(source), o: o}
	if err := errors.Join(c.open(), c.plan()); err != nil {
		t.Fatal(err)
	}
	second = c.shards[1].name
	c.close()
	letter := filepath.Join(t.TempDir(), "letter.txt")
	for name, text := range map[string]string{letter: "x", filepath.Join(dest, second): "y",
		filepath.Join(dest, "notes.txt"): "z"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(letter, filepath.Join(dest, second+partial)); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), at(source), dest, o); err == nil {
		t.Error("a link was followed")
	}
	if err := os.Remove(filepath.Join(dest, second+partial)); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), at(source), dest, o); err == nil {
		t.Error("a file was replaced")
	}
	for path, text := range map[string]string{letter: "x", filepath.Join(dest, second): "y",
		filepath.Join(dest, "notes.txt"): "z"} {
		if string(read(t, path)) != text {
			t.Errorf("%s has changed", path)
		}
	}
	if err := os.Remove(filepath.Join(dest, second)); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), at(source), dest, o); err != nil || !exists(dest, "notes.txt") {
		t.Errorf("%v", err)
	}
}

// TestFormats has formats of single modules.
func TestFormats(t *testing.T) {
	source, dest := writeLlama(t, 1, 96), filepath.Join(t.TempDir(), "dest")
	_, err := Run(t.Context(), at(source), dest, Options{Quantize: true, Bits: 2,
		Overrides: []string{"*.mlp.*=5:32", "*.k_proj=plain", "model.embed_tokens=mxfp8"}})
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Packing map[string]json.RawMessage `json:"quantization"`
	}
	if err := json.Unmarshal(read(t, dest, "config.json"), &config); err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]string{
		"model.layers.0.mlp.up_proj":      `{"group_size":32,"bits":5,"mode":"affine"}`,
		"model.layers.0.self_attn.k_proj": `false`,
		"model.layers.0.self_attn.q_proj": ``,
		"model.embed_tokens":              `{"group_size":32,"bits":8,"mode":"mxfp8"}`,
		"bits":                            "2",
	} {
		var got bytes.Buffer
		_ = json.Compact(&got, config.Packing[module])
		if got.String() != want {
			t.Errorf("%s: %s, expected %s", module, got.String(), want)
		}
	}
	c, err := (checkpoint.Source{Dir: dest}).Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(checkpoint.Source{Dir: dest}, c, kernels.NewReference())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, want := range map[string]string{"mlp.down_proj": "5-bit g32",
		"self_attn.k_proj": "bfloat16", "self_attn.q_proj": "2-bit g64"} {
		k, n := hidden, hidden
		if strings.HasPrefix(name, "mlp") {
			k = width
		}
		if got := w.At("").Linear("model.layers.0."+name, n, k).Format(); got != want ||
			w.Err() != nil {
			t.Errorf("%s: %s, expected %s, %v", name, got, want, w.Err())
		}
	}
}

// TestRecipe: in 16 layers, the first and the last two have high bits, and every third from 4 on.
func TestRecipe(t *testing.T) {
	f := formats{recipe: "mixed_2_6"}
	var high []int
	for layer := range 16 {
		v := f.recipeBits(fmt.Sprintf("model.layers.%d.self_attn.v_proj", layer), 16)
		down := f.recipeBits(fmt.Sprintf("model.layers.%d.mlp.down_proj", layer), 16)
		if v != down {
			t.Errorf("layer %d has %d bits for v_proj and %d for down_proj", layer, v, down)
		}
		if v == 6 {
			high = append(high, layer)
		}
		if b := f.recipeBits(fmt.Sprintf("model.layers.%d.self_attn.q_proj", layer), 16); b != 2 {
			t.Errorf("q_proj of layer %d has %d bits", layer, b)
		}
	}
	if got := fmt.Sprint(high); got != "[0 1 4 7 10 13 14 15]" {
		t.Errorf("layers %s have high bits", got)
	}
	if f.recipeBits("lm_head", 16) != 6 || f.recipeBits("model.embed_tokens", 16) != 2 {
		t.Error("the head has low bits, or the embedding high ones")
	}
}

// TestDequantize: a packed model becomes plain again, with the values of its codes.
func TestDequantize(t *testing.T) {
	source, packed := writeLlama(t, 1, 96), filepath.Join(t.TempDir(), "packed")
	plain := filepath.Join(t.TempDir(), "plain")
	_, err := Run(t.Context(), at(source), packed, Options{Quantize: true, Mode: "nvfp4"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), at(packed), plain, Options{Dequantize: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(read(t, plain, "config.json")), "quantization") {
		t.Error("config.json still has a quantization")
	}
	src := checkpoint.Source{Dir: packed}
	c, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(src, c, kernels.NewReference())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	result, err := safetensors.OpenDir(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	const module = "model.layers.0.mlp.down_proj"
	x, row, want := w.At("").Linear(module, hidden, width), make([]float32, width), []byte{}
	for i := range hidden {
		x.DequantizeRow(row, i)
		b := make([]byte, 2*width)
		for k, v := range row {
			quantize.PutFloat(b, k, v, kernels.BF16)
		}
		want = append(want, b...)
	}
	if got, _ := result.Tensor(module + ".weight"); !bytes.Equal(got.Data, want) {
		t.Errorf("%s has other values than its codes", module)
	}
}

// TestMemory: the memory of a conversion does not depend on the size of the model, with either way
// of reading it. All that is allocated counts, freed or not.
func TestMemory(t *testing.T) {
	const vocabulary, piecesBytes = 200_000, 16 << 20
	source := writeLlama(t, 1, vocabulary) // 51 MB
	for _, c := range []struct {
		o    Options
		most uint64
	}{
		{Options{Quantize: true}, piecesBytes},
		// kernels.Weight.DequantizeRow allocates the codes of a row, and frees them.
		{Options{Dequantize: true}, piecesBytes + vocabulary*hidden},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.o.threads, c.o.shardBytes = 2, 1<<40
		dest := filepath.Join(t.TempDir(), "dest")
		if _, err := Run(t.Context(), at(source), dest, c.o); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		if used > c.most {
			t.Errorf("converting 51 MB allocates %d bytes, expected at most %d", used, c.most)
		}
		t.Logf("%d bytes allocated for 51 MB", used)
		source = dest // packed
	}
}

func BenchmarkRun(b *testing.B) {
	source := os.Getenv("CONVERT_SOURCE")
	if source == "" {
		b.Skip("CONVERT_SOURCE names no model")
	}
	for b.Loop() {
		dest := filepath.Join(b.TempDir(), "dest")
		done, err := Run(b.Context(), at(source), dest, Options{Quantize: true})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(done.Bytes)/done.Seconds/1e9, "GB/s-written")
		_ = os.RemoveAll(dest)
	}
}

// TestUndividedOverride: a module whose rows are no multiple of the group of its override stays
// plain, and a warning says so.
func TestUndividedOverride(t *testing.T) {
	var warnings []string
	o := Options{Quantize: true, Group: 32, Overrides: []string{"*.down_proj=4:128"},
		Warn: func(text string) { warnings = append(warnings, text) }}
	_, err := Run(t.Context(), at(writeLlama(t, 2, 96)), filepath.Join(t.TempDir(), "dest"), o)
	want := "2 modules stay plain: model.layers.0.mlp.down_proj has rows of 192 elements, which " +
		"is no multiple of groups of 128, and so on."
	if err != nil || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("the warnings are %q, %v", warnings, err)
	}
}

// TestDiscard removes the files of a conversion that was stopped, and no others: not a file that a
// person has put there, and no link in the place of a file of its own.
func TestDiscard(t *testing.T) {
	source, outside := writeLlama(t, 4, 96), filepath.Join(t.TempDir(), "outside")
	stop, o := errors.New("stop"), Options{shardBytes: 300_000}
	o.wrote = func(string) error { return stop }
	dest := filepath.Join(t.TempDir(), "dest")
	begin := func() {
		if _, err := Run(t.Context(), at(source), dest, o); !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	begin()
	if err := Discard(dest); err != nil || exists(dest) {
		t.Errorf("the folder is still there, %v", err)
	}
	begin()
	if err := errors.Join(os.WriteFile(filepath.Join(dest, "notes.txt"), []byte("mine"), 0o644),
		os.WriteFile(outside, []byte("mine"), 0o644),
		os.Symlink(outside, filepath.Join(dest, "config.json"))); err != nil {
		t.Fatal(err)
	}
	err := Discard(dest)
	entries, _ := os.ReadDir(dest)
	if problem.From(err).Code != problem.Exists || len(entries) != 2 || !exists(outside) ||
		entries[0].Name() != "config.json" || entries[1].Name() != "notes.txt" {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	done := filepath.Join(t.TempDir(), "done")
	if _, err := Run(t.Context(), at(source), done, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Discard(done); err != nil || !exists(done, "config.json") {
		t.Errorf("a complete conversion was removed, %v", err)
	}
	refused := errors.New("refused")
	o = Options{Verify: func(string) error { return refused }}
	if _, err := Run(t.Context(), at(source), dest+"2", o); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if err := Discard(dest + "2"); err != nil || exists(dest+"2") {
		t.Errorf("what was refused is still there, %v", err)
	}
}

// TestLockFolder: the lock's file goes when a conversion ends, and still only one at a time has the
// folder.
func TestLockFolder(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int32
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 300 {
				lock, err := lockFolder(dir)
				if problem.From(err).Code == problem.Busy {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d conversions have the folder", n)
				}
				for range 100 {
					runtime.Gosched() // so that others open the file meanwhile
				}
				inside.Add(-1)
				(&conversion{dest: dir, lock: lock}).unlock()
			}
		})
	}
	workers.Wait()
	if exists(dir, lockFile) {
		t.Error("the lock's file is still there")
	}
}
