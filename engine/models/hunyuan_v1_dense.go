package models

// Hunyuan has the layers of Llama, and norms of the heads of queries and keys after their rotation.
// The base of the rotation grows with alpha, a key of rope_scaling.
//
// Sources: Hugging Face transformers, models/hunyuan_v1_dense; mlx-lm, models/hunyuan_v1_dense.py.
// Checkpoints: Hunyuan 0.5B to 7B and Hunyuan-MT, MLX conversions included.

import (
	"math"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
)

const hunyuanRopeTheta = 1e4 // the default of rope_theta

type hunyuanConfig struct {
	decoderConfig
	UseQKNorm bool `json:"use_qk_norm"`
}

func loadHunyuan(w *checkpoint.Weights) (Model, error) {
	c := hunyuanConfig{decoderConfig: newDecoderConfig(), UseQKNorm: true}
	c.RMSNormEps, c.MaxPositionEmbeddings = 1e-5, 2048
	if err := c.read(w, &c); err != nil {
		return nil, err
	}
	o := c.llamaAttention()
	o.headNorm, o.normRotated = c.UseQKNorm, c.UseQKNorm
	o.names = attentionNames{qNorm: "query_layernorm.weight", kNorm: "key_layernorm.weight"}
	var err error
	if o.rope, err = c.hunyuanRope(w); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return c.layer(s, o), c.memory(i)
	}
	return from.load(w, &c.decoderConfig), nil
}

// hunyuanRope returns the rope with the base theta * alpha^(d/(d-2)) for heads of d dimensions.
func (c *hunyuanConfig) hunyuanRope(w *checkpoint.Weights) (ops.Rope, error) {
	type alpha struct {
		Alpha float64 `json:"alpha"`
	}
	var keys struct {
		Scaling    alpha `json:"rope_scaling"`
		Parameters alpha `json:"rope_parameters"`
	}
	if err := w.Config.Decode(&keys); err != nil {
		return ops.Rope{}, err
	}
	r, err := w.Config.Rope(checkpoint.RopeDefaults{Theta: hunyuanRopeTheta})
	if err != nil {
		return ops.Rope{}, err
	}
	if a := max(keys.Scaling.Alpha, keys.Parameters.Alpha); a > 0 && c.HeadDim > 2 {
		d := float64(c.HeadDim)
		r.Theta *= math.Pow(a, d/(d-2))
	}
	return newRope(w, r, c.HeadDim)
}
