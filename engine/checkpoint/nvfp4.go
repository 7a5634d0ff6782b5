package checkpoint

// NVFP4: codes of 4 bits (E2M1), a scale of 8 bits (E4M3) for each 16, and a global scale of the
// whole matrix. The programs differ in names, and in what the global scale does:
//
//	MLX                 weight, words [.., k/8]  scales        global_scale/(448*6) multiplies
//	compressed-tensors  weight_packed [n, k/2]   weight_scale  weight_global_scale divides
//	ModelOpt            weight [n, k/2]          weight_scale  weight_scale_2 multiplies
//
// The scales of activations (input_global_scale, input_scale) are not used; see DECISIONS.md.

import (
	"fmt"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

const (
	nvfp4Group = 16
	// mlxGlobal is what MLX divides a global scale by: the largest E4M3 times the largest E2M1.
	mlxGlobal = 448 * 6

	globalSuffix = ".global_scale" // MLX
)

// nvfp4PackQuantized returns the packing of a scheme of compressed-tensors' nvfp4-pack-quantized.
func nvfp4PackQuantized(s scheme) (p pack, why string) {
	if s.Type != "float" || s.Bits != 4 || s.Group != nvfp4Group && s.Group != 0 {
		groups := ""
		if s.Group != 0 {
			groups = fmt.Sprintf(" in groups of %d", s.Group)
		}
		return p, fmt.Sprintf("%s%s, expected floats of 4 bits in groups of %d", s.weights(),
			groups, nvfp4Group)
	}
	return modes[kernels.NVFP4.String()], ""
}

func openPackedNVFP4(s Scope, name string, x *floatCodes) error {
	err := s.openNVFP4(name, packedSuffix, ".weight_global_scale", x)
	x.global = 1 / x.global
	return err
}

func openModelOptNVFP4(s Scope, name string, x *floatCodes) error {
	return s.openNVFP4(name, weightSuffix, ".weight_scale_2", x)
}

func (s Scope) openNVFP4(name, codesSuffix, globalSuffix string, x *floatCodes) error {
	codes, err := s.packedTensor(name+codesSuffix, x.n, x.k/2, safetensors.U8)
	if err != nil {
		return err
	}
	scales, err := s.packedTensor(name+scaleSuffix, x.n, x.k/nvfp4Group,
		safetensors.F8E4M3)
	if err != nil {
		return err
	}
	if x.k%nvfp4Group != 0 {
		return s.mismatch("%s%s has the width %d, expected a multiple of %d", s.path, name, x.k,
			nvfp4Group)
	}
	x.mode, x.group = kernels.NVFP4, nvfp4Group
	x.codes, x.scales = s.words(codes, x.n), s.operand(scales, kernels.E4M3)
	global, _ := s.w.files.Tensor(s.path + name + globalSuffix)
	if global.Elements() != 1 || !isScale(global) {
		return s.mismatch("tensor %s is %s, expected one element of %s", global.Name,
			kindOf(global), anyOf(floats))
	}
	s.w.read[global.Name] = true
	x.global = floatAt(global)(0)
	return s.w.checkTensor(global.Name)
}

// mlxNVFP4 makes w, of which scales has read the tensors, a weight in NVFP4. Its global scale is
// one for all, one for each expert, or none.
func (s Scope) mlxNVFP4(name string, w *kernels.Weight) {
	w.Scales.DType = kernels.E4M3
	values := []float32{mlxGlobal}
	if s.Has(name + globalSuffix) {
		t, _ := s.w.files.Tensor(s.path + name + globalSuffix)
		n := t.Elements()
		if n != 1 && n != w.Experts || !isScale(t) {
			s.w.Failf("tensor %s is %s, expected %s with 1 or %d elements", t.Name, kindOf(t),
				anyOf(floats), w.Experts)
			return
		}
		s.w.read[t.Name] = true
		values = make([]float32, n)
		for i := range values {
			if values[i] = floatAt(t)(i); values[i]-values[i] != 0 {
				s.w.refuse(s.damaged(name, errScale))
				return
			}
		}
	}
	w.Biases = s.device(kernels.F32, w.Experts*w.N, 1)
	if w.Biases.Buffer.Bytes == nil { // a dry run
		return
	}
	for i, to := 0, w.Biases.Float32s(); i < len(to); i++ {
		to[i] = values[i/w.N%len(values)] / mlxGlobal
	}
}

// refuseModelOpt returns the Problem of a variant of ModelOpt that is not supported.
func refuseModelOpt(why string) error {
	return problem.New(problem.UnknownArchitecture, "Headroom cannot run this variant of ModelOpt",
		why, otherWeights)
}
