package main

// The architectures whose layers differ from one another, or whose cache is a latent vector, as
// GGUF: DeepSeek-V3 and GLM-4.7-Flash (deepseek2), LFM2 with experts, and Nemotron-H with experts.
//
// Sources: llama.cpp, src/models/deepseek2.cpp, lfm2moe.cpp and nemotron-h.cpp.

// hybridConfig holds the keys of config.json that these architectures have.
type hybridConfig struct {
	QueryRank  int     `json:"q_lora_rank"`
	LatentRank int     `json:"kv_lora_rank"`
	NopeDim    int     `json:"qk_nope_head_dim"`
	RopeDim    int     `json:"qk_rope_head_dim"`
	ValueDim   int     `json:"v_head_dim"`
	Routed     int     `json:"n_routed_experts"`
	Shared     int     `json:"n_shared_experts"`
	Groups     int     `json:"n_group"`
	TopGroups  int     `json:"topk_group"`
	Scaling    float32 `json:"routed_scaling_factor"`
	NormTopK   bool    `json:"norm_topk_prob"`
	FirstDense int     `json:"first_k_dense_replace"`
	Dense      int     `json:"num_dense_layers"` // LFM2's name of first_k_dense_replace

	ShortTaps int     `json:"conv_L_cache"`
	ShortEps  float32 `json:"norm_eps"`

	Pattern      string  `json:"hybrid_override_pattern"` // M, *, - or E for each layer
	MambaHeads   int     `json:"mamba_num_heads"`
	MambaHeadDim int     `json:"mamba_head_dim"`
	StateSize    int     `json:"ssm_state_size"`
	MambaGroups  int     `json:"n_groups"`
	MambaTaps    int     `json:"conv_kernel"`
	SharedSize   int     `json:"moe_shared_expert_intermediate_size"`
	PatternEps   float32 `json:"layer_norm_epsilon"`
}

// sigmoidGating is llama.cpp's number of a router with sigmoids.
const sigmoidGating = 2

// resolve sets the keys of config that these architectures have by other names.
func (c *config) resolve() {
	c.Experts = max(c.Experts, c.LocalExperts, c.Routed)
	c.FirstDense = max(c.FirstDense, c.Dense)
	c.NormEps = max(c.NormEps, c.ShortEps, c.PatternEps)
	if c.LatentRank > 0 {
		c.HeadDim, c.KVHeads = c.LatentRank+c.RopeDim, 1
	}
	if c.SharedIntermediate == 0 {
		c.SharedIntermediate = c.SharedSize
	}
	if len(c.Pattern) > c.Layers {
		c.Pattern = c.Pattern[:c.Layers]
	}
}

// hybridMetadata returns the entries that only these architectures have, without their prefix.
func (c *config) hybridMetadata() []entry {
	var list []entry
	set := func(key string, value any) { list = append(list, entry{key, value}) }
	if c.FirstDense > 0 {
		set("leading_dense_block_count", uint32(c.FirstDense))
	}
	if c.Scaling > 0 {
		set("expert_gating_func", uint32(sigmoidGating))
		set("expert_weights_scale", c.Scaling)
		set("expert_weights_norm", c.NormTopK)
	}
	if c.Shared > 0 {
		set("expert_shared_count", uint32(c.Shared))
	}
	if c.Groups > 1 {
		set("expert_group_count", uint32(c.Groups))
		set("expert_group_used_count", uint32(c.TopGroups))
	}
	if c.LatentRank > 0 {
		set("attention.q_lora_rank", uint32(c.QueryRank))
		set("attention.kv_lora_rank", uint32(c.LatentRank))
		set("attention.key_length_mla", uint32(c.NopeDim+c.RopeDim))
		set("attention.value_length_mla", uint32(c.ValueDim))
		set("rope.dimension_count", uint32(c.RopeDim))
	}
	if c.ShortTaps > 0 {
		set("shortconv.l_cache", uint32(c.ShortTaps))
	}
	if c.MambaHeads > 0 {
		set("attention.layer_norm_epsilon", c.PatternEps)
		set("ssm.conv_kernel", uint32(c.MambaTaps))
		set("ssm.inner_size", uint32(c.MambaHeads*c.MambaHeadDim))
		set("ssm.state_size", uint32(c.StateSize))
		set("ssm.time_step_rank", uint32(c.MambaHeads))
		set("ssm.group_count", uint32(c.MambaGroups))
	}
	return list
}

// kvHeads returns the heads of keys and values of each layer, and feedForward the size of its MLP
// or experts: a number, or one for each layer if they differ.
func (c *config) kvHeads() any {
	return c.perLayer(c.KVHeads, func(kind byte) bool { return kind == '*' })
}

func (c *config) feedForward() any {
	if c.Pattern == "" {
		return uint32(c.Intermediate)
	}
	return c.perLayer(c.Intermediate, func(kind byte) bool { return kind == 'E' || kind == '-' })
}

func (c *config) perLayer(n int, has func(kind byte) bool) any {
	kinds := []byte(c.Pattern)
	if c.ShortTaps > 0 {
		kinds = make([]byte, c.Layers)
		for i := range kinds {
			if c.LayerTypes[i] == "full_attention" {
				kinds[i] = '*'
			}
		}
	}
	if len(kinds) == 0 {
		return uint32(n)
	}
	list := make([]uint32, len(kinds))
	for i, kind := range kinds {
		if has(kind) {
			list[i] = uint32(n)
		}
	}
	return list
}

// sharedExpert adds the shared expert of n dimensions.
func (l *layout) sharedExpert(layer, n int, gate bool) {
	blk, m := names(layer)
	if gate {
		l.weight(blk+"ffn_gate_shexp", m+"mlp.shared_experts.gate_proj", l.Hidden, n)
	}
	l.weight(blk+"ffn_up_shexp", m+"mlp.shared_experts.up_proj", l.Hidden, n)
	l.weight(blk+"ffn_down_shexp", m+"mlp.shared_experts.down_proj", n, l.Hidden)
}

func (l *layout) deepseek2(layer int) {
	blk, m := names(layer)
	attention := m + "self_attn."
	l.norm(blk+"attn_norm", l.Hidden)
	l.weight(blk+"attn_q_a", attention+"q_a_proj", l.Hidden, l.QueryRank)
	l.norm(blk+"attn_q_a_norm", l.QueryRank)
	l.weight(blk+"attn_q_b", attention+"q_b_proj", l.QueryRank, l.Heads*(l.NopeDim+l.RopeDim))
	l.weight(blk+"attn_kv_a_mqa", attention+"kv_a_proj_with_mqa", l.Hidden,
		l.LatentRank+l.RopeDim)
	l.norm(blk+"attn_kv_a_norm", l.LatentRank)
	l.weight(blk+"attn_k_b", attention+"embed_q", l.NopeDim, l.LatentRank, l.Heads)
	l.weight(blk+"attn_v_b", attention+"unembed_out", l.LatentRank, l.ValueDim, l.Heads)
	l.weight(blk+"attn_output", attention+"o_proj", l.Heads*l.ValueDim, l.Hidden)
	if layer < l.FirstDense {
		l.mlp(layer)
		return
	}
	l.norm(blk+"ffn_norm", l.Hidden)
	l.experts(layer, "mlp.switch_mlp")
	l.plain(blk+"exp_probs_b.bias", l.Experts)
	l.sharedExpert(layer, l.Shared*l.ExpertIntermediate, true)
}

func (l *layout) lfm2MoE(layer int) {
	blk, m := names(layer)
	l.norm(blk+"attn_norm", l.Hidden)
	if l.LayerTypes[layer] == "full_attention" {
		l.attention(layer, false)
		l.headNorms(layer)
	} else {
		l.plain(blk+"shortconv.conv.weight", l.ShortTaps, l.Hidden)
		l.weight(blk+"shortconv.in_proj", m+"conv.in_proj", l.Hidden, 3*l.Hidden)
		l.weight(blk+"shortconv.out_proj", m+"conv.out_proj", l.Hidden, l.Hidden)
	}
	if layer < l.FirstDense {
		l.mlp(layer)
		return
	}
	l.norm(blk+"ffn_norm", l.Hidden)
	l.experts(layer, "feed_forward.switch_mlp")
	l.plain(blk+"exp_probs_b.bias", l.Experts)
}

func (l *layout) nemotronH(layer int) {
	blk, m := names(layer)
	l.norm(blk+"attn_norm", l.Hidden)
	switch l.Pattern[layer] {
	case 'M':
		inner, groups := l.MambaHeads*l.MambaHeadDim, l.MambaGroups*l.StateSize
		l.weight(blk+"ssm_in", m+"mixer.in_proj", l.Hidden, 2*inner+2*groups+l.MambaHeads)
		l.plain(blk+"ssm_conv1d.weight", l.MambaTaps, inner+2*groups)
		l.plain(blk+"ssm_conv1d.bias", inner+2*groups)
		l.constant(blk+"ssm_dt.bias", 1, l.MambaHeads)
		l.constant(blk+"ssm_a", -1, 1, l.MambaHeads)
		l.constant(blk+"ssm_d", 1, 1, l.MambaHeads)
		l.constant(blk+"ssm_norm.weight", 1, inner/l.MambaGroups, l.MambaGroups)
		l.weight(blk+"ssm_out", m+"mixer.out_proj", inner, l.Hidden)
	case '*':
		l.attention(layer, false)
	case 'E':
		l.plain(blk+"ffn_gate_inp.weight", l.Hidden, l.Experts)
		l.plain(blk+"exp_probs_b.bias", l.Experts)
		l.weight(blk+"ffn_up_exps", m+"mixer.switch_mlp.fc1", l.Hidden, l.ExpertIntermediate,
			l.Experts)
		l.weight(blk+"ffn_down_exps", m+"mixer.switch_mlp.fc2", l.ExpertIntermediate, l.Hidden,
			l.Experts)
		l.sharedExpert(layer, l.SharedIntermediate, false)
	}
}
