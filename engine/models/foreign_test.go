package models_test

// These tests pack the weights of tiny models as AWQ, GPTQ and compressed-tensors do. They compare
// the packed models with the same models in which the weights are the dequantized values.

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/plan"
	"headroom/engine/runner"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// coded is a matrix [n, k] of integers. Element [i][j] is (codes - zeros)*scales of its group.
type coded struct {
	n, k, bits, group int
	codes             [][]int   // [n][k]
	zeros             [][]int   // [n][groups]
	scales            [][]int32 // [n][groups], of 2^-16: exact in float16 and bfloat16
}

// code rounds a matrix to integers.
func code(x safetensors.Tensor, bits, group int, symmetric bool) coded {
	values, k := widen(x), x.Shape[len(x.Shape)-1]
	c := coded{n: len(values) / k, k: k, bits: bits, group: group}
	most := 1<<bits - 1
	for row := range c.n {
		codes, zeros, scales := make([]int, k), make([]int, k/group), make([]int32, k/group)
		for g := range zeros {
			part := values[row*k+g*group:][:group]
			low, high := min(0, slices.Min(part)), max(0, slices.Max(part))
			if symmetric {
				high = max(high, -low)
				low = -high
			}
			scale := math.Ceil(float64(high-low)/float64(most)*(1<<16)) + 1
			for unit := 2.0; scale > 255*unit/2; unit *= 2 { // eight bits are exact in every type
				scale = unit * math.Ceil(scale/unit)
			}
			scales[g] = int32(scale)
			zeros[g] = 1 << (bits - 1)
			if !symmetric {
				zeros[g] = max(1, int(math.Round(float64(-low)/scale*(1<<16))))
			}
			for i, v := range part {
				codes[g*group+i] = min(max(zeros[g]+int(math.Round(
					float64(v)/scale*(1<<16))), 0), most)
			}
		}
		c.codes, c.zeros, c.scales = append(c.codes, codes), append(c.zeros, zeros),
			append(c.scales, scales)
	}
	return c
}

// plain returns the values of the codes in float32.
func (c coded) plain(shape []int) safetensors.Tensor {
	x := safetensors.Tensor{DType: safetensors.F32, Shape: shape}
	for row, codes := range c.codes {
		for i, code := range codes {
			g := i / c.group
			v := float32(code-c.zeros[row][g]) * float32(c.scales[row][g]) / (1 << 16)
			x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(v))
		}
	}
	return x
}

// words returns a matrix of words. at returns the values of a stream along its rows, or along its
// columns if down, each with so many bits.
func words(rows, cols, bits int, down bool, at func(row, col int) int) safetensors.Tensor {
	shape := []int{rows, cols * bits / 32}
	if down {
		shape = []int{rows * bits / 32, cols}
	}
	out := make([]uint32, shape[0]*shape[1])
	for r := range rows {
		for c := range cols {
			place, word := c*bits, func(i int) int { return r*shape[1] + i }
			if down {
				place, word = r*bits, func(i int) int { return i*shape[1] + c }
			}
			for b := range bits {
				bit := uint32(at(r, c) >> b & 1)
				out[word((place+b)/32)] |= bit << ((place + b) % 32)
			}
		}
	}
	x := safetensors.Tensor{DType: safetensors.I32, Shape: shape}
	for _, w := range out {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, w)
	}
	return x
}

// scaleTensor returns the scales as [groups, n] in float16, or as [n, groups] in bfloat16.
func (c coded) scaleTensor(dtype safetensors.DType) safetensors.Tensor {
	x := safetensors.Tensor{DType: dtype, Shape: []int{c.n, c.k / c.group}}
	put := func(v int32) {
		bits := math.Float32bits(float32(v) / (1 << 16))
		half := uint16(bits >> 16)
		if dtype == safetensors.F16 {
			half = uint16((bits>>23&0xff)-112)<<10 | uint16(bits>>13&0x3ff)
		}
		x.Data = binary.LittleEndian.AppendUint16(x.Data, half)
	}
	if dtype == safetensors.BF16 {
		for _, row := range c.scales {
			for _, v := range row {
				put(v)
			}
		}
		return x
	}
	x.Shape = []int{c.k / c.group, c.n}
	for g := range c.k / c.group {
		for row := range c.n {
			put(c.scales[row][g])
		}
	}
	return x
}

// foreignMethods are the methods by name. pack returns the tensors of a module.
var foreignMethods = []struct {
	name, config     string
	bits, group      int
	symmetric, whole bool // whole: the head is packed, too
	pack             func(c coded) map[string]safetensors.Tensor
}{
	{"AWQ", `{"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}`, 4, 32, false,
		false, func(c coded) map[string]safetensors.Tensor {
			order := []int{0, 2, 4, 6, 1, 3, 5, 7}
			place := func(col int) int { return col/8*8 + order[col%8] }
			return map[string]safetensors.Tensor{
				".qweight": words(c.k, c.n, 4, false,
					func(r, col int) int { return c.codes[place(col)][r] }),
				".qzeros": words(c.k/c.group, c.n, 4, false,
					func(g, col int) int { return c.zeros[place(col)][g] }),
				".scales": c.scaleTensor(safetensors.F16)}
		}},
	{"GPTQ", `{"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": true}`, 4, 32, true, true,
		packGPTQ},
	{"GPTQ, 3 bits", `{"quant_method": "gptq", "bits": 3, "group_size": 32, "sym": false}`, 3, 32,
		false, false, packGPTQ},
	{"GPTQ, 8 bits", `{"quant_method": "gptq", "bits": 8, "group_size": 64, "sym": false}`, 8, 64,
		false, true, packGPTQ},
	{"compressed-tensors", compressedConfig(4, true), 4, 32, true, false,
		func(c coded) map[string]safetensors.Tensor {
			return map[string]safetensors.Tensor{
				".weight_packed": words(c.n, c.k, c.bits, false,
					func(r, col int) int { return c.codes[r][col] }),
				".weight_scale": c.scaleTensor(safetensors.BF16)}
		}},
	{"compressed-tensors, zero points", compressedConfig(8, false), 8, 32, false, true,
		func(c coded) map[string]safetensors.Tensor {
			return map[string]safetensors.Tensor{
				".weight_packed": words(c.n, c.k, c.bits, false,
					func(r, col int) int { return c.codes[r][col] }),
				".weight_zero_point": words(c.n, c.k/c.group, c.bits, true,
					func(r, g int) int { return c.zeros[r][g] }),
				".weight_scale": c.scaleTensor(safetensors.BF16)}
		}},
}

func compressedConfig(bits int, symmetric bool) string {
	return fmt.Sprintf(`{"quant_method": "compressed-tensors", "format": "pack-quantized",
		"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": %d,
		"type": "int", "symmetric": %v, "strategy": "group", "group_size": 32}}},
		"ignore": ["re:.*gate$"]}`, bits, symmetric)
}

func packGPTQ(c coded) map[string]safetensors.Tensor {
	order := safetensors.Tensor{DType: safetensors.I32, Shape: []int{c.k}}
	for i := range c.k {
		order.Data = binary.LittleEndian.AppendUint32(order.Data, uint32(i/c.group))
	}
	return map[string]safetensors.Tensor{
		".qweight": words(c.k, c.n, c.bits, true,
			func(r, col int) int { return c.codes[col][r] }),
		".qzeros": words(c.k/c.group, c.n, c.bits, false,
			func(g, col int) int { return c.zeros[col][g] - 1 }),
		".scales": c.scaleTensor(safetensors.F16), ".g_idx": order}
}

// foreign returns f with its projections packed by a method, and f with their values.
func (f folder) foreign(method int) (packed, plain folder) {
	m := foreignMethods[method]
	same := func(name string) string { return name }
	packed, plain = f.rename(same), f.rename(same)
	packed.config = strings.Replace(f.config, "{", `{"quantization_config": `+m.config+", ", 1)
	for name, x := range f.tensors {
		module, ok := strings.CutSuffix(name, ".weight")
		if !ok || len(x.Shape) != 2 || x.Shape[1]%m.group != 0 || x.Shape[0]%32 != 0 ||
			strings.Contains(name, "embed") || name == "lm_head.weight" && !m.whole {
			continue
		}
		c := code(x, m.bits, m.group, m.symmetric)
		delete(packed.tensors, name)
		for suffix, part := range m.pack(c) {
			packed.put(module+suffix, part)
		}
		plain.put(name, c.plain(x.Shape))
	}
	return packed, plain
}

// foreignModels are tiny models whose weights are loaded in all ways: one by one, as experts, as
// parts of a fused projection, as copies of rows, transposed.
var foreignModels = []string{"llama", "qwen3", "qwen3_moe", "phi3", "deepseek_v3_original",
	"qwen3_5_text", "qwen3_next"}

// TestForeignEqualsPlain checks the logits of every model in every method.
func TestForeignEqualsPlain(t *testing.T) {
	d := cpuDevice(t, 2)
	for _, name := range foreignModels {
		f := readTiny(t, name)
		for i, m := range foreignMethods {
			packed, plain := f.foreign(i)
			if len(packed.tensors) <= len(f.tensors) {
				t.Fatalf("%s, %s: nothing is packed", name, m.name)
			}
			got, want := packed.logits(t, d), plain.logits(t, d)
			worst := 0.0
			for i := range want {
				for j := range want[i] {
					if diff := math.Abs(float64(got[i][j] - want[i][j])); !(diff <= worst) {
						worst = diff
					}
				}
			}
			if !(worst <= packedTolerance) {
				t.Errorf("%s, %s: logits differ by %g, expected at most %g", name, m.name, worst,
					packedTolerance)
			}
		}
	}
}

// TestForeignSameBits checks that a row has the same bits in every chunk, batch and number of
// threads, with the activations that `headroom serve` uses, for experts of every method.
func TestForeignSameBits(t *testing.T) {
	if cpu.Best() == cpu.Generic {
		t.Skip("takes seconds with the plain Go kernels")
	}
	for i, m := range foreignMethods {
		packed, _ := readTiny(t, "qwen3_moe").foreign(i)
		t.Run(m.name, func(t *testing.T) {
			open := func(threads int) *rig {
				d := kernels.NewCPU(cpu.Options{Threads: threads})
				t.Cleanup(d.Close)
				return rigOf(d, packed.load(t, d))
			}
			testSameBits(t, open, readExpected(t, "qwen3_moe")[4].IDs[:200])
		})
	}
}

// rigOf returns a rig with a model.
func rigOf(d kernels.Device, m models.Model) *rig {
	r := &rig{Runner: runner.New(d, m, runner.Options{KV: cache.Plain(kernels.F32), Slots: 2,
		BatchRows: rigRows, Pages: rigPages, LogitsRows: rigRows})}
	for i := range int32(16) {
		r.pages[0] = append(r.pages[0], 2*i)
		r.pages[1] = append(r.pages[1], 31-2*i)
	}
	return r
}

// TestForeignMemory checks that the plan counts what loading allocates, aligned and not, and that
// the description names the packing.
func TestForeignMemory(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_moe", "deepseek_v3_original"} {
		for i, m := range foreignMethods {
			packed, _ := readTiny(t, name).foreign(i)
			for _, pad := range []int{0, 1} {
				packed.pad = pad
				t.Run(fmt.Sprintf("%s %s %d", name, m.name, pad),
					func(t *testing.T) { testPlannedMemory(t, packed) })
			}
			src := checkpoint.Source{Dir: packed.write(t)}
			giveTokenizer(t, src)
			p, err := plan.New(src, plan.Options{ContextTokens: 256, AvailableBytes: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			method, _, _ := strings.Cut(m.name, ",")
			want := fmt.Sprintf("%d-bit, group %d (%s)", m.bits, m.group, method)
			if got := p.Description.Quantization; got != want {
				t.Errorf("%s: described as %q, expected %q", m.name, got, want)
			}
			parameters := readTiny(t, name).parameters()
			if got := p.Description.Parameters; got != parameters {
				t.Errorf("%s, %s: %d parameters, expected %d", name, m.name, got, parameters)
			}
		}
	}
}

// parameters returns the number of elements of plain tensors.
func (f folder) parameters() (n int64) {
	for _, x := range f.tensors {
		n += int64(x.Elements())
	}
	return n
}
