package checkpoint

// The tensors of a checkpoint as numbers, whatever packs them: what a conversion reads.

import (
	"slices"
	"strings"

	"headroom/engine/safetensors"
	"headroom/kernels"
)

// Values is a tensor of a checkpoint without its packing.
type Values struct {
	Name  string // of the tensor of numbers, such as "model.layers.0.mlp.up_proj.weight"
	Shape []int
	// Packing says how the values are packed, such as "affine", "GPTQ" or "FP8"; "": they are not.
	Packing string
	// Tensor has the values if they are not packed.
	Tensor safetensors.Tensor
	// Codes and Scales are those of blocks in MXFP4, as the original gpt-oss has them: bytes whose
	// order is that of MLX.
	Codes, Scales safetensors.Tensor

	module string // for packed ones; without the suffix
}

// Values returns the tensors of the files as numbers, sorted by name. Each packed module is one of
// them, and scales of activations are none. It returns nil for a random model.
func (w *Weights) Values() ([]Values, error) {
	if w.files == nil {
		return nil, nil
	}
	root, parts := Scope{w: w}, map[string]bool{} // names that belong to a packed module
	var all []Values
	for _, name := range w.files.Names() {
		t, _ := w.files.Tensor(name)
		v, tensors := root.packedValues(t)
		if v == nil {
			continue
		}
		if v.Shape == nil {
			return nil, root.mismatch("tensor %s is %s, and the packing %s has no such codes", name,
				kindOf(t), v.Packing)
		}
		for _, part := range tensors {
			parts[part] = true
		}
		all = append(all, *v)
	}
	for _, name := range w.files.Names() {
		t, _ := w.files.Tensor(name)
		if parts[name] || isActivationScale(name) {
			continue
		}
		if _, known := dtypes[t.DType]; !known && typeMethods[t.DType] != "" {
			return nil, unknownType(t)
		}
		all = append(all, Values{Name: name, Shape: t.Shape, Tensor: t})
	}
	slices.SortFunc(all, func(a, b Values) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func isActivationScale(name string) bool {
	return slices.ContainsFunc(activationScales, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}

// packedValues returns the packed module of which t has the codes, and the names of its tensors.
// Shape is nil if the codes have the wrong shape. It returns nil if t has no codes.
func (s Scope) packedValues(t safetensors.Tensor) (v *Values, tensors []string) {
	if module, ok := strings.CutSuffix(t.Name, blocksSuffix); ok && t.DType == safetensors.U8 {
		v = &Values{Name: module, Packing: kernels.MXFP4.String(), module: module}
		if n := len(t.Shape); n == 4 && t.Shape[3] == 16 {
			v.Shape = []int{t.Shape[0], t.Shape[1], t.Shape[2] * 32}
		}
		v.Codes = t
		v.Scales, _ = s.w.files.Tensor(module + hfScalesSuffix)
		return v, []string{t.Name, module + hfScalesSuffix}
	}
	q := &s.w.Config.Quantization
	if m := q.method; m != nil {
		if module, ok := strings.CutSuffix(t.Name, m.codes); ok && s.hasCodes(module) {
			v = &Values{Name: module + weightSuffix, Packing: m.name, module: module}
			v.Shape = s.integersShape(module, t)
			tensors = []string{t.Name}
			for _, suffix := range m.parts {
				tensors = append(tensors, module+suffix)
			}
			return v, tensors
		}
	}
	for _, suffix := range []string{weightSuffix, packedSuffix} {
		module, ok := strings.CutSuffix(t.Name, suffix)
		if !ok {
			continue
		}
		if p := s.floatPacking(module); p != nil && p.codes == suffix {
			v = &Values{Name: module + weightSuffix, Packing: p.method, module: module}
			if perByte, _ := isFloatCodes(t); len(t.Shape) == 2 {
				v.Shape = []int{t.Shape[0], t.Shape[1] * perByte}
			}
			tensors = []string{t.Name}
			for _, suffix := range slices.Concat(floatScales, activationScales) {
				tensors = append(tensors, module+suffix)
			}
			return v, tensors
		}
	}
	module, ok := strings.CutSuffix(t.Name, weightSuffix)
	if !ok || !s.w.isPacked(module) {
		return nil, nil
	}
	v = &Values{Name: t.Name, Packing: s.w.modeOf(module).String(), module: module}
	if bits, n := s.w.packedBits(module, t), len(t.Shape); bits > 0 && n > 1 {
		v.Shape = slices.Clone(t.Shape)
		v.Shape[n-1] = t.Shape[n-1] * 32 / bits
	}
	return v, []string{t.Name, module + scalesSuffix, module + biasesSuffix, module + globalSuffix}
}

// modeOf returns the mode of a module that MLX has packed.
func (w *Weights) modeOf(module string) kernels.Mode {
	scales, _ := w.files.Tensor(module + scalesSuffix)
	t, _ := w.files.Tensor(module + weightSuffix)
	mode := kernels.ModeOf(w.packedBits(module, t), dtypes[scales.DType])
	if n := len(scales.Shape); mode == kernels.MXFP4 && n > 0 && scales.Shape[n-1] > 0 &&
		t.Shape[n-1]*8/scales.Shape[n-1] == nvfp4Group {
		mode = kernels.NVFP4
	}
	return mode
}

// integersShape returns the shape of a module of which t has the codes of integers, or nil.
func (s Scope) integersShape(module string, t safetensors.Tensor) []int {
	q := &s.w.Config.Quantization
	bits := q.of(s.path + module).Bits
	if bits == 0 {
		bits = q.Bits
	}
	if len(t.Shape) != 2 || bits == 0 {
		return nil
	}
	switch n, k := t.Shape[0], t.Shape[1]; q.method.codes {
	case packedSuffix:
		return []int{n, k * 32 / bits}
	default:
		if q.method.name == "AWQ" {
			return []int{k * 32 / bits, n}
		}
		return []int{k, n * 32 / bits}
	}
}

// Unpack opens packed values: row i of the result, with E*N rows, is row i of the values in the
// order of memory. Order, if it has one, is of its columns; see UnpackRow. Plain values are views
// of the file. The result is valid until w is closed. It must not run at the same time as another
// method of w. Errors are Problems.
func (w *Weights) Unpack(v *Values) (*kernels.Weight, error) {
	s, n := Scope{w: w}, len(v.Shape)
	experts, rows, cols := 1, v.Shape[n-2], v.Shape[n-1]
	for _, d := range v.Shape[:n-2] {
		experts *= d
	}
	var x *kernels.Weight
	switch {
	case v.Name == v.module:
		x = s.Blocks(v.module, experts, rows, cols)
	case experts > 1 || n > 2:
		x = s.viewExperts(v.module, experts, rows, cols)
	default:
		x = s.View(v.module, rows, cols)
	}
	if err := w.Err(); err != nil {
		return nil, err
	}
	return x, nil
}

// UnpackRow writes row i of the values that w holds to dst, in the order of inputs. sorted is
// memory for a row.
func UnpackRow(w *kernels.Weight, dst, sorted []float32, i int) {
	if w.Order.IsNone() {
		w.DequantizeRow(dst, i)
		return
	}
	w.DequantizeRow(sorted, i)
	for j, to := range w.Order.Int32s() {
		dst[to] = sorted[j]
	}
}

// FileOf returns the file of the plain tensor called name, or nil.
func (w *Weights) FileOf(name string) *safetensors.File {
	if w.files == nil {
		return nil
	}
	return w.files.FileOf(name)
}

// AreFinite reports whether all elements of a float type are finite. b has whole elements.
func AreFinite(dtype safetensors.DType, b []byte) bool {
	w := Weights{}
	return !w.notFiniteOf(safetensors.Tensor{DType: dtype}).in(b)
}

// Files returns the files of the model's weights.
func (w *Weights) Files() []*safetensors.File {
	if w.files == nil {
		return nil
	}
	return w.files.Files()
}
