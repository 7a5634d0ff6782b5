package models

// Mamba-2 in a layer: the keys of config.json that say its sizes, under names of their own in each
// architecture, and the loading of its weights.

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/nn"
	"headroom/engine/ops"
)

// mambaConfig holds the sizes of Mamba-2. An architecture sets those without a key.
type mambaConfig struct {
	// TimeStepLimit has the least and the largest dt, by default 0 and infinity, as in
	// transformers. mlx-lm has 0.001 and 100 in some architectures.
	TimeStepLimit []json.RawMessage `json:"time_step_limit"`

	heads, headDim, groups, state, taps int
	convBias, inBias, outBias, noNorm   bool
	dtMin, dtMax                        float32
}

func newMambaConfig() mambaConfig { return mambaConfig{dtMax: math.MaxFloat32} }

// resolveTimeStep sets the limits of dt.
func (c *mambaConfig) resolveTimeStep() error {
	if len(c.TimeStepLimit) == 0 {
		return nil
	}
	var given []string
	for _, limit := range c.TimeStepLimit {
		given = append(given, modelfile.Excerpt(string(limit)))
	}
	bad := fmt.Errorf("time_step_limit is [%s], expected two numbers of at least 0, in ascending "+
		"order", modelfile.Excerpt(strings.Join(given, ", ")))
	if len(c.TimeStepLimit) != 2 {
		return bad
	}
	for i, at := range []*float32{&c.dtMin, &c.dtMax} {
		if !readLimit(c.TimeStepLimit[i], at) {
			return bad
		}
	}
	if !(c.dtMin >= 0 && c.dtMin <= c.dtMax) {
		return bad
	}
	return nil
}

// readLimit sets limit to a number in JSON and reports whether it is one. Infinity, which JSON does
// not have, is a number beyond all limits from modelfile.Standard, a string from other writers, and
// {"__float__": "Infinity"} from transformers 5.
func readLimit(text json.RawMessage, limit *float32) bool {
	if modelfile.Decode("", text, limit) == nil {
		*limit = min(*limit, math.MaxFloat32)
		return true
	}
	var named struct {
		Float string `json:"__float__"`
	}
	if json.Unmarshal(text, &named.Float) != nil && json.Unmarshal(text, &named) != nil ||
		named.Float != "Infinity" {
		return false
	}
	*limit = math.MaxFloat32
	return true
}

// mambaKeys are the keys of the sizes in config.json.
type mambaKeys struct{ groups, heads, headDim, state, taps string }

// olderMambaKeys are those of Granite 4 and Falcon-H1.
var olderMambaKeys = mambaKeys{"mamba_n_groups", "mamba_n_heads", "mamba_d_head", "mamba_d_state",
	"mamba_d_conv"}

// checkMamba returns an error, or nil, for each size.
func (c *mambaConfig) checkMamba(k mambaKeys) []error {
	faults := []error{divides(k.groups, c.groups, k.heads, c.heads),
		positive(k.headDim, c.headDim)}
	if c.state < 1 || c.state > ops.MaxStateCols {
		faults = append(faults, fmt.Errorf("%s is %d, expected 1 to %d", k.state, c.state,
			ops.MaxStateCols))
	}
	if c.taps < 2 || c.taps > ops.MaxTaps {
		faults = append(faults, fmt.Errorf("%s is %d, expected 2 to %d", k.taps, c.taps,
			ops.MaxTaps))
	}
	return faults
}

// channels returns C, the number of channels of the convolution over x, B and C.
func (c *mambaConfig) channels() int { return c.heads*c.headDim + 2*c.groups*c.state }

// mambaSpec returns the state memory of Mamba-2.
func (c *mambaConfig) mambaSpec() cache.LayerSpec {
	return cache.LayerSpec{ConvValues: (c.taps - 1) * c.channels(), ConvChannels: c.channels(),
		StateValues: c.heads * c.headDim * c.state, StateRow: c.state}
}

// mamba loads the Mamba-2 s.
func (c *mambaConfig) mamba(s checkpoint.Scope, d *decoderConfig) *nn.Mamba2 {
	inner := c.heads * c.headDim
	l := &nn.Mamba2{
		InProj:  loadLinear(s, "in_proj", inner+c.channels()+c.heads, d.HiddenSize, c.inBias),
		OutProj: loadLinear(s, "out_proj", d.HiddenSize, inner, c.outBias),
		Conv1D:  s.Matrix("conv1d.weight", c.channels(), c.taps, 0),
		ALog:    s.Vector("A_log", c.heads, 0),
		DtBias:  s.Vector("dt_bias", c.heads, 0),
		D:       s.Vector("D", c.heads, 0),
		SSMShape: ops.SSMShape{Heads: c.heads, Groups: c.groups, Dim: c.headDim, N: c.state,
			DtMin: c.dtMin, DtMax: c.dtMax},
		Eps: d.RMSNormEps,
	}
	if !c.noNorm {
		l.Norm = s.Vector("norm.weight", inner, 0)
	}
	if c.convBias {
		l.ConvBias = s.Vector("conv1d.bias", c.channels(), 0)
	}
	return l
}
