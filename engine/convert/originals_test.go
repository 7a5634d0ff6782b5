package convert

// Originals that are more than renamed: constants that are folded in, types without enough range,
// and the block that is left out.

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// edited writes a copy of the model in dir, with other keys in config.json and tensors that edit
// has changed, and returns its folder.
func edited(t *testing.T, dir string, keys map[string]any,
	edit func([]safetensors.Tensor) []safetensors.Tensor) string {
	t.Helper()
	from, err := safetensors.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var tensors []safetensors.Tensor
	for _, name := range from.Names() {
		x, _ := from.Tensor(name)
		tensors = append(tensors, x)
	}
	to, config := t.TempDir(), map[string]any{}
	if err := json.Unmarshal(read(t, dir, "config.json"), &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, keys)
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, edit(tensors), nil); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"config.json": text, "model.safetensors": b.Bytes()} {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestBlockIsNamed: the user learns that the block that drafts is not in the result.
func TestBlockIsNamed(t *testing.T) {
	model := writeLlama(t, 1, 96)
	mimo := map[string]any{"model_type": "mimo", "num_nextn_predict_layers": 1,
		"rope_theta": 10000}
	with := edited(t, model, mimo, func(all []safetensors.Tensor) []safetensors.Tensor {
		return append(all, safetensors.Tensor{Name: "model.mtp_layers.0.input_proj.weight",
			DType: safetensors.BF16, Shape: []int{hidden, 1}, Data: make([]byte, 2*hidden)})
	})
	same := func(all []safetensors.Tensor) []safetensors.Tensor { return all }
	without, beside := edited(t, model, mimo, same), edited(t, model, mimo, same)
	if err := os.WriteFile(filepath.Join(beside, "mtp.safetensors"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ source, want string }{
		"with": {with, "as with mlx-lm"}, "without": {without, ""},
		"beside": {beside, "copy mtp.safetensors"},
	} {
		said := ""
		_, err := Run(t.Context(), at(c.source), filepath.Join(t.TempDir(), "dest"),
			Options{Warn: func(text string) { said += text }})
		if err != nil || (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, expected %q, %v", name, said, c.want, err)
		}
	}
}

// TestFalcon: the constants of an original are folded into packed matrices, too, and a product of
// -0 stays -0.
func TestFalcon(t *testing.T) {
	const tiny = "../models/testdata/tiny/falcon_h1"
	const packed, plain = "model.layers.0.self_attn.q_proj", "model.layers.1.mamba.out_proj"
	data := []byte{0, 0x80, 0, 0x3f} // -0, 0.5
	edit := func(original bool) func(all []safetensors.Tensor) []safetensors.Tensor {
		return func(all []safetensors.Tensor) []safetensors.Tensor {
			var kept []safetensors.Tensor
			for _, x := range all {
				if original && strings.HasSuffix(x.Name, "conv1d.weight") {
					x.Shape = []int{x.Shape[0], 1, x.Shape[1]}
				}
				if !strings.HasPrefix(x.Name, plain) {
					kept = append(kept, x)
				}
			}
			return append(kept, safetensors.Tensor{Name: plain + ".weight",
				DType: safetensors.BF16, Shape: []int{1, 2}, Data: data})
		}
	}
	keys := map[string]any{"attention_in_multiplier": 2, "ssm_out_multiplier": 4}
	result := func(original bool) *safetensors.Checkpoint {
		dest := filepath.Join(t.TempDir(), "dest")
		_, err := Run(t.Context(), at(edited(t, tiny, keys, edit(original))), dest,
			Options{Dequantize: true})
		if err != nil {
			t.Fatal(err)
		}
		all, err := safetensors.OpenDir(dest)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { all.Close() })
		return all
	}
	whole, folded := result(false), result(true)
	x, _ := whole.Tensor(packed + ".weight")
	y, _ := folded.Tensor(packed + ".weight")
	a, b := make([]float32, x.Elements()), make([]float32, x.Elements())
	decode(a, x.Data, kernels.BF16)
	decode(b, y.Data, kernels.BF16)
	if slices.Max(a) <= 0 {
		t.Error("q_proj is all zeros")
	}
	for i := range a {
		if b[i] != 2*a[i] {
			t.Fatalf("element %d of q_proj is %g, folded %g, expected twice that", i, a[i], b[i])
		}
	}
	z, _ := folded.Tensor(plain + ".weight")
	if want := []byte{0, 0x80, 0, 0x40}; !bytes.Equal(z.Data, want) { // -0, 2
		t.Errorf("out_proj is %x, expected %x", z.Data, want)
	}
}

// TestRange: values that the type of the result does not have are refused.
func TestRange(t *testing.T) {
	source := edited(t, writeLlama(t, 1, 96), nil,
		func(all []safetensors.Tensor) []safetensors.Tensor {
			for i := range all {
				if all[i].Name == "model.norm.weight" {
					all[i].Data = slices.Concat([]byte{0, 0x48}, all[i].Data[2:]) // 131072
				}
			}
			return all
		})
	for dtype, ok := range map[string]bool{"float16": false, "bfloat16": true, "float32": true} {
		_, err := Run(t.Context(), at(source), filepath.Join(t.TempDir(), "dest"),
			Options{DType: dtype})
		if ok != (err == nil) || err != nil && (problem.From(err).Code != problem.BadRequest ||
			!strings.Contains(err.Error(), "model.norm.weight")) {
			t.Errorf("%s: %v", dtype, err)
		}
	}
}
