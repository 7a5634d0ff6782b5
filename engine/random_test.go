package engine_test

import (
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/kernels"
)

// tinyConfig describes a model of 2 layers with 49,152 parameters each, and a head with 16,384. All
// are quantized to 4 bits, with a 16-bit scale and a 16-bit bias per group of 64.
const tinyConfig = `{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
	"num_key_value_heads": 2, "head_dim": 32, "vocab_size": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 4096,
	"tie_word_embeddings": true, "attention_bias": false, "hidden_act": "silu", "quantization": {"group_size": 64, "bits": 4}}`

// TestOperatorTimes checks that Options.Times counts only the operators that run between Start and
// Stop.
func TestOperatorTimes(t *testing.T) {
	times := &kernels.OperatorTimes{}
	e := openModel(t, engine.Random([]byte(tinyConfig)),
		engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 64, Times: times})
	ask := func() {
		s := submit(t, e, engine.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 1, IgnoreEOS: true})
		collect(t, s)
	}
	ask()
	times.Start()
	ask()
	got := times.Stop()
	if a := got["paged_attention"]; a.Runs != 2 || got["linear"].Runs == 0 ||
		got["linear"].Int8 == 0 {
		t.Errorf("times of one pass through two layers: %+v, expected 2 runs of paged_attention, "+
			"and linear in int8", got)
	}
}

// TestWriteRandom checks that WriteRandom writes the same model that Random returns.
func TestWriteRandom(t *testing.T) {
	answer := func(src engine.Source) []int32 {
		e := openModel(t, src, engine.Options{Device: engine.DeviceCPU, Threads: 1,
			ContextTokens: 64})
		tokens, _, _ := collect(t,
			submit(t, e, engine.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 12, IgnoreEOS: true}))
		return tokens
	}
	for _, config := range []string{tinyConfig,
		strings.Replace(tinyConfig, `"group_size": 64`, `"mode": "mxfp4", "group_size": 32`, 1),
		strings.Replace(tinyConfig, `"group_size": 64, "bits": 4`, `"mode": "mxfp8"`, 1),
		strings.Replace(tinyConfig, `"group_size": 64, "bits": 4`, `"mode": "nvfp4"`, 1)} {
		dir := t.TempDir()
		if err := engine.WriteRandom(dir, []byte(config)); err != nil {
			t.Fatal(err)
		}
		if written, made := answer(engine.Source{Dir: dir}),
			answer(engine.Random([]byte(config))); !slices.Equal(written, made) {
			t.Errorf("%s: tokens of the written model %v, of the model in memory %v", config,
				written, made)
		}
	}
	if err := engine.WriteRandom(t.TempDir(), []byte("{}")); err == nil {
		t.Error("no error for a config without an architecture")
	}
}
