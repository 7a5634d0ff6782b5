package kernels

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestDecodeRow(t *testing.T) {
	d := NewReference()
	defer d.Close()
	for _, c := range []struct {
		dtype DType
		bits  []uint16
		want  []float32
	}{
		{F16, []uint16{0x3c00, 0xc000, 0x0001, 0x8400, 0x7bff, 0x3555},
			[]float32{1, -2, 0x1p-24, -0x1p-14, 65504, 0.333251953125}},
		{BF16, []uint16{0x3f80, 0xc000, 0x4049}, []float32{1, -2, 3.140625}},
	} {
		x := NewTensor(d, c.dtype, 2, len(c.bits))
		for i, v := range c.bits {
			binary.LittleEndian.PutUint16(x.RowRange(1, 2).Bytes()[2*i:], v)
		}
		got := make([]float32, len(c.bits))
		x.DecodeRow(got, 1)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, expected %v", c.dtype, got, c.want)
		}
	}
	x := NewTensor(d, F16, 1, 2)
	binary.LittleEndian.PutUint32(x.Bytes(), 0xfc007e00)
	got := make([]float32, 2)
	x.DecodeRow(got, 0)
	if !math.IsNaN(float64(got[0])) || !math.IsInf(float64(got[1]), -1) {
		t.Errorf("NaN and -inf: got %v", got)
	}
}

// TestDequantizeRow reads each code bit by bit from the row as one little-endian integer.
func TestDequantizeRow(t *testing.T) {
	d := NewReference()
	defer d.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		w := RandomWeight(d, r, 2, 3, 64, bits, 32, BF16, 1)
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		got, scales, biases := make([]float32, 64), make([]float32, 2), make([]float32, 2)
		w.DequantizeRow(got, 4)
		w.Scales.DecodeRow(scales, 4)
		w.Biases.DecodeRow(biases, 4)
		stream := w.Data.RowRange(4, 5).Bytes()
		for i, v := range got {
			code := 0
			for b := range bits {
				at := i*bits + b
				code |= int(stream[at/8]>>(at%8)&1) << b
			}
			if want := float32(float64(code)*float64(scales[i/32]) +
				float64(biases[i/32])); v != want {
				t.Errorf("%d bits, element %d: got %g, expected %g", bits, i, v, want)
			}
		}
	}
}

// TestDequantizeMXFP4 checks elements worked out by hand, which mlx.core.dequantize confirms.
func TestDequantizeMXFP4(t *testing.T) {
	d := NewReference()
	defer d.Close()
	w := RandomWeight(d, rand.New(rand.NewPCG(1, 2)), 1, 1, 32, 4, 32, U8, 1)
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	for i, b := 0, w.Data.Bytes(); i < len(b); i++ { // codes 0 to 15 in order, twice
		b[i] = byte(2*i%16 | (2*i%16+1)<<4)
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		scale byte
		want  []float32 // of codes 0 to 7
	}{
		{127, []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}},
		{120, []float32{0, 0.00390625, 0.0078125, 0.01171875, 0.015625, 0.0234375, 0.03125,
			0.046875}},
		{0, []float32{0, 0x1p-128, 0x1p-127, 0x1.8p-127, 0x1p-126, 0x1.8p-126, 0x1p-125,
			0x1.8p-125}},
		{1, []float32{0, 0x1p-127, 0x1p-126, 0x1.8p-126, 0x1p-125, 0x1.8p-125, 0x1p-124,
			0x1.8p-124}},
		{254, []float32{0, 0x1p126, 0x1p127, 0x1.8p127, inf, inf, inf, inf}},
		{255, []float32{float32(math.NaN()), inf, inf, inf, inf, inf, inf, inf}},
	} {
		w.Scales.Bytes()[0] = c.scale
		got := make([]float32, 32)
		w.DequantizeRow(got, 0)
		for i, g := range got {
			want := c.want[i%8]
			if i%16 >= 8 {
				want = -want
			}
			if g != want && (g == g || want == want) {
				t.Errorf("scale %d, element %d: got %g, expected %g", c.scale, i, g, want)
			}
		}
	}
}

// TestDequantizeMXFP8 computes the value of every code from its exponent and its fraction, as the
// format's definition does. mlx.core.dequantize gives the same elements.
func TestDequantizeMXFP8(t *testing.T) {
	d := NewReference()
	defer d.Close()
	w := RandomWeight(d, rand.New(rand.NewPCG(1, 2)), 1, 1, 256, 8, 32, U8, 1)
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	for i := range w.Data.Bytes() {
		w.Data.Bytes()[i] = byte(i)
	}
	for _, scale := range []byte{127, 120, 0, 1, 246, 247, 254, 255} {
		for i := range w.Scales.Bytes() {
			w.Scales.Bytes()[i] = scale
		}
		got := make([]float32, 256)
		w.DequantizeRow(got, 0)
		for code, g := range got {
			exponent, fraction := code>>3&15, float64(code&7)
			value := math.Ldexp(fraction, -9)
			if exponent > 0 {
				value = math.Ldexp(8+fraction, exponent-10)
			}
			if code&127 == 127 {
				value = math.NaN()
			}
			if code >= 128 {
				value = -value
			}
			want := float32(math.Ldexp(value, int(scale)-127))
			if scale == 255 {
				want = float32(value * math.Inf(1))
			}
			if g != want && (g == g || want == want) {
				t.Errorf("scale %d, code %d: got %g, expected %g", scale, code, g, want)
			}
		}
	}
}

// e4m3 returns the value of a code by the definition of the format.
func e4m3(code byte) float64 {
	exponent, fraction := int(code>>3&15), float64(code&7)
	value := math.Ldexp(fraction, -9)
	if exponent > 0 {
		value = math.Ldexp(8+fraction, exponent-10)
	}
	if code&127 == 127 {
		value = math.NaN()
	}
	if code >= 128 {
		value = -value
	}
	return value
}

// TestDequantizeFP8 checks every code with scales of two groups, of which the second is shorter.
func TestDequantizeFP8(t *testing.T) {
	d := NewReference()
	defer d.Close()
	w := RandomWeight(d, rand.New(rand.NewPCG(1, 2)), 1, 2, 256, 8, 160, E4M3, 1)
	if err := w.Check(); err != nil || w.Mode != FP8 {
		t.Fatal(w.Mode, err)
	}
	scales := [][]float32{{1, 0x1.abcdep-5}, {-0x1.8p-120, 0x1.fffffep100}}
	for row, s := range scales {
		copy(w.Scales.Row(row), s)
		for i, b := 0, w.Data.RowRange(row, row+1).Bytes(); i < len(b); i++ {
			b[i] = byte(i)
		}
		got := make([]float32, 256)
		w.DequantizeRow(got, row)
		for code, g := range got {
			want := float32(e4m3(byte(code)) * float64(s[code/160])) // exact in float64
			if g != want && (g == g || want == want) {
				t.Errorf("row %d, code %d: got %g, expected %g", row, code, g, want)
			}
		}
	}
}

// TestDequantizeNVFP4 checks every scale with every code.
func TestDequantizeNVFP4(t *testing.T) {
	d := NewReference()
	defer d.Close()
	w := RandomWeight(d, rand.New(rand.NewPCG(1, 2)), 1, 2, 16*256, 4, 16, E4M3, 1)
	if err := w.Check(); err != nil || w.Mode != NVFP4 {
		t.Fatal(w.Mode, err)
	}
	for row, global := range []float32{1, 0x1.abcdep-9} {
		w.Biases.Row(row)[0] = global
		for i, b := 0, w.Data.RowRange(row, row+1).Bytes(); i < len(b); i++ {
			b[i] = byte(2*i%16 | (2*i%16+1)<<4)
		}
		for i, b := 0, w.Scales.RowRange(row, row+1).Bytes(); i < len(b); i++ {
			b[i] = byte(i)
		}
		got := make([]float32, w.K)
		w.DequantizeRow(got, row)
		for i, g := range got {
			value := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}[i%8]
			if i%16 >= 8 {
				value = -value
			}
			want := float32(value * float64(float32(e4m3(byte(i/16))*float64(global))))
			if g != want && (g == g || want == want) {
				t.Errorf("global scale %g, scale %d, code %d: got %g, expected %g", global, i/16,
					i%16, g, want)
			}
		}
	}
}

// TestFloatModesCheck expects an error that names each violated requirement of NVFP4 and FP8.
func TestFloatModesCheck(t *testing.T) {
	d := NewReference()
	defer d.Close()
	for _, c := range []struct {
		bits, group int
		what        string
		spoil       func(*Weight)
	}{
		{4, 16, "8 bits", func(w *Weight) { w.Bits = 8 }},
		{4, 16, "groups of 32", func(w *Weight) { w.Group = 32 }},
		{4, 16, "groups of 0", func(w *Weight) { w.Group = 0 }},
		{4, 16, "width 80", func(w *Weight) { w.K = 80 }},
		{4, 16, "global scales", func(w *Weight) { w.Biases = Tensor{} }},
		{4, 16, "scales", func(w *Weight) { w.Scales.DType = U8 }},
		{8, 128, "4 bits", func(w *Weight) { w.Bits = 4 }},
		{8, 128, "groups of 0", func(w *Weight) { w.Group = 0 }},
		{8, 128, "groups of -32", func(w *Weight) { w.Group = -32 }},
		{8, 128, "groups of 16", func(w *Weight) { w.Group = 16 }},
		{8, 128, "scales", func(w *Weight) { w.Group = 64 }},
		{8, 128, "scales", func(w *Weight) { w.Scales = NewTensor(d, BF16, 3, 2) }},
		{8, 128, "biases", func(w *Weight) { w.Biases = w.Scales }},
		{8, 128, "mode 99", func(w *Weight) { w.Mode = 99 }},
	} {
		w := RandomWeight(d, rand.New(rand.NewPCG(1, 2)), 1, 3, 192, c.bits, c.group, E4M3, 1)
		if err := w.Check(); err != nil || w.Format() != w.Mode.String() {
			t.Fatalf("%s: %v", w.Format(), err)
		}
		c.spoil(w)
		if err := w.Check(); err == nil || !strings.Contains(err.Error(), c.what) {
			t.Errorf("%s: got %v, expected an error that names %q", w.Mode, err, c.what)
		}
	}
}

// TestMXCheck expects an error that names each violated requirement of the modes.
func TestMXCheck(t *testing.T) {
	d := NewReference()
	defer d.Close()
	for what, spoil := range map[string]func(*Weight){
		"5 bits":       func(w *Weight) { w.Bits = 5 },
		"groups of 64": func(w *Weight) { w.Group = 64 },
		"biases":       func(w *Weight) { w.Biases = w.Scales },
		"scales":       func(w *Weight) { w.Scales = NewTensor(d, BF16, 3, 2) },
	} {
		for _, mode := range []Mode{MXFP4, MXFP8} {
			w := RandomWeight(d, rand.New(rand.NewPCG(1, 2)), 1, 3, 64, mode.Bits(), 32, U8, 1)
			if w.Mode != mode || w.Format() != mode.String() || w.Check() != nil {
				t.Fatalf("got %s (%v), expected %s", w.Format(), w.Check(), mode)
			}
			spoil(w)
			if err := w.Check(); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: got %v, expected an error that names %q", mode, err, what)
			}
		}
	}
}
