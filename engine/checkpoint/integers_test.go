package checkpoint

// Integers that other programs have packed. testdata/packings.safetensors has matrices that the
// original libraries have packed, and what these libraries read back (engine/models/testdata,
// packing_libraries.py).

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

const (
	packedN, packedK = 32, 256
	expectedStep     = 3 // the file has the expected values of every third row
)

// packedMatrix is a matrix of the file. Its tensors are named as those of the module "m".
type packedMatrix struct {
	name, method, quantization string
	bits, group                int // group 0: one for a row
	tensors                    []safetensors.Tensor
	expected                   []float32
}

// config returns the keys of config.json.
func (m packedMatrix) config() string { return `"quantization_config": ` + m.quantization }

// readPackedMatrices returns the matrices of the file.
func readPackedMatrices(t testing.TB) (all []packedMatrix) {
	t.Helper()
	f, err := safetensors.OpenFile(filepath.Join("testdata", "packings.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	parts := map[string][]safetensors.Tensor{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		x.Data = slices.Clone(x.Data)
		dot := strings.LastIndexByte(name, '.')
		x.Name = "m" + name[dot:]
		parts[name[:dot]] = append(parts[name[:dot]], x)
	}
	for name, tensors := range parts {
		m := packedMatrix{name: name, bits: 4}
		for _, x := range tensors {
			if x.Name == "m.expected" {
				m.expected = make([]float32, x.Elements())
				Float32s(m.expected, kernels.Tensor{Buffer: &kernels.Buffer{Bytes: x.Data},
					Rows: 1, Cols: x.Elements()})
			} else {
				m.tensors = append(m.tensors, x)
			}
		}
		words := strings.Split(name, ".")
		m.method = words[0]
		for _, word := range words[1:] {
			n, err := strconv.Atoi(word[1:])
			switch {
			case err != nil:
			case word[0] == 'b':
				m.bits = n
			case word[0] == 'g':
				m.group = max(n, 0)
			}
		}
		m.quantization = packedConfig(m, words[len(words)-1])
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b packedMatrix) int { return strings.Compare(a.name, b.name) })
	return all
}

// packedConfig returns the quantization_config of a matrix. kind is the last word of its name.
func packedConfig(m packedMatrix, kind string) string {
	group := m.group
	if group == 0 {
		group = -1
	}
	switch m.method {
	case "awq":
		return fmt.Sprintf(`{"quant_method": "awq", "bits": 4, "group_size": %d, "version": "GEMM",
			"zero_point": true, "modules_to_not_convert": null}`, group)
	case "gptq":
		format := "gptq"
		if strings.HasSuffix(kind, "v2") {
			format = "gptq_v2"
		}
		return fmt.Sprintf(`{"quant_method": "gptq", "bits": %d, "group_size": %d, "sym": %v,
			"desc_act": false, "checkpoint_format": %q}`, m.bits, group,
			strings.HasPrefix(kind, "sym"), format)
	}
	strategy := "group"
	if m.group == 0 {
		strategy = "channel"
	}
	return fmt.Sprintf(`{"quant_method": "compressed-tensors", "format": "pack-quantized",
		"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": %d,
		"type": "int", "symmetric": %v, "strategy": %q, "group_size": %d}}}, "ignore": ["lm_head"]}`,
		m.bits, strings.HasPrefix(kind, "sym"), strategy, group)
}

// rowsOf returns the elements of rows 0, step, 2*step and so on, in the order of inputs.
func rowsOf(w *kernels.Weight, step int) []float32 {
	var all []float32
	row, sorted := make([]float32, w.K), make([]float32, w.K)
	for r := 0; r < w.Experts*w.N; r += step {
		w.DequantizeRow(row, r)
		if !w.Order.IsNone() {
			copy(sorted, row)
			for j, input := range w.Order.Int32s() {
				row[input] = sorted[j]
			}
		}
		all = append(all, row...)
	}
	return all
}

// TestPackingsEqualLibraries checks that every element is the one that the original library reads,
// bit for bit, in float32, in place and as a copy of rows, and that symmetric scales keep their
// type.
func TestPackingsEqualLibraries(t *testing.T) {
	all := readPackedMatrices(t)
	if len(all) < 20 {
		t.Fatalf("%d matrices, expected at least 20", len(all))
	}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			w := open(t, m.config(), m.tensors...)
			s := w.At("")
			if !s.Has("m.weight") || s.Has("other.weight") {
				t.Error("the codes do not count as the weight of their module, or others do")
			}
			got := s.Linear("m", packedN, packedK)
			if w.Err() != nil {
				t.Fatal(w.Err())
			}
			if got.Bits != m.bits {
				t.Errorf("got %s, expected %d bits", got.Format(), m.bits)
			}
			equalElements(t, rowsOf(got, expectedStep), m.expected)
			picked := s.Pick(s.View("m", packedN, packedK), packedN/2,
				func(i int) int { return 2 * i })
			whole := rowsOf(got, 2)
			equalElements(t, rowsOf(picked, 1), whole)
			symmetric := strings.Contains(m.name, ".sym")
			if is16 := got.Scales.DType != kernels.F32; is16 != symmetric {
				t.Errorf("scales are %s", got.Scales.DType)
			}
			if want := int64(packedN * packedK); w.Parameters() != want {
				t.Errorf("%d parameters, expected %d", w.Parameters(), want)
			}
			if sorted := strings.Contains(m.name, "order"); got.Order.IsNone() == sorted ||
				got.Order != s.Linear("m", packedN, packedK).Order {
				t.Errorf("got the order %v", got.Order)
			}
			if unread := w.Unread(); len(unread) > 0 {
				t.Errorf("%v have not been read", unread)
			}
			if m.group > 0 && got.Group != m.group || m.group == 0 && got.Group != 128 {
				t.Errorf("groups of %d, the file has %d", got.Group, m.group)
			}
		})
	}
}

func equalElements(t *testing.T, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d elements, expected %d", len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]+0) != math.Float32bits(want[i]+0) { // -0 is 0
			t.Fatalf("element %d of row %d is %g, the library has %g", i%packedK, i/packedK, got[i],
				want[i])
		}
	}
}

// TestPackedExperts checks that separate experts become one stack.
func TestPackedExperts(t *testing.T) {
	for _, m := range readPackedMatrices(t) {
		if strings.Contains(m.name, "order") { // see TestPackingRefusals
			continue
		}
		var tensors []safetensors.Tensor
		for i := range 3 {
			for _, x := range m.tensors {
				x.Name = fmt.Sprintf("a.experts.%d%s", i, x.Name[1:])
				if i == 1 && strings.Contains(x.Name, "scale") { // other experts have other values
					x.Data = slices.Clone(x.Data)
					x.Data[0] ^= 1
				}
				tensors = append(tensors, x)
			}
		}
		w := open(t, m.config(), tensors...)
		s := w.At("a.")
		name := func(i int) string { return fmt.Sprintf("experts.%d", i) }
		stack := s.Stack(3, name, packedN, packedK)
		if w.Err() != nil {
			t.Fatalf("%s: %v", m.name, w.Err())
		}
		var want []float32
		for i := range 3 {
			want = append(want, rowsOf(s.Linear(name(i), packedN, packedK), 1)...)
		}
		equalElements(t, rowsOf(stack, 1), want)
		if slices.Equal(want[:packedN*packedK], want[packedN*packedK:2*packedN*packedK]) {
			t.Errorf("%s: the experts of the test are the same", m.name)
		}
	}
}

// TestPackedStacksAreUniform checks that experts are refused which one weight cannot hold.
func TestPackedStacksAreUniform(t *testing.T) {
	m := matrix(t, "compressed.b4.g32.sym_f16")
	other := m.change("weight_scale", func(x *safetensors.Tensor) { x.DType = safetensors.BF16 })
	named := func(m packedMatrix, name string) (all []safetensors.Tensor) {
		for _, x := range m.tensors {
			x.Name = name + x.Name[1:]
			all = append(all, x)
		}
		return all
	}
	for says, second := range map[string][]safetensors.Tensor{
		"e.1 is float32, which is not packed": {
			zeros("e.1.weight", safetensors.F32, packedN, packedK)},
		"e.1 is packed as 4 bits in groups of 32, scales of type bfloat16": named(other, "e.1"),
	} {
		w := open(t, m.config(), append(named(m, "e.0"), second...)...)
		w.At("").Stack(2, func(i int) string { return fmt.Sprintf("e.%d", i) }, packedN, packedK)
		if w.Err() == nil || !strings.Contains(w.Err().Error(), says) {
			t.Errorf("got %v, expected %q", w.Err(), says)
		}
	}
}

// TestPartlyCopied checks that a GPU gets a file as a whole only if loading copies nothing large.
func TestPartlyCopied(t *testing.T) {
	for _, m := range readPackedMatrices(t) {
		w := open(t, m.config(), m.tensors...)
		whole := m.method == "compressed" && strings.Contains(m.name, ".sym")
		for _, partly := range w.partly {
			if partly == whole {
				t.Errorf("%s: partly copied: %v", m.name, partly)
			}
		}
	}
}

// matrix returns a matrix of the file by name.
func matrix(t testing.TB, name string) packedMatrix {
	t.Helper()
	for _, m := range readPackedMatrices(t) {
		if m.name == name {
			return m
		}
	}
	t.Fatalf("there is no matrix %s", name)
	return packedMatrix{}
}

// change returns m with the elements of a tensor changed by edit.
func (m packedMatrix) change(part string, edit func(x *safetensors.Tensor)) packedMatrix {
	m.tensors = slices.Clone(m.tensors)
	for i := range m.tensors {
		if x := &m.tensors[i]; x.Name == "m."+part {
			x.Data = slices.Clone(x.Data)
			edit(x)
		}
	}
	return m
}

// TestPackingRefusals checks the sentences about modules that cannot be loaded.
func TestPackingRefusals(t *testing.T) {
	gptq, awq := matrix(t, "gptq.b4.g128.sym"), matrix(t, "awq.g64")
	compressed := matrix(t, "compressed.b4.g64.zeros")
	with := func(m packedMatrix, old, new string) packedMatrix {
		m.quantization = strings.Replace(m.quantization, old, new, 1)
		return m
	}
	infinite := func(x *safetensors.Tensor) { copy(x.Data[6:], []byte{0x00, 0x7c}) }
	ordered := gptq.change("g_idx", func(x *safetensors.Tensor) { x.Data[4] = 1 })
	orderedGroups := compressed
	orderedGroups.tensors = append(slices.Clone(compressed.tensors),
		zeros("m.weight_g_idx", safetensors.I32, packedK))
	for _, c := range []struct {
		m    packedMatrix
		code problem.Code
		says string
	}{
		{ordered, problem.ModelBroken, "tensor m.g_idx: group 1 has more inputs than 128"},
		{gptq.change("g_idx", func(x *safetensors.Tensor) { x.Data[4] = 2 }), problem.ModelBroken,
			"tensor m.g_idx: input 1 is in group 2, expected 0 to 1"},
		{gptq.change("g_idx", func(x *safetensors.Tensor) { // 2^32 in 64 bits
			x.DType, x.Data = safetensors.I64, make([]byte, 8*packedK)
			x.Data[8+4] = 1
		}), problem.ModelBroken, "tensor m.g_idx: input 1 is in group 4294967296, expected 0 to 1"},
		{gptq.change("g_idx", func(x *safetensors.Tensor) {
			copy(x.Data, []byte{0xff, 0xff, 0xff, 0xff})
		}), problem.ModelBroken, "tensor m.g_idx: 1 of 256 inputs have no group"},
		{orderedGroups, problem.ModelBroken, "m.weight_g_idx: group 0 has more inputs than 64"},
		{gptq.change("scales", infinite), problem.ModelBroken, "m: a scale is not a finite number"},
		{gptq.change("qzeros", func(x *safetensors.Tensor) { x.Data[0]++ }), problem.ModelBroken,
			"a zero point is 9, expected 8, because config.json says that the codes are symmetric"},
		{awq.change("scales", infinite), problem.ModelBroken, "m: a scale is not a finite number"},
		{with(awq, `"group_size": 64`, `"group_size": 128`), problem.ModelBroken,
			"tensor m.qzeros is I32 of shape 4 x 4, expected I32 of shape 2 x 4"},
		{with(awq, `"group_size": 64`, `"group_size": 48`), problem.ModelBroken, "of shape 6 x 4"},
		{with(gptq, `"group_size": 128`, `"group_size": 16`), problem.ModelBroken, "of shape 16 x 4"},
		{with(gptq, `"bits": 4`, `"bits": 8`), problem.ModelBroken, "of shape 64 x 32"},
		{with(compressed, `"num_bits": 4`, `"num_bits": 8`), problem.ModelBroken,
			"m is packed as 4 bits in groups of 64, but config.json says 8 bits in groups of 64"},
		{with(compressed, `"group_size": 64`, `"group_size": 128`), problem.ModelBroken,
			"but config.json says 4 bits in groups of 128"},
		{compressed.change("weight_shape", func(x *safetensors.Tensor) { x.Data[0]++ }),
			problem.ModelBroken, "m.weight_shape says 33 x 256, expected 32 x 256"},
		{compressed.change("weight_scale", func(x *safetensors.Tensor) { x.DType = "I16" }),
			problem.ModelBroken, "tensor m.weight_scale is I16 of shape"},
	} {
		w := open(t, c.m.config(), c.m.tensors...)
		w.At("").Linear("m", packedN, packedK)
		if p := problem.From(w.Err()); w.Err() == nil || p.Code != c.code ||
			!strings.Contains(p.Error(), c.says) {
			t.Errorf("%s: got %v, expected %s saying %q", c.m.name, w.Err(), c.code, c.says)
		}
	}
}

// TestActivationOrder checks that a plan counts the order of inputs if config.json says that there
// may be one, and that the usual order needs none whatever it says.
func TestActivationOrder(t *testing.T) {
	usual := matrix(t, "gptq.b4.g32.v1")
	usual.quantization = strings.Replace(usual.quantization, `"desc_act": false`,
		`"desc_act": true`, 1)
	other := usual.change("g_idx", func(x *safetensors.Tensor) { x.Data[0], x.Data[4*32] = 1, 0 })
	for _, c := range []struct {
		m      packedMatrix
		sorted bool
	}{{usual, false}, {other, true}} {
		w := open(t, c.m.config(), c.m.tensors...)
		w.Device = kernels.NewDryRun()
		got := w.At("").Linear("m", packedN, packedK)
		if w.Err() != nil || got.Order.IsNone() == c.sorted {
			t.Errorf("got %v and the order %v, expected one: %v", w.Err(), got.Order, c.sorted)
		}
	}
}

// TestSortedCompressed checks a matrix of compressed-tensors whose inputs are sorted. Its library
// reads such no more, so the matrix is one in order, with the codes of each row moved by hand.
func TestSortedCompressed(t *testing.T) {
	m := matrix(t, "compressed.b4.g64.zeros")
	from := func(input int) int { return (input*37 + 11) % packedK } // the column in order
	order := safetensors.Tensor{Name: "m.weight_g_idx", DType: safetensors.I32,
		Shape: []int{packedK}, Data: make([]byte, 4*packedK)}
	for i := range packedK {
		order.Data[4*i] = byte(from(i) / m.group)
	}
	// Inputs of a group keep their order, so the sorted columns are not the original ones.
	moved := m.change("weight_packed", func(x *safetensors.Tensor) {
		before := slices.Clone(x.Data)
		clear(x.Data)
		for row := range packedN {
			for i := range packedK {
				code := codeAt(before[row*packedK/2:], from(i), 4)
				x.Data[(row*packedK+i)/2] |= byte(code << (i % 2 * 4))
			}
		}
	})
	w := open(t, m.config(), append(slices.Clone(moved.tensors), order)...)
	got := rowsOf(w.At("").Linear("m", packedN, packedK), expectedStep)
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	want := make([]float32, len(m.expected))
	for at := range want {
		want[at] = m.expected[at/packedK*packedK+from(at%packedK)]
	}
	equalElements(t, got, want)
}

// TestSortedExperts checks that experts with sorted inputs are refused.
func TestSortedExperts(t *testing.T) {
	m := matrix(t, "gptq.b4.g128.sym_order")
	w := open(t, m.config(), m.tensors...)
	w.At("").Stack(1, func(int) string { return "m" }, packedN, packedK)
	if p := problem.From(w.Err()); w.Err() == nil || p.Code != problem.UnknownArchitecture ||
		!strings.Contains(p.Error(), "m is an expert whose inputs are sorted") {
		t.Errorf("got %v", w.Err())
	}
}

// TestPackedPlainModules checks that modules without codes are plain, whatever config.json says.
func TestPackedPlainModules(t *testing.T) {
	for _, name := range []string{"awq.g64", "gptq.b4.g128.sym", "compressed.b4.g128.sym"} {
		m := matrix(t, name)
		w := open(t, m.config(), append(m.tensors, zeros("gate.weight", safetensors.BF16, 8, 64),
			zeros("embed.weight", safetensors.F16, 8, 64))...)
		s := w.At("")
		if got := s.Linear("gate", 8, 64); w.Err() != nil || got.Format() != "bfloat16" {
			t.Errorf("%s: got %s, %v", name, got.Format(), w.Err())
		}
		if got := s.Linear("embed", 8, 64); w.Err() != nil || got.Format() != "float16" {
			t.Errorf("%s: got %s, %v", name, got.Format(), w.Err())
		}
	}
}

// TestZeroPointBorrow checks that zero points of which GPTQModel has subtracted one, in a whole
// word, are read as they were.
func TestZeroPointBorrow(t *testing.T) {
	for _, c := range []struct {
		bits  int
		zeros []int
	}{{2, []int{0, 3, 0, 0}}, {4, []int{0, 8, 15, 0}}, {8, []int{0, 0, 128, 255}}} {
		word := uint32(0)
		for i, z := range c.zeros {
			word |= uint32(z) << (i * c.bits)
		}
		word -= ^uint32(0) / (1<<c.bits - 1)
		row := []byte{byte(word), byte(word >> 8), byte(word >> 16), byte(word >> 24)}
		for i, want := range c.zeros {
			if got := gptqZero(row, i, c.bits, false); got != want {
				t.Errorf("%d bits: zero point %d is %d, expected %d", c.bits, i, got, want)
			}
		}
	}
}

// TestFloat16Bits checks every finite number in half precision.
func TestFloat16Bits(t *testing.T) {
	for bits := range uint32(1 << 16) {
		if bits&0x7c00 == 0x7c00 {
			continue
		}
		if got := float16Bits(float16(uint16(bits))); got != uint16(bits) {
			t.Fatalf("%#04x became %#04x", bits, got)
		}
	}
}

// BenchmarkPackings loads a matrix of 4,096 x 14,336 of each method.
func BenchmarkPackings(b *testing.B) {
	const n, k, group = 4096, 14336, 128
	for _, c := range []struct {
		quantization string
		tensors      []safetensors.Tensor
	}{
		{`"quant_method": "awq", "bits": 4`, []safetensors.Tensor{
			zeros("m.qweight", safetensors.I32, k, n/8),
			zeros("m.qzeros", safetensors.I32, k/group, n/8),
			zeros("m.scales", safetensors.F16, k/group, n)}},
		{`"quant_method": "gptq", "bits": 4, "sym": false`, []safetensors.Tensor{
			zeros("m.qweight", safetensors.I32, k/8, n),
			zeros("m.qzeros", safetensors.I32, k/group, n/8),
			zeros("m.scales", safetensors.F16, k/group, n)}},
		{`"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": {
			"weights": {"num_bits": 4, "type": "int", "group_size": 128}, "targets": ["Linear"]}}`,
			[]safetensors.Tensor{zeros("m.weight_packed", safetensors.I32, n, k/8),
				zeros("m.weight_scale", safetensors.BF16, n, k/group)}},
	} {
		w := open(b, `"quantization_config": {`+c.quantization+`}`, c.tensors...)
		s := w.At("")
		b.Run(w.Config.Quantization.method.name, func(b *testing.B) {
			b.SetBytes(n * k / 2)
			for b.Loop() {
				s.View("m", n, k)
			}
			if w.Err() != nil {
				b.Fatal(w.Err())
			}
		})
	}
}

// FuzzPackings loads matrices whose headers, configs and bytes are changed.
func FuzzPackings(f *testing.F) {
	all := readPackedMatrices(f)
	for i, m := range all {
		f.Add(byte(i), m.quantization, uint16(packedN-1), uint16(packedK-1), uint32(200), byte(1))
	}
	f.Add(byte(0), all[0].quantization, uint16(3), uint16(5), uint32(9), byte(2))
	f.Fuzz(func(t *testing.T, which byte, quantization string, n, k uint16, at uint32, flip byte) {
		m := all[int(which)%len(all)]
		c, err := ParseConfig([]byte(`{"model_type": "m", "quantization_config": ` + quantization +
			`}`))
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := safetensors.Write(&file, m.tensors, nil); err != nil {
			t.Fatal(err)
		}
		file.Bytes()[int(at)%file.Len()] ^= flip
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		d := kernels.NewReference()
		defer d.Close()
		load := func(d kernels.Device) (*kernels.Weight, error) {
			w, err := Open(Source{Dir: filepath.Dir(path)}, c, d)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { w.Close() })
			w.Parameters()
			w.At("").Stack(1, func(int) string { return "m" }, int(n)+1, int(k)+1)
			return w.At("").Linear("m", int(n)+1, int(k)+1), w.Err()
		}
		_, planned := load(kernels.NewDryRun())
		got, err := load(d)
		if err == nil {
			if planned != nil {
				t.Errorf("the plan refuses what loads: %v", planned)
			}
			if err := got.Check(); err != nil {
				t.Errorf("loaded a weight that kernels refuse: %v", err)
			}
			rowsOf(got, 7)
		}
	})
}
