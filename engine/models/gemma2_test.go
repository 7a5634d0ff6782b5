package models_test

// Tests of the keys of Gemma 2 configs, and of variants that are not supported.

import (
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
)

// TestGemma2Keys checks which keys change the logits of 24 tokens. mlx-lm, which made the model's
// reference outputs, has no window, so the window of the model is longer than the prompts.
func TestGemma2Keys(t *testing.T) {
	d := cpuDevice(t, 2)
	original := readTiny(t, "gemma2")
	want := original.logits(t, d)
	edited := func(edits ...string) folder {
		other := original
		for i := 0; i < len(edits); i += 2 {
			before := other.config
			other.config = strings.Replace(before, edits[i], edits[i+1], 1)
			if other.config == before {
				t.Fatalf("the config has no %s", edits[i])
			}
		}
		return other
	}
	for _, c := range []struct {
		key, value string
		same       bool
	}{
		{`"attn_logit_softcapping": 4.0`, `"attn_logit_softcapping": null`, false},
		{`"attn_logit_softcapping": 4.0,`, ``, false}, // 50
		{`"final_logit_softcapping": 12.0`, `"final_logit_softcapping": null`, false},
		{`"final_logit_softcapping": 12.0,`, ``, false}, // 30
		{`"query_pre_attn_scalar": 40`, `"query_pre_attn_scalar": 41`, false},
		{`"rope_theta": 10000.0`, `"rope_theta": 20000.0`, false},
		{`"rope_theta": 10000.0,`, ``, true},
		{`"sliding_window": 400`, `"sliding_window": 24`, true},
		{`"sliding_window": 400`, `"sliding_window": 23`, false},
		{`"tie_word_embeddings": true,`, ``, true},
	} {
		if got := edited(c.key, c.value).logits(t, d); equalBits(got, want) != c.same {
			t.Errorf("%s becomes %s: same logits: %t, expected %t", c.key, c.value, !c.same, c.same)
		}
	}
	// The window belongs to the first layer, the third, and so on.
	slide := []string{`"sliding_window": 400`, `"sliding_window": 10`}
	want = edited(slide...).logits(t, d)
	for kinds, same := range map[string]bool{
		`"sliding_attention", "full_attention", "sliding_attention"`: true,
		`"full_attention", "sliding_attention", "full_attention"`:    false,
	} {
		f := edited(append(slide, `{`, `{"layer_types": [`+kinds+`], `)...)
		if equalBits(f.logits(t, d), want) != same {
			t.Errorf("layer_types %s: same logits as without: %t, expected %t", kinds, !same, same)
		}
	}
}

// TestGemma2Refusals checks that configs with unsupported or invalid values give an error before
// any weight is read.
func TestGemma2Refusals(t *testing.T) {
	const config = `{"model_type": "gemma2", "vocab_size": 320, "hidden_size": 64,
		"intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 2, "head_dim": 32,
		"num_key_value_heads": 1, "quantization": {"bits": 4, "group_size": 64}}`
	if _, err := engine.Describe(engine.Random([]byte(config)), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys, says string
		code       problem.Code
	}{
		{`"use_bidirectional_attention": true`, "use_bidirectional_attention true",
			problem.UnknownArchitecture},
		{`"hidden_activation": "silu"`, "silu", problem.UnknownArchitecture},
		{`"attention_bias": true`, "attention_bias true", problem.UnknownArchitecture},
		{`"rope_traditional": true`, "rope_traditional", problem.UnknownArchitecture},
		{`"attn_logit_softcapping": 0`, "attn_logit_softcapping is 0", problem.ModelBroken},
		{`"final_logit_softcapping": 1e40`, "final_logit_softcapping is 1e+40",
			problem.ModelBroken},
		{`"query_pre_attn_scalar": -1`, "query_pre_attn_scalar is -1", problem.ModelBroken},
		{`"sliding_window": 0`, "sliding_window is 0", problem.ModelBroken},
		{`"layer_types": ["full_attention"]`, "layer_types has 1", problem.ModelBroken},
	} {
		other := `{` + c.keys + `, ` + config[1:]
		_, err := engine.Describe(engine.Random([]byte(other)), engine.Options{})
		if p := problem.From(err); err == nil || p.Code != c.code ||
			!strings.Contains(p.Error(), c.says) {
			t.Errorf("%s: %v, expected %s saying %q", c.keys, err, c.code, c.says)
		}
	}
}
