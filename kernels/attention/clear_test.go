package attention

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
)

// TestClear clears some positions of pages full of random bytes, in every format. These positions
// become zero, and so do all bytes if every position is cleared; other positions do not change.
func TestClear(t *testing.T) {
	formats := []Format{FloatFormat(kernels.F16), FloatFormat(kernels.BF16),
		FloatFormat(kernels.F32), {Kind: Q8_0}, {Kind: Q4_0}}
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		formats = append(formats, affine(bits, 32))
	}
	const heads, dim, tokens, from, to = 2, 64, 32, 13, 27
	random := rand.New(rand.NewPCG(1, 2))
	for _, f := range formats {
		d := kernels.NewReference()
		c := NewCache(d, f, f, heads, dim, tokens, 1, Start{})
		for keys, page := range map[bool][]byte{true: c.K.Bytes, false: c.V.Bytes} {
			for i := range page {
				page[i] = byte(random.Uint32())
			}
			before := bytes.Clone(page)
			c.Clear(page, keys, false, from, to)
			r, old := rows{c, page, f, keys}, rows{c, before, f, keys}
			for pos := range tokens {
				for head := range heads {
					got, want := make([]float32, dim), make([]float32, dim)
					r.read(got, []int32{0}, head, pos)
					if pos < from || pos >= to {
						old.read(want, []int32{0}, head, pos)
					}
					if !sameBits(got, want) {
						t.Errorf("%s, keys %t: position %d is %v, expected %v", f, keys, pos, got,
							want)
					}
				}
			}
			for pos := range tokens {
				c.Clear(page, keys, false, pos, pos+1)
			}
			if !bytes.Equal(page, make([]byte, len(page))) {
				t.Errorf("%s, keys %t: bytes are left after all positions were cleared", f, keys)
			}
		}
		d.Close()
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b,
		func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
