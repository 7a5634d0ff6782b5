package engine_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/convert"
	"headroom/engine/sample"
)

// TestConverted converts every tiny model, most of them in the layout of Hugging Face and some
// packed by other programs. In float32, the result computes the same. Packed by MLX, it can be run.
func TestConverted(t *testing.T) {
	if testing.Short() {
		t.Skip("opens every tiny model three times")
	}
	tiny := filepath.Join("models", "testdata", "tiny")
	folders, err := os.ReadDir(tiny)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			source, dest := tinySource(t, f.Name()), filepath.Join(t.TempDir(), "plain")
			o := convert.Options{Dequantize: true, DType: "float32"}
			if _, err := convert.Run(t.Context(), source, dest, o); err != nil {
				t.Fatal(err)
			}
			tolerance := 2e-3 // sums of float32 differ in their order if weights are packed
			if strings.HasPrefix(f.Name(), "qwen3_5") || f.Name() == "qwen3_next" {
				tolerance = 5e-2 // as mlx-lm does, 1 is added to norms in the type of the source
			}
			want, got := scoresOf(t, source.Dir), scoresOf(t, dest)
			for i, w := range want {
				if d := math.Abs(float64(got[i].Logprob - w.Logprob)); !(d <= tolerance) {
					t.Fatalf("token %d has the log-probability %g, and that of the source %g", i,
						got[i].Logprob, w.Logprob)
				}
			}
			packed := filepath.Join(t.TempDir(), "packed")
			o = convert.Options{Quantize: true, Group: 32, Bits: 8}
			done, err := convert.Run(t.Context(), source, packed, o)
			if err != nil {
				t.Fatal(err)
			}
			if done.BitsPerWeight > 15.5 {
				t.Errorf("%.1f bits per weight", done.BitsPerWeight)
			}
			got = scoresOf(t, packed)
			if len(got) != len(want) {
				t.Errorf("%d scores, expected %d", len(got), len(want))
			}
		})
	}
}

// scoresOf returns the scores of a prompt.
func scoresOf(t *testing.T, folder string) []engine.Score {
	t.Helper()
	e := openModel(t, engine.Source{Dir: folder}, engine.Options{Device: "cpu", Threads: 1,
		ContextTokens: 64, MaxSequences: 1, Float32Activations: true, KVFormat: "f32"})
	prompt := make([]int32, 40)
	for i := range prompt {
		prompt[i] = int32(i*37+11) % 100
	}
	all, _, _ := scores(t, submit(t, e, engine.Request{Prompt: prompt, ScorePrompt: true,
		NoAnswer: true, Sampling: sample.Params{Logprobs: 1}}))
	return all
}
