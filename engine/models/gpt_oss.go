package models

// gpt-oss has layers of grouped-query attention and a mixture of experts, with biases in all
// projections. Attention alternates between a sliding window and the full context. Every head has a
// sink: a logit that takes part in the softmax without a value. The experts' activation is a
// clamped SwiGLU.
//
// Sources: OpenAI, gpt-oss-120b & gpt-oss-20b Model Card (2025); Hugging Face transformers,
// models/gpt_oss; mlx-lm, models/gpt_oss.py. Checkpoints: gpt-oss-20b and gpt-oss-120b. The experts
// of Hugging Face originals are MXFP4 blocks, or plain matrices [E, in, out] in dequantized copies.
// Both have the rows of gate and up interleaved. MLX conversions separate them.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

const (
	gptOSSRopeTheta = 150000 // the default of rope_theta
	gptOSSAlpha     = 1.702  // of the activation
)

type gptOSSConfig struct {
	decoderConfig
	mixtureConfig
	SwigluLimit float32 `json:"swiglu_limit"`
}

func newGPTOSSConfig() gptOSSConfig {
	c := gptOSSConfig{decoderConfig: newDecoderConfig(), SwigluLimit: 7}
	c.RMSNormEps, c.HeadDim, c.SlidingWindow = 1e-5, 64, 128
	return c
}

// read reads config.json. Old configs have no layer_types.
func (c *gptOSSConfig) read(w *checkpoint.Weights) error {
	if err := w.Config.Decode(c); err != nil {
		return err
	}
	if len(c.LayerTypes) == 0 {
		c.LayerTypes, _ = c.layerTypes(nil, 2, slidingAttention)
	}
	if err := c.check(w); err != nil {
		return err
	}
	c.MoEIntermediateSize = c.IntermediateSize
	c.rename("moe_intermediate_size", "intermediate_size")
	c.localExperts(&c.decoderConfig)
	faults := c.mixtureConfig.resolve(&c.decoderConfig)
	if c.NumExperts == 0 { // otherwise resolve has checked it
		faults = append(faults, positive(c.key("num_experts"), 0))
	}
	if !(c.SwigluLimit > 0) {
		return unsupported(w, "swiglu_limit is %g, expected a positive number", c.SwigluLimit)
	}
	return validate(w.Config.ModelType, faults...)
}

func loadGPTOSS(w *checkpoint.Weights) (Model, error) {
	c := newGPTOSSConfig()
	if err := c.read(w); err != nil {
		return nil, err
	}
	rope, err := c.rope(w, checkpoint.RopeDefaults{Theta: gptOSSRopeTheta})
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return c.layer(w, s, rope), c.memory(i)
	}
	return from.load(w, &c.decoderConfig), nil
}

func (c *gptOSSConfig) layer(w *checkpoint.Weights, s checkpoint.Scope,
	rope ops.Rope) *transformerLayer {
	mlp := s.Sub("mlp")
	m := &nn.ClampedMoE{
		Router: loadLinear(mlp, "router", c.NumExperts, c.HiddenSize, true),
		TopK:   c.NumExpertsPerTok,
		Limit:  c.SwigluLimit,
		Alpha:  gptOSSAlpha,
	}
	c.experts(w, mlp.Sub("experts"), m)
	return &transformerLayer{
		norms: c.preNorms(s, 0),
		mlp:   m,
		mixer: c.attention(s.Sub("self_attn"), attentionOptions{rope: rope, qkvBias: true,
			outputBias: true, sinks: true}),
	}
}

// experts loads the experts s into m, in one of the three layouts.
func (c *gptOSSConfig) experts(w *checkpoint.Weights, s checkpoint.Scope, m *nn.ClampedMoE) {
	e, hidden, inner := c.NumExperts, c.HiddenSize, c.IntermediateSize
	if s.Has("gate_proj.weight") { // MLX
		load := func(name string, n, k int) nn.Linear {
			return nn.Linear{Weight: s.Experts(name, e, n, k),
				Bias: s.Matrix(name+".bias", e, n, 0)}
		}
		m.GateProj, m.UpProj = load("gate_proj", inner, hidden), load("up_proj", inner, hidden)
		m.DownProj = load("down_proj", hidden, inner)
		return
	}
	load := func(name string, e, n, k int) *kernels.Weight {
		if s.Has("gate_up_proj_blocks") {
			return s.Blocks(name, e, n, k)
		}
		return s.Transposed(name, e, k, n)[0]
	}
	m.GateProj.Weight, m.UpProj.Weight = s.Alternate(load("gate_up_proj", e, 2*inner, hidden))
	m.GateProj.Bias, m.UpProj.Bias = alternateColumns(w, s.Matrix("gate_up_proj_bias", e, 2*inner,
		0))
	m.DownProj = nn.Linear{Weight: load("down_proj", e, hidden, inner),
		Bias: s.Matrix("down_proj_bias", e, hidden, 0)}
}

// alternateColumns returns copies of the even and of the odd columns of t.
func alternateColumns(w *checkpoint.Weights, t kernels.Tensor) (even, odd kernels.Tensor) {
	if w.Err() != nil {
		return t, t
	}
	even = kernels.NewTensor(w.Device, kernels.F32, t.Rows, t.Cols/2)
	odd = kernels.NewTensor(w.Device, kernels.F32, t.Rows, t.Cols/2)
	if even.Buffer.Bytes == nil {
		return even, odd
	}
	for i, x := range t.Float32s() {
		if i%2 == 0 {
			even.Float32s()[i/2] = x
		} else {
			odd.Float32s()[i/2] = x
		}
	}
	return even, odd
}
