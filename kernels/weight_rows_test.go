package kernels

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
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
		{F16, []uint16{0x3c00, 0xc000, 0x0001, 0x8400, 0x7bff, 0x3555}, []float32{1, -2, 0x1p-24, -0x1p-14, 65504, 0.333251953125}},
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

// Every element of a row is a field of one little-endian integer, however wide the codes.
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
			if want := float32(float64(code)*float64(scales[i/32]) + float64(biases[i/32])); v != want {
				t.Errorf("%d bits, element %d: got %g, expected %g", bits, i, v, want)
			}
		}
	}
}
