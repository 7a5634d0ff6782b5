package checkpoint

import (
	"fmt"
	"strings"
	"testing"

	"headroom/engine/safetensors"
)

// packQuantizedConfig is a configuration of compressed-tensors, whose modules called e are not
// packed.
const packQuantizedConfig = `"quantization_config": {"quant_method": "compressed-tensors",
	"format": "pack-quantized", "ignore": ["re:e.*"], "config_groups": {"g": {
	"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group",
	"group_size": 32%s}}}}`

// TestStacksOfStrangeBits: the bits of a stack of packed experts follow from the shapes, so these
// may say any number.
func TestStacksOfStrangeBits(t *testing.T) {
	expert := func(i int) string { return fmt.Sprintf("e.experts.%d", i) }
	for bits, want := range map[int]bool{4: true, 8: true, 1: false, 7: false, 16: false,
		40: false} {
		var tensors []safetensors.Tensor
		for i := range 2 {
			tensors = append(tensors,
				zeros(expert(i)+".weight_packed", safetensors.I32, 32, 64*bits/32),
				zeros(expert(i)+".weight_scale", safetensors.F32, 32, 2))
		}
		w := open(t, fmt.Sprintf(packQuantizedConfig, ""), tensors...)
		w.At("").Stack(2, expert, 32, 64)
		if err := w.Err(); (err == nil) != want ||
			err != nil && !strings.Contains(err.Error(), "bits") {
			t.Errorf("%d bits: %v, accepted: %t", bits, err, want)
		}
	}
}

// TestDivisionsByZero: what a hostile folder says never ends in a division by zero.
func TestDivisionsByZero(t *testing.T) {
	w := open(t, `"quantization": {"group_size": 64, "x": {"group_size": 64}}`,
		safetensors.Tensor{Name: "a.weight", DType: safetensors.U32, Shape: []int{0, 8}},
		safetensors.Tensor{Name: "a.scales", DType: safetensors.F16, Shape: []int{0, 1 << 58}})
	if n := w.Parameters(); n != 0 {
		t.Errorf("%d parameters in empty tensors", n)
	}
	for _, block := range []string{"[0, 0]", "[-1, 128]", "[128, 40]"} {
		w := open(t, fmt.Sprintf(packQuantizedConfig, `, "block_structure": `+block),
			zeros("a.weight", safetensors.F8E4M3, 128, 256),
			zeros("a.weight_scale_inv", safetensors.F32, 1, 2))
		w.At("").Linear("a", 128, 256)
		if w.Err() == nil {
			t.Errorf("blocks of %s: a weight in FP8 of a packing in 4 bits was accepted", block)
		}
	}
}

// TestBlockOfAnotherPacking: only the shapes of its tensors say how a block that drafts is packed,
// also if it is in FP8.
func TestBlockOfAnotherPacking(t *testing.T) {
	norm := zeros("b.norm.weight", safetensors.BF16, 128)
	for name, tensors := range map[string][]safetensors.Tensor{
		"fp8": {zeros("b.fc.weight", safetensors.F8E4M3, 128, 256),
			zeros("b.fc.weight_scale_inv", safetensors.F32, 1, 2)},
		"8 bits": packed("b.fc", 128, 256, 8, 64),
	} {
		w := open(t, `"quantization": {"bits": 4, "group_size": 64}`,
			append(append(packed("m", 64, 128, 4, 64), norm), tensors...)...)
		s, which := w.FindBlock(BlockNames{Prefixes: []string{"b."}, Mark: "fc.weight",
			Second: "norm.weight"})
		if s.Linear("fc", 128, 256); which != 0 || w.Err() != nil {
			t.Errorf("%s: block %d, %v", name, which, w.Err())
		}
	}
}
