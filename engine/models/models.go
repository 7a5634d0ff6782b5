// Package models implements the supported architectures. Each has a file, such as qwen3.go, and an
// entry in the registry. decoder.go and load.go have the code that architectures share. Config
// fields and weights have the same names as in Hugging Face checkpoints.
package models

import (
	"maps"
	"slices"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/engine/problem"
	"headroom/kernels"
)

// Model is a loaded architecture.
type Model interface {
	// Spec describes the model to the runner. The caller must not change its slices.
	Spec() Spec
	// Forward runs the tokens of b through the model and updates memory, which has an entry for
	// each of Spec().Layers. It returns the hidden states after the final norm: [M, hidden], or
	// those of the rows of b.Outputs alone. They are in the arena of c.
	Forward(c *ops.Context, b *batch.Batch, memory []cache.Layer) kernels.Tensor
	// Logits returns the next-token logits [len(rows), V] of some rows of x, which Forward has
	// returned. They are in the arena of c. A pass may call it several times. If Spec().Vectors is
	// set, it returns the vectors of pooled hidden states instead.
	Logits(c *ops.Context, x kernels.Tensor, rows []int32) kernels.Tensor
}

// Spec describes a model to the runner and the memory plan.
type Spec struct {
	VocabSize     int
	ContextTokens int // maximum sequence length that the model was trained for
	Layers        []cache.LayerSpec
	Vectors       *Vectors // nil: the model generates text
	Drafts        bool     // the model is a Drafter, and the last of Layers is that of its block
	InPlace       bool     // Drafts is set, and all drafts of a pass have the same position
	Block         *Block   // the model is a Drafter of blocks; nil: it is not
	HostDrafts    bool     // Drafts is set, and Drafter.FinishDraftLogits has something to do
	// Shortlist has the tokens from which Drafts may be chosen; nil: only the whole vocabulary.
	Shortlist *batch.Shortlist
}

// registry maps values of model_type in config.json to functions that load such a model. The
// functions need not check w.Err, because Load does.
var registry = map[string]func(w *checkpoint.Weights) (Model, error){
	"afmoe":             loadAFMoE,
	"cohere":            loadCohere,
	"cohere2":           loadCohere,
	"deepseek":          loadDeepseek,
	"deepseek_v2":       loadDeepseekV2,
	"deepseek_v3":       loadDeepseekV3,
	"dots1":             loadDots1,
	"ernie4_5":          loadERNIE,
	"ernie4_5_moe":      loadERNIE,
	"exaone4":           loadEXAONE4,
	"falcon_h1":         loadFalconH1,
	"gemma":             loadGemma,
	"gemma2":            loadGemma2,
	"gemma3":            loadGemma3,
	"gemma3_text":       loadGemma3,
	"gemma4":            loadGemma4,
	"gemma4_text":       loadGemma4,
	"gemma4_unified":    loadGemma4,
	"glm":               loadGLM,
	"glm4":              loadGLM,
	"glm4_moe":          loadGLM4MoE,
	"glm4_moe_lite":     loadGLM4MoELite,
	"gpt_oss":           loadGPTOSS,
	"granite":           loadGranite,
	"granitemoe":        loadGraniteMoE,
	"granitemoehybrid":  loadGraniteHybrid,
	"helium":            loadHelium,
	"hunyuan_v1_dense":  loadHunyuan,
	"internlm3":         loadInternLM3,
	"iquestcoder":       loadLlama,
	"kimi_k2":           loadDeepseekV3,
	"lfm2":              loadLFM2,
	"lfm2_moe":          loadLFM2,
	"llama":             loadLlama,
	"mellum":            loadMellum,
	"mimo":              loadQwen2,
	"minicpm":           loadMiniCPM,
	"minimax_m2":        loadMiniMaxM2,
	"ministral3":        loadMinistral3,
	"mistral":           loadMistral,
	"mistral3":          loadMistral3,
	"mixtral":           loadMixtral,
	"muse_glimmer":      loadMuseGlimmer,
	"muse_glimmer_text": loadMuseGlimmer,
	"nemotron":          loadNemotron,
	"nemotron_h":        loadNemotronH,
	"olmo2":             loadOLMo2,
	"olmo3":             loadOLMo3,
	"olmoe":             loadOLMoE,
	"phi3":              loadPhi3,
	"qwen2":             loadQwen2,
	"qwen2_moe":         loadQwen2MoE,
	"qwen3":             loadQwen3,
	"qwen3_5":           loadQwen35,
	"qwen3_5_moe":       loadQwen35,
	"qwen3_5_moe_text":  loadQwen35,
	"qwen3_5_text":      loadQwen35,
	"qwen3_8":           loadQwen35, // what some programs call the conversions of Qwen3.8
	"qwen3_8_moe":       loadQwen35,
	"qwen3_8_text":      loadQwen35,
	"qwen3_moe":         loadQwen3MoE,
	"qwen3_next":        loadQwen3Next,
	"qwen3_vl":          loadQwen3, // the language model
	"qwen3_vl_moe":      loadQwen3MoE,
	"qwen3_vl_moe_text": loadQwen3MoE,
	"qwen3_vl_text":     loadQwen3,
	"seed_oss":          loadSeedOSS,
	"smollm3":           loadSmolLM3,
	"solar_open":        loadSolarOpen,
	"stablelm":          loadStableLM,
	"starcoder2":        loadStarCoder2,
	"telechat3":         loadLlama,
	"xverse":            loadLlama,
}

// Check returns a Problem if a model with this config is none that Load can load, as far as the
// model_type and the architectures tell.
func Check(c *checkpoint.Config) error {
	if a := FindAttached(c); a != nil {
		return problem.New(problem.UnknownArchitecture,
			"This is "+a.Name+", not a language model", "it drafts tokens for another model",
			"Name it as the draft model of the model that it was made for.")
	}
	decoder, encoder := registry[c.ModelType] != nil, encoders[c.ModelType] != nil
	if encoder && c.Modules != nil {
		return nil
	}
	if decoder || encoder { // one without modules has a task that Headroom does not know
		if err := checkTask(c); err != nil || decoder {
			return err
		}
	}
	if IsBlock(c) {
		return problem.New(problem.UnknownArchitecture, "This drafts tokens for another model",
			"its model_type is "+c.ModelType,
			"Choose it as the draft model of that one, in its details or with --draft-model.")
	}
	return problem.Architecture(c.ModelType, Supported())
}

// Load builds the model that w's config describes. The weights of the model are valid until w is
// closed. Errors are Problems.
func Load(w *checkpoint.Weights) (Model, error) { return load(w, false) }

func load(w *checkpoint.Weights, drafter bool) (Model, error) {
	if err := Check(w.Config); err != nil {
		return nil, err
	}
	if err := checkBare(w); err != nil {
		return nil, err
	}
	m, err := build(w)
	var own layerNames
	if err == nil {
		if l, ok := m.(layered); ok {
			own = l.layerNames(w)
		}
		if d, ok := m.(*decoder); ok && drafter {
			d.addDrafter()
			err = w.Err()
		}
	}
	if err == nil && w.Config.Modules != nil {
		if m, err = withModules(m, w); err == nil {
			err = w.Err()
		}
	}
	if err == nil {
		err = checkHeads(m.Spec(), w)
	}
	if err == nil {
		err = own.checkCount(w)
	}
	if err == nil {
		err = checkUnread(w, own)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// build builds the layers of the model, without modules after them.
func build(w *checkpoint.Weights) (Model, error) {
	if load := encoders[w.Config.ModelType]; load != nil {
		m, err := load(w)
		if err == nil {
			err = w.Err()
		}
		return m, err
	}
	m, err := registry[w.Config.ModelType](w)
	if err == nil {
		err = w.Err()
	}
	return m, err
}

// headMultiple divides the head dimensions that the cache can store; see attention.Cache.
const headMultiple = 16

func checkHeads(s Spec, w *checkpoint.Weights) error {
	for _, layer := range s.Layers {
		if layer.KVHeads > 0 && layer.HeadDim%headMultiple != 0 {
			return unsupported(w, "head_dim is %d, expected a multiple of %d", layer.HeadDim,
				headMultiple)
		}
	}
	return nil
}

// Supported returns Architectures and the encoders, sorted.
func Supported() []string {
	names := Architectures()
	for name := range encoders {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Architectures returns the values of model_type of language models that Load supports, sorted.
func Architectures() []string { return slices.Sorted(maps.Keys(registry)) }
