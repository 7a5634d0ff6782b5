package models_test

// Tests of the layouts of Gemma 3 configs and tensor names, and of variants that are not supported.

import (
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
)

// olderKeys is the tiny model's config as transformers 4 wrote it, without rope_parameters and
// layer_types.
const olderKeys = `{"model_type": "gemma3_text", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6, "head_dim": 32,
	"num_attention_heads": 4, "num_key_value_heads": 2, "query_pre_attn_scalar": 32, "max_position_embeddings": 2048, "sliding_window": 16,
	"sliding_window_pattern": 6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000, "rope_scaling": null, "rms_norm_eps": 1e-06}`

func TestGemma3Layouts(t *testing.T) {
	d := cpuDevice(t, 2)
	original := readTiny(t, "gemma3_text")
	want := original.logits(t, d)
	check := func(layout string, f folder, same bool) {
		t.Helper()
		if got := f.logits(t, d); equalBits(got, want) != same {
			t.Errorf("%s: same logits as in the original layout: %t, expected %t", layout, !same,
				same)
		}
	}
	inside := func(prefix, config string) folder {
		f := original.rename(func(name string) string {
			return strings.Replace(name, "model.", prefix, 1)
		})
		f.config = nested("gemma3", config)
		return f
	}
	older := original
	older.config = olderKeys
	check("older keys", older, true)
	check("MLX, multimodal", inside("language_model.model.", olderKeys), true)
	check("Hugging Face, multimodal", inside("model.language_model.", original.config), true)
	for _, c := range [][2]string{
		{`"rope_scaling": null`, `"rope_scaling": {"rope_type": "linear", "factor": 8.0}`},
		{`freq": 10000`, `freq": 20000`},
		{`"rope_theta": 1000000.0`, `"rope_theta": 10000.0`}, {`pattern": 6`, `pattern": 5`},
		{`window": 16`, `window": 15`}, {`scalar": 32`, `scalar": 64`},
	} {
		other := original
		if other.config = strings.Replace(olderKeys, c[0], c[1], 1); other.config == olderKeys {
			t.Fatalf("the config has no %s", c[0])
		}
		check(c[1], other, false)
	}
}

// TestGemma3Refusals checks that configs with unsupported or invalid values give an error before
// any weight is read.
func TestGemma3Refusals(t *testing.T) {
	for _, c := range []struct {
		old, new, says string
		code           problem.Code
	}{
		{`{`, `{"use_bidirectional_attention": true, `, "use_bidirectional_attention true",
			problem.UnknownArchitecture},
		{`{`, `{"hidden_activation": "silu", `, "silu", problem.UnknownArchitecture},
		{`{`, `{"attn_logit_softcapping": 50.0, `, "softcapping is 50", problem.UnknownArchitecture},
		{`{`, `{"final_logit_softcapping": -30.0, `, "softcapping is -30", problem.ModelBroken},
		{`"sliding_window": 16`, `"sliding_window": 0`, "sliding_window is 0", problem.ModelBroken},
		{`pattern": 6`, `pattern": -1`, "sliding_window_pattern is -1", problem.ModelBroken},
		{`scalar": 32`, `scalar": 0`, "query_pre_attn_scalar is 0", problem.ModelBroken},
		{`{`, `{"layer_types": ["full_attention"], `, "layer_types has 1", problem.ModelBroken},
		{`{`, `{"layer_types": ["full_attention", "a", "b", "c", "d", "e"], `, `"a"`,
			problem.ModelBroken},
		{`freq": 10000`, `freq": -1`, "rope_local_base_freq is -1", problem.ModelBroken},
	} {
		config := `{"quantization": {"bits": 4, "group_size": 64}, ` +
			strings.Replace(olderKeys, c.old, c.new, 1)[1:]
		_, err := engine.Describe(engine.Random([]byte(config)), engine.Options{})
		if p := problem.From(err); err == nil || p.Code != c.code ||
			!strings.Contains(p.Error(), c.says) {
			t.Errorf("%s: %v, expected %s saying %q", c.new, err, c.code, c.says)
		}
	}
}
