package models_test

// Tests of the layouts of gpt-oss checkpoints. Every layout must give the same logits, bit for bit.

import (
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// interleave returns the rows of a and b in turn. Both are matrices of the given number of bytes
// per row.
func interleave(a, b []byte, rowBytes int) (out []byte) {
	for i := 0; i < len(a); i += rowBytes {
		out = append(append(out, a[i:i+rowBytes]...), b[i:i+rowBytes]...)
	}
	return out
}

// rowsOf returns every second row of data, from the one numbered first.
func rowsOf(data []byte, rowBytes, first int) (out []byte) {
	for i := first * rowBytes; i < len(data); i += 2 * rowBytes {
		out = append(out, data[i:i+rowBytes]...)
	}
	return out
}

// transposed returns x [e, k, n] of 2-byte elements as [e, n, k].
func transposed(x safetensors.Tensor) safetensors.Tensor {
	e, k, n := x.Shape[0], x.Shape[1], x.Shape[2]
	data := make([]byte, 0, len(x.Data))
	for i := range e * n {
		for j := range k {
			at := 2 * ((i/n*k+j)*n + i%n)
			data = append(data, x.Data[at], x.Data[at+1])
		}
	}
	x.Shape, x.Data = []int{e, n, k}, data
	return x
}

// separated returns f, a plain Hugging Face original, in the layout of MLX: gate and up are
// separate stacks [e, out, in] with separate biases.
func (f folder) separated() folder {
	out := f.rename(func(name string) string { return name })
	for name, x := range f.tensors {
		path, part, ok := strings.Cut(name, ".experts.")
		if !ok {
			continue
		}
		delete(out.tensors, name)
		path += ".experts."
		split := func(x safetensors.Tensor, suffix string, dimension, rowBytes int) {
			x.Shape = slices.Clone(x.Shape)
			x.Shape[dimension] /= 2
			for i, half := range []string{"gate_proj", "up_proj"} {
				y := x
				y.Data = rowsOf(x.Data, rowBytes, i)
				out.put(path+half+suffix, y)
			}
		}
		switch part {
		case "gate_up_proj":
			x = transposed(x)
			split(x, ".weight", 1, 2*x.Shape[2])
		case "gate_up_proj_bias":
			split(x, ".bias", 1, 2)
		case "down_proj":
			out.put(path+"down_proj.weight", transposed(x))
		case "down_proj_bias":
			out.put(path+"down_proj.bias", x)
		}
	}
	return out
}

// withBlocks returns f, in the layout of MLX, with its packed experts and their biases in the
// layout of the original: gate_up_proj_blocks, gate_up_proj_scales, gate_up_proj_bias.
func (f folder) withBlocks() folder {
	out := f.rename(func(name string) string { return name })
	put := func(name string, x safetensors.Tensor, rows int, data []byte) {
		x.Shape, x.Data = append(slices.Clone(x.Shape[:1]), rows), data
		if n := len(data) / x.Shape[0] / rows; strings.HasSuffix(name, "_blocks") {
			x.DType, x.Shape = safetensors.U8, append(x.Shape, n/16, 16)
		} else if strings.HasSuffix(name, "_scales") {
			x.Shape = append(x.Shape, n)
		}
		out.put(name, x)
	}
	for name, gate := range f.tensors {
		path, part, ok := strings.Cut(name, ".experts.")
		path += ".experts."
		for from, to := range map[string]string{".weight": "_blocks", ".scales": "_scales",
			".bias": "_bias"} {
			if part, found := strings.CutSuffix(part, from); ok && found {
				delete(out.tensors, name)
				switch part {
				case "down_proj":
					put(path+"down_proj"+to, gate, gate.Shape[1], gate.Data)
				case "gate_proj":
					up := f.tensors[path+"up_proj"+from]
					rowBytes := len(gate.Data) / gate.Shape[0] / gate.Shape[1]
					put(path+"gate_up_proj"+to, gate, 2*gate.Shape[1],
						interleave(gate.Data, up.Data, rowBytes))
				}
			}
		}
	}
	return out
}

func TestGPTOSSLayouts(t *testing.T) {
	d := cpuDevice(t, 2)
	check := func(layout string, f folder, want [][]float32) {
		t.Helper()
		if got := f.logits(t, d); !equalBits(got, want) {
			t.Errorf("%s: the logits differ from those of the other layout", layout)
		}
	}
	original := readTiny(t, "gpt_oss")
	check("MLX, plain", original.separated(), original.logits(t, d))

	packed := readTiny(t, "gpt_oss_mxfp4")
	want := packed.logits(t, d)
	blocks := packed.withBlocks()
	check("blocks of the original", blocks, want)
	for _, pad := range []int{1, 2, 4} { // codes are then not aligned as words
		blocks.pad = pad
		check("blocks of the original, not aligned", blocks, want)
	}

	// The original says so itself in quantization_config. Only its experts are packed.
	plainButExperts := original.separated()
	for name, x := range packed.tensors {
		if strings.Contains(name, ".experts.") {
			plainButExperts.put(name, x)
		}
	}
	hf := plainButExperts.withBlocks()
	hf.config = strings.Replace(hf.config, "{", `{"quantization_config": {"quant_method": "mxfp4",
		"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"]}, `, 1)
	check("the original", hf, plainButExperts.logits(t, d))
	parameters := func(f folder) int64 {
		src := checkpoint.Source{Dir: f.write(t)}
		config, err := src.Config()
		if err != nil {
			t.Fatal(err)
		}
		w, err := checkpoint.Open(src, config, d)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		return w.Parameters()
	}
	if got, want := parameters(hf), parameters(original); got != want {
		t.Errorf("%d parameters, expected %d as in plain weights", got, want)
	}
}

// TestGPTOSSKeys checks keys of config.json that change the logits, and values that are refused.
func TestGPTOSSKeys(t *testing.T) {
	d := cpuDevice(t, 2)
	original := readTiny(t, "gpt_oss")
	want := original.logits(t, d)
	for _, c := range []struct {
		old, new string
		same     bool
		says     string
	}{
		{`{`, `{"swiglu_limit": 7.0, `, true, ""},
		{`{`, `{"swiglu_limit": 0.01, `, false, ""},
		{`"layer_types"`, `"unknown"`, true, ""}, // alternating is the default
		{`"sliding_window": 16`, `"sliding_window": 15`, false, ""},
		{`"truncate": false`, `"truncate": true`, false, ""},
		{`"factor": 32.0`, `"factor": 16.0`, false, ""},
		{`"num_experts_per_tok": 2`, `"num_experts_per_tok": 1`, false, ""},
		{`{`, `{"swiglu_limit": 0, `, false, "swiglu_limit is 0"},
		{`"num_local_experts": 4`, `"num_local_experts": 0`, false, "num_local_experts is 0"},
		{`"num_experts_per_tok": 2`, `"num_experts_per_tok": 5`, false,
			"num_experts_per_tok is 5"},
		{`"num_local_experts": 4`, `"num_local_experts": 5`, false, "mlp.router"},
	} {
		f := original
		if f.config = strings.Replace(original.config, c.old, c.new, 1); f.config ==
			original.config {
			t.Fatalf("the config has no %s", c.old)
		}
		if c.says == "" {
			if got := f.logits(t, d); equalBits(got, want) != c.same {
				t.Errorf("%s: same logits %t, expected %t", c.new, !c.same, c.same)
			}
			continue
		}
		_, err := engine.Describe(engine.Source{Dir: f.write(t)}, engine.Options{})
		if err == nil || !strings.Contains(problem.From(err).Error(), c.says) {
			t.Errorf("%s: got %v, expected an error that says %q", c.new, err, c.says)
		}
	}
}
