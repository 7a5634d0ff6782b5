package models_test

// These tests pack the weights of tiny models in MLX's format, in every width. They compare the
// packed models with the same models in which the weights are the dequantized values.

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"headroom/engine/safetensors"
)

// packedTolerance allows kernels to sum in another order for packed weights than for plain weights.
// On x86 the difference is 0: code*scale is exact (8 bits by 8), code*scale+bias is rounded once,
// and the lanes are the same. A bias that is wrong by 0.1 % would change logits by hundreds of
// times the tolerance.
const packedTolerance = 1e-5

// quantize packs a BF16 matrix whose width is a multiple of group. It returns the packed tensors
// and the dequantized float32 values.
func quantize(x safetensors.Tensor, bits, group int) (codes, scales, biases,
	plain safetensors.Tensor) {
	values, k := widen(x), x.Shape[len(x.Shape)-1]
	shape := func(cols int) []int { return append(slices.Clone(x.Shape[:len(x.Shape)-1]), cols) }
	codes = safetensors.Tensor{DType: safetensors.U32, Shape: shape(k * bits / 32)}
	scales = safetensors.Tensor{DType: safetensors.BF16, Shape: shape(k / group)}
	biases = safetensors.Tensor{DType: safetensors.BF16, Shape: shape(k / group)}
	plain = safetensors.Tensor{DType: safetensors.F32, Shape: x.Shape}
	for row := 0; row < len(values); row += k {
		stream := make([]byte, k*bits/8) // codes without padding, beginning with the lowest bit
		for g := 0; g < k; g += group {
			part := values[row+g : row+g+group]
			low := bfloat16(slices.Min(part))
			scale := bfloat16(max((slices.Max(part)-slices.Min(part))/float32(int(1)<<bits-1),
				1e-8))
			scales.Data = binary.LittleEndian.AppendUint16(scales.Data,
				uint16(math.Float32bits(scale)>>16))
			biases.Data = binary.LittleEndian.AppendUint16(biases.Data,
				uint16(math.Float32bits(low)>>16))
			for i, v := range part {
				code := int(min(max(math.Round(float64((v-low)/scale)), 0),
					float64(int(1)<<bits-1)))
				for b := range bits {
					at := (g+i)*bits + b
					stream[at/8] |= byte(code>>b&1) << (at % 8)
				}
				plain.Data = binary.LittleEndian.AppendUint32(plain.Data,
					math.Float32bits(float32(code)*scale+low))
			}
		}
		codes.Data = append(codes.Data, stream...)
	}
	return codes, scales, biases, plain
}

func bfloat16(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ 0xffff) }

// packed packs the matrices of f whose width is a multiple of group. It returns f with those
// matrices packed, and f with their dequantized values.
func (f folder) packed(bits, group int) (packed, plain folder) {
	same := func(name string) string { return name }
	packed, plain = f.rename(same), f.rename(same)
	packed.config = strings.Replace(f.config, "{",
		fmt.Sprintf(`{"quantization": {"bits": %d, "group_size": %d}, `, bits, group), 1)
	for name, x := range f.tensors {
		module, ok := strings.CutSuffix(name, ".weight")
		if !ok || len(x.Shape) < 2 || strings.Contains(name, "conv1d") ||
			x.Shape[len(x.Shape)-1]%group != 0 {
			continue
		}
		codes, scales, biases, values := quantize(x, bits, group)
		packed.put(name, codes)
		packed.put(module+".scales", scales)
		packed.put(module+".biases", biases)
		plain.put(name, values)
	}
	return packed, plain
}

func TestPackedEqualsPlain(t *testing.T) {
	d := cpuDevice(t, 2)
	check := func(name string, f folder, bits, group int) {
		packed, plain := f.packed(bits, group)
		got, want := packed.logits(t, d), plain.logits(t, d)
		worst := 0.0
		for i := range want {
			for j := range want[i] {
				if diff := math.Abs(float64(got[i][j] - want[i][j])); !(diff <= worst) {
					worst = diff
				}
			}
		}
		if !(worst <= packedTolerance) {
			t.Errorf("%s in %d bits, groups of %d: logits differ by %g, expected at most %g", name,
				bits, group, worst, packedTolerance)
		}
	}
	for _, name := range architectures {
		f := readTiny(t, name).converted()
		if !f.has(".scales") { // otherwise the reference outputs are those of packed weights
			check(name, f, 4, 32)
			check(name, f, 8, 32)
		}
	}
	dense, hybrid, moe := readTiny(t, "qwen3"), readTiny(t, "qwen3_5_text").mlx(),
		readTiny(t, "qwen3_5_moe_text").mlx()
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			check("qwen3", dense, bits, group)
		}
		check("qwen3_5", hybrid, bits, 64)
		check("qwen3_5_moe", moe, bits, 32) // experts of width 32
	}
}
