package checkpoint

// The format pack-quantized of compressed-tensors. A module [n, k] has
//
//	weight_packed      words [n, k*bits/32]  codes of a row, a stream of bits
//	weight_scale       [n, groups]
//	weight_zero_point  words [n*bits/32, groups], a stream of each column, or int8 [n, groups]
//	weight_g_idx       int32 [k], the group of each input; see order.go
//	weight_shape       int64 [2]
//
// A code is an element plus half the number of codes. Words are those of MLX, so they stay in the
// mapping. Modules without zero points have the middle as theirs.

import (
	"encoding/binary"
	"fmt"
	"slices"

	"headroom/engine/safetensors"
	"headroom/kernels"
)

// packQuantized returns the packing of a scheme of the format pack-quantized.
func packQuantized(s scheme) (p pack, why string) {
	if s.Type != "int" || !slices.Contains([]int{2, 3, 4, 5, 6, 8}, s.Bits) {
		return p, s.weights() + ", expected integers of 2, 3, 4, 5, 6 or 8 bits"
	}
	p = pack{Bits: s.Bits}
	switch {
	case s.Strategy == "channel" || s.Strategy == "" && s.Group <= 0: // a scale for a row
	case (s.Strategy == "group" || s.Strategy == "") && s.Group > 0:
		p.Group = s.Group
	default:
		return p, fmt.Sprintf("its scales have the strategy %q, expected group or channel",
			s.Strategy)
	}
	return p, ""
}

func openPackQuantized(s Scope, name string, x *integers) error {
	shape := s.Shape(name + ".weight_packed")
	scaleShape := s.Shape(name + ".weight_scale")
	if len(shape) != 2 || len(scaleShape) != 2 || scaleShape[1] < 1 {
		return s.mismatch("%s%s has codes of shape %s and scales of shape %s, expected matrices",
			s.path, name, safetensors.ShapeText(shape...), safetensors.ShapeText(scaleShape...))
	}
	groups := scaleShape[1]
	x.bits = shape[1] * 32 / x.k
	if x.bits < 1 || x.k*x.bits%32 != 0 || x.k%groups != 0 {
		return s.mismatch("%s%s has codes of shape %s and %d scales for a row, expected those of "+
			"%d elements", s.path, name, safetensors.ShapeText(shape...), groups, x.k)
	}
	x.group = x.k / groups
	words, err := s.packedTensor(name+".weight_packed", x.n, x.k*x.bits/32, safetensors.I32)
	if err != nil {
		return err
	}
	scales, err := s.packedTensor(name+".weight_scale", x.n, groups, floats...)
	if err != nil {
		return err
	}
	if err := s.checkPackedShape(name, x); err != nil {
		return err
	}
	if err := s.order(name+".weight_g_idx", x); err != nil {
		return err
	}
	zero, err := s.packedZeros(name, x, groups)
	if err != nil {
		return err
	}
	if codes := s.operand(words, kernels.U32); x.order == nil {
		x.codes = codes
	} else {
		x.writeCodes = func(to kernels.Tensor) { copy(to.Bytes(), codes.Bytes()) }
	}
	if x.dtype = kernels.F32; zero == nil {
		// The middle times a scale is exact in the type of the scale.
		x.dtype = dtypes[scales.DType]
		if x.kernelGroup() == x.group {
			x.scales = s.operand(scales, x.dtype)
		}
	}
	scale := floatAt(scales)
	x.groups = func(values []float32, points []int, from, g int) error {
		for i := range values {
			values[i] = scale((from+i)*groups + g)
			if points[i] = 1 << (x.bits - 1); zero != nil {
				points[i] = zero(from+i, g)
			}
		}
		return nil
	}
	return nil
}

// checkPackedShape returns an error unless weight_shape is that of x.
func (s Scope) checkPackedShape(name string, x *integers) error {
	if !s.Has(name + ".weight_shape") {
		return nil
	}
	t, err := s.packedTensor(name+".weight_shape", 1, 2, safetensors.I64, safetensors.I32)
	if err != nil {
		return err
	}
	size := t.DType.Bytes()
	n, k := binary.LittleEndian.Uint32(t.Data), binary.LittleEndian.Uint32(t.Data[size:])
	if int(n) != x.n || int(k) != x.k {
		return s.mismatch("tensor %s says %s, expected %s", t.Name,
			safetensors.ShapeText(int(n), int(k)), safetensors.ShapeText(x.n, x.k))
	}
	return nil
}

// packedZeros returns the function that reads a zero point, as a code, or nil if there are none.
func (s Scope) packedZeros(name string, x *integers, groups int) (func(row, g int) int, error) {
	name += zerosSuffix
	if !s.Has(name) {
		return nil, nil
	}
	if t, _ := s.w.files.Tensor(s.path + name); t.DType == safetensors.I8 {
		t, err := s.packedTensor(name, x.n, groups, safetensors.I8)
		return func(row, g int) int {
			return int(int8(t.Data[row*groups+g])) + 1<<(x.bits-1)
		}, err
	}
	t, err := s.packedTensor(name, (x.n*x.bits+31)/32, groups, safetensors.I32)
	return func(row, g int) int {
		at := row * x.bits
		word := uint64(binary.LittleEndian.Uint32(t.Data[(at/32*groups+g)*4:]))
		if next := ((at/32+1)*groups + g) * 4; next < len(t.Data) {
			word |= uint64(binary.LittleEndian.Uint32(t.Data[next:])) << 32
		}
		return int(word >> (at % 32) & (1<<x.bits - 1))
	}, err
}
