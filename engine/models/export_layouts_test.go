package models

// MTPNorms is the effective norm weights of a Qwen3.5 model's MTP block by name; nil if it has no
// such block.
func MTPNorms(m Model) map[string][]float32 {
	q, ok := m.(*qwen35)
	if !ok || q.mtp == nil {
		return nil
	}
	return map[string][]float32{
		"pre_fc_norm_embedding.weight":             q.mtp.preFCNormEmbedding.Float32s(),
		"pre_fc_norm_hidden.weight":                q.mtp.preFCNormHidden.Float32s(),
		"norm.weight":                              q.mtp.norm.Float32s(),
		"layers.0.input_layernorm.weight":          q.mtp.layer.inputLayernorm.Float32s(),
		"layers.0.post_attention_layernorm.weight": q.mtp.layer.postAttentionLayernorm.Float32s(),
		"layers.0.self_attn.q_norm.weight":         q.mtp.layer.selfAttn.QNorm.Float32s(),
		"layers.0.self_attn.k_norm.weight":         q.mtp.layer.selfAttn.KNorm.Float32s(),
	}
}
