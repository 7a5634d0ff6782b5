package checkpoint

import (
	"strings"
	"testing"

	"headroom/engine/safetensors"
)

// TestCheckHoles: neighbouring tensors of zeros are a hole. A single one is none, nor are biases,
// tensors that nothing reads, and experts without a token.
func TestCheckHoles(t *testing.T) {
	const n, k = 64, 64
	full := func(name string) safetensors.Tensor {
		return brokenAt(name, safetensors.BF16, 2*n*k-2, []byte{1, 0x3f}, n, k) // its last value
	}
	empty := func(name string) safetensors.Tensor { return zeros(name, safetensors.BF16, n, k) }
	bias := zeros("m.b.bias", safetensors.BF16, n)
	for _, c := range []struct {
		name    string
		tensors []safetensors.Tensor
		hole    bool
	}{
		{"two", []safetensors.Tensor{full("m.a.weight"), empty("m.b.weight"), empty("m.c.weight")},
			true},
		{"a matrix and a norm", []safetensors.Tensor{full("m.a.weight"), empty("m.c.weight"),
			zeros("m.norm.weight", safetensors.BF16, n)}, true},
		{"a bias between", []safetensors.Tensor{full("m.a.weight"), empty("m.b.weight"), bias,
			empty("m.c.weight")}, true},
		{"one", []safetensors.Tensor{full("m.a.weight"), empty("m.b.weight"), full("m.c.weight")},
			false},
		{"one and its bias", []safetensors.Tensor{full("m.a.weight"), empty("m.b.weight"), bias},
			false},
		{"one and its scales", []safetensors.Tensor{full("m.a.weight"), empty("m.b.scales"),
			empty("m.b.weight"), full("m.c.weight")}, false},
		{"scales and a norm", []safetensors.Tensor{full("m.a.weight"), empty("m.b.scales"),
			empty("m.b.weight"), zeros("m.norm.weight", safetensors.BF16, n)}, true},
		{"zero points", []safetensors.Tensor{full("m.a.weight"), empty("m.b.weight_zero_point"),
			empty("m.c.qzeros"), zeros("m.c.g_idx", safetensors.I32, n)}, false},
		{"one that nothing reads", []safetensors.Tensor{full("m.a.weight"), empty("m.b.weight"),
			empty("m.other.weight")}, false},
		{"experts", []safetensors.Tensor{full("m.a.weight"), empty("m.experts.0.weight"),
			empty("m.experts.1.weight")}, false},
	} {
		w := open(t, "", c.tensors...)
		for _, x := range c.tensors {
			if !strings.Contains(x.Name, "other") {
				w.read[x.Name] = true
			}
		}
		if err := w.CheckHoles(); (err != nil) != c.hole {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
