package models_test

// Tests of the layouts of Gemma 4 configs and tensor names, and of variants that are not supported.

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// withExperts returns the tiny model with a mixture of experts in every layer, in the layout of
// Hugging Face if fused is true, else in that of MLX.
func withExperts(t *testing.T, fused bool) folder {
	const layers, experts, hidden, inner = 6, 3, 64, 32
	f := readTiny(t, "gemma4_text").with(t, fmt.Sprintf(`"enable_moe_block": true,
		"num_experts": %d, "top_k_experts": 2, "moe_intermediate_size": %d`, experts, inner))
	r := rand.New(rand.NewPCG(1, 2))
	put := func(name string, shape ...int) safetensors.Tensor {
		x := safetensors.Tensor{DType: safetensors.F32, Shape: shape}
		for range x.Elements() {
			value := math.Float32bits(float32(1 + r.NormFloat64()))
			if len(shape) > 1 {
				value = math.Float32bits(float32(0.15 * r.NormFloat64()))
			}
			x.Data = binary.LittleEndian.AppendUint32(x.Data, value)
		}
		f.put(name, x)
		return x
	}
	for i := range layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		for _, name := range []string{"post_feedforward_layernorm_1", "pre_feedforward_layernorm_2",
			"post_feedforward_layernorm_2"} {
			put(at+name+".weight", hidden)
		}
		put(at+"router.scale", hidden)
		put(at+"router.per_expert_scale", experts)
		put(at+"router.proj.weight", experts, hidden)
		down := put(at+"experts.down_proj", experts, hidden, inner)
		both := put(at+"experts.gate_up_proj", experts, 2*inner, hidden)
		if fused {
			continue
		}
		delete(f.tensors, at+"experts.down_proj")
		delete(f.tensors, at+"experts.gate_up_proj")
		f.put(at+"experts.switch_glu.down_proj.weight", down)
		size := len(both.Data) / experts / 2
		for half, name := range []string{"gate_proj", "up_proj"} {
			x := both
			x.Shape, x.Data = []int{experts, inner, hidden}, nil
			for e := range experts {
				x.Data = append(x.Data, both.Data[(2*e+half)*size:][:size]...)
			}
			f.put(at+"experts.switch_glu."+name+".weight", x)
		}
	}
	return f
}

// TestGemma4Experts compares the layouts of experts beside an MLP.
func TestGemma4Experts(t *testing.T) {
	d := cpuDevice(t, 2)
	fused := withExperts(t, true)
	want := fused.logits(t, d)
	if !equalBits(withExperts(t, false).logits(t, d), want) {
		t.Error("the layouts of MLX and Hugging Face give different logits")
	}
	if equalBits(readTiny(t, "gemma4_text").logits(t, d), want) {
		t.Error("the experts change nothing")
	}
	if equalBits(fused.with(t, `"top_k_experts": 1`).logits(t, d), want) {
		t.Error("top_k_experts changes nothing")
	}
}

// TestGemma4Configs compares configs that say the same, and configs that do not.
func TestGemma4Configs(t *testing.T) {
	d := cpuDevice(t, 2)
	original := readTiny(t, "gemma4_text")
	want := original.logits(t, d)
	const ropes = `"rope_parameters": {"sliding_attention": {"rope_theta": %s}, "full_attention":
		{"rope_type": "proportional", "rope_theta": %s, "partial_rotary_factor": %s}}`
	for _, c := range []struct {
		keys string
		same bool
	}{
		{`"per_layer_config": null, "global_head_dim": 64`, true},
		{`"rope_parameters": null`, true},
		{`"vocab_size_per_layer_input": null, "use_bidirectional_attention": "vision"`, true},
		{`"final_logit_softcapping": 3`, false},
		{`"sliding_window": 15`, false},
		{`"rms_norm_eps": 1e-3`, false},
		{fmt.Sprintf(ropes, "1e4", "1e6", "0.25"), true},
		{fmt.Sprintf(ropes, "2e4", "1e6", "0.25"), false},
		{fmt.Sprintf(ropes, "1e4", "2e6", "0.25"), false},
		{fmt.Sprintf(ropes, "1e4", "1e6", "0.5"), false},
	} {
		if got := original.with(t, c.keys).logits(t, d); equalBits(got, want) != c.same {
			t.Errorf("%s: same logits as with the original config: %t, expected %t", c.keys,
				!c.same, c.same)
		}
	}
}

// TestGemma4Refusals checks that configs with unsupported or invalid values give an error before
// any weight is read.
func TestGemma4Refusals(t *testing.T) {
	config := readTiny(t, "gemma4_text").with(t, `"quantization": {"bits": 4, "group_size": 32}`)
	for _, c := range []struct {
		keys, says string
		code       problem.Code
	}{
		{`"hidden_activation": "silu"`, `hidden_activation is "silu"`, problem.UnknownArchitecture},
		{`"attention_bias": true`, "attention_bias is true", problem.UnknownArchitecture},
		{`"use_bidirectional_attention": "all"`, "use_bidirectional_attention is all",
			problem.UnknownArchitecture},
		{`"layer_types": ["full_attention", "full_attention", "full_attention", "full_attention",
			"full_attention", "sliding_attention"]`, "the last of layer_types is sliding_attention",
			problem.UnknownArchitecture},
		{`"layer_types": null`, "no layer_types", problem.UnknownArchitecture},
		{`"vocab_size_per_layer_input": 7`, "vocab_size_per_layer_input is 7",
			problem.UnknownArchitecture},
		{`"num_kv_shared_layers": 6`, "num_kv_shared_layers is 6", problem.ModelBroken},
		{`"num_kv_shared_layers": -1`, "num_kv_shared_layers is -1", problem.ModelBroken},
		{`"num_kv_shared_layers": 5`, "layer 1 shares the keys of a layer with full_attention",
			problem.ModelBroken},
		{`"per_layer_config": {"6": {}}`, `the key "6"`, problem.ModelBroken},
		{`"per_layer_config": {"1": []}`, "is an array, expected an object", problem.ModelBroken},
		{`"per_layer_config": {"1": {"sliding_window": 7}}`, `the key "sliding_window" in layer 1`,
			problem.ModelBroken},
		{`"per_layer_config": {"1": {"num_key_value_heads": 3}}`, "layer 1: num_key_value_heads",
			problem.ModelBroken},
		{`"per_layer_config": {"1": {"head_dim": -3}}`, "head_dim is -3", problem.ModelBroken},
		{`"per_layer_config": {"5": {"head_dim": 32}, "3": {"head_dim": 64}}`,
			"layers 3 and 5 have keys in common", problem.ModelBroken},
		{`"hidden_size_per_layer_input": -1`, "hidden_size_per_layer_input is -1",
			problem.ModelBroken},
		{`"final_logit_softcapping": -30`, "final_logit_softcapping is -30", problem.ModelBroken},
		{`"enable_moe_block": true`, "num_experts is 0", problem.ModelBroken},
		{`"enable_moe_block": true, "num_experts": 4, "moe_intermediate_size": 32,
			"top_k_experts": 5`, "top_k_experts is 5", problem.ModelBroken},
		{`"sliding_window": 0`, "sliding_window is 0", problem.ModelBroken},
	} {
		_, err := engine.Describe(engine.Random([]byte(config.with(t, c.keys).config)),
			engine.Options{})
		if p := problem.From(err); err == nil || p.Code != c.code ||
			!strings.Contains(p.Error(), c.says) {
			t.Errorf("%s: %v, expected %s saying %q", c.keys, err, c.code, c.says)
		}
	}
}

// TestGemma4MissingKey checks that a model with inputs per layer is not run without them.
func TestGemma4MissingKey(t *testing.T) {
	f := readTiny(t, "gemma4_text").with(t, `"hidden_size_per_layer_input": null`)
	_, err := engine.Describe(engine.Source{Dir: f.write(t)}, engine.Options{})
	if err == nil || !strings.Contains(err.Error(), "no hidden_size_per_layer_input") {
		t.Errorf("%v, expected an error that names the key", err)
	}
}
