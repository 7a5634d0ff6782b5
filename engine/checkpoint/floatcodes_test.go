package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
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

// goldenFloats has values that torch, compressed-tensors and MLX compute (testdata/floatcodes.py).
type goldenFloats struct {
	E4M3 []*float32 `json:"e4m3"` // of every code; nil: NaN
	FP8  struct {
		Scales []float32 `json:"scales"` // of blocks [2, 3] of a matrix [130, 288]
		Places [][2]int  `json:"places"`
		Values []float32 `json:"values"`
	} `json:"fp8"`
	NVFP4 map[string][]float32 `json:"nvfp4"` // matrices [6, 96]
}

func readGoldenFloats(t *testing.T) (g goldenFloats) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "floatcodes.json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// goldenCodes returns the bytes [n, k] of floatcodes.py. Those that mask turns into 127 are 1.
func goldenCodes(n, k int, mask byte) []byte {
	b := make([]byte, n*k)
	for i := range b {
		if b[i] = byte(i * 2654435761 >> 7); mask != 0 && b[i]&mask == 127 {
			b[i] = 1
		}
	}
	return b
}

// tensorOf returns a tensor with the given data.
func tensorOf(name string, dtype safetensors.DType, data []byte, shape ...int) safetensors.Tensor {
	return safetensors.Tensor{Name: name, DType: dtype, Shape: shape, Data: data}
}

// floatTensorOf returns a tensor of F32 or BF16. In BF16 values are rounded toward zero.
func floatTensorOf(name string, dtype safetensors.DType, values []float32,
	shape ...int) safetensors.Tensor {
	x := safetensors.Tensor{Name: name, DType: dtype, Shape: shape}
	for _, v := range values {
		if dtype == safetensors.BF16 {
			x.Data = binary.LittleEndian.AppendUint16(x.Data, uint16(math.Float32bits(v)>>16))
		} else {
			x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(v))
		}
	}
	return x
}

// elementsOf returns the elements of a weight.
func elementsOf(w *kernels.Weight) [][]float32 {
	var all [][]float32
	for row := range w.Experts * w.N {
		x := make([]float32, w.K)
		w.DequantizeRow(x, row)
		all = append(all, x)
	}
	return all
}

// near reports whether a value differs from the expected one by two roundings at most.
func near(got, want float32) bool {
	return math.Abs(float64(got-want)) <= 2.4e-7*math.Abs(float64(want))
}

// loadedWays returns the module m.a or m.e.0 loaded in each way: by itself, for Pick, for latent
// attention, as the first expert of two.
func loadedWays(s Scope, n, k int) map[string]*kernels.Weight {
	ways := map[string]*kernels.Weight{
		"Linear": s.Linear("a", n, k),
		"Pick":   s.Pick(s.View("a", n, k), n, func(i int) int { return i }),
		"Stack":  s.Stack(2, func(int) string { return "a" }, n, k),
	}
	parts := s.Split("a", k, 1, n-1)
	ways["the rest of Split"] = parts[1]
	_, ways["Absorbed"] = s.Absorbed("a", 1, 1, n-1, k)
	return ways
}

// TestE8M0 checks that scales that are powers of two, in codes or bytes, are those of float32, of
// blocks and of rows.
func TestE8M0(t *testing.T) {
	const n, k = 130, 288
	codes := tensorOf("m.a.weight", safetensors.F8E4M3, goldenCodes(n, k, 127), n, k)
	blocks, rows := []byte{127, 120, 134, 1, 254, 126}, make([]byte, n)
	powers := []float32{1, 0x1p-7, 128, 0x1p-126, 0x1p127, 0.5}
	rowPowers := make([]float32, n)
	for i := range rows {
		rows[i] = blocks[i%4]
		rowPowers[i] = powers[i%4]
	}
	elements := func(config string, scales safetensors.Tensor) [][]float32 {
		w := open(t, config, codes, scales)
		x := w.At("m.").Linear("a", n, k)
		if w.Err() != nil {
			t.Fatal(w.Err())
		}
		return elementsOf(x)
	}
	const usual, e8m0 = `"quantization_config": {"quant_method": "fp8"}`,
		`"quantization_config": {"quant_method": "fp8", "scale_fmt": "ue8m0"}`
	inBlocks := elements(usual, floatTensorOf("m.a.weight_scale_inv", safetensors.F32, powers, 2,
		3))
	inRows := elements(usual, floatTensorOf("m.a.weight_scale", safetensors.F32, rowPowers, n, 1))
	for _, c := range []struct {
		scales safetensors.Tensor
		want   [][]float32
	}{
		{tensorOf("m.a.weight_scale_inv", safetensors.F8E8M0, blocks, 2, 3), inBlocks},
		{tensorOf("m.a.weight_scale_inv", safetensors.U8, blocks, 2, 3), inBlocks},
		{tensorOf("m.a.weight_scale", safetensors.F8E8M0, rows, n, 1), inRows},
	} {
		for row, got := range elements(e8m0, c.scales) {
			if !slices.Equal(got, c.want[row]) {
				t.Fatalf("%s in %s: row %d differs", c.scales.Name, c.scales.DType, row)
			}
		}
	}
	if got := powerOfTwo(0); got != 0x1p-127 {
		t.Errorf("code 0 is %g", got)
	}
}

// TestFBGEMM checks that a scale for each row loads, and that the bounds of activations are no
// parameters.
func TestFBGEMM(t *testing.T) {
	w := open(t, `"quantization_config": {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200,
		"modules_to_not_convert": ["lm_head"]}`,
		tensorOf("m.a.weight", safetensors.F8E4M3, bytes.Repeat([]byte{0x38}, 64), 2, 32),
		floatTensorOf("m.a.weight_scale", safetensors.F32, []float32{3, 5}, 2, 1),
		floatTensorOf("m.a.input_scale_ub", safetensors.F32, []float32{1200}, 1))
	got := elementsOf(w.At("m.").Linear("a", 2, 32)) // 0x38 is 1
	if w.Err() != nil || got[0][7] != 3 || got[1][31] != 5 {
		t.Errorf("got %v and %v", got, w.Err())
	}
	if n := w.Parameters(); n != 64 {
		t.Errorf("%d parameters, expected 64", n)
	}
}

// TestE4M3EqualsTorch checks the value of every code.
func TestE4M3EqualsTorch(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	w := open(t, "", tensorOf("m.a.weight", safetensors.F8E4M3, every, 1, 256),
		floatTensorOf("m.a.weight_scale", safetensors.F32, []float32{1}))
	got := w.At("m.").Linear("a", 1, 256)
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	for code, v := range elementsOf(got)[0] {
		want := readGoldenFloats(t).E4M3[code]
		if isNaN := v != v; isNaN != (want == nil) || want != nil && v != *want {
			t.Errorf("code %d is %g, expected %v", code, v, want)
		}
	}
}

// TestBlockFP8EqualsTorch checks elements of a matrix with ragged blocks.
func TestBlockFP8EqualsTorch(t *testing.T) {
	const n, k = 130, 288
	g := readGoldenFloats(t)
	w := open(t, `"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}`,
		tensorOf("m.a.weight", safetensors.F8E4M3, goldenCodes(n, k, 127), n, k),
		floatTensorOf("m.a.weight_scale_inv", safetensors.F32, g.FP8.Scales, 2, 3))
	for how, got := range loadedWays(w.At("m."), n, k) {
		if w.Err() != nil {
			t.Fatalf("%s: %v", how, w.Err())
		}
		rows := elementsOf(got)
		for i, at := range g.FP8.Places {
			r := at[0] - n + got.N // Split and Absorbed lack the first row
			if r >= 0 && rows[r][at[1]] != g.FP8.Values[i] {
				t.Errorf("%s, element %v is %g, expected %g", how, at, rows[r][at[1]],
					g.FP8.Values[i])
			}
		}
		if got.Format() != "fp8" || got.Group != 128 {
			t.Errorf("%s has the format %s and groups of %d", how, got.Format(), got.Group)
		}
	}
	if got := w.Parameters(); got != n*k {
		t.Errorf("%d parameters, expected %d", got, n*k)
	}
}

// TestBlockScalesAreNotTransposed checks that scales with the shape of the transposed matrix are an
// error, and that those of a square matrix are those of rows, then of columns.
func TestBlockScalesAreNotTransposed(t *testing.T) {
	w := open(t, "", zeros("m.a.weight", safetensors.F8E4M3, 130, 288),
		zeros("m.a.weight_scale_inv", safetensors.F32, 3, 2))
	if w.At("m.").Linear("a", 130, 288); w.Err() == nil ||
		!strings.Contains(w.Err().Error(),
			"shape 3 x 2, expected F16, BF16, F32, F8_E8M0 or U8 of shape 2 x 3") {
		t.Errorf("got %v", w.Err())
	}
	const n, block = 96, 64
	ones := slices.Repeat([]byte{0x38}, n*n)
	for _, dtype := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
		w = open(t, `"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]}`,
			tensorOf("m.a.weight", safetensors.F8E4M3, ones, n, n),
			floatTensorOf("m.a.weight_scale_inv", dtype, []float32{1, 2, 4, 8}, 2, 2))
		got := w.At("m.").Linear("a", n, n)
		if w.Err() != nil {
			t.Fatal(w.Err())
		}
		for r, row := range elementsOf(got) {
			for c, v := range row {
				if want := []float32{1, 2, 4, 8}[r/block*2+c/block]; v != want {
					t.Fatalf("%s, element (%d, %d) is %g, expected %g", dtype, r, c, v, want)
				}
			}
		}
	}
}

// TestFP8Scales checks scales of rows, and of a whole matrix, in the shapes that writers use.
func TestFP8Scales(t *testing.T) {
	const n, k = 6, 96
	each := []float32{1, 2, 4, 8, 16, 32}
	for _, c := range []struct {
		suffix string
		shape  []int
	}{{".weight_scale", []int{n, 1}}, {".weight_scale", []int{n}}, {".weight_scale", []int{1}},
		{".weight_scale", nil}, {".weight_scale", []int{1, 1}}, {".weight_scale_inv", nil}} {
		scales := each
		if s := zeros("", safetensors.F32, c.shape...); s.Elements() == 1 {
			scales = []float32{0.5}
		}
		w := open(t, "", tensorOf("m.a.weight", safetensors.F8E4M3,
			slices.Repeat([]byte{0x38}, n*k), n, k),
			floatTensorOf("m.a"+c.suffix, safetensors.BF16, scales, c.shape...),
			zeros("m.a.input_scale", safetensors.F32))
		for how, got := range loadedWays(w.At("m."), n, k) {
			if w.Err() != nil {
				t.Fatalf("%s %v, %s: %v", c.suffix, c.shape, how, w.Err())
			}
			for r, row := range elementsOf(got) {
				if how == "Stack" {
					r %= n
				} else {
					r += n - got.N
				}
				if want := scales[r%len(scales)]; row[0] != want || row[k-1] != want {
					t.Errorf("%s %v, %s: row %d is %g, expected %g", c.suffix, c.shape, how, r,
						row[0], want)
				}
			}
		}
	}
}

// nvfp4Tensors returns a matrix [6, 96] of floatcodes.py as each program writes it.
func nvfp4Tensors() map[string][]safetensors.Tensor {
	const n, k = 6, 96
	codes, scales := goldenCodes(n, k/2, 0), goldenCodes(n, k/16, 127)
	unsigned := slices.Clone(scales)
	for i := range unsigned {
		unsigned[i] &= 127
	}
	global := func(name string, v float32) safetensors.Tensor {
		return floatTensorOf(name, safetensors.F32, []float32{v})
	}
	return map[string][]safetensors.Tensor{
		"divided": {tensorOf("m.a.weight_packed", safetensors.U8, codes, n, k/2),
			tensorOf("m.a.weight_scale", safetensors.F8E4M3, scales, n, k/16),
			global("m.a.weight_global_scale", 1234.5), global("m.a.input_global_scale", 2)},
		"ModelOpt": {tensorOf("m.a.weight", safetensors.U8, codes, n, k/2),
			tensorOf("m.a.weight_scale", safetensors.F8E4M3, scales, n, k/16),
			global("m.a.weight_scale_2", 1/1234.5), global("m.a.input_scale", 2)},
		"mlx": {tensorOf("m.a.weight", safetensors.U32, codes, n, k/8),
			tensorOf("m.a.scales", safetensors.U8, unsigned, n, k/16),
			global("m.a.global_scale", 3.25)},
		"plain": {tensorOf("m.a.weight", safetensors.U32, codes, n, k/8),
			tensorOf("m.a.scales", safetensors.U8, unsigned, n, k/16)},
	}
}

// TestNVFP4EqualsLibraries checks every element against compressed-tensors and MLX.
func TestNVFP4EqualsLibraries(t *testing.T) {
	const n, k = 6, 96
	g := readGoldenFloats(t)
	g.NVFP4["ModelOpt"] = g.NVFP4["divided"]
	for name, tensors := range nvfp4Tensors() {
		config := map[string]string{"ModelOpt": `"quantization_config": {"quant_method": "modelopt",
				"quant_algo": "NVFP4"}`,
			"divided": nvfp4Config, "mlx": `"quantization": {"mode": "nvfp4"}`}[name]
		w := open(t, config, tensors...)
		ways := map[string]*kernels.Weight{"Linear": w.At("m.").Linear("a", n, k)}
		if name == "divided" || name == "ModelOpt" {
			ways = loadedWays(w.At("m."), n, k)
		}
		for how, got := range ways {
			if w.Err() != nil || got.Format() != "nvfp4" {
				t.Fatalf("%s, %s: %s, %v", name, how, got.Format(), w.Err())
			}
			for r, row := range elementsOf(got) {
				if how == "Stack" {
					r %= n
				} else {
					r += n - got.N
				}
				for i, v := range row {
					if want := g.NVFP4[name][r*k+i]; !near(v, want) {
						t.Errorf("%s, %s: element (%d, %d) is %g, expected %g", name, how, r, i, v,
							want)
					}
				}
			}
		}
		if got := w.Parameters(); got != n*k {
			t.Errorf("%s: %d parameters, expected %d", name, got, n*k)
		}
	}
}

const nvfp4Config = `"quantization_config": {"quant_method": "compressed-tensors",
	"format": "nvfp4-pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
	"weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16,
	"symmetric": true}, "input_activations": {"num_bits": 4, "type": "float"}}}}`

// TestModelOptFile checks that hf_quant_config.json counts if config.json has no quantization.
func TestModelOptFile(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("config.json", `{"model_type": "m"}`)
	for text, want := range map[string]string{
		`{"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": []}}`: "nvfp4",
		`{"quantization": {"quant_algo": "FP8"}}`:                                            "fp8",
	} {
		put("hf_quant_config.json", text)
		c, err := Source{Dir: dir}.Config()
		if err != nil || c.Quantization.String() != want {
			t.Errorf("%s: got %v, %v, expected %s", text, c, err, want)
		}
	}
	put("hf_quant_config.json", `{"quantization": {"quant_algo": "W4A16_AWQ"}}`)
	if _, err := (Source{Dir: dir}).Config(); err == nil || !strings.Contains(err.Error(),
		`its quant_algo is "W4A16_AWQ", expected FP8 or NVFP4. Use`) {
		t.Errorf("got %v", err)
	}
	put("config.json", `{"model_type": "m", "quantization": {"bits": 4, "group_size": 64}}`)
	if c, err := (Source{Dir: dir}).Config(); err != nil || c.Quantization.Bits != 4 {
		t.Errorf("config.json has a quantization, but got %v, %v", c, err)
	}
}

// TestFloatFaults expects a Problem that says what is wrong.
func TestFloatFaults(t *testing.T) {
	const n, k = 6, 96
	fp8 := zeros("m.a.weight", safetensors.F8E4M3, n, k)
	packed := nvfp4Tensors()
	nan := float32(math.NaN())
	replaced := func(tensors []safetensors.Tensor, x safetensors.Tensor) []safetensors.Tensor {
		tensors = slices.Clone(tensors)
		for i := range tensors {
			if tensors[i].Name == x.Name {
				tensors[i] = x
			}
		}
		return tensors
	}
	for _, c := range []struct {
		name, config string
		tensors      []safetensors.Tensor
		n, k         int
		says         string
	}{
		{"codes of another shape", "", []safetensors.Tensor{fp8,
			zeros("m.a.weight_scale", safetensors.F32, 1)}, n, 2 * k,
			"expected F8_E4M3 of shape"},
		{"too many scales", "", []safetensors.Tensor{fp8,
			zeros("m.a.weight_scale", safetensors.F32, 7)}, n, k, "with 1 or 6 elements"},
		{"no scales", "", []safetensors.Tensor{fp8,
			zeros("m.a.weight_scale", safetensors.F32, 0)}, n, k, "with 1 or 6 elements"},
		{"no scales of blocks", "", []safetensors.Tensor{fp8,
			zeros("m.a.weight_scale_inv", safetensors.F32, 0, 1)}, n, k, "of shape 1 x 1"},
		{"scales of blocks of 0", `"quantization_config": {"quant_method": "compressed-tensors",
			"format": "float-quantized", "config_groups": {"a": {"targets": ["Linear"], "weights": {
			"num_bits": 8, "type": "float", "strategy": "channel", "block_structure": [0, 0]}}}}`,
			[]safetensors.Tensor{fp8, zeros("m.a.weight_scale", safetensors.F32, 2, 2)}, n, k,
			"of shape 1 x 1"},
		{"a scale in bytes", "", []safetensors.Tensor{fp8,
			zeros("m.a.weight_scale", safetensors.U8, 1)}, n, k, "is U8"},
		{"a NaN in E8M0", "", []safetensors.Tensor{fp8, tensorOf("m.a.weight_scale",
			safetensors.F8E8M0, []byte{255}, 1)}, n, k, "not a finite number"},
		{"an infinite scale", "", []safetensors.Tensor{fp8, floatTensorOf("m.a.weight_scale",
			safetensors.F32, []float32{float32(math.Inf(1))}, 1)}, n, k, "not a finite number"},
		{"a NaN in a block", "", []safetensors.Tensor{fp8, floatTensorOf("m.a.weight_scale_inv",
			safetensors.BF16, []float32{nan}, 1, 1)}, n, k, "not a finite number"},
		{"a narrow width", "", []safetensors.Tensor{zeros("m.a.weight", safetensors.F8E4M3, n, 40),
			zeros("m.a.weight_scale", safetensors.F32, 1)}, n, 40,
			"m.a in FP8 has the width 40, expected a multiple of 32. Use an MLX"},
		{"an odd width", "", []safetensors.Tensor{zeros("m.a.weight", safetensors.F8E4M3, n, 1),
			zeros("m.a.weight_scale", safetensors.F32, 1)}, n, 1, "width 1, expected a multiple"},
		{"fp8, but 4 bits in config.json", `"quantization": {"bits": 4, "group_size": 64}`,
			[]safetensors.Tensor{fp8, zeros("m.a.weight_scale", safetensors.F32, 1)}, n, k,
			"m.a is packed as fp8, but config.json says 4 bits in groups of 64"},
		{"nvfp4, but fp8 in config.json", `"quantization_config": {"quant_method": "fp8"}`,
			packed["ModelOpt"], n, k, "m.a is packed as nvfp4, but config.json says fp8"},
		{"scales of groups of 32", "", replaced(packed["ModelOpt"],
			zeros("m.a.weight_scale", safetensors.F8E4M3, n, k/32)), n, k, "of shape 6 x 6"},
		{"a missing scale", "", packed["ModelOpt"][:0:0], n, k, "m.a.weight is missing"},
		{"two global scales", "", replaced(packed["ModelOpt"],
			zeros("m.a.weight_scale_2", safetensors.F32, 2)), n, k, "expected one element"},
		{"a global scale of 0", nvfp4Config, replaced(packed["divided"],
			zeros("m.a.weight_global_scale", safetensors.F32, 1)), n, k, "not a finite number"},
		{"an odd width in nvfp4", "", []safetensors.Tensor{
			zeros("m.a.weight", safetensors.U8, n, 8), zeros("m.a.weight_scale_2", safetensors.F32),
			zeros("m.a.weight_scale", safetensors.F8E4M3, n, 1)}, n, 17,
			"expected a multiple of 16"},
		{"global scales of other experts", "", replaced(packed["mlx"],
			zeros("m.a.global_scale", safetensors.F32, 3)), n, k, "with 1 or 1 elements"},
		{"a NaN of MLX", "", replaced(packed["mlx"], floatTensorOf("m.a.global_scale",
			safetensors.F32, []float32{nan})), n, k, "not a finite number"},
	} {
		for _, way := range []string{"Linear", "Stack", "View"} {
			if way != "Linear" && strings.Contains(c.says, "1 or 1") || len(c.tensors) == 0 {
				continue
			}
			w := open(t, c.config, c.tensors...)
			s := w.At("m.")
			switch way {
			case "Linear":
				s.Linear("a", c.n, c.k)
			case "Stack":
				if c.tensors[0].DType == safetensors.U32 {
					continue
				}
				s.Stack(1<<20, func(int) string { return "a" }, c.n, c.k)
			default:
				s.View("a", c.n, c.k)
			}
			if strings.Contains(c.says, "finite") && way == "Stack" {
				continue // a million experts
			}
			if p := problem.From(w.Err()); w.Err() == nil || p.Code == problem.Internal ||
				!strings.Contains(w.Err().Error(), c.says) {
				t.Errorf("%s, %s: got %v, expected %q", c.name, way, w.Err(), c.says)
			}
		}
	}
}

// TestFloatStacksAreUniform checks that experts in different packings are an error.
func TestFloatStacksAreUniform(t *testing.T) {
	fp8 := func(name string) []safetensors.Tensor {
		return []safetensors.Tensor{zeros(name+".weight", safetensors.F8E4M3, 4, 64),
			zeros(name+".weight_scale", safetensors.F32, 1)}
	}
	for says, other := range map[string][]safetensors.Tensor{
		"m.e.1 is float32, which is not packed": {zeros("m.e.1.weight", safetensors.F32, 4, 64)},
		"m.e.1 is packed as fp8 with a scale for 32 columns": {
			zeros("m.e.1.weight", safetensors.F8E4M3, 4, 64),
			zeros("m.e.1.weight_scale_inv", safetensors.F32, 1, 2)},
		"e.2": fp8("m.e.1"),
	} {
		w := open(t, `"quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 32]}`,
			append(other, fp8("m.e.0")...)...)
		w.At("m.").Stack(3, func(i int) string { return fmt.Sprintf("e.%d", i) }, 4, 64)
		if w.Err() == nil || !strings.Contains(w.Err().Error(), says) {
			t.Errorf("got %v, expected %q", w.Err(), says)
		}
	}
}

// FuzzFloats loads matrices whose headers, configs and bytes are changed.
func FuzzFloats(f *testing.F) {
	all := slices.Collect(maps.Values(nvfp4Tensors()))
	slices.SortFunc(all, func(a, b []safetensors.Tensor) int {
		return strings.Compare(a[0].Name+string(a[0].DType), b[0].Name+string(b[0].DType))
	})
	all = append(all, []safetensors.Tensor{zeros("m.a.weight", safetensors.F8E4M3, 6, 96),
		zeros("m.a.weight_scale_inv", safetensors.F32, 1, 3)},
		[]safetensors.Tensor{zeros("m.a.weight", safetensors.F8E4M3, 6, 96),
			zeros("m.a.weight_scale", safetensors.BF16, 6, 1)})
	for i := range all {
		f.Add(byte(i), `{"quant_method": "fp8", "weight_block_size": [32, 32]}`, uint16(5),
			uint16(95), uint32(200), byte(1))
	}
	f.Add(byte(1), nvfp4Config[len(`"quantization_config": `):], uint16(5), uint16(95), uint32(90),
		byte(2))
	for i := range all { // codes of integers, beside tensors of other types
		f.Add(byte(i), `{"quant_method": "compressed-tensors", "format": "pack-quantized", `+
			`"config_groups": {"a": `+group("8", "32", `"Linear"`)+`}}`, uint16(5), uint16(95),
			uint32(50), byte(1))
	}
	f.Fuzz(func(t *testing.T, which byte, quantization string, n, k uint16, at uint32, flip byte) {
		c, err := ParseConfig([]byte(`{"model_type": "m", "quantization_config": ` + quantization +
			`}`))
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := safetensors.Write(&file, all[int(which)%len(all)], nil); err != nil {
			t.Fatal(err)
		}
		file.Bytes()[int(at)%file.Len()] ^= flip
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		d := kernels.NewReference()
		defer d.Close()
		w, err := Open(Source{Dir: filepath.Dir(path)}, c, d)
		if err != nil {
			return
		}
		defer w.Close()
		got := w.At("m.").Linear("a", int(n)+1, int(k)+1)
		if w.Err() == nil {
			if err := got.Check(); err != nil {
				t.Errorf("loaded a weight that kernels refuse: %v", err)
			}
			elementsOf(got)
		}
		w.Parameters()
	})
}
