package engine_test

import (
	"slices"
	"testing"

	"headroom/engine"
	"headroom/engine/sample"
)

// wideHeads is a Gemma 4 with the head dimensions of the real models and few layers.
const wideHeads = `{"model_type": "gemma4_text", "vocab_size": 320, "hidden_size": 64,
	"intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8,
	"num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "num_kv_shared_layers": 2,
	"layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
	"sliding_window": 24, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
	"final_logit_softcapping": 30, "hidden_size_per_layer_input": 32,
	"quantization": {"bits": 4, "group_size": 32}}`

// TestWideHeadsOnMetal runs heads of 256 and of 512 on the simulated device, which computes the
// wider ones without matrix units, and compares with the CPU.
func TestWideHeadsOnMetal(t *testing.T) {
	src := engine.Random([]byte(wideHeads))
	for _, format := range []string{"", "f16"} {
		o := engine.Options{KVFormat: format, ContextTokens: 256, MaxSequences: 1, ChunkTokens: 32,
			NoPrefixCache: true, Float32Activations: true}
		r := engine.Request{Prompt: someIDs(5, 70), MaxTokens: 8, IgnoreEOS: true,
			Sampling: sample.Params{Logprobs: 4}}
		want := run(t, openModel(t, src, o), r, 0)
		got := run(t, openSim(t, src, o), r, 0)
		if got.done.Err != nil || !slices.Equal(got.tokens, want.tokens) {
			t.Errorf("%q: tokens %v (%v), on the CPU %v", format, got.tokens, got.done.Err,
				want.tokens)
		}
	}
}
