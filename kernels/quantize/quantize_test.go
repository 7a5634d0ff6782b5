package quantize

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

var dtypes = []kernels.DType{kernels.F32, kernels.F16, kernels.BF16}

// formats returns all formats that MLX has.
func formats() (all []Format) {
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			all = append(all, Format{kernels.Affine, bits, group})
		}
	}
	for _, mode := range []kernels.Mode{kernels.MXFP4, kernels.MXFP8, kernels.NVFP4} {
		all = append(all, Defaults[mode.String()])
	}
	return all
}

func (f Format) packed(n int, dtype kernels.DType) Packed {
	p := Packed{Codes: make([]byte, f.CodeBytes(n)), Scales: make([]byte, f.ScaleBytes(n, dtype))}
	if f.Mode == kernels.Affine {
		p.Biases = make([]byte, len(p.Scales))
	}
	return p
}

func encode(values []float32, dtype kernels.DType) []byte {
	b := make([]byte, len(values)*dtype.Size())
	for i, v := range values {
		PutFloat(b, i, v, dtype)
	}
	return b
}

// hardGroups returns groups of size values each: random, constant, zero, with zeros of both signs,
// on one side of zero, huge, tiny, subnormal, with ties, and with an outlier.
func hardGroups(r *rand.Rand, size int, dtype kernels.DType) (values []float32) {
	most := float32(3e38)
	if dtype == kernels.F16 {
		most = 65504
	}
	add := func(next func(i int) float32) {
		for i := range size {
			values = append(values, next(i))
		}
	}
	normal := func(scale float32) func(int) float32 {
		return func(int) float32 { return float32(r.NormFloat64()) * scale }
	}
	for _, scale := range []float32{1, 0.02, 1e-3, 1e-5, 1e-7, 3e-8, 1e-20, 1e-38, 1e-42, 1e4} {
		for range 4 {
			add(normal(scale))
		}
		add(func(int) float32 { return abs(normal(scale)(0)) })
		add(func(int) float32 { return -abs(normal(scale)(0)) })
		add(func(int) float32 { return scale })
		add(func(int) float32 { return -scale })
	}
	add(func(int) float32 { return 0 })
	add(func(int) float32 { return float32(math.Copysign(0, -1)) })
	add(func(i int) float32 { return float32(math.Copysign(0, float64(i%2)-0.5)) })
	add(func(int) float32 { return most })
	add(func(int) float32 { return -most })
	add(func(i int) float32 { return most * float32(1-2*(i%2)) })
	add(func(i int) float32 { return most * float32(r.Float64()-0.5) })
	add(func(i int) float32 { return float32(i) / 4 }) // ties of each mode
	add(func(i int) float32 { return 6 - float32(i)/4 })
	add(func(i int) float32 { return float32(i)/8 - 6 })
	add(func(i int) float32 { return float32(i-size/2) * 0.5 })
	add(func(i int) float32 { return 448 - 8*float32(i) })
	add(func(i int) float32 { return float32(i) * 0x1p-10 })
	// In 2 bits, a quotient is the largest float below 0.5. Adding 0.5 to it would give 1.
	add(func(i int) float32 { return []float32{6 - 20*0x1p-23, 5 - 16*0x1p-23, 0}[min(i, 2)] })
	add(func(i int) float32 {
		if i == size/3 {
			return -100
		}
		return 0.01 * float32(r.NormFloat64())
	})
	return values
}

// TestNative compares every instruction set with the definition, on groups of all kinds.
func TestNative(t *testing.T) {
	for _, f := range formats() {
		for _, dtype := range dtypes {
			r := rand.New(rand.NewPCG(uint64(f.Bits), uint64(f.Group)))
			data := encode(hardGroups(r, f.Group, dtype), dtype)
			n := len(data) / dtype.Size()
			want := f.packed(n, dtype)
			f.Pack(cpu.Generic, want, data, dtype)
			for _, isa := range cpu.Available() {
				got := f.packed(n, dtype)
				f.Pack(isa, got, data, dtype)
				for g := range n / f.Group {
					part := func(b []byte) []byte {
						return b[g*len(b)*f.Group/n : (g+1)*len(b)*f.Group/n]
					}
					if !bytes.Equal(part(got.Codes), part(want.Codes)) ||
						!bytes.Equal(part(got.Scales), part(want.Scales)) ||
						got.Biases != nil && !bytes.Equal(part(got.Biases), part(want.Biases)) {
						t.Errorf("%v of %s on %s: group %d is %x scale %x bias %x, expected %x "+
							"scale %x bias %x", f, dtype, isa, g, part(got.Codes), part(got.Scales),
							part(got.Biases), part(want.Codes), part(want.Scales),
							part(want.Biases))
						break
					}
				}
			}
		}
	}
}

// TestAffine has groups worked by hand, in 2 bits: w = scale*code + bias.
func TestAffine(t *testing.T) {
	fill := func(rest float32, first ...float32) []float32 {
		group := make([]float32, 32)
		for i := range group {
			group[i] = rest
			if i < len(first) {
				group[i] = first[i]
			}
		}
		return group
	}
	for _, c := range []struct {
		name        string
		group       []float32
		scale, bias float32
		codes       [4]uint8 // the first four
	}{
		// The range [-1, 2] has steps of 1. 2 is the larger end, so it is code 0, and -1 is 3.
		{"both sides", fill(0, 2, -1, 1, 0.5), -1, 2, [4]uint8{0, 3, 1, 2}}, // 0.5 is a tie: 1.5 up
		{"below", fill(0, -2, 1, -0.5, 0), 1, -2, [4]uint8{0, 3, 2, 2}},
		{"zero", fill(0), -1e-7, 0, [4]uint8{}},
		// All equal: the range is 0, and the step the least, so that the value is the bias.
		{"constant", fill(1), 1 / float32(-1e7), 1, [4]uint8{}},
		// All negative: the range goes up to 0, in steps of 1, so -1 is code 2 and not 3.
		{"negative", fill(-1, -3, -1, -2), 1, -3, [4]uint8{0, 2, 1, 2}},
		// All positive: the range starts at the smallest value, 5. Steps of 1, and 8/1 is whole.
		{"positive", fill(5, 8, 7, 6, 5), -1, 8, [4]uint8{0, 1, 2, 3}},
		// The step 4/3 becomes 2.5/2, so that 0 is code 2 exactly. -1.5 would be 3.2.
		{"zero is exact", fill(0, 2.5, -1.5, 0, 1.25), -1.25, 2.5, [4]uint8{0, 3, 2, 1}},
		{"below a tie", fill(0, 6-20*0x1p-23, 5-16*0x1p-23), -(2 - 7*0x1p-23), 6 - 20*0x1p-23,
			[4]uint8{0, 0, 3, 3}},
	} {
		codes := make([]uint8, 32)
		scale, bias := affineGroup(codes, c.group, 2)
		if scale != c.scale || bias != c.bias || [4]uint8(codes) != c.codes {
			t.Errorf("%s: got scale %g, bias %g, codes %d, expected %g, %g, %d", c.name, scale,
				bias, codes[:4], c.scale, c.bias, c.codes)
		}
	}
}

// TestStream has codes in the order of the stream of bits.
func TestStream(t *testing.T) {
	codes := []uint8{1, 2, 3, 4, 5, 6, 7, 0}
	for bits, want := range map[int][]byte{
		3: {0b11_010_001, 0b0_101_100_0, 0b000_111_11}, // code 2 ends in byte 1, code 5 in byte 2
		4: {0x21, 0x43, 0x65, 0x07},
		8: {1, 2, 3, 4, 5, 6, 7, 0},
	} {
		got := make([]byte, bits)
		if PutCodes(got, codes, bits); !bytes.Equal(got, want) {
			t.Errorf("%d bits: got %x, expected %x", bits, got, want)
		}
	}
}

// TestFloats has values worked by hand from the definitions of E2M1, E4M3 and E8M0.
func TestFloats(t *testing.T) {
	negative := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		x    float32
		want uint8
	}{{0, 0}, {negative, 8}, {-0.1, 8}, {0.25, 0}, {0.26, 1}, {0.74, 1}, {0.75, 2}, {1.25, 2},
		{1.26, 3}, {1.75, 4}, {2.5, 4}, {3.5, 6}, {5, 6}, {5.1, 7}, {6, 7}, {9, 7}, {-6, 15}} {
		if got := toE2M1(c.x); got != c.want {
			t.Errorf("E2M1 of %g is %d, expected %d", c.x, got, c.want)
		}
	}
	for _, c := range []struct {
		x    float32
		want uint8
	}{{0, 0}, {negative, 0x80}, {1, 0x38}, {-1, 0xb8}, {448, 0x7e}, {464, 0x7e}, {1e9, 0x7e},
		{0x1p-9, 1}, {0x1p-10, 0}, {0x3p-10, 2}, {0x1p-6, 8}, {0x7.8p-9, 8}, // ties to even
		{1.0625, 0x38}, {1.1875, 0x3a}, {440, 0x7e}, {431, 0x7d}} {
		if got := toE4M3(c.x); got != c.want {
			t.Errorf("E4M3 of %g is %#x, expected %#x", c.x, got, c.want)
		}
	}
	for code := range 256 {
		if code&0x7f == 0x7f {
			continue // NaN
		}
		if got := toE4M3(fromE4M3(uint8(code))); got != uint8(code) {
			t.Errorf("E4M3 of the value of %#x is %#x", code, got)
		}
	}
	for _, c := range []struct {
		x    float32
		want uint8
	}{{0, 0}, {0x1p-127, 0}, {0x1.1p-127, 1}, {0x1p-126, 1}, {1, 127}, {1.0001, 128}, {2, 128},
		{1.5, 128}, {0x1.8p127, 254}} {
		if got := ceilE8M0(c.x); got != c.want {
			t.Errorf("E8M0 of %g is %d, expected %d", c.x, got, c.want)
		}
	}
}

// TestMX: the scale of a group is rounded up, so that its largest element does not saturate.
func TestMX(t *testing.T) {
	group := make([]float32, 32)
	group[0], group[1] = 7, 1
	codes := make([]uint8, 32)
	if scale := mxGroup(codes, group, 4); scale != 128 || codes[0] != 6 || codes[1] != 1 {
		t.Errorf("MXFP4: scale %d, codes %d, expected 128 and 3.5 as 4, 0.5", scale, codes[:2])
	}
	if scale := mxGroup(codes, group, 8); scale != 121 || codes[0] != 0x7e || codes[1] != 0x68 {
		t.Errorf("MXFP8: scale %d, codes %#x, expected 121 and 448, 64", scale, codes[:2])
	}
	if scale := nvfp4Group(codes, group); scale != 0x39 || codes[0] != 7 || codes[1] != 2 {
		t.Errorf("NVFP4: scale %#x, codes %d, expected 0x39 (1.125) and 6, 1", scale, codes[:2])
	}
	clear(group)
	if scale := nvfp4Group(codes, group); scale != 0 || codes[0] != 0 {
		t.Errorf("NVFP4 of zeros: scale %#x, code %d", scale, codes[0])
	}
}

// TestRounding compares the types of scales with float64.
func TestRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	decode := func(b []byte, dtype kernels.DType) float32 {
		var v [1]float32
		kernels.Tensor{Buffer: &kernels.Buffer{Bytes: b, Size: len(b)}, DType: dtype, Rows: 1,
			Cols: 1, Stride: 1}.DecodeRow(v[:], 0)
		return v[0]
	}
	for _, c := range []struct {
		dtype         kernels.DType
		fraction, low int // bits of the fraction, and the exponent of the smallest normal
	}{{kernels.BF16, 7, -126}, {kernels.F16, 10, -14}} {
		for range 20000 {
			v := float32(math.Ldexp(r.Float64()*2-1, r.IntN(40)-26))
			_, e := math.Frexp(float64(v))
			unit := math.Ldexp(1, max(e-1, c.low)-c.fraction)
			want := float32(math.RoundToEven(float64(v)/unit) * unit)
			var b [2]byte
			PutFloat(b[:], 0, v, c.dtype)
			if got := decode(b[:], c.dtype); got != want {
				t.Fatalf("%g as %s is %g, expected %g", v, c.dtype, got, want)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, f := range formats() {
		if err := f.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, f := range []Format{{}, {kernels.Affine, 7, 64}, {kernels.Affine, 4, 16},
		{kernels.MXFP4, 4, 64}, {kernels.NVFP4, 4, 32}, {kernels.FP8, 8, 32}} {
		if f.Check() == nil {
			t.Errorf("%v is accepted", f)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	const n = 1 << 20
	values := make([]float32, n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range values {
		values[i] = float32(r.NormFloat64()) * 0.02
	}
	data := encode(values, kernels.BF16)
	for _, f := range []Format{{kernels.Affine, 4, 64}, {kernels.Affine, 3, 64},
		{kernels.Affine, 8, 64}, Defaults["mxfp4"], Defaults["mxfp8"], Defaults["nvfp4"]} {
		for _, isa := range cpu.Available() {
			b.Run(fmt.Sprintf("%s_%d/%s", f.Mode, f.Bits, isa), func(b *testing.B) {
				to := f.packed(n, kernels.BF16)
				b.SetBytes(2 * n)
				for b.Loop() {
					f.Pack(isa, to, data, kernels.BF16)
				}
			})
		}
	}
}
