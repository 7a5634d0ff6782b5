package models_test

// Tests of variants of architectures that Headroom cannot run, and of layouts that must give the
// same bits as another.

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// variantKeys are the keys of a small model of any dense architecture.
const variantKeys = `"quantization": {"bits": 4, "group_size": 32}, "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 32,
	"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 2048, "rms_norm_eps": 1e-06}`

// granite4Keys are those that Granite 4 has besides.
const granite4Keys = `"layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": 32,
	"mamba_d_state": 32, "shared_intermediate_size": 96, `

// latentKeys and nemotronKeys are those that DeepSeek-V3 and Nemotron-H have besides.
const (
	latentKeys = `"kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16,
		"v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2,
		"moe_intermediate_size": 32, "first_k_dense_replace": 0, "n_group": 1, "topk_group": 1, `
	nemotronKeys = `"hybrid_override_pattern": "ME", "mamba_num_heads": 2, "mamba_head_dim": 32,
		"ssm_state_size": 16, "n_groups": 1, "head_dim": 32, "n_routed_experts": 4,
		"moe_intermediate_size": 32, `
)

// The beginnings of the rope parameters of a tiny Phi-3 and of a Llama 3.
const (
	longRope = `{"type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
		"long_factor": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]`
	llama3Rope = `{"rope_type": "llama3", "rope_theta": 500000, "factor": 8,
		"low_freq_factor": 1, "high_freq_factor": 4`
)

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
		{"mistral3", `"text_config": {"model_type": "mistral4"}`,
			`model_type in text_config is "mistral4"`, problem.UnknownArchitecture},
		{"olmo3", `"sliding_window": 0`, "sliding_window is 0", problem.ModelBroken},
		{"olmo3", `"rope_parameters": {"full_attention": {"rope_type": "ntk"}}`,
			`rope_type is "ntk"`, problem.UnknownArchitecture},
		{"phi3", `"rope_scaling": {"type": "linear", "factor": 2}`, `: type is "linear"`,
			problem.UnknownArchitecture},
		{"phi3", `"original_max_position_embeddings": 0, "rope_scaling": ` + longRope + `}`,
			"original_max_position_embeddings is 0", problem.ModelBroken},
		{"ministral3", `"rope_parameters": {"rope_theta": 1e6}`, "need a llama_4_scaling_beta",
			problem.ModelBroken},
		{"ministral3", `"rope_parameters": {"llama_4_scaling_beta": -1}`,
			"need a llama_4_scaling_beta", problem.ModelBroken},
		{"ministral3", `"rope_parameters": {"llama_4_scaling_beta": 0.1,
			"original_max_position_embeddings": 0.5}`,
			"original_max_position_embeddings is 0", problem.ModelBroken},
		{"ministral3", `"max_position_embeddings": 4097, "rope_parameters": {
			"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 1}`,
			"max_position_embeddings is 4097 times", problem.UnknownArchitecture},
		{"mistral", `"sliding_window": -3`, "sliding_window is -3", problem.ModelBroken},
		{"smollm3", `"no_rope_layers": [1]`, "no_rope_layers has 1 entries", problem.ModelBroken},
		{"smollm3", `"no_rope_layer_interval": 0`, "no_rope_layer_interval is 0",
			problem.ModelBroken},
		{"qwen3_moe", `"hidden_act": "gelu_new"`, `hidden_act is "gelu_new"`,
			problem.UnknownArchitecture},
		{"qwen3_moe", `"rope_traditional": true`, "rope_traditional is true",
			problem.UnknownArchitecture},
		{"qwen3_moe", `"use_sliding_window": true, "sliding_window": -3`, "sliding_window is -3",
			problem.ModelBroken},
		{"qwen3_5_text", `"hidden_act": "gelu_new"`, `hidden_act is "gelu_new"`,
			problem.UnknownArchitecture},
		{"qwen3_5_text", `"rope_traditional": true`, "rope_traditional is true",
			problem.UnknownArchitecture},
		{"qwen3_next", `"hidden_act": "relu"`, `hidden_act is "relu"`,
			problem.UnknownArchitecture},
		{"granite", `"residual_multiplier": 0`, "residual_multiplier is 0", problem.ModelBroken},
		{"granite", `"logits_scaling": -8`, "logits_scaling is -8", problem.ModelBroken},
		{"lfm2", `"conv_L_cache": 1`, "conv_L_cache is 1", problem.ModelBroken},
		{"lfm2", `"conv_L_cache": 9`, "conv_L_cache is 9", problem.ModelBroken},
		{"lfm2", `"layer_types": ["conv", "linear_attention"]`, `"linear_attention"`,
			problem.ModelBroken},
		{"lfm2", `"layer_types": ["conv"]`, "layer_types has 1 entries", problem.ModelBroken},
		{"lfm2", `"block_multiple_of": 0`, "block_multiple_of is 0", problem.ModelBroken},
		{"lfm2", `"block_ffn_dim_multiplier": -1`, "block_ffn_dim_multiplier is -1",
			problem.ModelBroken},
		{"lfm2", `"block_ffn_dim_multiplier": 1e30`, "after block_auto_adjust_ff_dim is",
			problem.ModelBroken},
		{"lfm2", `"hidden_act": "relu"`, `hidden_act is "relu"`, problem.UnknownArchitecture},
		{"lfm2", `"block_ff_dim": -3`, "block_ff_dim is -3", problem.ModelBroken},
		{"lfm2_moe", `"routed_scaling_factor": 0`, "routed_scaling_factor is 0",
			problem.ModelBroken},
		{"deepseek_v3", latentKeys + `"scoring_func": "softmax"`, `scoring_func is "softmax"`,
			problem.ModelBroken},
		{"mellum", `"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32, ` +
			`"mlp_layer_types": ["dense", "moe"]`,
			`mlp_layer_types[1] is "moe", expected dense or sparse`, problem.ModelBroken},
		{"deepseek_v3", latentKeys + `"mlp_layer_types": ["dense", "moe"]`,
			`mlp_layer_types[1] is "moe", expected dense or sparse`, problem.ModelBroken},
		{"deepseek_v3", latentKeys + `"qk_rope_head_dim": 8192`,
			"qk_rope_head_dim is 8192, expected at most 4096", problem.UnknownArchitecture},
		{"deepseek_v3", latentKeys + `"rope_scaling": {"type": "yarn", "factor": 40,
			"original_max_position_embeddings": 64, "mscale_all_dim": -1}`,
			"mscale_all_dim is -1, expected a finite number of 0 or more", problem.ModelBroken},
		{"llama", `"rope_theta": 1e39`, "rope_theta is 1e+39, expected a finite number",
			problem.ModelBroken},
		{"nemotron_h", nemotronKeys + `"num_hidden_layers": 3`,
			"num_hidden_layers is 3, but hybrid_override_pattern has 2", problem.ModelBroken},
		{"deepseek_v3", latentKeys + `"n_group": 3`, "n_group of 3 does not divide", problem.ModelBroken},
		{"nemotron_h", nemotronKeys + `"n_group": 2, "topk_group": 1, "num_experts_per_tok": 3`,
			"topk_group is 1 of 2 groups of 2 experts", problem.ModelBroken},
		{"lfm2_moe", `"num_experts_per_tok": 33, "num_dense_layers": 1`, "num_experts_per_tok is 33",
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"position_embedding_type": "alibi"`,
			`position_embedding_type is "alibi"`, problem.UnknownArchitecture},
		{"granitemoehybrid", granite4Keys + `"hidden_act": "gelu_new"`, `hidden_act is "gelu_new"`,
			problem.UnknownArchitecture},
		{"granitemoehybrid", granite4Keys + `"layer_types": ["mamba", "conv"]`, `"conv"`,
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"mamba_n_groups": 3`, "mamba_n_groups of 3",
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"mamba_d_state": 257`, "mamba_d_state is 257",
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"mamba_d_conv": 9`, "mamba_d_conv is 9",
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"mamba_d_head": 0`, "mamba_d_head is 0",
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"shared_intermediate_size": 0`,
			"shared_intermediate_size is 0", problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"logits_scaling": 0`, "logits_scaling is 0",
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"num_local_experts": 2, "num_experts_per_tok": 3`,
			"num_experts_per_tok is 3", problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"time_step_limit": [2, 1]`, "time_step_limit is",
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"time_step_limit": [0.5]`, "time_step_limit is",
			problem.ModelBroken},
		{"granitemoehybrid", granite4Keys + `"time_step_limit": [0, "NaN"]`, "time_step_limit is",
			problem.ModelBroken},
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

// TestSameLayers compares ways in which a config can say the same. The logits of both must have the
// same bits, and differ from those of the tiny model itself.
func TestSameLayers(t *testing.T) {
	d := cpuDevice(t, 2)
	const eight = `"sliding_window": 8`
	for _, c := range []struct{ model, first, second string }{
		{"mistral", eight, eight + `, "layer_types": ` + kinds("ssss")},
		{"ministral3", eight + `, "layer_types": null`, eight + `, "layer_types": ` + kinds("sss")},
		{"olmo3", eight + `, "layer_types": []`, eight + `, "layer_types": ` + kinds("sssf")},
		{"smollm3", `"no_rope_layer_interval": 3`, `"no_rope_layers": [1, 1, 0, 1]`},
		{"smollm3", `"use_sliding_window": true, ` + eight,
			`"use_sliding_window": true, ` + eight + `, "layer_types": ` + kinds("fffs")},
		{"olmo3", `"rope_theta": 1, "rope_scaling": null, "rope_parameters": {
			"full_attention": {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4,
			"original_max_position_embeddings": 64}, "sliding_attention": {"rope_theta": 5e5}}`,
			`"rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 4,
			"original_max_position_embeddings": 64}`},
		{"phi3", eight, eight + `, "layer_types": ` + kinds("sss")},
		{"qwen2", eight + `, "layer_types": [], "use_sliding_window": true, "max_window_layers": 1`,
			`"use_sliding_window": true, ` + eight + `, "layer_types": ` + kinds("fsss")},
		{"qwen3_moe", `"use_sliding_window": true, ` + eight,
			`"use_sliding_window": true, ` + eight + `, "layer_types": ` + kinds("ffff")},
		{"qwen3", `"rope_parameters": null`, `"rope_parameters": {"rope_theta": 1e4}`},
		{"qwen3", `"rope_parameters": null, "model_type": "qwen3_vl_text"`,
			`"rope_parameters": {"rope_theta": 5e5}`},
		{"qwen3_moe", `"rope_parameters": null, "model_type": "qwen3_vl_moe_text"`,
			`"rope_parameters": {"rope_theta": 5e5}`},
		{"qwen3_5_text", `"partial_rotary_factor": null, "rope_parameters": null`,
			`"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}`},
		{"qwen3_next", `"partial_rotary_factor": null, "rope_parameters": null`,
			`"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}`},
		{"phi3", `"max_position_embeddings": 8192, "original_max_position_embeddings": 1024,
			"rope_scaling": ` + longRope + `, "original_max_position_embeddings": 64}`,
			`"max_position_embeddings": 8192, "original_max_position_embeddings": 1024,
			"rope_scaling": ` + longRope + `}`},
		{"phi3", `"max_position_embeddings": 8192, "original_max_position_embeddings": null,
			"rope_scaling": ` + longRope + `, "original_max_position_embeddings": 64}`,
			`"max_position_embeddings": 8192, "original_max_position_embeddings": 4096,
			"rope_scaling": ` + longRope + `}`},
		{"llama", `"original_max_position_embeddings": 32, "rope_parameters": ` + llama3Rope +
			`, "original_max_position_embeddings": 128}`,
			`"rope_parameters": ` + llama3Rope + `, "original_max_position_embeddings": 128}`},
		{"qwen3", `"original_max_position_embeddings": 32, "rope_parameters": null,
			"rope_scaling": {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 64}`,
			`"rope_parameters": null, "rope_scaling": {"rope_type": "yarn", "factor": 8,
			"original_max_position_embeddings": 64}`},
		{"phi3", `"max_position_embeddings": 8192, "original_max_position_embeddings": null`,
			`"max_position_embeddings": 8192, "original_max_position_embeddings": 4096`},
	} {
		original := readTiny(t, c.model)
		first, second := original.with(t, c.first), original.with(t, c.second)
		if !equalBits(first.logits(t, d), second.logits(t, d)) {
			t.Errorf("%s: the logits with %s differ from those with %s", c.model, c.first, c.second)
		}
		if equalBits(first.logits(t, d), original.logits(t, d)) {
			t.Errorf("%s: %s changes nothing", c.model, c.first)
		}
	}
}

// TestSameModel checks keys that change nothing: another key switches them off, or their value is
// the default.
func TestSameModel(t *testing.T) {
	d := cpuDevice(t, 2)
	const slides = `"sliding_window": 8, "layer_types": `
	for _, c := range []struct{ model, keys string }{
		{"lfm2", `"layer_types": null, "full_attn_idxs": [2]`},
		{"granitemoehybrid", `"layer_types": ["mamba", "mamba", "attention", "mamba"]`},
		{"granitemoehybrid", `"layer_types": null, "layers_block_type": ["mamba", "mamba",
			"attention", "mamba"]`},
		{"granitemoehybrid", `"position_embedding_type": null`},
		{"granitemoehybrid", `"time_step_limit": [0.0, "Infinity"]`},
		{"granitemoehybrid", `"time_step_limit": [0.0, 1e999]`}, // Python's Infinity
		{"granitemoehybrid", `"time_step_limit": [0.0, {"__float__": "Infinity"}]`},
		{"granitemoehybrid", `"time_step_limit": null`},
		{"granitemoehybrid", `"time_step_limit": [0, 1e30]`},
		{"granitemoehybrid_moe", `"num_experts_per_tok": 2, "moe_intermediate_size": 7`},
		{"lfm2", `"layer_types": ` + kinds("ccfc") + `, "full_attn_idxs": [0, 1]`},
		{"lfm2", `"block_ff_dim": 150, "intermediate_size": 7`},
		{"lfm2", `"block_auto_adjust_ff_dim": false, "intermediate_size": 128`},
		{"lfm2", `"block_ffn_dim_multiplier": 1.02, "block_multiple_of": 1, "block_ff_dim": 189`},
		{"lfm2", `"tie_embedding": true, "tie_word_embeddings": false`},
		{"lfm2", `"norm_eps": 1e-5, "rms_norm_eps": 1e-2`},
		{"lfm2", `"num_experts": 8, "use_expert_bias": true`},
		{"lfm2_moe", `"num_experts_per_tok": 3, "routed_scaling_factor": 1.0`},
		{"deepseek_v3", `"scoring_func": "sigmoid"`},
		{"qwen2", `"use_sliding_window": false, ` + slides + kinds("ssss")},
		{"qwen3", `"use_sliding_window": false, ` + slides + kinds("ssss")},
		{"qwen3_moe", `"use_sliding_window": false, ` + slides + kinds("ssss")},
		{"qwen3_moe", `"rope_parameters": null`},
	} {
		original := readTiny(t, c.model)
		if !equalBits(original.with(t, c.keys).logits(t, d), original.logits(t, d)) {
			t.Errorf("%s: %s changes the logits", c.model, c.keys)
		}
	}
}

// TestAbsentKeys: configs may leave out keys whose default in transformers changes the answers.
// mlx-lm has other defaults of some; see DECISIONS.md.
func TestAbsentKeys(t *testing.T) {
	d := cpuDevice(t, 2)
	for _, c := range []struct{ model, absent, stated string }{
		{"glm4_moe_lite", `"routed_scaling_factor": null`, `"routed_scaling_factor": 1.8`},
		{"deepseek_v3", `"routed_scaling_factor": null`, `"routed_scaling_factor": 2.5`},
		{"deepseek_v3", `"topk_group": null`, `"topk_group": 4`},
	} {
		tiny := readTiny(t, c.model)
		absent := tiny.with(t, c.absent).logits(t, d)
		if !equalBits(absent, tiny.with(t, c.stated).logits(t, d)) ||
			equalBits(absent, tiny.logits(t, d)) {
			t.Errorf("%s with %s: the logits are not those with %s", c.model, c.absent, c.stated)
		}
	}
	for key, says := range map[string]string{
		"n_group":               "n_group is 8 for 8 experts, expected two or more",
		"first_k_dense_replace": "layers.1.mlp.gate_proj.weight is missing", // 3 of 2 layers
	} {
		err := readTiny(t, "deepseek_v3").without(t, key).open(t, kernels.NewDryRun())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("deepseek_v3 without %s: got %v, expected %q", key, err, says)
		}
	}
}

// TestWindows checks which layers have a window if the config has the keys of Qwen2.
func TestWindows(t *testing.T) {
	// A window as long as the context would be none, so the context is longer than the default.
	const on = `"use_sliding_window": true, "max_window_layers": 1, "layer_types": null,
		"max_position_embeddings": 8192`
	for _, c := range []struct {
		model, keys string
		windows     string // of the 4 layers
	}{
		{"qwen2", on + `, "sliding_window": 8`, "0 8 8 8"},
		{"qwen2", on + `, "sliding_window": null`, "0 0 0 0"},
		{"qwen3", on + `, "sliding_window": 8`, "0 8 8 8"},
		{"qwen3", on + `, "sliding_window": null`, "0 0 0 0"},
		{"qwen3_moe", on + `, "sliding_window": 8`, "8 8 8 8"},
		{"qwen3_moe", on + `, "sliding_window": null`, "0 0 0 0"},
		{"qwen3", on + `, "sliding_window": 8, "model_type": "qwen3_vl_text"`, "0 0 0 0"},
		{"qwen3", on + `, "sliding_window": 8, "model_type": "qwen3_vl"`, "0 0 0 0"},
		{"qwen3_moe", on + `, "sliding_window": 8, "model_type": "qwen3_vl_moe"`, "0 0 0 0"},
		{"qwen3_moe", on + `, "sliding_window": 8, "model_type": "qwen3_vl_moe_text"`, "0 0 0 0"},
		// Without the key, the window is the default of 4096.
		{"qwen2", on, "0 4096 4096 4096"},
	} {
		f := readTiny(t, c.model)
		if !strings.Contains(c.keys, `"sliding_window"`) {
			f = f.without(t, "sliding_window")
		}
		f = f.with(t, c.keys)
		var windows []string
		for _, layer := range f.load(t, kernels.NewDryRun()).Spec().Layers {
			windows = append(windows, strconv.Itoa(layer.Window))
		}
		if got := strings.Join(windows, " "); got != c.windows {
			t.Errorf("%s, %s: windows %s, expected %s", c.model, c.keys, got, c.windows)
		}
	}
	f := readTiny(t, "qwen2").with(t, on+`, "sliding_window": null, "layer_types": `+kinds("fsss"))
	if err := f.open(t, kernels.NewDryRun()); err == nil ||
		!strings.Contains(err.Error(), "sliding_window is 0") {
		t.Errorf("layers with a window of null: %v", err)
	}
}

// without returns f without a key of its config.
func (f folder) without(t *testing.T, key string) folder {
	t.Helper()
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(f.config), &all); err != nil {
		t.Fatal(err)
	}
	delete(all, key)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	f.config = string(text)
	return f
}

// TestAttentionBias checks that the hybrid architectures add each of the four biases that
// attention_bias announces.
func TestAttentionBias(t *testing.T) {
	d := cpuDevice(t, 2)
	for _, model := range []string{"qwen3_5_text", "qwen3_next"} {
		original := readTiny(t, model)
		want := original.logits(t, d)
		biased := func(projection string) folder {
			f := original.rename(func(name string) string { return name })
			for name, x := range original.tensors {
				module, ok := strings.CutSuffix(name, "_proj.weight")
				if !ok || !strings.Contains(name, "self_attn.") {
					continue
				}
				bias := make([]byte, 4*x.Shape[0]) // F32
				for i := 0; i < len(bias) && strings.HasSuffix(module, "."+projection); i += 8 {
					binary.LittleEndian.PutUint32(bias[i:], math.Float32bits(0.5))
				}
				f.put(module+"_proj.bias", safetensors.Tensor{DType: safetensors.F32,
					Shape: []int{x.Shape[0]}, Data: bias})
			}
			return f.with(t, `"attention_bias": true`)
		}
		if !equalBits(biased("none").logits(t, d), want) {
			t.Errorf("%s: biases of 0 change the logits", model)
		}
		for _, projection := range []string{"q", "k", "v", "o"} {
			if equalBits(biased(projection).logits(t, d), want) {
				t.Errorf("%s: the bias of %s_proj changes nothing", model, projection)
			}
		}
	}
}

// TestLFM2Biases checks that LFM2 adds each of the three biases that conv_bias announces.
func TestLFM2Biases(t *testing.T) {
	d := cpuDevice(t, 2)
	original := readTiny(t, "lfm2")
	want := original.logits(t, d)
	biased := func(module string) folder {
		f := original.rename(func(name string) string { return name })
		for name, x := range original.tensors {
			part, ok := strings.CutSuffix(name, ".weight")
			if _, conv, found := strings.Cut(part, ".conv."); ok && found {
				bias := make([]byte, 4*x.Shape[0]) // F32
				for i := 0; i < len(bias) && conv == module; i += 8 {
					binary.LittleEndian.PutUint32(bias[i:], math.Float32bits(0.5))
				}
				f.put(part+".bias", safetensors.Tensor{DType: safetensors.F32,
					Shape: []int{x.Shape[0]}, Data: bias})
			}
		}
		return f.with(t, `"conv_bias": true`)
	}
	if !equalBits(biased("none").logits(t, d), want) {
		t.Error("biases of 0 change the logits")
	}
	for _, module := range []string{"conv", "in_proj", "out_proj"} {
		if equalBits(biased(module).logits(t, d), want) {
			t.Errorf("the bias of %s changes nothing", module)
		}
	}
}

// TestMistral3 checks that the language model of Mistral 3 is the Mistral or the Ministral 3 in its
// text_config, in every layout, and that the vision tower needs no memory.
func TestMistral3(t *testing.T) {
	d := cpuDevice(t, 1)
	for _, inner := range []string{"mistral", "ministral3"} {
		original := readTiny(t, inner)
		want := original.logits(t, d)
		bytes := original.loadedBytes(t)
		for layout, newName := range map[string]func(string) string{
			"MLX and Hugging Face": func(name string) string { return "language_model." + name },
			"Hugging Face since 2025": func(name string) string {
				return strings.Replace(name, "model.", "model.language_model.", 1)
			},
		} {
			f := original.rename(newName)
			f.config = nested("mistral3", original.config)
			for _, name := range []string{"vision_tower.patch_conv.weight",
				"model.vision_tower.patch_conv.weight", "multi_modal_projector.norm.weight"} {
				f.put(name, safetensors.Tensor{DType: safetensors.I64, Shape: []int{2, 3},
					Data: make([]byte, 48)})
			}
			if !equalBits(f.logits(t, d), want) {
				t.Errorf("%s, %s: the logits differ from those of the language model", inner,
					layout)
			}
			if got := f.loadedBytes(t); got != bytes {
				t.Errorf("%s, %s: %d bytes are loaded, those of the language model are %d", inner,
					layout, got, bytes)
			}
		}
	}
}

// loadedBytes returns the memory that the tensors of the model need.
func (f folder) loadedBytes(t *testing.T) int64 {
	t.Helper()
	d := kernels.NewDryRun()
	src := checkpoint.Source{Dir: f.write(t)}
	config, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(src, config, d)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := models.Load(w); err != nil {
		t.Fatal(err)
	}
	return w.MappedBytes() + d.AllocatedBytes
}

// with returns f with some keys of its config replaced or added.
func (f folder) with(t *testing.T, keys string) folder {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, text := range []string{f.config, "{" + keys + "}"} {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	f.config = string(text)
	return f
}

// kinds returns layer_types: f is a layer with full attention, s one with a sliding window, c a
// short convolution.
func kinds(letters string) string {
	var all []string
	for _, letter := range letters {
		all = append(all, map[rune]string{'f': `"full_attention"`,
			's': `"sliding_attention"`, 'c': `"conv"`}[letter])
	}
	return "[" + strings.Join(all, ", ") + "]"
}
