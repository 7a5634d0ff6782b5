package models

// Falcon-H1 has attention and Mamba-2 side by side in every layer: both read the same norm, and
// their outputs are added. Multipliers stand at the input and output of every part, of which those
// of linear parts are combined here.
//
// Sources: Falcon-H1 (2025); Hugging Face transformers, models/falcon_h1; mlx-lm,
// models/falcon_h1.py. Checkpoints: Falcon-H1 0.5B to 34B, MLX conversions included. Their weights,
// of which the convolutions are [C, taps, 1], have been multiplied already, except for those of the
// keys by key_multiplier and of the values by attention_in_multiplier: mlx-lm forgets these.

import (
	"math"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

const falconRopeTheta = 1e4 // the default of rope_theta

type falconH1Config struct {
	decoderConfig
	mambaConfig
	EmbeddingMultiplier    float64   `json:"embedding_multiplier"`
	LMHeadMultiplier       float64   `json:"lm_head_multiplier"`
	AttentionInMultiplier  float64   `json:"attention_in_multiplier"`
	AttentionOutMultiplier float64   `json:"attention_out_multiplier"`
	KeyMultiplier          float64   `json:"key_multiplier"`
	SSMInMultiplier        float64   `json:"ssm_in_multiplier"`
	SSMOutMultiplier       float64   `json:"ssm_out_multiplier"`
	SSMMultipliers         []float64 `json:"ssm_multipliers"` // of gate, x, B, C and dt
	MLPMultipliers         []float64 `json:"mlp_multipliers"` // of the gate and of the output

	MambaDSSM           int  `json:"mamba_d_ssm"` // 0: mamba_expand * hidden_size
	MambaExpand         int  `json:"mamba_expand"`
	MambaNHeads         int  `json:"mamba_n_heads"`
	MambaDHead          int  `json:"mamba_d_head"`
	MambaNGroups        int  `json:"mamba_n_groups"`
	MambaDState         int  `json:"mamba_d_state"`
	MambaDConv          int  `json:"mamba_d_conv"`
	MambaConvBias       bool `json:"mamba_conv_bias"`
	MambaProjBias       bool `json:"mamba_proj_bias"`
	ProjectorsBias      bool `json:"projectors_bias"` // of out_proj
	MambaRMSNorm        bool `json:"mamba_rms_norm"`
	MambaNormBeforeGate bool `json:"mamba_norm_before_gate"`
}

func newFalconH1Config() falconH1Config {
	c := falconH1Config{decoderConfig: newDecoderConfig(), mambaConfig: newMambaConfig(),
		EmbeddingMultiplier: 1, LMHeadMultiplier: 1, AttentionInMultiplier: 1,
		AttentionOutMultiplier: 1, KeyMultiplier: 1, SSMInMultiplier: 1, SSMOutMultiplier: 1,
		SSMMultipliers: []float64{1, 1, 1, 1, 1}, MLPMultipliers: []float64{1, 1},
		MambaExpand: 2, MambaNGroups: 1, MambaDState: 256, MambaDConv: 4, MambaConvBias: true}
	c.RMSNormEps, c.MaxPositionEmbeddings = 1e-5, 8192
	return c
}

func loadFalconH1(w *checkpoint.Weights) (Model, error) {
	c := newFalconH1Config()
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.norm = "final_layernorm"
	if shape := from.model.Shape("layers.0.mamba.conv1d.weight"); len(shape) == 3 && shape[2] == 1 {
		c.keepRest(from.ties(&c.decoderConfig))
	}
	o := c.llamaAttention()
	o.scale = float32(c.AttentionInMultiplier * c.AttentionInMultiplier * c.KeyMultiplier /
		math.Sqrt(float64(c.HeadDim)))
	var err error
	if o.rope, err = c.rope(w, checkpoint.RopeDefaults{Theta: falconRopeTheta}); err != nil {
		return nil, err
	}
	factors := c.factors(w)
	from.layer = func(_ int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return c.sideBySide(w, s, o, factors), c.attentionSpec()
	}
	m := from.load(w, &c.decoderConfig)
	m.sideStates = true
	for range m.layers {
		m.spec.Layers = append(m.spec.Layers, c.mambaSpec())
	}
	m.embedScale = float32(c.EmbeddingMultiplier)
	scale(m.norm, float32(c.LMHeadMultiplier)) // the head is linear
	return m, nil
}

// keepRest sets the multipliers that remain for a conversion of MLX. tied says that the embedding
// is the head, too.
func (c *falconH1Config) keepRest(tied bool) {
	if c.LMHeadMultiplier /= c.EmbeddingMultiplier; !tied {
		c.LMHeadMultiplier = 1
	}
	// The output of attention has the multiplier of the values, and the scores that of the keys.
	c.AttentionOutMultiplier, c.EmbeddingMultiplier = 1, 1
	c.KeyMultiplier /= c.AttentionInMultiplier * c.AttentionInMultiplier
	c.SSMInMultiplier, c.SSMOutMultiplier = 1, 1
	c.SSMMultipliers, c.MLPMultipliers = []float64{1, 1, 1, 1, 1}, []float64{1, 1}
}

func (c *falconH1Config) validate(w *checkpoint.Weights) error {
	if err := c.checkSiLU(w); err != nil {
		return err
	}
	if c.MambaRMSNorm && c.MambaNormBeforeGate {
		return unsupported(w, "mamba_norm_before_gate is true, expected false")
	}
	if c.AttentionBias || c.MambaProjBias || c.MLPBias || c.ProjectorsBias {
		return unsupported(w, "attention_bias %t, mamba_proj_bias %t, mlp_bias %t and "+
			"projectors_bias %t, expected false", c.AttentionBias, c.MambaProjBias, c.MLPBias,
			c.ProjectorsBias)
	}
	if len(c.SSMMultipliers) != 5 || len(c.MLPMultipliers) != 2 {
		return unsupported(w, "%d ssm_multipliers and %d mlp_multipliers, expected 5 and 2",
			len(c.SSMMultipliers), len(c.MLPMultipliers))
	}
	if c.MambaDSSM == 0 {
		c.MambaDSSM = c.MambaExpand * c.HiddenSize
	}
	if c.MambaDHead == 0 && c.MambaNHeads > 0 {
		c.MambaDHead = c.MambaDSSM / c.MambaNHeads
	}
	if c.MambaDSSM != c.MambaNHeads*c.MambaDHead {
		return unsupported(w, "mamba_d_ssm is %d, expected mamba_n_heads * mamba_d_head, %d",
			c.MambaDSSM, c.MambaNHeads*c.MambaDHead)
	}
	c.heads, c.headDim, c.groups = c.MambaNHeads, c.MambaDHead, c.MambaNGroups
	c.state, c.taps, c.convBias = c.MambaDState, c.MambaDConv, c.MambaConvBias
	c.noNorm, c.LayerTypes = !c.MambaRMSNorm, nil
	faults := append(c.resolve(), c.checkMamba(olderMambaKeys)...)
	faults = append(faults, positive("intermediate_size", c.IntermediateSize),
		positiveNumber("embedding_multiplier", &c.EmbeddingMultiplier),
		positiveNumber("lm_head_multiplier", &c.LMHeadMultiplier),
		positiveNumber("attention_in_multiplier", &c.AttentionInMultiplier),
		positiveNumber("key_multiplier", &c.KeyMultiplier))
	return validate(w.Config.ModelType, append(faults, c.fillLayerTypes()...)...)
}

// falconFactors are the multipliers that are applied while the model runs. Each may be none.
type falconFactors struct {
	attention, mamba, mamba2In, gate, down kernels.Tensor
}

func (c *falconH1Config) factors(w *checkpoint.Weights) (f falconFactors) {
	all := func(n int, factor float64) kernels.Tensor {
		if factor == 1 {
			return kernels.Tensor{}
		}
		return scale(ones(w, n), float32(factor))
	}
	f.attention = all(c.HiddenSize, c.AttentionInMultiplier*c.AttentionOutMultiplier)
	f.mamba = all(c.HiddenSize, c.SSMOutMultiplier)
	f.gate = all(c.IntermediateSize, c.MLPMultipliers[0])
	f.down = all(c.HiddenSize, c.MLPMultipliers[1])
	inner, state := c.heads*c.headDim, c.groups*c.state
	f.mamba2In = ones(w, 2*inner+2*state+c.heads)
	if f.mamba2In.IsNone() || f.mamba2In.Buffer.Bytes == nil {
		return f
	}
	values := f.mamba2In.Float32s()
	for i, n := range []int{inner, inner, state, state, c.heads} {
		for j := range values[:n] {
			values[j] = float32(c.SSMInMultiplier * c.SSMMultipliers[i])
		}
		values = values[n:]
	}
	return f
}

// sideBySide loads the layer s.
func (c *falconH1Config) sideBySide(w *checkpoint.Weights, s checkpoint.Scope, o attentionOptions,
	f falconFactors) *falconLayer {
	l := &falconLayer{factors: f,
		norm:      s.Vector("input_layernorm.weight", c.HiddenSize, 0),
		mlpNorm:   s.Vector("pre_ff_layernorm.weight", c.HiddenSize, 0),
		attention: c.attention(s.Sub("self_attn"), o),
		mamba:     c.mamba(s.Sub("mamba"), &c.decoderConfig),
		mlp:       loadMLP(s.Sub("feed_forward"), c.HiddenSize, c.IntermediateSize),
	}
	l.mamba.InScale = f.mamba2In
	if c.groups > 1 && !c.noNorm {
		l.mamba.Ones = ones(w, c.heads*c.headDim/c.groups)
	}
	return l
}

// falconLayer implements decoderLayer.
type falconLayer struct {
	norm, mlpNorm kernels.Tensor
	attention     *nn.Attention
	mamba         *nn.Mamba2
	mlp           nn.MLP
	factors       falconFactors
}

func (l *falconLayer) inputNorm() kernels.Tensor { return l.norm }

// forward computes attention and Mamba-2 of x. memory has the keys and values and the state.
func (l *falconLayer) forward(c *ops.Context, b *batch.Batch, h, x, _ kernels.Tensor,
	memory cache.Layer, eps float32) kernels.Tensor {
	y := multiplied(c, l.mamba.Forward(c, b, x, memory), l.factors.mamba)
	c.AddTo(y, y, multiplied(c, l.attention.Forward(c, b, x, memory), l.factors.attention))
	x = c.AddRMSNorm(h, y, l.mlpNorm, eps)
	if l.factors.gate.IsNone() {
		return multiplied(c, l.mlp.Forward(c, x), l.factors.down)
	}
	gate, up := c.Linear2(x, l.mlp.GateProj.Weight, l.mlp.UpProj.Weight)
	x = c.SiLUMul(multiplied(c, gate, l.factors.gate), up)
	return multiplied(c, l.mlp.DownProj.Forward(c, x), l.factors.down)
}

// multiplied multiplies the rows of x by factors [1, N] in place, unless factors is none.
func multiplied(c *ops.Context, x, factors kernels.Tensor) kernels.Tensor {
	if !factors.IsNone() {
		c.MulTo(x, x, factors)
	}
	return x
}
