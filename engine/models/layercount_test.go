package models_test

// The number of layers in config.json and in the files.

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// afterLast returns a copy of f in which the last layer is once more after it, and the number of
// layers that f has.
func (f folder) afterLast(t *testing.T) (more folder, layers int, prefix string) {
	t.Helper()
	all := f.root(t) + "layers."
	number := func(name string) (int, string, bool) {
		rest, ok := strings.CutPrefix(name, all)
		text, rest, _ := strings.Cut(rest, ".")
		i, err := strconv.Atoi(text)
		return i, rest, ok && err == nil
	}
	for name := range f.tensors {
		if i, _, ok := number(name); ok {
			layers = max(layers, i+1)
		}
	}
	more = folder{config: f.config, tensors: maps.Clone(f.tensors)}
	prefix = fmt.Sprintf("%s%d.", all, layers)
	for name, x := range f.tensors {
		if i, rest, ok := number(name); ok && i == layers-1 {
			more.put(prefix+rest, x)
		}
	}
	return more, layers, prefix
}

// TestLayersAfterTheLast: every model is refused if the files have one more layer than config.json
// says, when it is described and when it is loaded.
func TestLayersAfterTheLast(t *testing.T) {
	cpu := cpuDevice(t, 1)
	for _, name := range tiny {
		f, layers, _ := readTiny(t, name).afterLast(t)
		says := fmt.Sprintf(" %d, but the weights have %d layers.", layers, layers+1)
		for _, d := range []kernels.Device{kernels.NewDryRun(), cpu} {
			err := f.open(t, d)
			if p := problem.From(err); err == nil || p.Code != problem.ModelBroken ||
				!strings.Contains(strings.Replace(p.Error(), " layers, but", ", but", 1), says) {
				t.Errorf("%s on %s: %v, expected%s", name, d.Name(), err, says)
			}
		}
	}
	// Of the others, one may be of another kind, and one may draft.
	f := readTiny(t, "qwen3_5_text")
	f.tensors = maps.Clone(f.tensors)
	all := f.root(t) + "layers."
	maps.DeleteFunc(f.tensors, func(name string, _ safetensors.Tensor) bool {
		i, _, ok := strings.Cut(strings.TrimPrefix(name, all), ".")
		return ok && i > "3" && i < "9"
	})
	err := f.with(t, `"num_hidden_layers": 3, "layer_types": null, "full_attention_interval": 4`).
		open(t, kernels.NewDryRun())
	if err == nil || !strings.Contains(err.Error(), "num_hidden_layers is 3, but the weights have "+
		"4 layers.") {
		t.Errorf("the only layer with full attention: %v", err)
	}
	f, layers, prefix := readTiny(t, "glm4_moe").afterLast(t)
	f.put(strings.Replace(prefix, strconv.Itoa(layers), strconv.Itoa(layers+1), 1)+"enorm.weight",
		filled(3, 1))
	if err := f.open(t, kernels.NewDryRun()); err == nil || !strings.Contains(err.Error(),
		fmt.Sprintf("but the weights have %d layers.", layers+1)) {
		t.Errorf("a layer before a block that drafts: %v", err)
	}
}

// TestKindsOfLayers: a module that some layers of an architecture lack is one of kindsOfLayers.
// Otherwise the only layer that has it would be taken for a block that drafts, if it is after the
// last.
func TestKindsOfLayers(t *testing.T) {
	for _, name := range tiny {
		f := readTiny(t, name)
		_, layers, _ := f.afterLast(t)
		all, having := f.root(t)+"layers.", map[string]map[int]bool{}
		for tensor := range f.tensors {
			rest, ok := strings.CutPrefix(tensor, all)
			parts := strings.SplitN(rest, ".", 3)
			i, err := strconv.Atoi(parts[0])
			if !ok || err != nil || len(parts) < 3 {
				continue
			}
			if having[parts[1]] == nil {
				having[parts[1]] = map[int]bool{}
			}
			having[parts[1]][i] = true
		}
		for module, in := range having {
			if len(in) < layers && !slices.Contains(models.KindsOfLayers, module) {
				t.Errorf("%s: only %d of %d layers have %s", name, len(in), layers, module)
			}
		}
	}
}

// TestDraftingBlockIsNoLayer: a layer after the last with one module of a block that drafts is such
// a block, of any architecture, and is not loaded. Conversions leave out any of these modules.
func TestDraftingBlockIsNoLayer(t *testing.T) {
	d := cpuDevice(t, 1)
	for _, name := range []string{"llama", "deepseek_v3", "glm4_moe", "glm4_moe_lite"} {
		original := readTiny(t, name)
		want := original.logits(t, d)
		for _, module := range []string{"eh_proj", "enorm", "hnorm", "shared_head.norm",
			"embed_tokens", "mtp_block.input_proj"} {
			f, _, prefix := original.afterLast(t)
			f.put(prefix+module+".weight", filled(3, 1))
			if !equalBits(f.logits(t, d), want) {
				t.Errorf("%s: a block with %s changes the logits", name, module)
			}
		}
	}
}

// TestRestsOfLayers: scales and rotary tables that a conversion has left of layers it removed are
// no layers.
func TestRestsOfLayers(t *testing.T) {
	for _, name := range []string{"llama", "deepseek_v3", "qwen3_5_text"} {
		f := readTiny(t, name)
		_, layers, _ := f.afterLast(t)
		for _, rest := range []string{"self_attn.rotary_emb.inv_freq", "self_attn.k_scale",
			"mlp.experts.0.down_proj.input_scale"} {
			f = f.copied(fmt.Sprintf("%slayers.%d.%s", f.root(t), layers, rest), filled(3, 1))
		}
		if err := f.open(t, kernels.NewDryRun()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeysInErrors: an error names a key as this config.json has it.
func TestKeysInErrors(t *testing.T) {
	for _, c := range []struct{ model, keys, says string }{
		{"deepseek_v3", `"n_routed_experts": 1`, "num_experts_per_tok is 2, but n_routed_experts is 1"},
		{"deepseek_v3", `"topk_method": "best"`,
			`topk_method is "best", expected noaux_tc, group_limited_greedy, greedy`},
		{"mixtral", `"num_local_experts": 1`, "num_experts_per_tok is 2, but num_local_experts is 1"},
		{"mixtral", `"num_local_experts": null, "num_experts": 1`,
			"num_experts_per_tok is 2, but num_experts is 1"},
		{"mixtral", `"num_local_experts": null`, "num_local_experts is 0, expected"},
		{"mixtral", `"intermediate_size": -1`, ": intermediate_size is -1, expected"},
		{"granitemoe", `"num_local_experts": 0`, "num_local_experts is 0, expected"},
		{"olmoe", `"num_experts": 0`, "num_experts is 0, expected"},
		{"gpt_oss", `"num_local_experts": 1`, "but num_local_experts is 1"},
		{"gpt_oss", `"num_local_experts": null`, "num_local_experts is 0, expected"},
		{"minimax_m2", `"intermediate_size": -1`, ": intermediate_size is -1, expected"},
		{"minimax_m2", `"num_local_experts": null`, "num_local_experts is 0, expected"},
		{"granitemoehybrid_moe", `"intermediate_size": -1`, ": intermediate_size is -1, expected"},
		{"granitemoehybrid", `"layer_types": null, "layers_block_type": ["conv", "mamba"]`,
			`layers_block_type[0] is "conv", expected attention or mamba`},
		{"granitemoehybrid", `"layer_types": null, "layers_block_type": ["mamba"]`,
			"layers_block_type has 1 entries"},
		{"granitemoehybrid", `"time_step_limit": [2, 1]`, "time_step_limit is [2, 1], expected"},
		{"lfm2", `"norm_eps": 2`, ": norm_eps is 2, expected a number between 0 and 1"},
		{"starcoder2", `"norm_epsilon": 2`, ": norm_epsilon is 2, expected"},
		{"nemotron", `"norm_eps": 2`, ": norm_eps is 2, expected"},
		{"stablelm", `"layer_norm_eps": 2`, ": layer_norm_eps is 2, expected"},
		{"nemotron_h", `"layer_norm_epsilon": 2`, ": layer_norm_epsilon is 2, expected"},
		{"nemotron_h", `"hybrid_override_pattern": null, "layers_block_type": null,
			"num_hidden_layers": 9, "layer_types": ["mamba"]`, "num_hidden_layers is 9, but layer_types has 1"},
		{"nemotron_h", `"hybrid_override_pattern": null, "layers_block_type": ["full"]`,
			`layers_block_type[0] is "full"`},
		{"gemma3_text", `"rope_local_base_freq": -1, "rope_parameters": null`,
			"rope_local_base_freq is -1, expected"},
		{"qwen3", `"rope_parameters": null, "rope_scaling": {"type": "ntk"}`, `type is "ntk", expected`},
		{"qwen3", `"rope_parameters": null, "rope_scaling": {"type": "linear"}`,
			`factor is 0, expected a finite number above 0, for type "linear"`},
		{"qwen3", `"rope_parameters": {"factor": "4"}`,
			`rope_parameters.factor is "4", expected a number`},
		{"qwen3", `"rope_parameters": null, "rope_scaling": []`, "rope_scaling is an array, expected"},
	} {
		err := readTiny(t, c.model).with(t, c.keys).open(t, kernels.NewDryRun())
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v, expected %q", c.model, c.keys, err, c.says)
		}
	}
}

// TestShapesInErrors: an error has a shape in words.
func TestShapesInErrors(t *testing.T) {
	for _, c := range []struct{ model, tensor, says string }{
		{"llama", "model.layers.1.mlp.down_proj.weight",
			"tensor model.layers.1.mlp.down_proj.weight is float32 of shape 3 x 5, " +
				"expected 64 x 128."},
		{"llama", "model.norm.weight", "tensor model.norm.weight is float32 of shape 3 x 5, " +
			"expected 64 elements of a float type."},
	} {
		f := readTiny(t, c.model)
		f = f.copied(c.tensor, safetensors.Tensor{DType: safetensors.F32, Shape: []int{3, 5},
			Data: make([]byte, 60)})
		err := f.open(t, kernels.NewDryRun())
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %q", c.tensor, err, c.says)
		}
	}
}
