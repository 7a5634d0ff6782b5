package models

// Loading code that architectures share: checks of the sizes in config.json, which run before any
// memory of these sizes is allocated, and loaders of common modules.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/engine/problem"
	"headroom/kernels"
)

const (
	// maxDimension is the maximum of every size in a config.json. It is low enough that products of
	// a few sizes do not overflow.
	maxDimension = 1 << 22
	// maxLayers is the maximum number of layers. It limits the memory that is allocated per layer
	// before any tensor is found.
	maxLayers = 1 << 12
	// maxHeadDim is the maximum dimension of a head. It limits the table of rotary frequencies,
	// which is computed before any tensor is found.
	maxHeadDim = 1 << 12
)

// positive returns an error unless value is from 1 to maxDimension.
func positive(key string, value int) error {
	if value < 1 || value > maxDimension {
		return fmt.Errorf("%s is %d, expected 1 to %d", key, value, maxDimension)
	}
	return nil
}

// layers returns an error unless value is from 1 to maxLayers.
func layers(key string, value int) error {
	if value < 1 || value > maxLayers {
		return fmt.Errorf("%s is %d, expected 1 to %d", key, value, maxLayers)
	}
	return nil
}

// epsilon returns an error unless value is between 0 and 1.
func epsilon(key string, value float32) error {
	if !(value > 0 && value < 1) {
		return fmt.Errorf("%s is %g, expected a number between 0 and 1", key, value)
	}
	return nil
}

// atMost returns an error unless value is from 1 to limit.
func atMost(key string, value int, limitKey string, limit int) error {
	if value < 1 || value > limit {
		return fmt.Errorf("%s is %d, expected 1 to %s, which is %d", key, value, limitKey, limit)
	}
	return nil
}

// divides returns an error unless part and whole are positive and part divides whole.
func divides(partKey string, part int, wholeKey string, whole int) error {
	if err := errors.Join(positive(partKey, part), positive(wholeKey, whole)); err != nil {
		return err
	}
	if whole%part != 0 {
		return fmt.Errorf("%s of %d does not divide %s of %d", partKey, part, wholeKey, whole)
	}
	return nil
}

// validate joins the errors of a config into one Problem. It ignores nil, and returns nil if there
// is no error.
func validate(modelType string, faults ...error) error {
	err := errors.Join(faults...)
	if err == nil {
		return nil
	}
	p := problem.Wrap(problem.ModelBroken, err,
		"config.json does not describe a model of type "+strconv.Quote(modelType),
		"Download or convert the model again.")
	p.Why = strings.ReplaceAll(p.Why, "\n", "; ") // Join puts each fault on a line of its own
	return p
}

// unsupported returns the error for a variant of an architecture that Headroom cannot run.
func unsupported(w *checkpoint.Weights, format string, args ...any) error {
	return problem.New(problem.UnknownArchitecture,
		"Headroom cannot run this variant of "+strconv.Quote(w.Config.ModelType),
		fmt.Sprintf(format, args...), "Pick another model.")
}

// rope returns the rotary position embedding of w's config. Its pairs are those of RopeTraditional.
func (c *decoderConfig) rope(w *checkpoint.Weights, d checkpoint.RopeDefaults) (ops.Rope, error) {
	r, err := w.Config.Rope(d)
	if err != nil {
		return ops.Rope{}, err
	}
	rope, err := newRope(w, r, c.HeadDim)
	rope.Interleaved = c.RopeTraditional
	return rope, err
}

// newRope returns the rotary position embedding that r describes, with its frequencies in device
// memory.
func newRope(w *checkpoint.Weights, r checkpoint.RopeParameters, headDim int) (ops.Rope, error) {
	if headDim > maxHeadDim {
		return ops.Rope{}, unsupported(w, "head_dim is %d, expected at most %d", headDim,
			maxHeadDim)
	}
	f, err := r.InvFreq(headDim)
	if err != nil {
		return ops.Rope{}, err
	}
	return ops.Rope{InvFreq: kernels.FromFloat32s(w.Device, 1, len(f), f), Scale: r.Attention()},
		nil
}

// loadLinear loads the projection name of shape [n, k], and its bias if there is one.
func loadLinear(s checkpoint.Scope, name string, n, k int, bias bool) nn.Linear {
	l := nn.Linear{Weight: s.Linear(name, n, k)}
	if bias {
		l.Bias = s.Vector(name+".bias", n, 0)
	}
	return l
}

// mlpNames returns the names of the projections gate, up and down of the MLP s: those of Hugging
// Face, or the older ones of Meta.
func mlpNames(s checkpoint.Scope) (gate, up, down string) {
	if !s.Has("gate_proj.weight") && s.Has("w1.weight") {
		return "w1", "w3", "w2"
	}
	return "gate_proj", "up_proj", "down_proj"
}

// loadMLP loads the three projections of an MLP without biases.
func loadMLP(s checkpoint.Scope, hidden, intermediate int) nn.MLP {
	gate, up, down := mlpNames(s)
	return nn.MLP{
		GateProj: loadLinear(s, gate, intermediate, hidden, false),
		UpProj:   loadLinear(s, up, intermediate, hidden, false),
		DownProj: loadLinear(s, down, hidden, intermediate, false),
	}
}

// loadExperts loads the experts of the module s. It supports five layouts: stacked experts in
// switch_mlp, experts.switch_glu or experts (MLX), fused projections in experts.gate_up_proj
// (Hugging Face since 5.0), the same with transposed matrices (Qwen3-VL), fused projections in
// input_linear (Granite 4), and one module per expert.
func loadExperts(s checkpoint.Scope, experts, hidden, intermediate int) nn.MLP {
	m := loadStacks(s, experts, hidden, intermediate)
	s.Register("switch_mlp.gate_proj", m.GateProj.Weight) // as mlx-lm calls them in any layout
	s.Register("switch_mlp.up_proj", m.UpProj.Weight)
	s.Register("switch_mlp.down_proj", m.DownProj.Weight)
	return m
}

// loadStacks loads the experts of loadExperts.
func loadStacks(s checkpoint.Scope, experts, hidden, intermediate int) nn.MLP {
	switch {
	case s.Has("switch_mlp.gate_proj.weight"), s.Has("experts.switch_glu.gate_proj.weight"),
		s.Has("experts.gate_proj.weight"):
		for _, module := range []string{"switch_mlp", "experts.switch_glu", "experts"} {
			if s.Has(module + ".gate_proj.weight") {
				s = s.Prefixed(module + ".")
				break
			}
		}
		return nn.MLP{
			GateProj: nn.Linear{Weight: s.Experts("gate_proj", experts, intermediate, hidden)},
			UpProj:   nn.Linear{Weight: s.Experts("up_proj", experts, intermediate, hidden)},
			DownProj: nn.Linear{Weight: s.Experts("down_proj", experts, hidden, intermediate)},
		}
	case isTransposed(s, experts, hidden, intermediate):
		in := s.Transposed("experts.gate_up_proj", experts, hidden, intermediate, intermediate)
		out := s.Transposed("experts.down_proj", experts, intermediate, hidden)
		return nn.MLP{GateProj: nn.Linear{Weight: in[0]}, UpProj: nn.Linear{Weight: in[1]},
			DownProj: nn.Linear{Weight: out[0]}}
	case s.Has("input_linear.weight"):
		gate, up := s.Halves("input_linear.weight", experts, intermediate, hidden)
		return nn.MLP{GateProj: nn.Linear{Weight: gate}, UpProj: nn.Linear{Weight: up},
			DownProj: nn.Linear{Weight: s.Experts("output_linear", experts, hidden, intermediate)}}
	case s.Has("experts.gate_up_proj"):
		gate, up := s.Halves("experts.gate_up_proj", experts, intermediate, hidden)
		down := s.Plain("experts.down_proj", experts, hidden, intermediate)
		return nn.MLP{GateProj: nn.Linear{Weight: gate}, UpProj: nn.Linear{Weight: up},
			DownProj: nn.Linear{Weight: down}}
	}
	name := func(part string) func(int) string {
		return func(e int) string { return fmt.Sprintf("experts.%d.%s", e, part) }
	}
	gate, up, down := mlpNames(s.Sub("experts.0"))
	return nn.MLP{
		GateProj: nn.Linear{Weight: s.Stack(experts, name(gate), intermediate, hidden)},
		UpProj:   nn.Linear{Weight: s.Stack(experts, name(up), intermediate, hidden)},
		DownProj: nn.Linear{Weight: s.Stack(experts, name(down), hidden, intermediate)},
	}
}

// ones returns a tensor [1, n] of ones, or none after an error.
func ones(w *checkpoint.Weights, n int) kernels.Tensor {
	if w.Err() != nil {
		return kernels.Tensor{}
	}
	t := kernels.NewTensor(w.Device, kernels.F32, 1, n)
	if t.Buffer.Bytes == nil {
		return t
	}
	values := t.Float32s()
	for i := range values {
		values[i] = 1
	}
	return t
}

// scale multiplies the elements of t, which is not a view of the checkpoint, and returns t.
func scale(t kernels.Tensor, factor float32) kernels.Tensor {
	if t.IsNone() || t.Buffer.Bytes == nil {
		return t
	}
	values := t.Float32s()
	for i := range values {
		values[i] *= factor
	}
	return t
}

// isTransposed reports whether fused projections are [experts, in, out] and not [experts, out, in].
// The shapes of both together tell, even if hidden equals intermediate or twice that.
func isTransposed(s checkpoint.Scope, experts, hidden, intermediate int) bool {
	return slices.Equal(s.Shape("experts.gate_up_proj"),
		[]int{experts, hidden, 2 * intermediate}) &&
		slices.Equal(s.Shape("experts.down_proj"), []int{experts, intermediate, hidden})
}
