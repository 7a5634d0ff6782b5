package models_test

// Tests of variants of architectures that Headroom cannot run, and of layouts that must give the
// same bits as another.

import (
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
)

// variantKeys are the keys of a small model of any dense architecture.
const variantKeys = `"quantization": {"bits": 4, "group_size": 32}, "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 32,
	"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 2048, "rms_norm_eps": 1e-06}`

// TestRefusals checks that configs with unsupported or invalid values give an error before any
// weight is read, and that the error says which value it is.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		modelType, keys, says string
		code                  problem.Code
	}{
		{"llama", `"hidden_act": "relu2"`, `hidden_act is "relu2"`, problem.UnknownArchitecture},
		{"llama", `"rope_traditional": true`, "rope_traditional is true",
			problem.UnknownArchitecture},
		{"llama", `"rope_scaling": {"rope_type": "ntk"}`, `rope_type is "ntk"`,
			problem.UnknownArchitecture},
		{"llama", `"head_dim": 24, "num_attention_heads": 4`, "head_dim is 24", problem.UnknownArchitecture},
		{"llama", `"layer_types": ["full_attention", "chunked_attention"]`, `"chunked_attention"`,
			problem.ModelBroken},
		{"llama", `"layer_types": ["full_attention", "sliding_attention"]`,
			"sliding_window is 0", problem.ModelBroken},
		{"llama", `"intermediate_size": 0`, "intermediate_size is 0", problem.ModelBroken},
		{"qwen2", `"use_sliding_window": true, "sliding_window": -3, "layer_types": ["full_attention", "sliding_attention"]`,
			"sliding_window is -3", problem.ModelBroken},
	} {
		config := `{` + variantKeys[:len(variantKeys)-1] + `, "model_type": "` + c.modelType +
			`", ` + c.keys + `}`
		_, err := engine.Describe(engine.Random([]byte(config)), engine.Options{})
		if p := problem.From(err); err == nil || p.Code != c.code ||
			!strings.Contains(p.Error(), c.says) {
			t.Errorf("%s, %s: %v, expected %s saying %q", c.modelType, c.keys, err, c.code, c.says)
		}
	}
}
