package original

// DeepSeek-V2, DeepSeek-V3 and GLM-4.7-Flash, whose files all have the architecture deepseek2. The
// router in a file says which of the first two it is. GLM-4.7-Flash is DeepSeek-V3 with another
// epsilon in the norms of attention.
//
// A file has kv_b_proj in its two parts: embed_q, transposed, and unembed_out, as MLX's classes of
// DeepSeek-V3 have it. Old files have it whole.
//
// Sources: llama.cpp, conversion/deepseek.py and src/models/deepseek2.cpp.

import (
	"math"
	"slices"
	"strings"
)

var deepseekNames = map[string]string{
	"attn_q_a":         "self_attn.q_a_proj",
	"attn_q_a_norm":    "self_attn.q_a_layernorm",
	"attn_q_b":         "self_attn.q_b_proj",
	"attn_kv_a_mqa":    "self_attn.kv_a_proj_with_mqa",
	"attn_kv_a_norm":   "self_attn.kv_a_layernorm",
	"attn_kv_b":        "self_attn.kv_b_proj",
	"attn_k_b":         "self_attn.embed_q",
	"attn_v_b":         "self_attn.unembed_out",
	"exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
	"ffn_gate_shexp":   "mlp.shared_experts.gate_proj",
	"ffn_up_shexp":     "mlp.shared_experts.up_proj",
	"ffn_down_shexp":   "mlp.shared_experts.down_proj",
}

// The values of expert_gating_func.
const (
	gatingSoftmax = 1
	gatingSigmoid = 2
)

// deepseekEps is the epsilon of the norms within the attention of DeepSeek's models.
const deepseekEps = 1e-6

// isSigmoid reports whether the router has sigmoids. Some files do not say it: those of
// GLM-4.7-Flash are known by the layers and the vocabulary, as in llama.cpp.
func (b *builder) isSigmoid() bool {
	const glmVocabulary = 154880
	switch b.count("expert_gating_func", 0) {
	case gatingSigmoid:
		return true
	case gatingSoftmax:
		return false
	case 0:
		layers := b.count("block_count", 0)
		return b.config["vocab_size"] == glmVocabulary && (layers == 47 || layers == 48)
	}
	b.failf("%sexpert_gating_func is %d, expected %d or %d", b.prefix,
		b.count("expert_gating_func", 0), gatingSoftmax, gatingSigmoid)
	return false
}

func (b *builder) deepseek() {
	heads, rotated := b.count("attention.head_count", 0), b.count("rope.dimension_count", 0)
	key := b.count("attention.key_length_mla", b.count("attention.key_length", 0))
	value := b.count("attention.value_length_mla", b.count("attention.value_length", 0))
	delete(b.config, "head_dim")
	b.set("num_key_value_heads", heads,
		"kv_lora_rank", b.required("attention.kv_lora_rank"),
		"q_lora_rank", nil,
		"qk_rope_head_dim", rotated, "qk_nope_head_dim", key-rotated, "v_head_dim", value,
		"first_k_dense_replace", b.count("leading_dense_block_count", 0),
		"n_shared_experts", b.count("expert_shared_count", 0),
		"moe_intermediate_size", b.required("expert_feed_forward_length"),
		"moe_layer_freq", 1,
		"num_experts_per_tok", b.required("expert_used_count"),
		"n_routed_experts", b.required("expert_count"),
		"norm_topk_prob", b.count("expert_weights_norm", 0) != 0,
		"routed_scaling_factor", b.scaling(),
		"n_group", max(b.count("expert_group_count", 1), 1),
		"topk_group", max(b.count("expert_group_used_count", 1), 1))
	if rank := b.count("attention.q_lora_rank", 0); rank > 0 {
		b.set("q_lora_rank", rank)
	}
	if b.float("attention.temperature_scale", 0) != 0 {
		b.failf("it scales attention by the position, which this model type does not have")
	}
	b.deepseekRouter()
}

// scaling returns the factor of the weights of experts. llama.cpp takes 0 for 1.
func (b *builder) scaling() float64 {
	if factor := b.float("expert_weights_scale", 1); factor != 0 {
		return factor
	}
	return 1
}

// deepseekRouter sets the type of the model, and how it chooses experts.
func (b *builder) deepseekRouter() {
	sigmoid, corrected := b.isSigmoid(), slices.ContainsFunc(b.Tensors, func(t Tensor) bool {
		return strings.HasSuffix(t.Name, ".e_score_correction_bias")
	})
	if sigmoid != corrected {
		b.failf("its router has sigmoids: %t, and a correction bias: %t", sigmoid, corrected)
	}
	if sigmoid {
		b.set("topk_method", "noaux_tc", "scoring_func", "sigmoid")
		if b.config["rms_norm_eps"] != deepseekEps {
			b.set("model_type", "glm4_moe_lite",
				"architectures", []string{"Glm4MoeLiteForCausalLM"})
		}
		return
	}
	b.set("model_type", "deepseek_v2", "architectures", []string{"DeepseekV2ForCausalLM"},
		"topk_method", "greedy", "scoring_func", "softmax")
	if b.config["n_group"] != 1 {
		b.set("topk_method", "group_limited_greedy")
	}
}

// latentYarn adds the magnitudes of YaRN, which a file has as a tenth of mscale_all_dim. As in
// llama.cpp, mscale is the same.
func (b *builder) latentYarn(scaling map[string]any) {
	if n := b.float("rope.scaling.yarn_log_multiplier", 0); n != 0 {
		magnitude := math.Round(n*1e7) / 1e6
		scaling["mscale"], scaling["mscale_all_dim"] = magnitude, magnitude
	}
}
