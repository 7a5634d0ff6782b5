package models

// Loading code that architectures share: checks of the sizes in config.json, before anything is
// allocated from them, and loaders of common modules.

import (
	"errors"
	"fmt"

	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/problem"
	"headroom/kernels"
)

const (
	// maxDimension bounds every size in a config.json, so that products of a few of them cannot
	// overflow.
	maxDimension = 1 << 22
	// maxLayers bounds what is allocated per layer before any tensor is found.
	maxLayers = 1 << 12
)

// positive returns an error unless value is a possible size.
func positive(key string, value int) error {
	if value < 1 || value > maxDimension {
		return fmt.Errorf("%s is %d, expected 1 to %d", key, value, maxDimension)
	}
	return nil
}

// layers returns an error unless value is a possible number of layers.
func layers(key string, value int) error {
	if value < 1 || value > maxLayers {
		return fmt.Errorf("%s is %d, expected 1 to %d", key, value, maxLayers)
	}
	return nil
}

// epsilon returns an error unless value is between 0 and 1.
func epsilon(key string, value float32) error {
	if !(value > 0 && value < 1) {
		return fmt.Errorf("%s is %g, expected a small positive number", key, value)
	}
	return nil
}

// divides returns an error unless part and whole are possible sizes and part divides whole.
func divides(partKey string, part int, wholeKey string, whole int) error {
	if err := errors.Join(positive(partKey, part), positive(wholeKey, whole)); err != nil {
		return err
	}
	if whole%part != 0 {
		return fmt.Errorf("%s of %d does not divide %s of %d", partKey, part, wholeKey, whole)
	}
	return nil
}

// validate joins the faults of a config, nil entries ignored, into one problem.
func validate(modelType string, faults ...error) error {
	if err := errors.Join(faults...); err != nil {
		return problem.Wrap(problem.ModelBroken, err,
			"config.json does not describe a "+modelType+" model", "Download the model again.")
	}
	return nil
}

// invFreq returns the rotary frequencies of the config of w on the device, [1, rotary/2]. theta is
// the default of rope_theta.
func invFreq(w *checkpoint.Weights, theta float64, headDim int) (kernels.Tensor, error) {
	r, err := w.Config.Rope(theta)
	if err != nil {
		return kernels.Tensor{}, err
	}
	return ropeFreq(w, r, headDim)
}

// ropeFreq returns the rotary frequencies of r on the device, [1, rotary/2].
func ropeFreq(
	w *checkpoint.Weights, r checkpoint.RopeParameters, headDim int,
) (kernels.Tensor, error) {
	f, err := r.InvFreq(headDim)
	if err != nil {
		return kernels.Tensor{}, err
	}
	return kernels.FromFloat32s(w.Device, 1, len(f), f), nil
}

// loadMLP loads the three projections of an MLP.
func loadMLP(s checkpoint.Scope, hidden, intermediate int) nn.MLP {
	return nn.MLP{
		GateProj: s.Linear("gate_proj", intermediate, hidden),
		UpProj:   s.Linear("up_proj", intermediate, hidden),
		DownProj: s.Linear("down_proj", hidden, intermediate),
	}
}

// loadExperts loads the experts of the MLP s from any of three layouts: stacked as switch_mlp
// (MLX), fused as experts.gate_up_proj (Hugging Face since 5.0), or one module per expert.
func loadExperts(s checkpoint.Scope, experts, hidden, intermediate int) nn.MLP {
	switch {
	case s.Has("switch_mlp.gate_proj.weight"):
		s = s.Sub("switch_mlp")
		return nn.MLP{
			GateProj: s.Experts("gate_proj", experts, intermediate, hidden),
			UpProj:   s.Experts("up_proj", experts, intermediate, hidden),
			DownProj: s.Experts("down_proj", experts, hidden, intermediate),
		}
	case s.Has("experts.gate_up_proj"):
		gate, up := s.Halves("experts.gate_up_proj", experts, intermediate, hidden)
		return nn.MLP{GateProj: gate, UpProj: up,
			DownProj: s.Plain("experts.down_proj", experts, hidden, intermediate)}
	}
	name := func(part string) func(int) string {
		return func(e int) string { return fmt.Sprintf("experts.%d.%s", e, part) }
	}
	return nn.MLP{
		GateProj: s.Stack(experts, name("gate_proj"), intermediate, hidden),
		UpProj:   s.Stack(experts, name("up_proj"), intermediate, hidden),
		DownProj: s.Stack(experts, name("down_proj"), hidden, intermediate),
	}
}
