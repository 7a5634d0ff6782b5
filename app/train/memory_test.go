package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine/problem"
)

// measuredShape is the qwen3 with which the peak was measured: 8 layers of 512, 8 heads, bfloat16.
func measuredShape() Shape {
	s := Shape{Layers: 8, Hidden: 512, Heads: 8, Vocab: 8192, WeightBytes: 58_700_000,
		layers: make([]layer, 8)}
	for i := range s.layers {
		s.layers[i].linears = []linear{{512, 512, 1}, {512, 256, 1}, {512, 256, 1}, {512, 512, 1},
			{512, 1536, 1}, {512, 1536, 1}, {1536, 512, 1}}
		s.layers[i].bytes = 6_293_504
	}
	return s
}

// TestNeed compares the estimate with the peak that mlx 0.32.4 reported on a Linux CPU, for LoRA of
// rank 8 with Adam. It may be at most a tenth too high and a fiftieth too low.
func TestNeed(t *testing.T) {
	s := measuredShape()
	for _, c := range []struct {
		batch, tokens, layers int
		checkpoint            bool
		peak                  float64 // bytes
	}{
		{1, 256, 4, false, 130.884e6}, {2, 256, 4, false, 198.634e6},
		{1, 512, 4, false, 209.856e6}, {1, 1024, 4, false, 395.049e6},
		{1, 256, 8, false, 174.186e6}, {1, 512, 8, false, 301.671e6},
		{1, 256, 8, true, 107.531e6},
	} {
		o := resolved(t, Options{BatchSize: c.batch, NumLayers: ref(4)})
		o.NumLayers, o.GradCheckpoint = ref(c.layers), c.checkpoint
		got := float64(func() int64 { n := s.Need(o, c.tokens); return n.Total() }())
		t.Logf("%+v: estimated %.0f MB, %+.1f %%", c, got/1e6, 100*(got/c.peak-1))
		if got < 0.98*c.peak || got > 1.1*c.peak {
			t.Errorf("%+v: estimated %.0f", c, got)
		}
	}
}

func TestRefusedMemory(t *testing.T) {
	s := measuredShape()
	o := resolved(t, Options{MaxSeqLength: 2048})
	if _, err := s.CheckMemory(o, 2048, 1<<40); err != nil {
		t.Errorf("with much memory: %v", err)
	}
	_, err := s.CheckMemory(o, 2048, 500<<20)
	p := problem.From(err)
	for _, want := range []string{"--batch-size 1 needs", "--grad-checkpoint needs",
		"--max-seq-length 512 needs"} {
		if p.Code != problem.DoesNotFit || !strings.Contains(p.Fix, want) {
			t.Errorf("got %+v, expected %s", p, want)
		}
	}
	if _, err = s.CheckMemory(o, 2048, 1<<20); !strings.Contains(problem.From(err).Fix,
		"Choose a smaller model") {
		t.Errorf("without hope: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{BatchSize: -1}, "--batch-size is -1"}, {Options{NumLayers: ref(5)}, "1 to 4"},
		{Options{NumLayers: ref(0)}, "--num-layers is 0"}, {Options{LearningRate: -1}, "above 0"},
		{Options{FineTuneType: "x"}, "lora, dora, full"}, {Options{Seed: ref(-1)}, "--seed"},
		{Options{ValBatches: ref(0)}, "--val-batches"}, {Options{MaxSeqLength: 1}, "2 or more"},
	} {
		err := c.o.Resolve(&Shape{Layers: 4})
		if err == nil || !strings.Contains(problem.From(err).Why, c.want) {
			t.Errorf("got %v, expected %s", err, c.want)
		}
	}
	full := Options{FineTuneType: "full"}
	if err := full.Resolve(&Shape{Layers: 4, Quantized: true}); err == nil {
		t.Error("full training of a quantized model was accepted")
	}
}

// TestConfig: a file's options count where no flag is typed, and each fault gets a sentence.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	weights(dir, "w.safetensors")
	t.Chdir(dir)
	read := func(text string, o Options) (*Options, error) {
		o.Config = filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(o.Config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return &o, o.Resolve(&Shape{Layers: 4})
	}
	o, err := read("learning_rate: 1e-4\niters: 30\nseed: 7\nresume_adapter_file: w.safetensors\n"+
		"lora_parameters: {rank: 4, scale: 10, dropout: 0.0, keys: [mlp.up_proj]}\n"+
		"text_feature: body\nmodel: other\n", Options{Iters: 20})
	if err != nil {
		t.Fatal(err)
	}
	if o.LearningRate != 1e-4 || o.Iters != 20 || *o.Seed != 7 || o.Rank != 4 ||
		o.Keys.Text != "body" || o.ResumeAdapterFile != filepath.Join(dir, "w.safetensors") {
		t.Errorf("%+v", o)
	}
	if flags := strings.Join(o.Typed(), " "); flags != "--config "+o.Config+" --num-layers 4 "+
		"--iters 20" {
		t.Errorf("typed flags are %s", flags)
	}
	for text, want := range map[string]string{
		"":                           "the file has no options",
		"itters: 3":                  `line 1: headroom train has no option "itters"`,
		"a: 3\niters: x":             `has no option "a"; line 2: got ` + "`x`, expected a whole number",
		"learning_rate: fast":        `got "fast", expected a number`,
		"test: 3":                    "expected true or false",
		"lora_parameters: {keys: 3}": "expected a list of texts",
		"iters: [":                   "line 1: did not find",
		"resume_adapter_file: none":  "none: no such file",
	} {
		_, err := read(text, Options{})
		if err == nil || !strings.Contains(problem.From(err).Why, want) {
			t.Errorf("%q: got %v, expected %s", text, err, want)
		}
	}
}
