package checkpoint

// FP8: a module [n, k] has codes of 8 bits (E4M3) in weight, and scales that multiply them:
//
//	weight_scale_inv  [ceil(n/128), ceil(k/128)]  of blocks (DeepSeek, Qwen, MiniMax, GLM), or one
//	weight_scale      [n, 1] or [n]  of rows, one of the whole matrix, or of blocks
//	                  (compressed-tensors, ModelOpt, FBGEMM)
//
// Scales may be powers of two, as E8M0 (scale_fmt ue8m0) or as bytes.
// The scales of activations and their bounds (input_scale, input_scale_ub) are not used; see
// DECISIONS.md.

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"headroom/engine/modelfile"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// fp8Block is the size of a block, rows and columns, unless config.json states another.
var fp8Block = [2]int{128, 128}

// maxBlock bounds the rows and columns of a block.
const maxBlock = 1 << 16

// blockStrategy is what compressed-tensors calls a scale for each block.
const blockStrategy = "block"

// parseFP8 parses a quantization_config with the quant_method fp8.
func parseFP8(q *Quantization, data json.RawMessage) error {
	var c struct {
		Format string `json:"fmt"` // "e4m3" if it is not stated
		Block  []int  `json:"weight_block_size"`
	}
	if err := modelfile.Decode(q.key, data, &c); err != nil {
		return q.damaged(err)
	}
	if c.Format != "" && c.Format != "e4m3" && c.Format != "float8_e4m3fn" {
		return refuseMethod("FP8", fmt.Sprintf("config.json has the fmt %q, expected e4m3",
			modelfile.Excerpt(c.Format)))
	}
	why := q.setFP8(c.Block)
	if why != "" {
		return refuseMethod("FP8", why)
	}
	return nil
}

// parseFBGEMM parses a quantization_config with the quant_method fbgemm_fp8, which has a scale for
// each row. Its other keys are about activations and modules that are plain.
func parseFBGEMM(q *Quantization, _ json.RawMessage) error {
	q.setFP8(nil)
	return nil
}

// setFP8 sets the packing to FP8 with blocks of the given rows and columns; nil if there are none.
// It returns a sentence without a period if they are not supported.
func (q *Quantization) setFP8(block []int) (why string) {
	q.pack = pack{Mode: kernels.FP8, Bits: kernels.FP8.Bits()}
	if block == nil {
		return ""
	}
	if len(block) != 2 || slices.Min(block) <= 0 || slices.Max(block) > maxBlock ||
		block[1]%32 != 0 {
		sizes := safetensors.ShapeText(block...)
		if len(block) == 0 {
			sizes = "empty"
		}
		return fmt.Sprintf("its blocks are %s, expected a number of rows and a multiple of 32 "+
			"columns", sizes)
	}
	q.block, q.Group = [2]int{block[0], block[1]}, block[1]
	return ""
}

// floatQuantized returns the packing of a scheme of compressed-tensors' float-quantized.
func floatQuantized(s scheme) (p pack, why string) {
	if s.Type != "float" || s.Bits != 8 {
		return p, s.weights() + ", expected floats of 8 bits"
	}
	p = pack{Mode: kernels.FP8, Bits: 8}
	switch s.Strategy {
	case "tensor", "channel":
	case blockStrategy:
		var q Quantization
		why = q.setFP8(s.Block)
		p.Group = q.Group
	default:
		why = fmt.Sprintf("its scales have the strategy %q, expected tensor, channel or block",
			s.Strategy)
	}
	return p, why
}

// hasBlocks reports whether config.json says that a module has a scale for each block.
func (q *Quantization) hasBlocks(module string) bool {
	if q.schemes == nil {
		return false
	}
	s, ok := q.schemes.of(module)
	return ok && s.Strategy == blockStrategy
}

// blockOf returns the rows and columns of the blocks of a module.
func (q *Quantization) blockOf(module string) [2]int {
	if q.schemes != nil {
		if s, ok := q.schemes.of(module); ok && s.Strategy == blockStrategy && s.pack.Group > 0 {
			return [2]int{s.Block[0], s.Block[1]}
		}
	}
	if q.block[0] > 0 {
		return q.block
	}
	return fp8Block
}

func (s Scope) openFP8Codes(name string, x *floatCodes) error {
	codes, err := s.packedTensor(name+weightSuffix, x.n, x.k, safetensors.F8E4M3)
	if err != nil {
		return err
	}
	x.mode, x.codes = kernels.FP8, s.words(codes, x.n)
	return nil
}

func openBlockFP8(s Scope, name string, x *floatCodes) error {
	if err := s.openFP8Codes(name, x); err != nil {
		return err
	}
	if t, _ := s.w.files.Tensor(s.path + name + blockScaleSuffix); t.Elements() == 1 {
		return s.rowScales(name+blockScaleSuffix, x) // that of the whole matrix
	}
	return s.blockScales(name, blockScaleSuffix, x)
}

func openFP8(s Scope, name string, x *floatCodes) error {
	if err := s.openFP8Codes(name, x); err != nil {
		return err
	}
	t, _ := s.w.files.Tensor(s.path + name + scaleSuffix)
	// Blocks as wide as the matrix have the shape of rows, so that only config.json tells them.
	stated := s.w.Config.Quantization.hasBlocks(s.path+name) && t.Elements() != 1
	if stated || len(t.Shape) == 2 && t.Shape[1] > 1 {
		return s.blockScales(name, scaleSuffix, x)
	}
	return s.rowScales(name+scaleSuffix, x)
}

// blockScales reads the scales of the blocks of a module.
func (s Scope) blockScales(name, suffix string, x *floatCodes) error {
	block := s.w.Config.Quantization.blockOf(s.path + name)
	rows, cols := (x.n+block[0]-1)/block[0], (x.k+block[1]-1)/block[1]
	t, err := s.packedTensor(name+suffix, rows, cols, fp8Scales...)
	if err != nil {
		return err
	}
	if t.DType == safetensors.U8 && suffix != blockScaleSuffix {
		return s.mismatch("tensor %s is U8, expected %s", t.Name, anyOf(floats))
	}
	scale := floatAt(t)
	x.group, x.sameRows = block[1], block[0]
	x.rowScales = func(to []float32, row int) {
		for i := range to {
			to[i] = scale(row/block[0]*cols + i)
		}
	}
	return nil
}

// rowScales reads a scale for each row, or one for all.
func (s Scope) rowScales(name string, x *floatCodes) error {
	t, _ := s.w.files.Tensor(s.path + name)
	n := t.Elements()
	if n != 1 && n != x.n || !isScale(t) {
		return s.mismatch("tensor %s is %s, expected %s with 1 or %d elements", t.Name, kindOf(t),
			anyOf(floats), x.n)
	}
	s.w.read[t.Name] = true
	scale := floatAt(t)
	x.group, x.sameRows = (x.k+31)/32*32, x.n/n
	x.rowScales = func(to []float32, row int) { to[0] = scale(row % n) }
	return nil
}

// fp8Scales are the types that scales of blocks may have. Bytes are those of E8M0, as transformers
// reads them in weight_scale_inv.
var fp8Scales = append(slices.Clone(floats), safetensors.F8E8M0, safetensors.U8)

// isScale reports whether a tensor has a type of a scale of rows.
func isScale(t safetensors.Tensor) bool {
	return t.DType == safetensors.F8E8M0 || slices.Contains(floats, t.DType)
}

// powerOfTwo returns the value of an E8M0 code, 2^(code-127), and NaN for 255.
func powerOfTwo(code byte) float32 {
	switch code {
	case 0:
		return 0x1p-127
	case 255:
		return float32(math.NaN())
	}
	return math.Float32frombits(uint32(code) << 23)
}
