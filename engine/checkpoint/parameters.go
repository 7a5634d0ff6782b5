package checkpoint

// Counting the parameters of a model, from the headers of its files. Most models have this number
// in their name. The count of a packed matrix is the number of elements that it encodes, without
// the scales and biases of groups.

import (
	"strings"

	"headroom/engine/safetensors"
)

const (
	weightSuffix = ".weight"
	scalesSuffix = ".scales"
	biasesSuffix = ".biases"

	// The suffixes of MXFP4 experts in Hugging Face checkpoints.
	blocksSuffix   = "_blocks"
	hfScalesSuffix = "_scales"
)

// Parameters returns the number of parameters in all tensors of the files, including tensors that
// are not loaded. For a random model, it counts the tensors that have been generated so far.
func (w *Weights) Parameters() int64 {
	if w.files == nil {
		return w.parameters
	}
	sum := int64(0)
	for _, name := range w.files.Names() {
		t, _ := w.files.Tensor(name)
		sum += w.parametersOf(t)
	}
	return sum
}

// parametersOf returns the number of parameters that a tensor stores.
func (w *Weights) parametersOf(t safetensors.Tensor) int64 {
	for _, suffix := range []string{scalesSuffix, biasesSuffix, globalSuffix} {
		if module, ok := strings.CutSuffix(t.Name, suffix); ok && w.isPacked(module) {
			return 0
		}
	}
	elements := int64(t.Elements())
	if n, ok := w.floatParameters(t); ok {
		return n
	}
	if n, ok := w.integerParameters(t); ok {
		return n
	}
	if module, ok := strings.CutSuffix(t.Name, hfScalesSuffix); ok {
		if _, packed := w.files.Tensor(module + blocksSuffix); packed {
			return 0
		}
	}
	if strings.HasSuffix(t.Name, blocksSuffix) && t.DType == safetensors.U8 {
		return 2 * elements
	}
	module, ok := strings.CutSuffix(t.Name, weightSuffix)
	if !ok || !w.isPacked(module) {
		return elements
	}
	if bits := w.packedBits(module, t); bits > 0 {
		return elements * 32 / int64(bits)
	}
	return elements
}

// isPacked reports whether a module's weight is packed.
func (w *Weights) isPacked(module string) bool {
	t, ok := w.files.Tensor(module + weightSuffix)
	_, scaled := w.files.Tensor(module + scalesSuffix)
	return ok && scaled && t.DType == safetensors.U32
}

// packedBits returns the bits per element of a packed module. If config.json does not state them,
// it computes them from the shapes of the weight and the scales. It returns 0 if that is not
// possible.
func (w *Weights) packedBits(module string, t safetensors.Tensor) int {
	const usualGroup = 64
	p := w.Config.Quantization.of(module)
	if p.Bits > 0 {
		return p.Bits
	}
	scales, _ := w.files.Tensor(module + scalesSuffix)
	group := p.Group
	switch {
	case scales.DType == safetensors.U8: // MXFP4 or MXFP8
		group = 32
	case group == 0:
		group = usualGroup
	}
	if n := len(scales.Shape); n == 0 || len(t.Shape) == 0 || scales.Shape[n-1] <= 0 {
		return 0
	}
	bits := t.Shape[len(t.Shape)-1] * 32 / group / scales.Shape[len(scales.Shape)-1]
	if scales.DType == safetensors.U8 && bits == 2 {
		return 4 // NVFP4, with groups of 16
	}
	return bits
}

// integerParameters returns the number of parameters that a tensor of another program stores. ok is
// false if it is none of them.
func (w *Weights) integerParameters(t safetensors.Tensor) (n int64, ok bool) {
	m := w.Config.Quantization.method
	if m == nil {
		return 0, false
	}
	if module, ok := strings.CutSuffix(t.Name, m.codes); ok {
		bits := w.Config.Quantization.of(module).Bits
		if bits == 0 {
			bits = w.Config.Quantization.Bits
		}
		return int64(t.Elements()) * 32 / int64(max(bits, 1)), true
	}
	for _, suffix := range m.parts {
		if module, ok := strings.CutSuffix(t.Name, suffix); ok {
			_, packed := w.files.Tensor(module + m.codes)
			return 0, packed
		}
	}
	return 0, false
}
