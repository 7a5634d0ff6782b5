package checkpoint

// Matrices of floats of 4 or 8 bits, as originals have them. Their tensors tell the packing; each
// has a file, and a row in floatPackings. Codes stay as in the file, in its mapping, or in a stack
// of experts. Kernels have a scale for each row and group, so the scale of a block or of a whole
// matrix is copied for each row.

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// floatPacking is how another program packs floats.
type floatPacking struct {
	method string // for errors
	codes  string // suffix of the tensor with the codes of a module
	dtype  safetensors.DType
	scales string // suffix of a tensor of scales, which tells the packing
	// open reads the headers of the tensors of a module. It sets the fields of x but n and k, which
	// it has.
	open func(s Scope, name string, x *floatCodes) error
}

// floatPackings has the packings. The first that fits a module is its packing.
var floatPackings = []*floatPacking{
	{"FP8", weightSuffix, safetensors.F8E4M3, blockScaleSuffix, openBlockFP8},
	{"FP8", weightSuffix, safetensors.F8E4M3, scaleSuffix, openFP8},
	{"ModelOpt NVFP4", weightSuffix, safetensors.U8, ".weight_scale_2", openModelOptNVFP4},
	{"NVFP4", packedSuffix, safetensors.U8, ".weight_global_scale", openPackedNVFP4},
}

// The suffixes of scales.
const (
	scaleSuffix      = ".weight_scale"
	blockScaleSuffix = ".weight_scale_inv"
)

// floatScales are the suffixes of the scales of all packings.
var floatScales = []string{blockScaleSuffix, scaleSuffix, ".weight_scale_2", ".weight_global_scale"}

// activationScales are the suffixes of scales that are not used.
var activationScales = []string{".input_scale", ".input_scale_ub", ".input_global_scale"}

// floatCodes is a matrix [n, k] of floats of 4 or 8 bits.
type floatCodes struct {
	n, k   int
	mode   kernels.Mode
	group  int            // elements of a row with the same scale
	codes  kernels.Tensor // in the mapping, as words
	scales kernels.Tensor // in the mapping, of NVFP4
	global float32        // the global scale of NVFP4
	// rowScales sets the scales of a row of FP8, which sameRows rows have.
	rowScales func(to []float32, row int)
	sameRows  int
}

// floatPacking returns the packing of the module name, or nil.
func (s Scope) floatPacking(name string) *floatPacking {
	if s.w.files == nil {
		return nil
	}
	codes, suffix := safetensors.Tensor{}, ""
	for _, suffix = range []string{weightSuffix, packedSuffix} {
		var ok bool
		if codes, ok = s.w.files.Tensor(s.path + name + suffix); ok {
			break
		}
	}
	for _, p := range floatPackings {
		if p.dtype != codes.DType || p.codes != suffix { // as of most modules
			continue
		}
		if _, ok := s.w.files.Tensor(s.path + name + p.scales); ok {
			return p
		}
	}
	return nil
}

// isFloatCodes reports whether a tensor may have the codes of a floatPacking, and returns the
// number of its codes in a byte.
func isFloatCodes(t safetensors.Tensor) (perByte int, ok bool) {
	switch {
	case t.DType == safetensors.F8E4M3 && strings.HasSuffix(t.Name, weightSuffix):
		return 1, true
	case t.DType == safetensors.U8 && (strings.HasSuffix(t.Name, weightSuffix) ||
		strings.HasSuffix(t.Name, packedSuffix)):
		return 2, true
	}
	return 0, false
}

// openFloats returns the module name, of a packing. After an error, which it records, it has no
// values.
func (s Scope) openFloats(p *floatPacking, name string, n, k int) *floatCodes {
	s.w.read[s.path+name+weightSuffix] = true // the name that HasRead knows
	x := &floatCodes{n: n, k: k, global: 1}
	const unit = 32 // kernels.Weight
	err := p.open(s, name, x)
	if err == nil && k%unit != 0 {
		err = problem.New(problem.UnknownArchitecture, "This quantization is not supported",
			fmt.Sprintf("%s%s in %s has the width %d, expected a multiple of %d", s.path, name,
				p.method, k, unit), otherWeights)
	}
	if expected := s.w.Config.Quantization.of(s.path + name); err == nil && !s.inBlock &&
		expected.Bits != 0 && expected.Mode != x.mode {
		err = s.mismatch("%s%s is packed as %s, but config.json says %s", s.path, name, x.mode,
			expected)
	}
	if err != nil {
		s.w.refuse(err)
	}
	if !s.inBlock {
		s.w.notePacking(x.mode.String(), n*k)
	}
	return x
}

// words returns a tensor of bytes in the mapping as an operand of n rows of words.
func (s Scope) words(t safetensors.Tensor, n int) kernels.Tensor {
	cols := (t.To - t.From) / 4 / n
	return kernels.Tensor{Buffer: s.w.mappings[s.w.files.FileOf(t.Name)], Offset: t.From,
		DType: kernels.U32, Rows: n, Cols: cols, Stride: cols}
}

// weight returns x as an operand of kernels, with memory for what loading computes. What the files
// have is a view of the mapping.
func (x *floatCodes) weight(experts int, allocate allocator, views bool) *kernels.Weight {
	w := &kernels.Weight{Experts: experts, N: x.n, K: x.k, Mode: x.mode, Bits: x.mode.Bits(),
		Group: x.group, Data: x.codes, Scales: x.scales}
	rows := experts * x.n
	if !views {
		w.Data = allocate(kernels.U32, rows, x.codes.Cols)
	}
	switch {
	case x.mode == kernels.FP8:
		w.Scales = allocate(kernels.F32, rows, (x.k+x.group-1)/x.group)
	case !views:
		w.Scales = allocate(kernels.E4M3, rows, x.scales.Cols)
	}
	if x.mode == kernels.NVFP4 {
		w.Biases = allocate(kernels.F32, rows, 1)
	}
	return w
}

// write computes rows [row, row+x.n) of w, except what is a view of the mapping.
func (x *floatCodes) write(w *kernels.Weight, row int) error {
	computed := w.Scales
	if x.mode == kernels.NVFP4 {
		computed = w.Biases
	}
	if computed.Buffer.Bytes == nil { // a dry run
		return nil
	}
	if w.Data.Buffer != x.codes.Buffer {
		copy(w.Data.RowRange(row, row+x.n).Bytes(), x.codes.Bytes())
	}
	if x.mode == kernels.NVFP4 && w.Scales.Buffer != x.scales.Buffer {
		copy(w.Scales.RowRange(row, row+x.n).Bytes(), x.scales.Bytes())
	}
	for i := range x.n {
		to := computed.Row(row + i)
		switch {
		case x.mode == kernels.NVFP4:
			to[0] = x.global
		case i%x.sameRows > 0:
			copy(to, computed.Row(row+i-1))
			continue
		default:
			x.rowScales(to, i)
		}
		for _, v := range to {
			if v-v != 0 { // NaN or infinite
				return errScale
			}
		}
	}
	return nil
}

// loadFloats loads a module for use in kernels.
func (s Scope) loadFloats(p *floatPacking, name string, n, k int) *kernels.Weight {
	w := s.readFloats(p, name, n, k, s.device)
	if s.w.err == nil {
		if w.Data = s.keep(w.Data); w.Mode == kernels.NVFP4 {
			w.Scales = s.keep(w.Scales)
		}
	}
	return w
}

func (s Scope) readFloats(p *floatPacking, name string, n, k int,
	allocate allocator) *kernels.Weight {
	x := s.openFloats(p, name, n, k)
	if s.w.err != nil {
		return &kernels.Weight{Experts: 1, N: n, K: k}
	}
	w := x.weight(1, allocate, true)
	if err := errors.Join(w.Check(), x.write(w, 0)); err != nil {
		s.w.refuse(s.damaged(name, err))
	}
	return w
}

// stackFloats loads the modules name(0) to name(e-1) into one weight of e experts.
func (s Scope) stackFloats(e int, name func(int) string, n, k int) *kernels.Weight {
	return stackPacked(s, e, name, n, k, func(name string) *floatCodes {
		if p := s.floatPacking(name); p != nil {
			return s.openFloats(p, name, n, k)
		}
		return nil
	})
}

// packedAs implements packedCodes.
func (x *floatCodes) packedAs(y *floatCodes) bool { return x.mode == y.mode && x.group == y.group }

// describe implements packedCodes.
func (x *floatCodes) describe() string {
	return fmt.Sprintf("packed as %s with a scale for %d columns", x.mode, x.group)
}

// floatParameters returns the number of parameters that a tensor of a floatPacking stores. ok is
// false if it is none.
func (w *Weights) floatParameters(t safetensors.Tensor) (n int64, ok bool) {
	root := Scope{w: w}
	for _, suffix := range slices.Concat(floatScales, activationScales) {
		if module, ok := strings.CutSuffix(t.Name, suffix); ok && root.floatPacking(module) != nil {
			return 0, true
		}
	}
	for _, suffix := range []string{weightSuffix, packedSuffix} {
		module, ok := strings.CutSuffix(t.Name, suffix)
		if perByte, codes := isFloatCodes(t); ok && codes && root.floatPacking(module) != nil {
			return int64(t.Elements()) * int64(perByte), true
		}
	}
	return 0, false
}
