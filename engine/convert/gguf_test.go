package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/checkpoint"
	"headroom/engine/gguf"
	"headroom/engine/gguf/gguftest"
	"headroom/engine/gguf/original"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/quantize"
)

// ggufTypes are the types of blocks, with the places of their float16 in a block.
var ggufTypes = map[gguf.Type][]int{gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0},
	gguf.Q5_1: {0, 2}, gguf.Q8_0: {0}, gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208}}

// ggufBlocks returns random blocks of n elements.
func ggufBlocks(r *rand.Rand, kind gguf.Type, n int) []byte {
	b := make([]byte, kind.Bytes(n))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	size := kind.Bytes(32)
	if size == 0 { // a block has 256 elements
		size = kind.Bytes(256)
	}
	for at := 0; at < len(b); at += size {
		for _, place := range ggufTypes[kind] {
			quantize.PutFloat(b[at+place:], 0, float32(r.NormFloat64()*0.01), kernels.F16)
		}
	}
	return b
}

// writeGGUF writes a model of the architecture qwen3 with one layer, whose matrices have the given
// types in turn.
func writeGGUF(t *testing.T, path string, kinds ...gguf.Type) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var tensors []gguftest.Tensor
	matrix := func(name string, shape ...int) {
		kind := kinds[len(tensors)%len(kinds)]
		n := shape[0] * shape[1]
		if _, isBlock := ggufTypes[kind]; isBlock {
			tensors = append(tensors, gguftest.Of(name, kind, ggufBlocks(r, kind, n), shape...))
			return
		}
		dtype := map[gguf.Type]kernels.DType{gguf.F32: kernels.F32, gguf.F16: kernels.F16,
			gguf.BF16: kernels.BF16}[kind]
		data := make([]byte, kind.Bytes(n))
		for i := range n {
			quantize.PutFloat(data, i, float32(r.NormFloat64()), dtype)
		}
		tensors = append(tensors, gguftest.Of(name, kind, data, shape...))
	}
	var norms []gguftest.Tensor
	norm := func(name string, n int) {
		data := make([]byte, 4*n)
		for i := range n {
			quantize.PutFloat(data, i, 1+float32(i)/64, kernels.F32)
		}
		norms = append(norms, gguftest.Of(name, gguf.F32, data, n))
	}
	const wide = 256
	matrix("token_embd.weight", 8, wide)
	matrix("blk.0.attn_q.weight", wide, wide)
	matrix("blk.0.attn_k.weight", wide, wide)
	matrix("blk.0.attn_v.weight", wide, wide)
	matrix("blk.0.attn_output.weight", wide, wide)
	matrix("blk.0.ffn_gate.weight", wide, wide)
	matrix("blk.0.ffn_up.weight", wide, wide)
	matrix("blk.0.ffn_down.weight", wide, wide)
	for _, name := range []string{"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"} {
		norm(name+".weight", wide)
	}
	norm("blk.0.attn_q_norm.weight", 64)
	norm("blk.0.attn_k_norm.weight", 64)
	gguftest.Write(t, path, gguftest.Metadata{"general.architecture", "qwen3",
		"qwen3.block_count", 1, "qwen3.context_length", 64, "qwen3.embedding_length", wide,
		"qwen3.feed_forward_length", wide, "qwen3.attention.head_count", 4,
		"qwen3.attention.layer_norm_rms_epsilon", float32(1e-6),
		"tokenizer.ggml.model", "gpt2", "tokenizer.ggml.pre", "qwen2",
		"tokenizer.ggml.tokens", []string{"a", "b", "ab", "c", "d", "e", "f", "<end>"},
		"tokenizer.ggml.token_type", []int32{1, 1, 1, 1, 1, 1, 1, 3},
		"tokenizer.ggml.merges", []string{"a b"}, "tokenizer.ggml.eos_token_id", 7},
		append(tensors, norms...))
}

// floatsOf returns the elements of a folder's tensors by name, as the engine reads them.
func floatsOf(t *testing.T, dir string) map[string][]float32 {
	t.Helper()
	source := checkpoint.Source{Dir: dir}
	config, err := source.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(source, config, kernels.NewReference())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	values, err := w.Values()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float32{}
	for i := range values {
		v := &values[i]
		cols := v.Shape[len(v.Shape)-1]
		rows := 1
		for _, d := range v.Shape[:len(v.Shape)-1] {
			rows *= d
		}
		floats := make([]float32, rows*cols)
		if v.Packing == "" {
			decode(floats, v.Tensor.Data, floatTypes[v.Tensor.DType])
		} else {
			packed, err := w.Unpack(v)
			if err != nil {
				t.Fatal(err)
			}
			for r := range rows {
				checkpoint.UnpackRow(packed, floats[r*cols:(r+1)*cols], nil, r)
			}
		}
		out[v.Name] = floats
	}
	return out
}

// lossOf returns the relative error of the elements of a folder, of tensors that have blocks of the
// given types in a file; nil: all tensors.
func lossOf(t *testing.T, path, dir string, kind *gguf.Type) float64 {
	t.Helper()
	m, err := original.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.File.Close()
	got, lost := floatsOf(t, dir), loss{}
	for _, tensor := range m.Tensors {
		if kind != nil && tensor.Type() != *kind {
			continue
		}
		want, err := m.File.Floats(tensor.From)
		if err != nil || len(want) != len(got[tensor.Name]) {
			t.Fatalf("%s has %d elements, expected %d, %v", tensor.Name, len(got[tensor.Name]),
				len(want), err)
		}
		for i, v := range got[tensor.Name] {
			change := float64(v) - float64(want[i])
			lost.Changes += change * change
			lost.Elements += float64(want[i]) * float64(want[i])
		}
	}
	return lost.relative()
}

// TestGGUFKeepsCodes converts a file with each type. What the result says of a type is what its
// elements are: exact, or as far from those of the file as it says.
func TestGGUFKeepsCodes(t *testing.T) {
	for kind := range ggufTypes {
		for _, dtype := range []string{"", "float32", "bfloat16"} {
			path := filepath.Join(t.TempDir(), "m.gguf")
			writeGGUF(t, path, kind)
			dest := filepath.Join(t.TempDir(), "dest")
			done, err := RunGGUF(t.Context(), path, dest, Options{DType: dtype, threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			config := string(read(t, dest, "config.json"))
			if !strings.Contains(config, `"rope_theta": 10000.0`) {
				t.Fatalf("rope_theta is no float in %s", config)
			}
			if len(done.Types) != 1 || done.Types[0].Type != kind.String() ||
				done.Types[0].Tensors != 8 {
				t.Fatalf("%s: the result says %+v", kind, done.Types)
			}
			said, got := done.Types[0], lossOf(t, path, dest, &kind)
			exact := kind != gguf.Q6_K && (dtype == "float32" || dtype == "" &&
				kind != gguf.Q4_K && kind != gguf.Q5_K)
			if said.Exact != exact || exact && got != 0 || !exact && got == 0 {
				t.Errorf("%s, %q: exact is %t, and the elements differ by %g", kind, dtype,
					said.Exact, got)
			}
			if math.Abs(said.Error-got) > 1e-3*got || got > 0.02 {
				t.Errorf("%s, %q: the error is said to be %g, and is %g", kind, dtype, said.Error,
					got)
			}
			if bits := kind.AffineBits(); said.KeepsCodes != (bits > 0) ||
				bits > 0 && said.Format != fmt.Sprintf("%d-bit, group 32", bits) {
				t.Errorf("%s: %+v", kind, said)
			}
		}
	}
}

// TestGGUFMixed converts a file with all types: config.json has an entry for each module whose
// format is not the common one. Vectors get the type of the scales, because they lose nothing.
func TestGGUFMixed(t *testing.T) {
	path, dest := filepath.Join(t.TempDir(), "m.gguf"), filepath.Join(t.TempDir(), "dest")
	writeGGUF(t, path, gguf.Q4_0, gguf.Q6_K, gguf.Q8_0, gguf.F16, gguf.Q5_1, gguf.Q8_0, gguf.BF16)
	if _, err := RunGGUF(t.Context(), path, dest, Options{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dest, "config.json"))
	var config struct {
		Quantization map[string]any `json:"quantization"`
		End          []int          `json:"eos_token_id"`
	}
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(dest, "README.md"))
	for _, want := range []string{"Converted from m.gguf.", "- Q4_0: 2 tensors, 4-bit, group 32: " +
		"exact\n", "- Q6_K: 1 tensor, 8-bit, group 32: packed anew, relative error 0.00"} {
		if err != nil || !strings.Contains(string(readme), want) {
			t.Errorf("README.md lacks %q: %s, %v", want, readme, err)
		}
	}
	q := config.Quantization
	if q["bits"] != 8.0 || q["group_size"] != 32.0 || len(q) != 3+3 ||
		!slices.Equal(config.End, []int{7}) {
		t.Errorf("config.json has %v, and ends with %v", q, config.End)
	}
	for module, bits := range map[string]float64{"model.embed_tokens": 4,
		"model.layers.0.self_attn.o_proj": 5, "model.layers.0.mlp.down_proj": 4} {
		entry, _ := q[module].(map[string]any)
		if entry["bits"] != bits {
			t.Errorf("%s has %v, expected %g bits", module, q[module], bits)
		}
	}
	c := &conversion{source: checkpoint.Source{Dir: dest}, o: Options{Dequantize: true}}
	if err := errors.Join(c.open(), c.plan()); err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for name, want := range map[string]kernels.DType{"model.norm.weight": kernels.F16,
		"model.layers.0.self_attn.v_proj.weight": kernels.F16,
		"model.layers.0.mlp.up_proj.weight":      kernels.BF16} {
		for _, tensor := range c.tensors {
			if tensor.name == name && tensor.dtype != want {
				t.Errorf("%s is %s, expected %s", name, tensor.dtype, want)
			}
		}
	}
}

// TestGGUFOptions packs, unpacks and refuses.
func TestGGUFOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	writeGGUF(t, path, gguf.Q8_0, gguf.Q4_K)
	for _, c := range []struct {
		o    Options
		most float64 // relative error
		bits float64
	}{
		{Options{Dequantize: true, DType: "float32"}, 0, 32},
		{Options{Dequantize: true}, 1e-3, 16},
		{Options{Quantize: true, Bits: 6, Group: 32}, 0.05, 7.02},
	} {
		dest := filepath.Join(t.TempDir(), "dest")
		done, err := RunGGUF(t.Context(), path, dest, c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := lossOf(t, path, dest, nil); got > c.most || done.Types != nil ||
			math.Abs(done.BitsPerWeight-c.bits) > 0.1 {
			t.Errorf("%+v: relative error %g, %.2f bits, %v", c.o, got, done.BitsPerWeight,
				done.Types)
		}
	}
	dest := filepath.Join(t.TempDir(), "dest")
	_, err := RunGGUF(t.Context(), path, dest, Options{Quantize: true, Dequantize: true})
	if problem.From(err).Code != problem.BadRequest {
		t.Errorf("both options: %v", err)
	}
	if _, err := os.Lstat(dest); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a refused conversion has made its folder")
	}
}

// TestGGUFFuses adds an adapter to the weights of a file, whose codes cannot stay then.
func TestGGUFFuses(t *testing.T) {
	const wide, rank, scale = 256, 2, 3
	const name = "model.layers.0.mlp.up_proj"
	path, lora := filepath.Join(t.TempDir(), "m.gguf"), t.TempDir()
	writeGGUF(t, path, gguf.Q8_0, gguf.Q4_K)
	r := rand.New(rand.NewPCG(5, 6))
	a, b := make([]float32, wide*rank), make([]float32, rank*wide)
	tensor := func(name string, values []float32, shape ...int) safetensors.Tensor {
		x := safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape,
			Data: make([]byte, 4*len(values))}
		for i := range values {
			values[i] = float32(r.NormFloat64())
			quantize.PutFloat(x.Data, i, values[i], kernels.F32)
		}
		return x
	}
	var file bytes.Buffer
	err := errors.Join(safetensors.Write(&file, []safetensors.Tensor{
		tensor(name+".lora_a", a, wide, rank), tensor(name+".lora_b", b, rank, wide)}, nil),
		os.WriteFile(filepath.Join(lora, "adapters.safetensors"), file.Bytes(), 0o600),
		os.WriteFile(filepath.Join(lora, "adapter_config.json"), []byte(`{"num_layers": 1,
			"lora_parameters": {"rank": 2, "scale": 3}}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	var weights [2]map[string][]float32
	for i, o := range []Options{{Dequantize: true, DType: "float32"},
		{Adapter: lora, DType: "float32"}} {
		dest := filepath.Join(t.TempDir(), "dest")
		if _, err := RunGGUF(t.Context(), path, dest, o); err != nil {
			t.Fatal(err)
		}
		weights[i] = floatsOf(t, dest)
	}
	plain, fused := weights[0], weights[1]
	for tensor, values := range plain {
		for i, v := range values {
			want := float64(v)
			if tensor == name+".weight" {
				for k := range rank {
					want += scale * float64(a[i%wide*rank+k]) * float64(b[k*wide+i/wide])
				}
			}
			// The sum of two products is rounded four times in float32.
			if got := float64(fused[tensor][i]); math.Abs(got-want) > 1e-6*(10+math.Abs(want)) {
				t.Fatalf("%s element %d is %g, expected %g", tensor, i, got, want)
			}
		}
	}
}

// TestGGUFResumes stops after the first file. The second run has the bytes of one that was not
// stopped. A file that has changed since is another source.
func TestGGUFResumes(t *testing.T) {
	path, whole := filepath.Join(t.TempDir(), "m.gguf"), filepath.Join(t.TempDir(), "whole")
	writeGGUF(t, path, gguf.Q4_K, gguf.Q8_0)
	o := Options{shardBytes: 200_000}
	first, err := RunGGUF(t.Context(), path, whole, o)
	if err != nil {
		t.Fatal(err)
	}
	dest, stop := filepath.Join(t.TempDir(), "dest"), errors.New("stop")
	o.wrote = func(string) error { return stop }
	if _, err := RunGGUF(t.Context(), path, dest, o); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	o.wrote = nil
	done, err := RunGGUF(t.Context(), path, dest, o)
	if err != nil || done.Kept != 1 {
		t.Fatalf("%d files were kept, %v", done.Kept, err)
	}
	for i, one := range done.Types { // also of the file that was kept
		if want := first.Types[i].Error; math.Abs(one.Error-want) > 1e-9*want {
			t.Errorf("%s has the error %g, expected %g", one, one.Error, want)
		}
	}
	entries, _ := os.ReadDir(whole)
	for _, e := range entries {
		a, err1 := os.ReadFile(filepath.Join(whole, e.Name()))
		b, err2 := os.ReadFile(filepath.Join(dest, e.Name()))
		if err1 != nil || err2 != nil || string(a) != string(b) {
			t.Errorf("%s differs, %v, %v", e.Name(), err1, err2)
		}
	}
}

// TestGGUFDamaged refuses scales that are not finite, and those that float16 cannot hold times 128.
func TestGGUFDamaged(t *testing.T) {
	for want, bits := range map[string]uint16{"not a finite number": 0x7c00,
		"too large": 0x6400} { // infinity, and 1024
		path := filepath.Join(t.TempDir(), "m.gguf")
		writeGGUF(t, path, gguf.Q8_0)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		at := len(data) - int(m.Bytes()-tensorStart(m))
		_ = m.Close()
		data[at], data[at+1] = byte(bits), byte(bits>>8)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = RunGGUF(t.Context(), path, filepath.Join(t.TempDir(), "dest"), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
}

// tensorStart returns the offset of the first tensor's data.
func tensorStart(m *gguf.File) int64 {
	end := int64(0)
	for _, t := range m.Tensors {
		end = max(end, t.Offset+(t.Bytes+31)/32*32)
	}
	return m.Bytes() - end
}
