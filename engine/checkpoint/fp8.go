package checkpoint

// FP8: a module [n, k] has codes of 8 bits (E4M3) in weight, and scales that multiply them:
//
//	weight_scale_inv  [ceil(n/128), ceil(k/128)]  of blocks (DeepSeek, Qwen, MiniMax, GLM), or one
//	weight_scale      [n, 1] or [n]  of rows, one of the whole matrix, or of blocks
//	                  (compressed-tensors, ModelOpt)
//
// The scales of activations (input_scale) are not used; see DECISIONS.md.

import (
	"encoding/json"
	"fmt"
	"slices"

	"headroom/engine/modelfile"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// fp8Block is the size of a block, rows and columns, unless config.json states another.
var fp8Block = [2]int{128, 128}

// maxBlock bounds the rows and columns of a block.
const maxBlock = 1 << 16

// parseFP8 parses a quantization_config with the quant_method fp8.
func parseFP8(q *Quantization, data json.RawMessage) error {
	var c struct {
		Format string `json:"fmt"` // "e4m3" if it is not stated
		Block  []int  `json:"weight_block_size"`
	}
	if err := modelfile.Decode("quantization_config", data, &c); err != nil {
		return damagedQuantization(err)
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

// setFP8 sets the packing to FP8 with blocks of the given rows and columns; nil if there are none.
// It returns a sentence without a period if they are not supported.
func (q *Quantization) setFP8(block []int) (why string) {
	q.pack = pack{Mode: kernels.FP8, Bits: kernels.FP8.Bits()}
	if block == nil {
		return ""
	}
	if len(block) != 2 || slices.Min(block) <= 0 || slices.Max(block) > maxBlock ||
		block[1]%32 != 0 {
		return fmt.Sprintf("its blocks are %v, expected a number of rows and a multiple of 32 "+
			"columns", block)
	}
	q.block, q.Group = [2]int{block[0], block[1]}, block[1]
	return ""
}

// floatQuantized returns the packing of a scheme of compressed-tensors' float-quantized.
func floatQuantized(s scheme) (p pack, why string) {
	if s.Type != "float" || s.Bits != 8 {
		return p, fmt.Sprintf("its weights have %d bits of type %q, expected floats of 8 bits",
			s.Bits, s.Type)
	}
	p = pack{Mode: kernels.FP8, Bits: 8}
	switch s.Strategy {
	case "tensor", "channel":
	case "block":
		var q Quantization
		why = q.setFP8(s.Block)
		p.Group = q.Group
	default:
		why = fmt.Sprintf("its scales have the strategy %q, expected tensor, channel or block",
			s.Strategy)
	}
	return p, why
}

// blockOf returns the rows and columns of the blocks of a module.
func (q *Quantization) blockOf(module string) [2]int {
	if q.schemes != nil {
		if s, ok := q.schemes.of(module); ok && s.pack.Group > 0 && len(s.Block) == 2 {
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
	shape := s.Shape(name + scaleSuffix)
	if len(shape) == 2 && shape[1] > 1 {
		return s.blockScales(name, scaleSuffix, x)
	}
	return s.rowScales(name+scaleSuffix, x)
}

// blockScales reads the scales of the blocks of a module.
func (s Scope) blockScales(name, suffix string, x *floatCodes) error {
	block := s.w.Config.Quantization.blockOf(s.path + name)
	rows, cols := (x.n+block[0]-1)/block[0], (x.k+block[1]-1)/block[1]
	t, err := s.packedTensor(name+suffix, rows, cols, floats...)
	if err != nil {
		return err
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
		return s.mismatch("tensor %s is %s of shape %v, expected %v with 1 or %d elements", t.Name,
			t.DType, t.Shape, floats, x.n)
	}
	s.w.read[t.Name] = true
	scale := floatAt(t)
	x.group, x.sameRows = (x.k+31)/32*32, x.n/n
	x.rowScales = func(to []float32, row int) { to[0] = scale(row % n) }
	return nil
}

// isScale reports whether a tensor has a type that floatAt reads.
func isScale(t safetensors.Tensor) bool {
	for _, dtype := range floats {
		if t.DType == dtype {
			return true
		}
	}
	return false
}
