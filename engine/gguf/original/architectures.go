package original

// The architectures: a row for each, by its name in general.architecture.

import "math"

// architecture is how the files of an architecture become an original.
type architecture struct {
	modelType, class string
	// permuted says that the rows of q and k are in the order for rotating pairs of neighbours.
	permuted bool
	// shifted says that the weights of norms have 1 added.
	shifted bool
	// partial says that config.json can say that only a part of a head is rotated.
	partial bool
	// latent says that attention has one latent vector for the keys and values of all heads.
	latent bool
	// untruncated says that the limits of YaRN's frequencies are not rounded.
	untruncated bool
	// ropeParameters says that config.json has the rotary embedding in an object of its own.
	ropeParameters bool
	// block begins the names of blocks that draft tokens; "": there are none.
	block string
	// names has what differs from the usual names, by the name of a module in the file, or of a
	// tensor with its suffix.
	names map[string]string
	// arrange returns the tensors that one of the file becomes; nil: the one that it is given. part
	// is the name of the file's module within a layer.
	arrange func(b *builder, t Tensor, part string) []Tensor
	// config sets what config.json has beside the usual keys; nil: nothing.
	config func(b *builder)
}

// sandwich has the names of layers with a norm before and after each part.
var sandwich = map[string]string{"ffn_norm": "pre_feedforward_layernorm",
	"post_attention_norm": "post_attention_layernorm",
	"post_ffw_norm":       "post_feedforward_layernorm"}

// mixtralNames has the names of Mixtral's experts.
var mixtralNames = map[string]string{"ffn_gate_inp": "block_sparse_moe.gate",
	"ffn_gate_exps": "block_sparse_moe.switch_mlp.gate_proj",
	"ffn_up_exps":   "block_sparse_moe.switch_mlp.up_proj",
	"ffn_down_exps": "block_sparse_moe.switch_mlp.down_proj"}

var architectures = map[string]*architecture{
	"deepseek2": {modelType: "deepseek_v3", class: "DeepseekV3ForCausalLM", latent: true,
		block: "model.layers.", names: deepseekNames, config: (*builder).deepseek},
	"gemma": {modelType: "gemma", class: "GemmaForCausalLM", shifted: true,
		config: func(b *builder) { b.set("hidden_act", geluTanh, "hidden_activation", geluTanh) }},
	"gemma2": {modelType: "gemma2", class: "Gemma2ForCausalLM", shifted: true, names: sandwich,
		config: (*builder).gemma2},
	"gemma3": {modelType: "gemma3_text", class: "Gemma3ForCausalLM", shifted: true,
		names: sandwich, config: (*builder).gemma3},
	"gpt-oss": {modelType: "gpt_oss", class: "GptOssForCausalLM", untruncated: true,
		names: gptOSSNames, config: (*builder).gptOSS},
	"granite": {modelType: "granite", class: "GraniteForCausalLM", permuted: true,
		config: (*builder).granite},
	"llama": {modelType: "llama", class: "LlamaForCausalLM", permuted: true, names: mixtralNames,
		config: (*builder).llama},
	"olmo2": {modelType: "olmo2", class: "Olmo2ForCausalLM",
		names: map[string]string{"post_attention_norm": "post_attention_layernorm",
			"post_ffw_norm": "post_feedforward_layernorm"}},
	"phi3": {modelType: "phi3", class: "Phi3ForCausalLM", partial: true,
		names:  map[string]string{"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"},
		config: (*builder).phi3},
	"qwen2": {modelType: "qwen2", class: "Qwen2ForCausalLM"},
	"qwen2moe": {modelType: "qwen2_moe", class: "Qwen2MoeForCausalLM",
		names: map[string]string{"ffn_gate_inp_shexp": "mlp.shared_expert_gate",
			"ffn_gate_shexp": "mlp.shared_expert.gate_proj",
			"ffn_up_shexp":   "mlp.shared_expert.up_proj",
			"ffn_down_shexp": "mlp.shared_expert.down_proj"},
		config: (*builder).qwen2MoE},
	// The projections of Qwen3-Next are those of Qwen3.5 in a file: apart, not in one matrix.
	"qwen3next": {modelType: "qwen3_5_moe", class: "Qwen3_5MoeForConditionalGeneration",
		partial: true, ropeParameters: true, block: "mtp.layers.", names: deltaNames,
		arrange: (*builder).deltaParts, config: (*builder).qwen35MoE},
	"qwen35": {modelType: "qwen3_5", class: "Qwen3_5ForConditionalGeneration", partial: true,
		ropeParameters: true, block: "mtp.layers.", names: deltaNames,
		arrange: (*builder).tiledDelta, config: (*builder).qwen35},
	"qwen35moe": {modelType: "qwen3_5_moe", class: "Qwen3_5MoeForConditionalGeneration",
		partial: true, ropeParameters: true, block: "mtp.layers.", names: deltaNames,
		arrange: (*builder).tiledDelta, config: (*builder).qwen35MoE},
	"qwen3": {modelType: "qwen3", class: "Qwen3ForCausalLM"},
	"qwen3moe": {modelType: "qwen3_moe", class: "Qwen3MoeForCausalLM",
		config: (*builder).qwen3MoE},
	"seed_oss": {modelType: "seed_oss", class: "SeedOssForCausalLM",
		names: map[string]string{"post_attention_norm": "post_attention_layernorm"},
		config: func(b *builder) {
			b.set("attention_out_bias", b.hasTensor("blk.0.attn_output.bias"))
		}},
	"smollm3": {modelType: "smollm3", class: "SmolLM3ForCausalLM", permuted: true,
		config: func(b *builder) { b.set("no_rope_layer_interval", 4) }},
}

// gptOSSNames has the names of gpt-oss.
var gptOSSNames = map[string]string{"post_attention_norm": "post_attention_layernorm",
	"attn_sinks.weight": "self_attn.sinks", "ffn_gate_inp": "mlp.router",
	"ffn_gate_exps": "mlp.experts.gate_proj", "ffn_up_exps": "mlp.experts.up_proj",
	"ffn_down_exps": "mlp.experts.down_proj"}

const geluTanh = "gelu_pytorch_tanh"

// llama is the architecture of many models, and of Mixtral if it has experts.
func (b *builder) llama() {
	b.set("mlp_bias", b.hasTensor("blk.0.ffn_down.bias"))
	if b.count("expert_count", 0) == 0 {
		return
	}
	b.set("model_type", "mixtral", "architectures", []string{"MixtralForCausalLM"},
		"num_local_experts", b.count("expert_count", 0),
		"num_experts_per_tok", b.count("expert_used_count", 0))
}

func (b *builder) granite() {
	b.set("mlp_bias", b.hasTensor("blk.0.ffn_down.bias"),
		"attention_multiplier", b.float("attention.scale",
			1/math.Sqrt(float64(b.headDim()))),
		"embedding_multiplier", b.float("embedding_scale", 1),
		"residual_multiplier", b.float("residual_scale", 1),
		"logits_scaling", b.float("logit_scale", 1))
}

func (b *builder) qwen2MoE() {
	b.set("num_experts", b.count("expert_count", 0),
		"num_experts_per_tok", b.count("expert_used_count", 0),
		"moe_intermediate_size", b.count("expert_feed_forward_length", 0),
		"shared_expert_intermediate_size", b.count("expert_shared_feed_forward_length", 0),
		"norm_topk_prob", false, "decoder_sparse_step", 1, "mlp_only_layers", []int{})
}

func (b *builder) qwen3MoE() {
	b.set("num_experts", b.count("expert_count", 0),
		"num_experts_per_tok", b.count("expert_used_count", 0),
		"moe_intermediate_size", b.count("expert_feed_forward_length", 0),
		"norm_topk_prob", true, "decoder_sparse_step", 1, "mlp_only_layers", []int{})
}

func (b *builder) phi3() {
	if window := b.count("attention.sliding_window", 0); window > 0 {
		b.set("sliding_window", window)
	}
	b.set("original_max_position_embeddings",
		b.count("rope.scaling.original_context_length", b.count("context_length", 0)))
}

func (b *builder) gemma2() {
	b.set("hidden_act", geluTanh, "hidden_activation", geluTanh,
		"attn_logit_softcapping", b.float("attn_logit_softcapping", 50),
		"final_logit_softcapping", b.float("final_logit_softcapping", 30),
		"sliding_window", b.count("attention.sliding_window", 4096),
		"query_pre_attn_scalar", b.queryScalar(46))
}

func (b *builder) gemma3() {
	b.set("hidden_activation", geluTanh,
		"sliding_window", b.count("attention.sliding_window", 1024),
		"sliding_window_pattern", 6,
		"rope_local_base_freq", b.float("rope.freq_base_swa", 10_000),
		"query_pre_attn_scalar", b.queryScalar(62))
	if softcap := b.float("final_logit_softcapping", 0); softcap != 0 {
		b.set("final_logit_softcapping", softcap)
	}
	if n, ok := b.number("rope.freq_base"); !ok || n == 0 {
		b.set("rope_theta", 1e6)
	}
}

// queryScalar returns query_pre_attn_scalar of Gemma, which files lack: the dimension of a head,
// but in the 27B models, which are known by their layers, the width divided by the heads.
func (b *builder) queryScalar(layers27B int) int {
	if b.count("block_count", 0) == layers27B {
		return b.count("embedding_length", 0) / max(b.count("attention.head_count", 1), 1)
	}
	return b.headDim()
}

// gptOSS sets the keys of gpt-oss: every second layer, from the first on, has a sliding window.
func (b *builder) gptOSS() {
	kinds := make([]string, b.layers())
	for i := range kinds {
		kinds[i] = []string{"sliding_attention", "full_attention"}[i%2]
	}
	if n := b.count("attention.sliding_window_pattern", 2); n != 2 {
		b.failf("one layer in %d has full attention, expected one in 2", n)
	}
	b.set("layer_types", kinds, "sliding_window", b.required("attention.sliding_window"),
		"intermediate_size", b.required("expert_feed_forward_length"),
		"num_local_experts", b.required("expert_count"),
		"num_experts_per_tok", b.required("expert_used_count"), "swiglu_limit", 7.0)
}
