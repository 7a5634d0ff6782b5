package engine_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headroom/engine"
	"headroom/engine/convert"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// TestGGUF converts small GGUF files with every type of blocks, and compares the results with
// llama.cpp: the log-probabilities of a prompt, and the tokens of texts. build/oracle/gguf,
// golden.py, writes the files. Elements are exact in the model qwen3. The model llama has Q6_K,
// whose blocks are packed anew, and costs 0.014; with rows of q and k in the wrong order it is 2.4.
func TestGGUF(t *testing.T) {
	folder := filepath.Join("testdata", "gguf")
	data, err := os.ReadFile(filepath.Join(folder, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]struct {
		IDs      []int32   `json:"ids"`
		Logprobs []float64 `json:"logprobs"`
		Texts    []struct {
			Text string  `json:"text"`
			IDs  []int32 `json:"ids"`
		} `json:"texts"`
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden) == 0 {
		t.Fatalf("%d models, %v", len(golden), err)
	}
	tolerances := map[string]float64{"llama": 0.03, "qwen3": 1e-4}
	for name, want := range golden {
		for _, dtype := range []string{"", "float32"} {
			dest := filepath.Join(t.TempDir(), name)
			_, err := convert.RunGGUF(t.Context(), filepath.Join(folder, name+".gguf"), dest,
				convert.Options{DType: dtype})
			if err != nil {
				t.Fatal(err)
			}
			e := openModel(t, engine.Source{Dir: dest}, engine.Options{Device: "cpu", Threads: 1,
				ContextTokens: 64, MaxSequences: 1, Float32Activations: true, KVFormat: "f32"})
			got, _, _ := scores(t, submit(t, e, engine.Request{Prompt: want.IDs, ScorePrompt: true,
				NoAnswer: true, Sampling: sample.Params{Logprobs: 1}}))
			worst := 0.0
			for i, logprob := range want.Logprobs {
				worst = max(worst, math.Abs(float64(got[i].Logprob)-logprob))
			}
			if !(worst <= tolerances[name]) || len(want.Logprobs) != len(want.IDs)-1 {
				t.Errorf("%s, %q: log-probabilities differ by %g from those of llama.cpp", name,
					dtype, worst)
			}
			tok, err := tokenizer.Load(filepath.Join(dest, "tokenizer.json"))
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range want.Texts {
				ids := tok.Encode(text.Text, tokenizer.EncodeOptions{AddSpecial: true})
				if !slices.Equal(ids, text.IDs) {
					t.Errorf("%s: %q is %v, and %v for llama.cpp", name, text.Text, ids, text.IDs)
				}
			}
		}
	}
}
