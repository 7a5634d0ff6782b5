package checkpoint

import (
	"slices"
	"strings"
	"testing"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// TestPackedWeightsAreFound: whatever the method, a packed module counts as one that has a weight,
// and as the block that drafts.
func TestPackedWeightsAreFound(t *testing.T) {
	check := func(name string, w *Weights, module string) {
		t.Helper()
		if s := w.At("m."); !s.Has(module+weightSuffix) || s.Has("other"+weightSuffix) {
			t.Errorf("%s: Has is %t, and %t for another module", name, s.Has(module+weightSuffix),
				s.Has("other"+weightSuffix))
		}
		mark := BlockNames{Prefixes: []string{"x.", "m."}, Mark: module + weightSuffix}
		if s, which := w.FindBlock(mark); which != 0 || s.Path() != "m." {
			t.Errorf("%s: got block %d at %q", name, which, s.Path())
		}
	}
	for name, tensors := range nvfp4Tensors() {
		check(name, open(t, "", tensors...), "a")
	}
	for _, m := range readPackedMatrices(t) {
		for i := range m.tensors {
			m.tensors[i].Name = "m.a" + m.tensors[i].Name[1:]
		}
		check(m.name, open(t, m.config(), m.tensors...), "a")
	}
}

// TestDynamicOrder: the first expression that matches a module counts, in the order of the file, as
// in GPTQModel and vLLM.
func TestDynamicOrder(t *testing.T) {
	c, err := ParseConfig([]byte(`{"model_type": "m", "quantization_config": {
		"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": true, "dynamic": {
		"-:.*v_proj": {}, "+:a.0.down_proj": {"bits": 8}, "z.*": {"group_size": 64},
		"+:.*down": {"bits": 2}, "+:.*v_proj": {"bits": 8}, "+:.*q_proj": {"bits": 8},
		"-:.*q_proj": {}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]pack{
		"a.0.down_proj": {Bits: 8, Group: 32}, "a.1.down_proj": {Bits: 2, Group: 32},
		"z.down_proj": {Bits: 4, Group: 64}, "a.0.v_proj": {}, "a.0.o_proj": {Bits: 4, Group: 32},
		"a.0.q_proj": {Bits: 8, Group: 32},
	} {
		if got := c.Quantization.of(module); got != want {
			t.Errorf("%s: got %+v, expected %+v", module, got, want)
		}
	}
	for _, dynamic := range []string{`null`, `{}`} {
		if _, err := ParseConfig([]byte(`{"model_type": "m", "quantization_config": {
			"quant_method": "gptq", "bits": 4, "dynamic": ` + dynamic + `}}`)); err != nil {
			t.Errorf("%s: %v", dynamic, err)
		}
	}
	if _, err := ParseConfig([]byte(`{"model_type": "m", "quantization_config": {
		"quant_method": "gptq", "bits": 4, "dynamic": [1]}}`)); err == nil {
		t.Error("an array is accepted")
	}
	keys, values, err := orderedObject("x", []byte(`{"b": 1, "a": {"c": [2]}, "b": 3}`))
	if err != nil || !slices.Equal(keys, []string{"b", "a"}) || string(values["b"]) != "3" {
		t.Errorf("got %q with b = %s, %v", keys, values["b"], err)
	}
}

// TestBlocksAsWideAsTheMatrix: config.json tells scales of blocks from those of rows where their
// shapes do not.
func TestBlocksAsWideAsTheMatrix(t *testing.T) {
	const n, k = 6, 64
	config := func(strategy string) string {
		return `"quantization_config": {"quant_method": "compressed-tensors",
			"format": "float-quantized", "config_groups": {"a": {"targets": ["Linear"], "weights": {
			"num_bits": 8, "type": "float", ` + strategy + `}}}}`
	}
	for _, c := range []struct {
		strategy string
		scales   []float32
		rows     int // of a block
	}{
		{`"strategy": "block", "block_structure": [4, 64]`, []float32{2, 3}, 4},
		{`"strategy": "block", "block_structure": [2, 128]`, []float32{2, 3, 4}, 2},
		{`"strategy": "block", "block_structure": [1, 64]`, []float32{1, 2, 3, 4, 5, 6}, 1},
		{`"strategy": "block", "block_structure": [128, 128]`, []float32{5}, 128},
		{`"strategy": "block", "block_structure": [64, 64]`, []float32{7}, 0},
		{`"strategy": "channel"`, []float32{1, 2, 3, 4, 5, 6}, 1},
	} {
		shape := []int{len(c.scales), 1}
		if c.rows == 0 { // one scale, for the whole matrix
			c.rows, shape = n, nil
		}
		w := open(t, config(c.strategy), tensorOf("m.a.weight", safetensors.F8E4M3,
			slices.Repeat([]byte{0x38}, n*k), n, k),
			floatTensorOf("m.a.weight_scale", safetensors.F32, c.scales, shape...))
		got := w.At("m.").Linear("a", n, k)
		if w.Err() != nil {
			t.Errorf("%s: %v", c.strategy, w.Err())
			continue
		}
		for r, row := range elementsOf(got) {
			if want := c.scales[r/c.rows]; row[0] != want || row[k-1] != want {
				t.Errorf("%s: row %d is %g and %g, expected %g", c.strategy, r, row[0], row[k-1],
					want)
			}
		}
	}
}

// TestMixedExpertsAreNamed: experts of a layer that no format holds are right, and the sentence
// says which are stored how. It never says to download them again.
func TestMixedExpertsAreNamed(t *testing.T) {
	fp8 := func(name string) []safetensors.Tensor {
		return []safetensors.Tensor{zeros(name+".weight", safetensors.F8E4M3, 4, 64),
			zeros(name+".weight_scale", safetensors.F32, 1)}
	}
	plain := func(name string) []safetensors.Tensor {
		return []safetensors.Tensor{zeros(name+".weight", safetensors.BF16, 4, 64)}
	}
	half := []safetensors.Tensor{zeros("m.e.1.weight", safetensors.F16, 4, 64)}
	for _, c := range []struct {
		first, second []safetensors.Tensor
		says          string
	}{
		{fp8("m.e.0"), plain("m.e.1"), "m.e.0 is packed as fp8 with a scale for 64 columns, and " +
			"m.e.1 is bfloat16, which is not packed"},
		{plain("m.e.0"), fp8("m.e.1"), "m.e.0 is bfloat16, and m.e.1 is FP8"},
		{plain("m.e.0"), half, "m.e.0 is bfloat16, and m.e.1 is float16"},
		{packed("m.e.0", 4, 64, 4, 64), packed("m.e.1", 4, 64, 4, 64), "m.e.0 is packed by itself"},
	} {
		w := open(t, "", append(slices.Clone(c.first), c.second...)...)
		w.At("m.").Stack(2, expertName, 4, 64)
		if w.Err() == nil || problem.From(w.Err()).Code != problem.UnknownArchitecture ||
			!strings.Contains(w.Err().Error(), c.says) ||
			strings.Contains(w.Err().Error(), "ownload") {
			t.Errorf("got %v, expected %q", w.Err(), c.says)
		}
	}
}
