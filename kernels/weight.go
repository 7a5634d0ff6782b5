package kernels

// Packed weights. Check verifies everything that the kernels rely on before they read a byte.

import "fmt"

// Weight is a matrix [N, K] of a checkpoint, or a stack of E such matrices, packed as in the file
// or, if another program has packed it, as MLX does. Weights are never expanded in memory. The
// product with x is y = x Wᵀ, one output element per row of W.
//
// If Bits is 0 the elements are plain (F32, F16 or BF16) and Data is [E*N, K]. Otherwise they are
// MLX codes: Data is uint32 [E*N, K*Bits/32], each row a little-endian stream of codes of Bits
// bits, lowest bit first, and Scales are [E*N, K/Group]. Mode says how a code becomes an element.
type Weight struct {
	Experts int // E, 1 for a plain matrix
	N, K    int
	Mode    Mode // how codes become elements
	Bits    int  // 0 (plain), 2, 3, 4, 5, 6 or 8; that of a Mode other than Affine
	Group   int  // 32, 64 or 128 when Bits > 0; that of a Mode other than Affine
	Data    Tensor
	Scales  Tensor // F32, F16 or BF16; that of a Mode other than Affine
	// Biases have the type and shape of Scales in Affine. In NVFP4 they are the global scales,
	// float32 [E*N, 1]. The other modes have none.
	Biases Tensor
	// Order, if it is not none, is I32 [1, K]: column j multiplies element Order[j] of an input.
	// Operators multiply columns as they are. The caller gathers the elements first
	// (embedding.Columns).
	Order Tensor
}

// Mode is the quantization mode, named as in MLX.
type Mode uint8

const (
	// Affine elements are code*scale + bias, rounded once.
	Affine Mode = iota
	// MXFP4 elements are 2^(scale-127) times the value of a 4-bit float with one sign, two exponent
	// and one fraction bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6 for codes 0 to 7 and their negatives for
	// codes 8 to 15 (OCP Microscaling Formats 1.0: E2M1 elements, E8M0 scales). As in MLX, a scale
	// of 255 is infinite. A GPU may flush elements below 2^-126 to zero.
	MXFP4
	// MXFP8 elements are 2^(scale-127) times the value of an 8-bit float with one sign, four
	// exponent and three fraction bits (E4M3 elements, E8M0 scales). The value of a code with
	// exponent e and fraction f is 2^(e-7) (1 + f/8), or f/512 if e is 0. The codes 127 and 255 are
	// NaN. Scales, and elements below 2^-126 on a GPU, are as in MXFP4.
	MXFP8
	// NVFP4 elements are the value of a code as in MXFP4, times the scale of the group, which is a
	// float as in MXFP8, times the global scale of the row. The product of both scales is rounded
	// to float32, and then the element.
	NVFP4
	// FP8 elements are the value of a code as in MXFP8 times a float32 scale, rounded to float32.
	// Group is a multiple of 32, and K if a row has a single scale. The last group of a row may be
	// shorter. The scale of a block of several rows is that of each of them.
	FP8
)

// modes has what the tensors of a mode are. Affine has several bits, groups and types.
var modes = [...]struct {
	name   string
	bits   int
	group  int // 0: several
	scales DType
}{
	Affine: {name: "affine"},
	MXFP4:  {name: "mxfp4", bits: 4, group: 32, scales: U8},
	MXFP8:  {name: "mxfp8", bits: 8, group: 32, scales: U8},
	NVFP4:  {name: "nvfp4", bits: 4, group: 16, scales: E4M3},
	FP8:    {name: "fp8", bits: 8, scales: F32},
}

func (m Mode) String() string { return modes[m].name }

// Bits returns the size of the codes, and 0 for Affine, which has several.
func (m Mode) Bits() int { return modes[m].bits }

// Group returns the number of elements that share a scale, and 0 for Affine and FP8, which have
// several.
func (m Mode) Group() int { return modes[m].group }

// E4M3Values reports whether codes are floats as in MXFP8.
func (m Mode) E4M3Values() bool { return m == MXFP8 || m == FP8 }

// ModeOf returns the mode of codes of that many bits whose scales have the given type. Scales of
// type U8 with codes that no mode has count as MXFP4, which Weight.Check then refuses. The scales
// of FP8 have the type of affine ones, so E4M3 with codes of 8 bits stands for it.
func ModeOf(bits int, scales DType) Mode {
	switch {
	case scales == E4M3 && bits == FP8.Bits():
		return FP8
	case scales == E4M3:
		return NVFP4
	case scales != U8:
		return Affine
	case bits == MXFP8.Bits():
		return MXFP8
	}
	return MXFP4
}

// Bytes returns the memory that the weight occupies, in bytes.
func (w *Weight) Bytes() int {
	n := 0
	for _, t := range []Tensor{w.Data, w.Scales, w.Biases, w.Order} {
		n += t.Rows * t.Cols * t.DType.Size()
	}
	return n
}

// RowRange returns the view of rows [from, to) of a single matrix. Like the slices of a projection
// in which a checkpoint has fused several, it shares the memory of w.
func (w *Weight) RowRange(from, to int) *Weight {
	part := w.Rows(from, to)
	return &part
}

// Rows is RowRange, but returns a value.
func (w *Weight) Rows(from, to int) Weight {
	part := *w
	part.N = to - from
	for _, t := range [...]*Tensor{&part.Data, &part.Scales, &part.Biases} {
		if !t.IsNone() {
			*t = t.RowRange(from, to)
		}
	}
	return part
}

// Float reports whether kernels multiply the elements as floats: plain ones, and those in MXFP8,
// NVFP4 and FP8. Kernels that multiply integers have no use for such a weight.
func (w *Weight) Float() bool { return w.Bits == 0 || w.Mode >= MXFP8 }

// groups returns the number of scales of a row.
func (w *Weight) groups() int { return (w.K + w.Group - 1) / w.Group }

// Format names the encoding, for example "4-bit g64", "mxfp4" or "bfloat16".
func (w *Weight) Format() string {
	switch {
	case w.Bits == 0:
		return w.Data.DType.String()
	case w.Mode != Affine:
		return w.Mode.String()
	}
	return fmt.Sprintf("%d-bit g%d", w.Bits, w.Group)
}

// Check returns an error unless the tensors have the types and shapes that follow from Experts, N,
// K, Mode, Bits and Group.
func (w *Weight) Check() error {
	rows := w.Experts * w.N
	if w.Experts < 1 || w.N < 1 || w.K < 1 {
		return fmt.Errorf("weight: got %d experts of %d x %d, expected at least 1 of 1 x 1",
			w.Experts, w.N, w.K)
	}
	if w.Bits == 0 {
		switch w.Data.DType {
		case F32, F16, BF16:
			return CheckShape("weight", w.Data, w.Data.DType, rows, w.K)
		}
		return fmt.Errorf("weight: got plain %s, expected float32, float16 or bfloat16",
			w.Data.DType)
	}
	if w.Mode != Affine {
		return w.checkMode(rows)
	}
	switch w.Bits {
	case 2, 3, 4, 5, 6, 8:
	default:
		return fmt.Errorf("weight: got %d bits, expected 2, 3, 4, 5, 6 or 8", w.Bits)
	}
	switch w.Group {
	case 32, 64, 128:
	default:
		return fmt.Errorf("weight: got groups of %d, expected 32, 64 or 128", w.Group)
	}
	if w.K%w.Group != 0 {
		return fmt.Errorf("weight: got input width %d, expected a multiple of the group size %d",
			w.K, w.Group)
	}
	if err := CheckShape("weight", w.Data, U32, rows, w.K*w.Bits/32); err != nil {
		return err
	}
	switch w.Scales.DType {
	case F32, F16, BF16:
	default:
		return fmt.Errorf("scales: got %s, expected float32, float16 or bfloat16", w.Scales.DType)
	}
	if err := CheckShape("scales", w.Scales, w.Scales.DType, rows, w.K/w.Group); err != nil {
		return err
	}
	return CheckShape("biases", w.Biases, w.Scales.DType, rows, w.K/w.Group)
}

// checkMode is Check for modes other than Affine. Kernels read units of 32 elements.
func (w *Weight) checkMode(rows int) error {
	const unit = 32
	if int(w.Mode) >= len(modes) {
		return fmt.Errorf("weight: got mode %d, expected less than %d", w.Mode, len(modes))
	}
	m := modes[w.Mode]
	group := w.Group
	if m.group == 0 && group > 0 && group%unit == 0 {
		m.group = group
	}
	switch {
	case w.Bits != m.bits || group != m.group || group == 0:
		expected := fmt.Sprint(m.group)
		if m.group == 0 {
			expected = fmt.Sprintf("a multiple of %d", unit)
		}
		return fmt.Errorf("weight: got %s with %d bits in groups of %d, expected %d bits in "+
			"groups of %s", w.Mode, w.Bits, group, m.bits, expected)
	case w.K%unit != 0:
		return fmt.Errorf("weight: got input width %d in %s, expected a multiple of %d", w.K,
			w.Mode, unit)
	}
	if err := CheckShape("weight", w.Data, U32, rows, w.K*w.Bits/32); err != nil {
		return err
	}
	if err := CheckShape("scales", w.Scales, m.scales, rows, w.groups()); err != nil {
		return err
	}
	if w.Mode == NVFP4 {
		return CheckShape("global scales", w.Biases, F32, rows, 1)
	}
	if !w.Biases.IsNone() {
		return fmt.Errorf("biases: got %s, expected none in %s", w.Biases, w.Mode)
	}
	return nil
}
