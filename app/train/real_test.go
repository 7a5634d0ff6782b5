package train_test

// The training for real, with mlx-lm from PyPI. It takes minutes and the network, so it runs only
// in `build/test train`.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/train"
	"headroom/engine"
	"headroom/engine/convert"
	"headroom/engine/safetensors"
	"headroom/engine/textproc"
)

// tinyConfig is a small qwen3 with the vocabulary of the demo model.
const tinyConfig = `{"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 4,
	"intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
	"rms_norm_eps": 1e-6, "vocab_size": 2304, "max_position_embeddings": 2048,
	"rope_theta": 1000000.0, "tie_word_embeddings": true, "dtype": "bfloat16",
	"quantization": {"group_size": 64, "bits": 4}}`

// tinyModel writes a random model with the demo model's tokenizer and chat template.
func tinyModel(t *testing.T, quantized bool) string {
	t.Helper()
	dir := t.TempDir()
	if err := engine.WriteRandom(dir, []byte(tinyConfig)); err != nil {
		t.Fatal(err)
	}
	if !quantized {
		packed := engine.Source{Dir: dir}
		dir = filepath.Join(t.TempDir(), "plain")
		if _, err := convert.Run(t.Context(), packed, dir,
			convert.Options{Dequantize: true}); err != nil {
			t.Fatal(err)
		}
	}
	rename(t, filepath.Join(dir, "model.safetensors"))
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json",
		"chat_template.jinja"} {
		data, err := os.ReadFile(filepath.Join("../demo/model", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rename gives the tensors of a file the names that mlx-lm expects of a model without vision.
func rename(t *testing.T, path string) {
	t.Helper()
	f, err := safetensors.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []safetensors.Tensor
	for _, name := range f.Names() {
		tensor, _ := f.Tensor(name)
		tensor.Name = strings.TrimPrefix(name, "language_model.")
		tensors = append(tensors, tensor)
	}
	var text bytes.Buffer
	err = safetensors.Write(&text, tensors, map[string]string{"format": "mlx"})
	if err == nil {
		err = os.Remove(path) // the old file is mapped
	}
	if err == nil {
		err = os.WriteFile(path, text.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path + ".index.json") // it has the old names
}

// samples writes conversations with one answer each.
func samples(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		var lines strings.Builder
		for i := range 16 {
			fmt.Fprintf(&lines, `{"messages": [{"role": "user", "content": "Count to %d."}, `+
				`{"role": "assistant", "content": "One, two, three, and so on."}]}`+"\n", i)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(lines.String()),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTrainsForReal makes the environment and trains, pauses, resumes and finishes: the loss falls,
// and the iterations of both runs are those of one.
func TestTrainsForReal(t *testing.T) {
	keep := os.Getenv("HEADROOM_TRAIN")
	if keep == "" {
		t.Skip("run build/test train, or set HEADROOM_TRAIN to a folder for the environment")
	}
	t.Setenv("XDG_DATA_HOME", keep)
	t.Setenv("HOME", keep)
	e := train.DefaultEnvironment()
	unlock, err := e.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if !e.Ready() {
		if err := e.Install(t.Context(), t.Output()); err != nil {
			t.Fatal(err)
		}
	}
	if !e.Ready() {
		t.Fatal("the environment is installed and not ready")
	}
	for _, form := range []struct {
		name, kind string
		quantized  bool
	}{{"lora", "lora", false}, {"quantized lora", "lora", true}, {"dora", "dora", false},
		{"full", "full", false}} {
		t.Run(form.name, func(t *testing.T) {
			trainReal(t, e, form.kind, tinyModel(t, form.quantized))
		})
	}
}

// iterations and pauseAt are those of a training. Those between let the pause be late: it is a
// signal, and an iteration takes a hundredth of a second.
const iterations, pauseAt = 60, 5

func trainReal(t *testing.T, e train.Environment, kind, model string) {
	data := samples(t, "train.jsonl", "valid.jsonl")
	o := &train.Options{FineTuneType: kind, Iters: iterations, BatchSize: 2, LearningRate: 3e-3,
		Report: 5, SaveEvery: 15, MaskPrompt: true, MaxSeqLength: 128}
	shape, err := train.ReadShape(model)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Resolve(&shape); err != nil {
		t.Fatal(err)
	}
	p, err := textproc.Read(engine.Source{Dir: model})
	if err != nil {
		t.Fatal(err)
	}
	found, err := train.ReadData(t.Context(), data, p, o)
	if err != nil {
		t.Fatal(err)
	}
	adapter := train.Adapter{Dir: filepath.Join(t.TempDir(), "adapter")}
	record := train.Record{Model: model, FineTuneType: kind, NumLayers: *o.NumLayers, Rank: o.Rank,
		Iters: o.Iters}
	ctx, pause := context.WithCancel(t.Context())
	defer pause()
	var losses, validations []float64
	var done []int
	var peak float64
	temp, err := e.Temp()
	if err != nil {
		t.Fatal(err)
	}
	run := train.Run{Python: e.Command(), Temp: temp, Model: model, Data: data,
		Adapter: adapter, Options: o, Record: record, Progress: func(p train.Progress) {
			switch p.Kind {
			case "train":
				losses = append(losses, *p.TrainLoss)
				peak = p.PeakGB
			case "valid":
				validations = append(validations, *p.ValidLoss)
			case "iteration":
				done = append(done, p.Iteration)
				if p.Iteration == pauseAt {
					pause()
				}
			}
		}}
	if err := adapter.Begin(record, run.Start); err != nil {
		t.Fatal(err)
	}
	if err := run.Train(ctx); !errors.Is(err, train.ErrPaused) {
		log, _ := os.ReadFile(adapter.Log())
		t.Fatalf("got %v, expected a pause\n%s", err, log)
	}
	if run.Start, err = adapter.Check(record, true, false); err != nil {
		t.Fatal(err)
	}
	if run.Start.Done < pauseAt || run.Start.Done >= iterations {
		t.Fatalf("paused after iteration %d, asked at %d", run.Start.Done, pauseAt)
	}
	if err := adapter.Begin(record, run.Start); err != nil {
		t.Fatal(err)
	}
	if err := run.Train(t.Context()); err != nil {
		log, _ := os.ReadFile(adapter.Log())
		t.Fatalf("%v\n%s", err, log)
	}
	for i, n := range done {
		if n != i+1 {
			t.Fatalf("iterations are %v", done)
		}
	}
	t.Logf("losses %.3f, validations %.3f, peak %.3f GB, estimated %s", losses, validations, peak,
		shape.Need(o, found.Padded(o.MaxSeqLength)))
	if first, last := validations[0], losses[len(losses)-1]; len(done) != iterations ||
		last > first-1 {
		t.Fatalf("%d iterations, expected %d and a loss that falls by 1", len(done), iterations)
	}
	for _, name := range []string{"adapters.safetensors", "0000060_adapters.safetensors"} {
		f, err := safetensors.Open(filepath.Join(adapter.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	if _, err := adapter.Check(record, false, false); err == nil {
		t.Fatal("a finished adapter would have been written over")
	}
	sameOutputs(t, e, kind, model, adapter, p)
}
