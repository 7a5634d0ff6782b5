package convert

// Falcon H1 multiplies its activations by constants of config.json. mlx-lm folds them into the
// weights of an original, but that of the keys.

import (
	"strings"

	"headroom/kernels"
	"headroom/kernels/quantize"
)

// falconKeys are the constants in config.json.
type falconKeys struct {
	Embedding    float64   `json:"embedding_multiplier"`
	Head         float64   `json:"lm_head_multiplier"`
	AttentionIn  float64   `json:"attention_in_multiplier"`
	AttentionOut float64   `json:"attention_out_multiplier"`
	SSMIn        float64   `json:"ssm_in_multiplier"`
	SSMOut       float64   `json:"ssm_out_multiplier"`
	SSM          []float64 `json:"ssm_multipliers"` // z, x, B, C and dt
	MLP          []float64 `json:"mlp_multipliers"` // gate and down

	SSMSize int `json:"mamba_d_ssm"`
	Groups  int `json:"mamba_n_groups"`
	State   int `json:"mamba_d_state"`
	Heads   int `json:"mamba_n_heads"`
}

// foldFalcon multiplies the weights of an original, which its convolutions tell.
func foldFalcon(m *mapping) {
	conv := m.tensors["model.layers.0.mamba.conv1d.weight"]
	if conv == nil || len(conv.shape) != 3 || conv.shape[2] <= conv.shape[1] {
		return
	}
	k := falconKeys{Embedding: 1, Head: 1, AttentionIn: 1, AttentionOut: 1, SSMIn: 1, SSMOut: 1,
		SSM: []float64{1, 1, 1, 1, 1}, MLP: []float64{1, 1}}
	if err := m.config.Decode(&k); err != nil {
		m.err = err
		return
	}
	if len(k.SSM) != 5 || len(k.MLP) != 2 {
		m.failf("config.json has %d ssm_multipliers and %d mlp_multipliers, expected 5 and 2",
			len(k.SSM), len(k.MLP))
		return
	}
	for name, t := range m.tensors {
		if t.isRaw {
			continue
		}
		dtype := kernels.BF16
		if t.values[0].Packing == "" {
			dtype = floatTypes[t.values[0].Tensor.DType]
		}
		if factor := k.factor(name); factor != 1 {
			f := rounded(float32(factor), dtype)
			t.scale = func(int) float32 { return f }
		}
		if strings.HasSuffix(name, ".in_proj.weight") {
			in := rounded(float32(k.SSMIn), dtype)
			t.scale = func(row int) float32 {
				return rounded(in*rounded(float32(k.SSM[k.part(row)]), dtype), dtype)
			}
		}
	}
}

// factor returns what the tensor called name is multiplied by, but in_proj.
func (k *falconKeys) factor(name string) float64 {
	for _, c := range []struct {
		suffix string
		factor float64
	}{
		{"embed_tokens.weight", k.Embedding}, {"lm_head.weight", k.Head},
		{"q_proj.weight", k.AttentionIn}, {"k_proj.weight", k.AttentionIn},
		{"o_proj.weight", k.AttentionOut}, {"out_proj.weight", k.SSMOut},
		{"gate_proj.weight", k.MLP[0]}, {"down_proj.weight", k.MLP[1]},
	} {
		if strings.HasSuffix(name, c.suffix) {
			return c.factor
		}
	}
	return 1
}

// part returns which of the five parts of in_proj a row belongs to.
func (k *falconKeys) part(row int) int {
	part := 0
	for _, size := range []int{k.SSMSize, k.SSMSize, k.Groups * k.State, k.Groups * k.State} {
		if row < size {
			break
		}
		row -= size
		part++
	}
	return part
}

// rounded returns v rounded to a type.
func rounded(v float32, dtype kernels.DType) float32 {
	var b [4]byte
	var values [1]float32
	quantize.PutFloat(b[:], 0, v, dtype)
	decode(values[:], b[:dtype.Size()], dtype)
	return values[0]
}
