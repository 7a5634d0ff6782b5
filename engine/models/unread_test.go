package models_test

// Tensors of checkpoints that no layer reads, or that have values which are no numbers.

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// copied returns a copy of f with one more tensor.
func (f folder) copied(name string, x safetensors.Tensor) folder {
	f.tensors = maps.Clone(f.tensors)
	f.put(name, x)
	return f
}

// root returns the prefix of the names of f's language model.
func (f folder) root(t *testing.T) string {
	t.Helper()
	for name := range f.tensors {
		for _, embedding := range []string{"embed_tokens.weight", "embeddings.weight"} {
			if root, ok := strings.CutSuffix(name, embedding); ok {
				return root
			}
		}
	}
	t.Fatal("no embedding")
	return ""
}

// filled returns a tensor of n float32 values.
func filled(n int, value float32) safetensors.Tensor {
	x := safetensors.Tensor{DType: safetensors.F32, Shape: []int{n}, Data: make([]byte, 0, 4*n)}
	for range n {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(value))
	}
	return x
}

// TestUnknownTensors adds to every model a tensor with which the reference computes something else.
// Each must be refused, with its name, when the model is described and when it is loaded.
func TestUnknownTensors(t *testing.T) {
	for _, name := range tiny {
		original := readTiny(t, name)
		root := original.root(t)
		norm, embedding := root+"norm", root+"embed_tokens"
		for _, other := range []string{"embedding_norm", "final_layernorm", "norm_f"} {
			if original.has(other) {
				norm = root + other
			}
		}
		extraNorm := norm + ".bias"
		if original.has(extraNorm) { // a LayerNorm
			extraNorm = norm + ".offset"
		}
		if original.has("embeddings") { // Nemotron-H
			embedding = root + "embeddings"
		}
		unknown := []string{root + "layers.0.extra_norm.weight",
			root + "layers.1.self_attn.gate.bias", root + "layers.1.mlp.alpha", extraNorm,
			embedding + ".bias", root + "embed_layernorm.weight",
			root + "embed_positions.weight", "lm_head.bias"}
		for _, extra := range unknown {
			f := original.copied(extra, filled(3, 0.5))
			for _, d := range []kernels.Device{kernels.NewDryRun(), cpuDevice(t, 1)} {
				err := f.open(t, d)
				if p := problem.From(err); err == nil || p.Code != problem.UnknownArchitecture ||
					!strings.Contains(p.Error(), extra) {
					t.Errorf("%s with %s on %s: %v", name, extra, d.Name(), err)
				}
			}
		}
	}
	f := readTiny(t, "qwen3").copied("model.layers.0.a.weight", filled(1, 1))
	f.put("model.layers.3.b.weight", filled(1, 1))
	if err := f.open(t, kernels.NewDryRun()); err == nil ||
		!strings.Contains(err.Error(), "no tensor model.layers.0.a.weight and 1 more.") {
		t.Errorf("two unknown tensors: %v", err)
	}
}

// TestHarmlessTensors adds tensors that the reference does not read either, as checkpoints have
// them. Every model must compute the same as before.
func TestHarmlessTensors(t *testing.T) {
	d := cpuDevice(t, 1)
	for _, name := range tiny {
		original := readTiny(t, name)
		root := original.root(t)
		f := original
		for _, extra := range []string{
			root + "layers.0.self_attn.rotary_emb.inv_freq", root + "rotary_emb.inv_freq",
			root + "layers.0.self_attn.k_scale", root + "layers.0.self_attn.k_proj.k_scale",
			root + "layers.1.mlp.down_proj.input_scale",
			root + "layers.1.mlp.down_proj.activation_scale",
			root + "layers.4000.eh_proj.weight", root + "layers.x.norm.weight", root + "layers",
			"mtp.layers.0.input_layernorm.weight", "model.mtp.norm.weight",
			"model.visual.blocks.0.norm1.bias", "vision_tower.layers.0.norm.bias",
			"model.vision_tower.layers.0.norm.bias", "audio_tower.layers.0.norm.bias",
			"multi_modal_projector.linear.bias", "model.embed_vision.norm.weight", "score.weight",
		} {
			f = f.copied(extra, filled(3, 0.5))
		}
		f = f.copied(root+"layers.0.mlp.extra.bias", filled(3, 0))
		if !equalBits(f.logits(t, d), original.logits(t, d)) {
			t.Errorf("%s: tensors that no reference reads change the logits", name)
		}
	}
}

// TestHeadBesideATiedOne: a head that is the embedding once more changes nothing. One that differs,
// in its codes or its scales, counts, although config.json says that both are tied.
func TestHeadBesideATiedOne(t *testing.T) {
	d := cpuDevice(t, 1)
	folders := map[string]folder{"llama": readTiny(t, "llama"),
		"gemma3_text": readTiny(t, "gemma3_text")}
	folders["llama in 4 bits"], _ = readTiny(t, "llama").packed(4, 32)
	for name, original := range folders {
		original = original.with(t, `"tie_word_embeddings": true`)
		original.tensors = maps.Clone(original.tensors)
		maps.DeleteFunc(original.tensors, func(tensor string, _ safetensors.Tensor) bool {
			return strings.HasPrefix(tensor, "lm_head.")
		})
		embedding := original.root(t) + "embed_tokens"
		packed := original.has("embed_tokens.scales")
		tied, same := original.logits(t, d), original
		changed := map[string]folder{}
		for tensor, x := range original.tensors {
			if rest, ok := strings.CutPrefix(tensor, embedding); ok {
				same = same.copied("lm_head"+rest, x)
				changed[rest] = folder{}
			}
		}
		for rest := range changed {
			x := same.tensors["lm_head"+rest]
			x.Data = slices.Clone(x.Data)
			x.Data[len(x.Data)-2] ^= 1
			changed[rest] = same.copied("lm_head"+rest, x)
		}
		if packed != (len(changed) == 3) {
			t.Errorf("%s: the head has %d tensors", name, len(changed))
		}
		if !equalBits(same.logits(t, d), tied) {
			t.Errorf("%s: a head that equals the embedding changes the logits", name)
		}
		for rest, f := range changed {
			want := f.with(t, `"tie_word_embeddings": false`).logits(t, d)
			if got := f.logits(t, d); !equalBits(got, want) || equalBits(got, tied) {
				t.Errorf("%s: a head with another %s does not count", name, rest)
			}
		}
		if packed {
			continue
		}
		other := original.copied("lm_head.weight", filled(3, 1)) // of a smaller vocabulary
		if !equalBits(other.logits(t, d), tied) {
			t.Errorf("%s: a head of another shape changes the logits", name)
		}
	}
}

// TestZeroBiasesAreBounded: comparing biases with 0 takes no longer than 64 MiB of them.
func TestZeroBiasesAreBounded(t *testing.T) {
	f := readTiny(t, "qwen3").copied("model.layers.0.mlp.extra.bias", filled(16<<20, 0))
	if err := f.open(t, kernels.NewDryRun()); err != nil {
		t.Errorf("64 MiB of zeros: %v", err)
	}
	f = f.copied("model.layers.1.mlp.extra.bias", filled(1, 0))
	if err := f.open(t, kernels.NewDryRun()); err == nil ||
		!strings.Contains(err.Error(), "layers.1.mlp.extra.bias") {
		t.Errorf("more than 64 MiB of zeros: %v", err)
	}
}

// TestSharedLayersWithKeys: checkpoints of Gemma 4 may have projections of keys and values also in
// the layers that use those of another layer.
func TestSharedLayersWithKeys(t *testing.T) {
	d := cpuDevice(t, 1)
	original := readTiny(t, "gemma4_text")
	root, f := original.root(t), original
	last := 0
	for original.has(root + "layers." + string(rune('1'+last)) + ".") {
		last++
	}
	layer := root + "layers." + string(rune('0'+last)) + ".self_attn."
	if original.has(layer + "k_proj") {
		t.Fatalf("%sk_proj exists, expected a layer without keys of its own", layer)
	}
	for _, module := range []string{"k_proj", "v_proj", "k_norm", "v_norm"} {
		f = f.copied(layer+module+".weight", filled(3, 0.5))
	}
	if !equalBits(f.logits(t, d), original.logits(t, d)) {
		t.Error("keys that no layer reads change the logits")
	}
}

// TestNotFinite: a vector with NaN or an infinite value is damaged. The clamped activation of
// gpt_oss would hide it.
func TestNotFinite(t *testing.T) {
	d := cpuDevice(t, 1)
	inf := float32(math.Inf(1))
	for _, c := range []struct{ model, suffix string }{
		{"gpt_oss", "experts.gate_up_proj_bias"}, {"gpt_oss", "experts.down_proj_bias"},
		{"gpt_oss", "router.bias"}, {"gpt_oss", "self_attn.sinks"}, {"qwen2", "q_proj.bias"},
		{"qwen3", "layers.3.input_layernorm.weight"}, {"qwen3_5_text", "A_log"},
	} {
		original := readTiny(t, c.model)
		for _, value := range []float32{inf, -inf, float32(math.NaN())} {
			for name, x := range original.tensors {
				if !strings.HasSuffix(name, c.suffix) {
					continue
				}
				x = filled(x.Elements(), 0)
				x.Shape = original.tensors[name].Shape
				binary.LittleEndian.PutUint32(x.Data[len(x.Data)-4:], math.Float32bits(value))
				err := original.copied(name, x).open(t, d)
				if p := problem.From(err); err == nil || p.Code != problem.ModelBroken ||
					!strings.Contains(p.Error(), "damaged: tensor "+name) {
					t.Errorf("%s: %g in %s: %v", c.model, value, name, err)
				}
			}
		}
		if !original.has(c.suffix) {
			t.Errorf("%s has no %s", c.model, c.suffix)
		}
	}
}
