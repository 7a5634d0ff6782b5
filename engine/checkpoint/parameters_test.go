package checkpoint

import (
	"testing"

	"headroom/engine/safetensors"
	"headroom/kernels"
)

// TestParameters counts the elements of packed matrices, with and without a quantization in
// config.json, and of plain matrices.
func TestParameters(t *testing.T) {
	const n, k = 3, 256
	norm, bias := zeros("norm.weight", safetensors.BF16, k),
		zeros("plain.biases", safetensors.F32, 5)
	for _, c := range []struct {
		config      string
		bits, group int
	}{
		{`"quantization": {"bits": 4, "group_size": 64}`, 4, 64},
		{`"quantization": {"bits": 4, "group_size": 64, "a": {"bits": 6, "group_size": 32}}`, 6,
			32},
		{"", 8, 64},
		{"", 3, 64},
	} {
		w := open(t, c.config, append(packed("a", n, k, c.bits, c.group), norm, bias)...)
		if got := w.Parameters(); got != n*k+k+5 {
			t.Errorf("%d bits in groups of %d, config %q: %d parameters, want %d", c.bits, c.group,
				c.config, got, n*k+k+5)
		}
	}
	w := open(t, "", zeros("a.weight", safetensors.BF16, n, k),
		zeros("a.scales", safetensors.BF16, n))
	if got := w.Parameters(); got != n*k+n {
		t.Errorf("plain matrix with scales: %d parameters, want %d", got, n*k+n)
	}
	if empty := open(t, "", packedOf(0)...); empty.Parameters() != 0 {
		t.Errorf("matrices without columns: %d parameters, want 0", empty.Parameters())
	}
}

// packedOf returns a packed matrix of three rows. Its codes, scales and biases have cols columns
// each.
func packedOf(cols int) []safetensors.Tensor {
	return []safetensors.Tensor{zeros("a.weight", safetensors.U32, 3, cols),
		zeros("a.scales", safetensors.BF16, 3, cols), zeros("a.biases", safetensors.BF16, 3, cols)}
}

// TestParametersOfRandomModels checks that for a random model, Parameters counts the tensors that
// have been generated so far.
func TestParametersOfRandomModels(t *testing.T) {
	c, err := ParseConfig([]byte(
		`{"model_type": "m", "quantization": {"bits": 4, "group_size": 32}}`))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(Random([]byte("{}")), c, kernels.NewDryRun())
	if err != nil {
		t.Fatal(err)
	}
	w.At("").Experts("a", 2, 3, 64)
	w.At("").Vector("norm", 64, 0)
	if got := w.Parameters(); got != 2*3*64+64 {
		t.Errorf("%d parameters, want %d", got, 2*3*64+64)
	}
}
