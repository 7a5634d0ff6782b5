package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// zeros returns a tensor of zeros.
func zeros(name string, dtype safetensors.DType, shape ...int) safetensors.Tensor {
	x := safetensors.Tensor{Name: name, DType: dtype, Shape: shape}
	x.Data = make([]byte, x.Elements()*dtype.Bytes())
	return x
}

// packed returns the three tensors of a packed matrix [n, k], with MLX's names.
func packed(name string, n, k, bits, group int) []safetensors.Tensor {
	return []safetensors.Tensor{zeros(name+".weight", safetensors.U32, n, k*bits/32),
		zeros(name+".scales", safetensors.BF16, n, k/group),
		zeros(name+".biases", safetensors.BF16, n, k/group)}
}

// packedMX returns the two tensors of a matrix [n, k] in MXFP4 or MXFP8.
func packedMX(name string, mode kernels.Mode, n, k int) []safetensors.Tensor {
	return []safetensors.Tensor{zeros(name+".weight", safetensors.U32, n, k*mode.Bits()/32),
		zeros(name+".scales", safetensors.U8, n, k/32)}
}

// open writes a model folder and opens it on the reference device. config has the keys of
// config.json after model_type.
func open(t testing.TB, config string, tensors ...safetensors.Tensor) *Weights {
	t.Helper()
	dir := t.TempDir()
	var file bytes.Buffer
	if err := safetensors.Write(&file, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return openFile(t, dir, config, file.Bytes())
}

func openFile(t testing.TB, dir, config string, file []byte) *Weights {
	t.Helper()
	if config != "" {
		config = ", " + config
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"),
		[]byte(`{"model_type": "m"`+config+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	src := Source{Dir: dir}
	c, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(src, c, kernels.NewReference())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); w.Device.Close() })
	return w
}

// TestEveryPackingIsRecognised checks that the packing follows from the shapes, with and without a
// quantization in config.json.
func TestEveryPackingIsRecognised(t *testing.T) {
	const n, k = 3, 256
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			for _, config := range []string{"",
				fmt.Sprintf(`"quantization": {"bits": %d, "group_size": %d}`, bits, group),
				fmt.Sprintf(
					`"quantization": {"bits": 4, "group_size": 64, "a": {"bits": %d, "group_size": %d}}`, bits, group)} {
				w := open(t, config, packed("a", n, k, bits, group)...)
				got := w.At("").Linear("a", n, k)
				if w.Err() != nil || got.Bits != bits || got.Group != group || got.N != n ||
					got.K != k {
					t.Errorf("%d bits in groups of %d, config %q: wrong weight: got %s of "+
						"[%d, %d], %v", bits, group, config, got.Format(), got.N, got.K, w.Err())
				}
				if want := int64(n * (k*bits/8 + 2*2*k/group)); w.MappedBytes() != want ||
					w.SizeBytes() != want {
					t.Errorf("%d bits in groups of %d: %d bytes loaded of %d, expected %d of both",
						bits, group, w.MappedBytes(), w.SizeBytes(), want)
				}
			}
		}
	}
}

// TestMXIsRecognised checks that a weight with scales of type U8 is loaded as MXFP4 or MXFP8.
// Another weight in the file is affine.
func TestMXIsRecognised(t *testing.T) {
	const n, k = 3, 128
	for _, mode := range []kernels.Mode{kernels.MXFP4, kernels.MXFP8} {
		for _, config := range []string{"",
			fmt.Sprintf(`"quantization": {"bits": %d, "group_size": 32, "mode": %q, "b": {"bits": 8, "group_size": 64}}`,
				mode.Bits(), mode),
			fmt.Sprintf(`"quantization": {"bits": 8, "group_size": 64, "a": {"mode": %q, "bits": %d, "group_size": 32}}`,
				mode, mode.Bits())} {
			w := open(t, config, append(packedMX("a", mode, n, k), packed("b", n, k, 8, 64)...)...)
			a, b := w.At("").Linear("a", n, k), w.At("").Linear("b", n, k)
			if w.Err() != nil || a.Mode != mode || a.Format() != mode.String() ||
				b.Format() != "8-bit g64" {
				t.Errorf("config %q: got %s and %s (%v), expected %s and 8-bit g64",
					config, a.Format(), b.Format(), w.Err(), mode)
			}
			if want := n * (k*mode.Bits()/8 + k/32); a.Bytes() != want {
				t.Errorf("config %q: %d bytes, expected %d", config, a.Bytes(), want)
			}
			if got := w.Parameters(); got != 2*n*k {
				t.Errorf("config %q: %d parameters, expected %d", config, got, 2*n*k)
			}
		}
	}
}

// TestLeftPlain checks that weights that are plain in the file are loaded as plain weights, even if
// config.json has a quantization.
func TestLeftPlain(t *testing.T) {
	for _, config := range []string{`"quantization": {"bits": 4, "group_size": 64, "a": false}`,
		`"quantization": {"bits": 4, "group_size": 64}`} {
		w := open(t, config, zeros("a.weight", safetensors.F16, 2, 64))
		if got := w.At("").Linear("a", 2, 64); w.Err() != nil || got.Format() != "float16" {
			t.Errorf("%s: got %s, %v, expected float16", config, got.Format(), w.Err())
		}
	}
}

// TestWeightFaults checks that errors name the tensor and the cause.
func TestWeightFaults(t *testing.T) {
	four := packed("m.a", 3, 128, 4, 64)
	linear := func(s Scope) { s.Linear("a", 3, 128) }
	vector := func(s Scope) { s.Vector("a", 4, 0) }
	for _, c := range []struct {
		name    string
		config  string
		tensors []safetensors.Tensor
		ask     func(Scope)
		says    []string
	}{
		{"missing", "", []safetensors.Tensor{zeros("m.b", safetensors.F32, 1)}, linear,
			[]string{"m.a.weight is missing"}},
		{"no biases", "", four[:2], linear, []string{"m.a.biases is missing"}},
		{"too few rows", "", four, func(s Scope) { s.Linear("a", 4, 128) },
			[]string{"m.a", "3 x 16", "4 x 16"}},
		{"plain with a wrong shape", "",
			[]safetensors.Tensor{zeros("m.a.weight", safetensors.BF16, 3, 64)}, linear,
			[]string{"m.a", "3 x 64", "3 x 128"}},
		{"packed without scales", "", four[:1], linear, []string{"m.a", "uint32"}},
		{"plain with scales", "",
			[]safetensors.Tensor{zeros("m.a.weight", safetensors.F32, 3, 128), four[1], four[2]},
			func(s Scope) {
				if w := s.Linear("a", 3, 128); s.w.err == nil {
					s.w.Failf("m.a: loaded as %s", w.Format()) // reports the format
				}
			}, []string{"m.a: loaded as float32"}},
		{"plain with scales, but packed in config.json",
			`"quantization": {"bits": 4, "group_size": 64}`,
			[]safetensors.Tensor{zeros("m.a.weight", safetensors.F32, 3, 128), four[1], four[2]},
			linear, []string{"m.a is float32, which is not packed, but config.json says 4 bits"}},
		{"bits differ from config.json", `"quantization": {"bits": 8, "group_size": 64}`, four,
			linear, []string{"m.a", "4 bits in groups of 64", "8 bits in groups of 64"}},
		{"groups differ from config.json", `"quantization": {"bits": 4, "group_size": 32}`, four,
			linear, []string{"4 bits in groups of 64", "4 bits in groups of 32"}},
		{"bits differ from an exception in config.json",
			`"quantization": {"bits": 4, "group_size": 64, "m.a": {"bits": 6, "group_size": 64}}`,
			four, linear, []string{"4 bits in groups of 64", "6 bits"}},
		{"affine, but mxfp4 in config.json",
			`"quantization": {"bits": 4, "group_size": 64, "mode": "affine", "m.a": {"mode": "mxfp4"}}`, four, linear,
			[]string{"m.a is packed as 4 bits in groups of 64", "config.json says mxfp4"}},
		{"mxfp4, but affine in config.json", `"quantization": {"bits": 4, "group_size": 32}`,
			packedMX("m.a", kernels.MXFP4, 3, 128), linear,
			[]string{"m.a is packed as mxfp4", "config.json says 4 bits in groups of 32"}},
		{"mxfp8, but affine in config.json", `"quantization": {"bits": 8, "group_size": 32}`,
			packedMX("m.a", kernels.MXFP8, 3, 128), linear,
			[]string{"m.a is packed as mxfp8", "config.json says 8 bits in groups of 32"}},
		{"scales in bytes for 6 bits", "",
			[]safetensors.Tensor{zeros("m.a.weight", safetensors.U32, 3, 24),
				zeros("m.a.scales", safetensors.U8, 3, 4)}, linear,
			[]string{"m.a", "mxfp4 with 6 bits"}},
		{"nvfp4, but mxfp4 in config.json", `"quantization": {"mode": "mxfp4"}`,
			[]safetensors.Tensor{zeros("m.a.weight", safetensors.U32, 3, 16),
				zeros("m.a.scales", safetensors.U8, 3, 8)}, linear,
			[]string{"m.a is packed as nvfp4", "config.json says mxfp4"}},
		{"vector of bytes", "", []safetensors.Tensor{zeros("m.a", safetensors.U8, 4)}, vector,
			[]string{"m.a", "uint8"}},
		{"7 bits", "",
			[]safetensors.Tensor{zeros("m.a.weight", safetensors.U32, 3, 28), four[1], four[2]},
			linear, []string{"m.a", "7 bits"}},
		{"vector of integers", "", []safetensors.Tensor{zeros("m.a", safetensors.I64, 4)}, vector,
			[]string{"m.a", "I64"}},
		{"packed vector", "", []safetensors.Tensor{zeros("m.a", safetensors.U32, 4)}, vector,
			[]string{"m.a", "uint32"}},
		{"long vector", "", []safetensors.Tensor{zeros("m.a", safetensors.F32, 5)}, vector,
			[]string{"m.a", "of shape 5,", "4 elements"}},
		{"empty", "", []safetensors.Tensor{zeros("m.a.weight", safetensors.F32, 3, 0)}, linear,
			[]string{"m.a", "3 x 0"}},
		{"second expert missing", "",
			[]safetensors.Tensor{zeros("m.e.0.weight", safetensors.F32, 2, 4)},
			func(s Scope) { s.Stack(1<<20, expertName, 2, 4) },
			[]string{"m.e.1.weight is missing"}},
		{"experts of two types", "",
			[]safetensors.Tensor{zeros("m.e.0.weight", safetensors.F32, 2, 4),
				zeros("m.e.1.weight", safetensors.F16, 2, 4)},
			func(s Scope) { s.Stack(2, expertName, 2, 4) },
			[]string{"m.e.1", "float16", "float32"}},
		{"separate packed expert", "", packed("m.e.0", 2, 64, 4, 64),
			func(s Scope) { s.Stack(1, expertName, 2, 64) }, []string{"m.e.0", "packed"}},
		{"fused stack with too few rows", "",
			[]safetensors.Tensor{zeros("m.a", safetensors.F32, 2, 3, 4)},
			func(s Scope) { s.Halves("a", 2, 2, 4) }, []string{"m.a", "2 x 3 x 4", "2 x 4 x 4"}},
		{"transposed stack with too few columns", "",
			[]safetensors.Tensor{zeros("m.a", safetensors.F32, 2, 3, 4)},
			func(s Scope) { s.Transposed("a", 2, 3, 2, 3) },
			[]string{"m.a", "2 x 3 x 4", "2 x 3 x 5"}},
		{"plain stack with a wrong shape", "",
			[]safetensors.Tensor{zeros("m.a", safetensors.F32, 2, 3, 4)},
			func(s Scope) { s.Plain("a", 2, 2, 4) }, []string{"m.a", "2 x 3 x 4"}},
	} {
		w := open(t, c.config, c.tensors...)
		c.ask(w.At("m."))
		for _, says := range c.says {
			if w.Err() == nil || !strings.Contains(w.Err().Error(), says) {
				t.Errorf("%s: got %v, expected %q", c.name, w.Err(), says)
			}
		}
		first := w.Err()
		w.Failf("later")
		if w.Err() != first {
			t.Errorf("%s: a later error replaced the first one", c.name)
		}
	}
}

// TestForeignQuantizations loads weights that other programs have quantized, without a word about
// it in config.json. They are not damaged.
func TestForeignQuantizations(t *testing.T) {
	integers := func(name string) safetensors.Tensor { return zeros(name, safetensors.I32, 3, 16) }
	codes := func(name string) safetensors.Tensor { return zeros(name, safetensors.U8, 3, 64) }
	linear := func(s Scope) { s.Linear("a", 3, 128) }
	for _, c := range []struct {
		name    string
		tensors []safetensors.Tensor
		ask     func(Scope)
		says    string
	}{
		{"GPTQ", []safetensors.Tensor{integers("m.a.qweight"), integers("m.a.qzeros")}, linear,
			"cannot tell how this model is quantized: it has the tensor m.a.qweight of GPTQ or " +
				"AWQ, but config.json has no quantization_config."},
		{"compressed-tensors", []safetensors.Tensor{integers("m.a.weight_packed"),
			zeros("m.a.weight_scale", safetensors.BF16, 3, 4)}, linear,
			"it has the tensor m.a.weight_packed of compressed-tensors, but config.json has"},
		{"bitsandbytes", []safetensors.Tensor{codes("m.a.weight"),
			zeros("m.a.weight.absmax", safetensors.F32, 6)}, linear, "with bitsandbytes"},
		{"HQQ", []safetensors.Tensor{codes("m.a.W_q")}, linear, "with HQQ"},
		{"FP8 in blocks with other scales", []safetensors.Tensor{
			zeros("m.a.weight", safetensors.F8E5M2, 3, 128),
			zeros("m.a.weight_scale_inv", safetensors.F32, 1, 1)}, linear,
			"with FP8 in E5M2, which Headroom cannot run: it has the tensor m.a.weight_scale_inv."},
		{"FP8 with scales", []safetensors.Tensor{zeros("m.a.weight", safetensors.F8E5M2, 3, 128),
			zeros("m.a.weight_scale", safetensors.F32, 1)}, linear, "with FP8 in E5M2, which"},
		{"INT8", []safetensors.Tensor{zeros("m.a.weight", safetensors.I8, 3, 128),
			zeros("m.a.weight_scale", safetensors.F32, 1)}, linear, "with INT8, which"},
		{"FP4", []safetensors.Tensor{codes("m.a.weight"),
			zeros("m.a.weight_scale", safetensors.F8E4M3, 3, 8)}, linear, "with FP8, FP4 or INT8"},
		{"FP8 alone", []safetensors.Tensor{zeros("m.a.weight", safetensors.F8E4M3, 3, 128)}, linear,
			"with an unknown layout of FP8, which Headroom cannot run: tensor m.a.weight has " +
				"type F8_E4M3, and neither m.a.weight_scale_inv nor m.a.weight_scale is " +
				"beside it. " +
				"Use an MLX"},
		{"an FP8 norm", []safetensors.Tensor{zeros("m.a", safetensors.F8E4M3, 4)},
			func(s Scope) { s.Vector("a", 4, 0) }, "layout of FP8"},
		{"FP8 experts", []safetensors.Tensor{zeros("m.a", safetensors.F8E4M3, 2, 3, 4)},
			func(s Scope) { s.Plain("a", 2, 3, 4) }, "layout of FP8"},
		{"float64", []safetensors.Tensor{zeros("m.a.weight", safetensors.F64, 3, 128)}, linear,
			"cannot run weights of this type: tensor m.a.weight has type F64"},
	} {
		w := open(t, "", c.tensors...)
		c.ask(w.At("m."))
		if p := problem.From(w.Err()); w.Err() == nil || p.Code != problem.UnknownArchitecture ||
			!strings.Contains(p.Error(), c.says) {
			t.Errorf("%s: got %v, expected %q", c.name, w.Err(), c.says)
		}
	}
	for _, key := range []string{"quantization", "quantization_config"} {
		w := open(t, `"`+key+`": {"bits": 4}`, integers("m.a.qweight"))
		linear(w.At("m."))
		want := "but " + key + " in config.json is of another method."
		if w.Err() == nil || !strings.Contains(w.Err().Error(), want) {
			t.Errorf("GPTQ: got %v, expected %q", w.Err(), want)
		}
	}
	w := open(t, fmt.Sprintf(packQuantizedConfig, ""),
		zeros("m.a.weight_packed", safetensors.U8, 3, 64))
	if linear(w.At("m.")); w.Err() == nil ||
		!strings.Contains(w.Err().Error(), "the scales of tensor m.a.weight_packed are missing") {
		t.Errorf("compressed-tensors: %v", w.Err())
	}
	w = open(t, "", zeros("m.a.weight", safetensors.BF16, 3, 128),
		zeros("m.a.weight_scale", safetensors.F32, 1))
	if linear(w.At("m.")); w.Err() != nil {
		t.Errorf("plain weights beside a scale: %v", w.Err())
	}
}

// TestUnread checks which tensors count as read.
func TestUnread(t *testing.T) {
	w := open(t, "", append(packed("m.a", 3, 64, 4, 64), zeros("m.v", safetensors.F32, 4),
		zeros("m.b.weight", safetensors.F32, 4), zeros("m.b.bias", safetensors.F32, 4),
		zeros("m.c.weight", safetensors.F32, 4), zeros("m.d.weight", safetensors.I64, 4))...)
	s := w.At("m.")
	s.Linear("a", 3, 64)
	s.Vector("v", 4, 0)
	s.Ignore("b", "none")
	s.Has("c.weight")
	s.Shape("c.weight")
	if got := w.Unread(); !slices.Equal(got, []string{"m.c.weight", "m.d.weight"}) ||
		!w.HasRead("m.a.weight") || w.HasRead("m.c.weight") || s.Path() != "m." || w.Err() != nil {
		t.Errorf("got %v, %v", got, w.Err())
	}
	for limit, want := range map[int]bool{15: false, 16: true} {
		if bytes, zero := w.IsZero("m.c.weight", limit); zero != want || zero && bytes != 16 {
			t.Errorf("limit %d: %d bytes, %t", limit, bytes, zero)
		}
	}
	if _, zero := w.IsZero("none", 1<<20); zero {
		t.Error("a tensor that does not exist is 0")
	}
}

func expertName(i int) string { return fmt.Sprintf("e.%d", i) }

func TestPrefixes(t *testing.T) {
	w := open(t, "", zeros("model.language_model.x.weight", safetensors.F32, 2, 2),
		zeros("lm_head.weight", safetensors.F32, 2, 2))
	for _, c := range []struct {
		prefixes []string
		name     string
		has      bool
	}{
		{[]string{"language_model.model.", "model.language_model.", "model."}, "x.weight", true},
		{[]string{"model."}, "x.weight", false},
		{[]string{"model."}, "language_model.x.weight", true},
		{[]string{""}, "lm_head.weight", true},
		{[]string{"nothing.", "neither."}, "x.weight", false},
	} {
		s := w.At(c.prefixes...)
		if s.Has(c.name) != c.has || (s.Shape(c.name) != nil) != c.has {
			t.Errorf("%q at %q: got %v, expected %v", c.name, c.prefixes, s.Has(c.name), c.has)
		}
	}
	if s := w.At("model.").Sub("language_model").Sub("%s", "x"); !s.Has("weight") {
		t.Error("Sub of Sub: the tensor is not found")
	}
}

// TestMatrix checks that tensors of every floating-point type are converted to float32.
func TestMatrix(t *testing.T) {
	want := []float32{1, -2, 0.5, 65504, 6.103515625e-05, 5.9604644775390625e-08}
	f32, f16, bf16 := zeros("f32", safetensors.F32, 3, 1, 2), zeros("f16", safetensors.F16, 6),
		zeros("bf16", safetensors.BF16, 6)
	for i, h := range []uint16{0x3c00, 0xc000, 0x3800, 0x7bff, 0x0400, 0x0001} {
		// The last two are the smallest normal and the smallest subnormal float16.
		binary.LittleEndian.PutUint16(f16.Data[2*i:], h)
		binary.LittleEndian.PutUint32(f32.Data[4*i:], math.Float32bits(want[i]))
		binary.LittleEndian.PutUint16(bf16.Data[2*i:], uint16(math.Float32bits(want[i])>>16))
	}
	w := open(t, "", f32, f16, bf16)
	for _, name := range []string{"f32", "f16"} {
		if got := w.At("").Matrix(name, 3, 2, 0).Float32s(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, expected %v", name, got, want)
		}
	}
	if got := w.At("").Vector("bf16", 6, 1).Float32s(); got[0] != 2 || got[1] != -1 ||
		got[2] != 1.5 {
		t.Errorf("bf16 plus 1: got %v, expected 2, -1 and 1.5 first", got)
	}
	if w.Err() != nil {
		t.Error(w.Err())
	}
}

// TestUnalignedTensors reads a file whose header has an odd length, as old writers produced. The
// loaded weights must have the same values and must be aligned.
func TestUnalignedTensors(t *testing.T) {
	data := make([]byte, 16)
	for i := range 4 {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(i)))
	}
	header, err := json.Marshal(
		map[string]any{"a.weight": map[string]any{"dtype": "F32", "shape": []int{2, 2},
			"data_offsets": []int{0, 16}}})
	if err != nil {
		t.Fatal(err)
	}
	for len(header)%4 != 1 {
		header = append(header, ' ')
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	w := openFile(t, t.TempDir(), "", append(file, data...))
	got := w.At("").Linear("a", 2, 2)
	if w.Err() != nil || !slices.Equal(got.Data.Float32s(), []float32{0, 1, 2, 3}) ||
		got.Data.Offset%4 != 0 {
		t.Errorf("got %v at byte %d (%v), expected 0 to 3 at a multiple of 4",
			got.Data.Float32s(), got.Data.Offset, w.Err())
	}
}

// TestSplit compares the parts of a fused projection with the rows of the whole.
func TestSplit(t *testing.T) {
	const n, k = 5, 64
	for _, bits := range []int{0, 2, 3, 4, 6} {
		tensors := []safetensors.Tensor{zeros("a.weight", safetensors.BF16, n, k)}
		if bits > 0 {
			tensors = packed("a", n, k, bits, 32)
		}
		for _, x := range tensors {
			for i := range x.Data {
				x.Data[i] = byte(i*37+i/256) & 0xbf // no NaN
			}
		}
		w := open(t, "", tensors...)
		whole := w.At("").Linear("a", n, k)
		row, want := make([]float32, k), make([]float32, k)
		from := 0
		for i, part := range w.At("").Split("a", k, 3, 1, 1) {
			if err := errors.Join(w.Err(), part.Check()); err != nil {
				t.Fatalf("%d bits, part %d: %v", bits, i, err)
			}
			for r := range part.N {
				part.DequantizeRow(row, r)
				whole.DequantizeRow(want, from+r)
				if !slices.Equal(row, want) {
					t.Errorf("%d bits: row %d of part %d is not row %d of the whole", bits, r, i,
						from+r)
				}
			}
			from += part.N
		}
		if from != n {
			t.Errorf("%d bits: the parts have %d rows, expected %d", bits, from, n)
		}
		if w.At("").Split("a", k, 3, 1); w.Err() == nil {
			t.Errorf("%d bits: no error for parts of 4 rows", bits)
		}
	}
}

// TestEqualValues: tensors are equal if their values are, also in another type of floats.
func TestEqualValues(t *testing.T) {
	one := func(name string, d safetensors.DType, bytes ...byte) safetensors.Tensor {
		return safetensors.Tensor{Name: name, DType: d, Shape: []int{2}, Data: bytes}
	}
	w := open(t, "", one("m.f32", safetensors.F32, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0), // 1, -2
		one("m.bf16", safetensors.BF16, 0x80, 0x3f, 0, 0xc0),
		one("m.f16", safetensors.F16, 0, 0x3c, 0, 0xc0),
		one("m.other", safetensors.BF16, 0x80, 0x3f, 1, 0xc0),
		one("m.codes", safetensors.U8, 1, 2))
	s := w.At("m.")
	for name, want := range map[string]bool{"f32": true, "bf16": true, "f16": true,
		"other": false, "codes": false, "none": false} {
		if s.Equals("f32", s, name) != want {
			t.Errorf("f32 equals %s: %t", name, !want)
		}
		if name != "none" && s.IsFloat(name) != (name != "codes") {
			t.Errorf("%s consists of floats: %t", name, name == "codes")
		}
	}
}

// TestEqualEnds: a dry run compares the ends of tensors alone.
func TestEqualEnds(t *testing.T) {
	n := 2*dryEqualElements + 100
	a := safetensors.Tensor{DType: safetensors.F32, Shape: []int{n}, Data: make([]byte, 4*n)}
	b := safetensors.Tensor{DType: safetensors.BF16, Shape: []int{n}, Data: make([]byte, 2*n)}
	for _, c := range []struct {
		at         int
		dry, whole bool
	}{{0, false, false}, {dryEqualElements - 1, false, false}, {dryEqualElements, true, false},
		{n - dryEqualElements - 1, true, false}, {n - dryEqualElements, false, false},
		{n - 1, false, false}} {
		b.Data[2*c.at] = 1
		if equalValues(a, b, true) != c.dry || equalValues(a, b, false) != c.whole {
			t.Errorf("a difference at %d of %d: a dry run says %t, expected %t", c.at, n, !c.dry,
				c.dry)
		}
		b.Data[2*c.at] = 0
	}
}
