package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// writeFull writes what mlx-lm does after full fine-tuning, with the given tensors.
func writeFull(t *testing.T, tensors ...safetensors.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, nil); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"adapters.safetensors": b.Bytes(),
		"adapter_config.json": []byte(`{"fine_tune_type": "full", "lora_parameters": null}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// half returns a bfloat16 tensor of halves.
func half(name string, shape ...int) safetensors.Tensor {
	x := safetensors.Tensor{Name: name, DType: safetensors.BF16, Shape: shape}
	x.Data = bytes.Repeat([]byte{0, 0x3f}, x.Elements())
	return x
}

// TestFuseFull: the tensors of full fine-tuning take the places of the model's; all others stay.
func TestFuseFull(t *testing.T) {
	const norm, up = "model.layers.1.input_layernorm.weight", "model.layers.1.mlp.up_proj.weight"
	source, dest := writeLlama(t, 2, 96), filepath.Join(t.TempDir(), "fused")
	full := writeFull(t, half(norm, hidden), half(up, width, hidden))
	if _, err := Run(t.Context(), at(source), dest, Options{Adapter: full}); err != nil {
		t.Fatal(err)
	}
	from, err := safetensors.OpenDir(source)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := safetensors.OpenDir(dest)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for _, name := range to.Names() {
		got, _ := to.Tensor(name)
		want, _ := from.Tensor(name)
		trained := name == norm || name == up
		if trained {
			want = half(name, want.Shape...)
		}
		if !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s, trained %t, has other values than expected", name, trained)
		}
	}
	packed := filepath.Join(t.TempDir(), "packed")
	if _, err := Run(t.Context(), at(source), packed, Options{Adapter: full, Quantize: true,
		Bits: 8}); err != nil {
		t.Errorf("packed: %v", err)
	}
}

func TestFuseFullRefuses(t *testing.T) {
	source := writeLlama(t, 2, 96)
	for want, full := range map[string]string{
		"the result has no tensor model.layers.2.mlp.up_proj.weight": writeFull(t,
			half("model.layers.2.mlp.up_proj.weight", width, hidden)),
		"has shape": writeFull(t, half("model.layers.1.mlp.up_proj.weight", width, width)),
		"is I32, expected": writeFull(t, safetensors.Tensor{Name: "model.norm.weight",
			DType: "I32", Shape: []int{hidden}, Data: make([]byte, 4*hidden)}),
		"are one tensor": writeFull(t, half("model.norm.weight", hidden), half("norm.weight",
			hidden)),
		"has no tensors": writeFull(t),
	} {
		dest := filepath.Join(t.TempDir(), "fused")
		_, err := Run(t.Context(), at(source), dest, Options{Adapter: full})
		if err == nil || !strings.Contains(problem.From(err).Why, want) {
			t.Errorf("got %v, expected %s", err, want)
		}
		if exists(dest) {
			t.Errorf("%s: a folder was made", want)
		}
	}
}
