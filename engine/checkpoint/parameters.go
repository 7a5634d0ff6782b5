package checkpoint

// How many parameters a model has, from the headers of its files: the number that its makers put
// into its name. A packed matrix counts what it stands for; scales and biases of its groups are
// part of the packing and count nothing.

import (
	"strings"

	"headroom/engine/safetensors"
)

const (
	weightSuffix = ".weight"
	scalesSuffix = ".scales"
	biasesSuffix = ".biases"
)

// Parameters counts all tensors in the files, used or not. A model that is made up has those that
// were handed out.
func (w *Weights) Parameters() int64 {
	if w.files == nil {
		return w.parameters
	}
	sum := int64(0)
	for _, name := range w.files.Names() {
		t, _ := w.files.Tensor(name)
		sum += w.stands(t)
	}
	return sum
}

// stands is how many parameters a tensor stands for.
func (w *Weights) stands(t safetensors.Tensor) int64 {
	for _, suffix := range []string{scalesSuffix, biasesSuffix} {
		if module, ok := strings.CutSuffix(t.Name, suffix); ok && w.isPacked(module) {
			return 0
		}
	}
	elements := int64(t.Elements())
	module, ok := strings.CutSuffix(t.Name, weightSuffix)
	if !ok || !w.isPacked(module) {
		return elements
	}
	if bits := w.packedBits(module, t); bits > 0 {
		return elements * 32 / int64(bits)
	}
	return elements
}

// isPacked tells whether a module's weight is words of codes.
func (w *Weights) isPacked(module string) bool {
	t, ok := w.files.Tensor(module + weightSuffix)
	_, scaled := w.files.Tensor(module + scalesSuffix)
	return ok && scaled && t.DType == safetensors.U32
}

// packedBits is how many bits a code of the module has: by config.json, or by how many words a
// group of scales is for; 0: unknown.
func (w *Weights) packedBits(module string, t safetensors.Tensor) int {
	const usualGroup = 64
	p := w.Config.Quantization.of(module)
	if p.Bits > 0 {
		return p.Bits
	}
	scales, _ := w.files.Tensor(module + scalesSuffix)
	if scales.DType == safetensors.U8 { // MXFP4
		return 4
	}
	group := p.Group
	if group == 0 {
		group = usualGroup
	}
	if n := len(scales.Shape); n == 0 || len(t.Shape) == 0 || scales.Shape[n-1] <= 0 {
		return 0
	}
	return t.Shape[len(t.Shape)-1] * 32 / (scales.Shape[len(scales.Shape)-1] * group)
}
