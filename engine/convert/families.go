package convert

// What mlx-lm's class of each model_type expects: the names and shapes of its tensors, which
// matrices it does not pack, and which in 8 bits.

import (
	"maps"
	"slices"
	"strings"
)

// family is how models of some types are converted.
type family struct {
	steps []step
	// unpacked are the ends of paths of modules that mlx-lm's class cannot pack.
	unpacked []string
	// eight are the ends of paths of modules that get 8 bits in groups of 64, unless a recipe says
	// otherwise: choosing experts needs more than 4 bits.
	eight []string
	// kept are parts of the names of tensors that keep their type.
	kept []string
	// packed says that mlx-lm reads the experts of the original as they are packed.
	packed bool
}

// keeps reports whether the tensor called name keeps its type.
func (f *family) keeps(name string) bool {
	return slices.ContainsFunc(f.kept, func(part string) bool {
		return strings.Contains(name, part)
	})
}

// Supported returns the values of model_type that can be converted, sorted.
func Supported() []string { return slices.Sorted(maps.Keys(families)) }

// The parts of experts under the names that Mixtral gave them.
var mixtralParts = []string{"w1", "gate_proj", "w2", "down_proj", "w3", "up_proj"}

// underText puts the language model of a multimodal one where mlx-lm's class has it.
var underText = rename("model.language_model.", "language_model.model.", "language_model.",
	"language_model.", "", "language_model.")

// experts stacks those of most families.
var experts = stack(".mlp.experts.", ".mlp.switch_mlp.")

// fused cuts the stacks of the originals since transformers 5.
func fused(m *mapping) {
	split(".mlp.experts.gate_up_proj", ".mlp.switch_mlp.gate_proj.weight",
		".mlp.switch_mlp.up_proj.weight", false)(m)
	renameSuffix(".mlp.experts.down_proj", ".mlp.switch_mlp.down_proj.weight")(m)
}

var (
	plain = &family{steps: []step{dropTied}}
	moe   = &family{steps: []step{dropTied, experts, fused}, eight: []string{"mlp.gate"}}
	qwen2 = &family{steps: []step{dropTied, experts, fused}}

	qwen35 = &family{
		steps: []step{
			dropPrefix("vision_tower", "model.visual"),
			underText,
			experts, fused, dropBlock(drop("mtp.")), dropTied, shiftNorms,
			convolutions("conv1d.weight"),
		},
		eight: []string{"mlp.gate", "shared_expert_gate"},
		kept:  []string{"A_log"},
	}
	qwen3VL = &family{
		steps: []step{
			dropPrefix("visual.", "vision_tower.", "model.visual."),
			underText,
			dropTied,
			splitColumns(".mlp.experts.gate_up_proj", false, ".mlp.switch_mlp.gate_proj.weight",
				".mlp.switch_mlp.up_proj.weight"),
			splitColumns(".mlp.experts.down_proj", false, ".mlp.switch_mlp.down_proj.weight"),
		},
		eight: []string{"mlp.gate"},
	}
	deepseekV3 = &family{
		steps:    []step{dropBlock(dropLayers), experts, fused, absorb, dropTied},
		unpacked: []string{"mlp.gate"},
		kept:     []string{"e_score_correction_bias"},
	}
	gemma3 = &family{steps: []step{
		dropPrefix("vision_tower.", "multi_modal_projector.", "model.vision_tower.",
			"model.multi_modal_projector."),
		underText,
		dropTied,
	}}
	gemma4 = &family{
		steps: []step{dropGemma4, rename("model.language_model.", "language_model.model."),
			gemma4Experts, dropShared, dropTied},
		eight: []string{"router.proj"},
	}
	glm4MoE = &family{
		steps:    []step{dropBlock(dropLayers), experts, fused, dropTied},
		unpacked: []string{"mlp.gate"},
		kept:     []string{"e_score_correction_bias"},
	}
	museGlimmer = &family{steps: []step{
		dropPrefix("vision_tower", "vision_adapter", "vision_projection"),
		rename("language_model.model.", "model.", "language_model.lm_head.", "lm_head.",
			"model.language_model.", "model."),
		dropTied,
	}}
	granite = &family{steps: []step{dropTied},
		eight: []string{"self_attn.o_proj", "mlp.down_proj", "lm_head"}}
	lfm2 = &family{
		steps: []step{convolutions("conv.weight"), lfm2Parts,
			stack(".feed_forward.experts.", ".feed_forward.switch_mlp."), dropTied},
		eight: []string{"feed_forward.gate"},
		kept:  []string{"expert_bias"},
	}
)

// families has the families by model_type.
var families = map[string]*family{
	"afmoe": {steps: []step{dropTied, stack(".mlp.experts.", ".mlp.experts.")},
		eight: []string{"router.gate"}, kept: []string{"expert_bias"}},
	"cohere":      plain,
	"cohere2":     plain,
	"deepseek":    {steps: []step{experts, fused, dropTied}, unpacked: []string{"mlp.gate"}},
	"deepseek_v2": {steps: []step{experts, fused, dropTied}, unpacked: []string{"mlp.gate"}},
	"deepseek_v3": deepseekV3,
	"dots1": {steps: []step{dropTied, stack(".mlp.experts.", ".mlp.experts.")},
		unpacked: []string{"mlp.gate"}},
	"ernie4_5": plain,
	"ernie4_5_moe": {steps: []step{dropBlock(drop("mtp_block.", "mtp_linear_proj.",
		"mtp_hidden_norm.", "mtp_emb_norm.")), experts, fused, dropTied}},
	"exaone4":        plain,
	"falcon_h1":      {steps: []step{foldFalcon, convolutions("conv1d.weight"), dropTied}},
	"gemma":          plain,
	"gemma2":         plain,
	"gemma3":         gemma3,
	"gemma3_text":    plain,
	"gemma4":         gemma4,
	"gemma4_text":    gemma4,
	"gemma4_unified": gemma4,
	"glm":            plain,
	"glm4":           plain,
	"glm4_moe":       glm4MoE,
	"glm4_moe_lite":  deepseekV3,
	"gpt_oss":        gptOSS,
	"granite":        granite,
	"granitemoe": {steps: []step{graniteExperts, dropTied},
		eight: []string{"block_sparse_moe.router.layer", "self_attn.o_proj", "mlp.down_proj",
			"lm_head"}},
	"granitemoehybrid": {steps: []step{convolutions("conv1d.weight"), graniteExperts, graniteDense,
		dropTied}, eight: []string{"router.layer"}},
	"helium":           plain,
	"hunyuan_v1_dense": plain,
	"internlm3":        plain,
	"iquestcoder":      plain,
	"kimi_k2":          deepseekV3,
	"lfm2":             lfm2,
	"lfm2_moe":         lfm2,
	"llama":            plain,
	"mellum":           moe,
	"mimo":             {steps: []step{dropBlock(dropPrefix("model.mtp_layers.")), dropTied}},
	"minicpm":          {steps: []step{copyHead}},
	"minimax_m2": {steps: []step{
		stack(".block_sparse_moe.experts.", ".block_sparse_moe.switch_mlp.", mixtralParts...)},
		eight: []string{"block_sparse_moe.gate"}, kept: []string{"e_score_correction_bias"}},
	"ministral3": plain,
	"mistral":    plain,
	"mistral3": {steps: []step{drop("vision_tower", "multi_modal_projector"), underText,
		dropTied}},
	"mixtral": {steps: []step{dropTied,
		stack(".block_sparse_moe.experts.", ".block_sparse_moe.switch_mlp.", mixtralParts...)}},
	"muse_glimmer":      museGlimmer,
	"muse_glimmer_text": museGlimmer,
	"nemotron":          plain,
	"nemotron_h": {steps: []step{dropBlock(dropPrefix("mtp.")), convolutions("conv1d.weight"),
		stack(".mixer.experts.", ".mixer.switch_mlp.", "down_proj", "fc2", "up_proj", "fc1"),
		dropTied}, unpacked: []string{"mixer.gate"},
		kept: []string{"e_score_correction_bias", "A_log"}},
	"olmo2":            plain,
	"olmo3":            plain,
	"olmoe":            qwen2,
	"phi3":             plain,
	"qwen2":            plain,
	"qwen2_moe":        qwen2,
	"qwen3":            plain,
	"qwen3_5":          qwen35,
	"qwen3_5_moe":      qwen35,
	"qwen3_5_moe_text": qwen35,
	"qwen3_5_text":     qwen35,
	"qwen3_8":          qwen35,
	"qwen3_8_moe":      qwen35,
	"qwen3_8_text":     qwen35,
	"qwen3_moe":        moe,
	"qwen3_next": {steps: []step{dropBlock(drop("mtp.")), shiftNorms, experts, fused, dropTied,
		convolutions("conv1d.weight")}, eight: []string{"mlp.gate", "shared_expert_gate"}},
	"qwen3_vl":          qwen3VL,
	"qwen3_vl_moe":      qwen3VL,
	"qwen3_vl_moe_text": qwen3VL,
	"qwen3_vl_text":     qwen3VL,
	"seed_oss":          plain,
	"smollm3":           plain,
	"solar_open":        glm4MoE,
	"stablelm":          plain,
	"starcoder2":        plain,
	"telechat3":         plain,
	"xverse":            plain,
}

// gptOSS keeps the experts of the original packed: gate and up rows alternate.
var gptOSS = &family{
	steps: []step{
		split(".gate_up_proj.weight", ".gate_proj.weight", ".up_proj.weight", true),
		split(".gate_up_proj.scales", ".gate_proj.scales", ".up_proj.scales", true),
		plainGPTOSS,
		split(".gate_up_proj", ".gate_proj.weight", ".up_proj.weight", true),
		splitBias(".gate_up_proj_bias", ".gate_proj.bias", ".up_proj.bias"),
		renameSuffix(".down_proj_bias", ".down_proj.bias"),
		renameSuffix(".experts.down_proj", ".experts.down_proj.weight"),
		dropTied,
	},
	eight:  []string{"router"},
	packed: true,
}

// plainGPTOSS turns experts that are not packed: transformers has their matrices transposed.
func plainGPTOSS(m *mapping) {
	hidden, width := m.number("hidden_size"), m.number("intermediate_size")
	for _, name := range m.names() {
		base, ok := strings.CutSuffix(name, ".experts.down_proj")
		up := m.tensors[base+".experts.gate_up_proj"]
		if !ok || up == nil || !endsWith(m.tensors[name].shape, width, hidden) ||
			!endsWith(up.shape, hidden, 2*width) {
			continue
		}
		splitColumns(".experts.down_proj", false, ".experts.down_proj.weight")(m)
		splitColumns(".experts.gate_up_proj", true, ".experts.gate_proj.weight",
			".experts.up_proj.weight")(m)
		return
	}
}

func endsWith(shape []int, ends ...int) bool {
	return len(shape) >= len(ends) && slices.Equal(shape[len(shape)-len(ends):], ends)
}

// renameSuffix renames tensors whose names end with from.
func renameSuffix(from, to string) step {
	return func(m *mapping) {
		for _, name := range m.names() {
			if base, ok := strings.CutSuffix(name, from); ok {
				t := m.tensors[name]
				t.name = base + to
				m.replace(t, name)
			}
		}
	}
}

// dropGemma4 leaves out what mlx-lm's class, which has the language model alone, does not have.
func dropGemma4(m *mapping) {
	for _, name := range []string{"vision_tower", "multi_modal_projector", "audio_tower",
		"embed_audio", "embed_vision", "vision_embedder"} {
		dropPrefix(name, "model."+name)(m)
	}
	drop("self_attn.rotary_emb", "input_max", "input_min", "output_max", "output_min")(m)
}

func gemma4Experts(m *mapping) {
	split(".experts.gate_up_proj", ".experts.switch_glu.gate_proj.weight",
		".experts.switch_glu.up_proj.weight", false)(m)
	renameSuffix(".experts.down_proj", ".experts.switch_glu.down_proj.weight")(m)
}

// dropShared leaves out keys and values of layers that use those of an earlier one.
func dropShared(m *mapping) {
	first := m.number("num_hidden_layers") - m.number("num_kv_shared_layers")
	maps.DeleteFunc(m.tensors, func(name string, _ *tensor) bool {
		found := layerNumber.FindStringSubmatch(name)
		if found == nil || atoi(found[1]) < first {
			return false
		}
		return strings.Contains(name, ".self_attn.k_proj") ||
			strings.Contains(name, ".self_attn.v_proj") ||
			strings.Contains(name, ".self_attn.k_norm")
	})
}

// lfm2Parts renames the projections of LFM2's mixtures.
func lfm2Parts(m *mapping) {
	if m.config.ModelType == "lfm2_moe" {
		within("w1.weight", "gate_proj.weight", "w2.weight", "down_proj.weight", "w3.weight",
			"up_proj.weight")(m)
	}
}

// graniteExperts cuts the fused stacks of Granite's mixtures.
func graniteExperts(m *mapping) {
	const moe = ".block_sparse_moe"
	split(moe+".input_linear.weight", moe+".switch_mlp.gate_proj.weight",
		moe+".switch_mlp.up_proj.weight", false)(m)
	renameSuffix(moe+".output_linear.weight", moe+".switch_mlp.down_proj.weight")(m)
}

// graniteDense renames the MLP of Granite's hybrid models without a mixture.
func graniteDense(m *mapping) {
	if m.number("num_local_experts") > 0 {
		return
	}
	split(".shared_mlp.input_linear.weight", ".mlp.gate_proj.weight", ".mlp.up_proj.weight",
		false)(m)
	renameSuffix(".shared_mlp.output_linear.weight", ".mlp.down_proj.weight")(m)
}

// copyHead makes the embedding the head, too, if there is none: mlx-lm's MiniCPM has both.
func copyHead(m *mapping) {
	embedding, head := m.tensors["model.embed_tokens.weight"], m.tensors["lm_head.weight"]
	if embedding != nil && head == nil {
		t := *embedding
		t.name = "lm_head.weight"
		m.replace(&t)
	}
}
