package gguf

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// ramp returns n bytes 0x10, 0x32, 0x54, ..., whose halves count up modulo 16.
func ramp(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(2*i)&15 | byte(2*i+1)&15<<4
	}
	return out
}

// TestBlocksByHand decodes blocks that are worked out by hand. 0x3800 is 0.5 in float16, 0xbc00 is
// -1, and 0x4000 is 2.
func TestBlocksByHand(t *testing.T) {
	for _, c := range []struct {
		kind  Type
		block []byte
		want  map[int]float32 // elements by their index
	}{
		{Q4_0, append([]byte{0x00, 0x38}, ramp(16)...), // 0.5 (q-8)
			map[int]float32{0: -4, 1: -3, 7: 3, 8: -4, 16: -3.5, 17: -2.5, 31: 3.5}},
		{Q4_1, append([]byte{0x00, 0x38, 0x00, 0xbc}, ramp(16)...), // 0.5 q - 1
			map[int]float32{0: -1, 1: 0, 7: 6, 16: -0.5, 31: 6.5}},
		{Q5_0, append([]byte{0x00, 0x38, 0x02, 0, 0, 0x80}, ramp(16)...), // bits 1 and 31 are set
			map[int]float32{0: -8, 1: 1, 2: -6, 30: -1.5, 31: 7.5}},
		{Q5_1, append([]byte{0x00, 0x38, 0x00, 0x40, 0x01, 0, 0, 0}, ramp(16)...),
			map[int]float32{0: 10, 1: 3, 16: 2.5}},
		{Q8_0, append([]byte{0x00, 0x38, 0x80, 0x7f, 0xff}, make([]byte, 29)...),
			map[int]float32{0: -64, 1: 63.5, 2: -0.5, 3: 0}},
		// d 2, dmin 0.5. Run 0 has the scale 1 and the minimum 2, run 4 the scale 3 + 16 and the
		// minimum 4 + 48: bytes 8 to 11 have the low halves, and bytes 0 and 4 two bits more.
		{Q4_K, slices.Concat([]byte{0x00, 0x40, 0x00, 0x38},
			[]byte{0x41, 0, 0, 0, 0xc2, 0, 0, 0, 0x43, 0, 0, 0}, ramp(128)),
			map[int]float32{0: -1, 1: 3, 128: -26, 129: 50, 255: 0}},
		{Q5_K, slices.Concat([]byte{0x00, 0x40, 0x00, 0x38},
			[]byte{0x41, 0, 0, 0, 0xc2, 0, 0, 0, 0x43, 0, 0, 0}, []byte{0x11}, make([]byte, 31),
			ramp(128)), // bit 0 and bit 4 of the first: element 0 of runs 0 and 4
			map[int]float32{0: 31, 1: 3, 128: 582, 129: 50}},
		// d 0.5. Scale 0 is 2, scale 1 is -1, scale 2 is 3, and scale 4 is 4. The high quarters are
		// 1 in run 0 and 2 in run 1 for element 0.
		{Q6_K, slices.Concat(ramp(128), []byte{0x09}, make([]byte, 63),
			[]byte{2, 0xff, 3, 0, 4}, make([]byte, 11), []byte{0x00, 0x38}),
			map[int]float32{0: -16, 1: -30, 16: 16, 32: 0, 64: -62, 65: -58}},
	} {
		got := make([]float32, types[c.kind].elements)
		if len(c.block) != types[c.kind].bytes {
			t.Fatalf("%s: the block has %d bytes", c.kind, len(c.block))
		}
		c.kind.Decode(got, c.block)
		for i, want := range c.want {
			if got[i] != want {
				t.Errorf("%s: element %d is %g, expected %g", c.kind, i, got[i], want)
			}
		}
	}
}

// vector has blocks of a type, and their elements as float32.
type vector struct{ Blocks, Floats []byte }

func readVectors(t *testing.T) map[string]vector {
	t.Helper()
	data, err := os.ReadFile("testdata/blocks.json")
	var all map[string]vector
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestBlocks decodes blocks of random bytes. The elements have the bits that the package gguf of
// PyPI gives them (build/oracle/gguf, golden.py).
func TestBlocks(t *testing.T) {
	vectors := readVectors(t)
	for kind, info := range types {
		if !kind.Readable() {
			if kind.Why() == "" {
				t.Errorf("%s cannot be read, and nothing says why", kind)
			}
			continue
		}
		v, ok := vectors[kind.String()]
		if !ok || len(v.Blocks) == 0 {
			t.Errorf("%s has no vectors", kind)
			continue
		}
		got := make([]float32, len(v.Blocks)/info.bytes*info.elements)
		kind.Decode(got, v.Blocks)
		if len(v.Floats) != 4*len(got) {
			t.Fatalf("%s: %d elements, expected %d", kind, len(got), len(v.Floats)/4)
		}
		for i, x := range got {
			var want [1]float32
			decodeF32(want[:], v.Floats[4*i:])
			if math.Float32bits(x) != math.Float32bits(want[0]) {
				t.Fatalf("%s: element %d is %g, expected %g", kind, i, x, want[0])
			}
		}
	}
}

// TestAffine checks that the groups of a block have its elements: s q + b, each product and sum
// rounded to float32. Types that are exact in float16 have only scales and biases of that type.
func TestAffine(t *testing.T) {
	count := 0
	for name, v := range readVectors(t) {
		for kind, info := range types {
			if kind.String() != name || kind.AffineBits() == 0 {
				continue
			}
			count++
			want := make([]float32, len(v.Blocks)/info.bytes*info.elements)
			kind.Decode(want, v.Blocks)
			groups := 0
			kind.Affine(v.Blocks, func(i int, codes []uint8, scale, bias float32) {
				if groups++; i != groups-1 || len(codes) != AffineGroup {
					t.Fatalf("%s: group %d of %d codes, expected group %d", kind, i, len(codes),
						groups-1)
				}
				for j, q := range codes {
					got := float32(scale*float32(q)) + bias
					if got != want[i*AffineGroup+j] || int(q)>>kind.AffineBits() != 0 {
						t.Fatalf("%s: element %d of group %d is %g with the code %d, expected %g",
							kind, j, i, got, q, want[i*AffineGroup+j])
					}
				}
				if kind.ExactInFloat16() && (!isHalf(scale) || !isHalf(bias)) {
					t.Fatalf("%s: the scale %g or the bias %g is not float16", kind, scale, bias)
				}
			})
			if groups*AffineGroup != len(want) {
				t.Errorf("%s: %d groups for %d elements", kind, groups, len(want))
			}
		}
	}
	if count != 7 {
		t.Errorf("%d types, expected 7", count)
	}
}

// isHalf reports whether float16 holds v: it has at most 11 bits, the last of at least 2^-24.
func isHalf(v float32) bool {
	fraction, exponent := math.Frexp(float64(v))
	scaled := math.Ldexp(fraction, min(11, exponent+24))
	return math.Abs(float64(v)) < 65520 && scaled == math.Trunc(scaled)
}
