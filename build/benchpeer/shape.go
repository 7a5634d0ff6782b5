package main

// The shapes of `headroom bench` as GGUF files for llama.cpp: the same architecture, sizes and bits
// of each weight. A type of GGUF has the same number of bits as an MLX packing, scales included:
//
//	Q4_0   4.5   affine, 4 bits in groups of 64
//	Q4_1   5     affine, 4 bits in groups of 32
//	Q8_0   8.5   affine, 8 bits in groups of 64
//	MXFP4  4.25  mxfp4
//
// Routers of experts are the exception. They are float32 in GGUF files, as llama.cpp's quantizer
// leaves them, and 8 bits in conversions to MLX. They are at most 2 % of what a token reads.
//
// Sources: llama.cpp, src/llama-arch.cpp and src/models. The names in config.json are those of
// Hugging Face.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// config holds the keys of config.json.
type config struct {
	hybridConfig
	ModelType    string  `json:"model_type"`
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	KVHeads      int     `json:"num_key_value_heads"`
	HeadDim      int     `json:"head_dim"`
	Vocab        int     `json:"vocab_size"`
	Context      int     `json:"max_position_embeddings"`
	NormEps      float32 `json:"rms_norm_eps"`
	RopeTheta    float32 `json:"rope_theta"`
	Tied         bool    `json:"tie_word_embeddings"`

	Window        int      `json:"sliding_window"`
	LayerTypes    []string `json:"layer_types"`
	WindowPattern int      `json:"sliding_window_pattern"`
	LocalTheta    float32  `json:"rope_local_base_freq"`
	PartialRotary float32  `json:"partial_rotary_factor"`
	LogitCap      float32  `json:"final_logit_softcapping"`

	GlobalHeadDim int `json:"global_head_dim"` // of layers with full attention; 0: HeadDim
	SharedLayers  int `json:"num_kv_shared_layers"`
	InputSize     int `json:"hidden_size_per_layer_input"`
	Rope          struct {
		Full    rope `json:"full_attention"`
		Sliding rope `json:"sliding_attention"`
	} `json:"rope_parameters"`

	Experts            int `json:"num_experts"`
	LocalExperts       int `json:"num_local_experts"` // another name of num_experts
	ExpertsPerToken    int `json:"num_experts_per_tok"`
	ExpertIntermediate int `json:"moe_intermediate_size"`
	SharedIntermediate int `json:"shared_expert_intermediate_size"`

	FullInterval   int `json:"full_attention_interval"`
	ConvTaps       int `json:"linear_conv_kernel_dim"`
	LinearKHeads   int `json:"linear_num_key_heads"`
	LinearVHeads   int `json:"linear_num_value_heads"`
	LinearKHeadDim int `json:"linear_key_head_dim"`
	LinearVHeadDim int `json:"linear_value_head_dim"`

	Quantization map[string]json.RawMessage `json:"quantization"`
}

type rope struct {
	Theta float32 `json:"rope_theta"`
}

// shapes is the folder of the shapes that `headroom bench` knows.
const shapes = "app/commands/shapes"

// readShape returns the config.json of a shape, by name or path. If layers is not 0, it reduces the
// number of layers to it, and the name says so.
func readShape(name string, layers int) (label string, text []byte, err error) {
	file := name
	if !strings.HasSuffix(name, ".json") {
		file = filepath.Join(shapes, strings.ToLower(name)+".json")
	}
	label = strings.TrimSuffix(filepath.Base(file), ".json")
	if text, err = os.ReadFile(file); err != nil {
		known, _ := filepath.Glob(filepath.Join(shapes, "*.json"))
		for i, f := range known {
			known[i] = strings.TrimSuffix(filepath.Base(f), ".json")
		}
		return label, nil, fmt.Errorf("there is no shape %q: %w; the shapes are %s", name, err,
			strings.Join(known, ", "))
	}
	if layers == 0 {
		return label, text, nil
	}
	text, err = reduce(text, layers)
	return fmt.Sprintf("%s-%d-layers", label, layers), text, err
}

// reduce returns a config.json with its first layers only. The same part of them share keys.
func reduce(text []byte, layers int) ([]byte, error) {
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	inner := all
	if nested, ok := all["text_config"].(map[string]any); ok {
		inner = nested
	}
	n, _ := inner["num_hidden_layers"].(float64)
	if layers < 1 || layers > int(n) {
		return nil, fmt.Errorf("cannot take %d layers of %g", layers, n)
	}
	inner["num_hidden_layers"] = layers
	if pattern, ok := inner["hybrid_override_pattern"].(string); ok && len(pattern) > layers {
		inner["hybrid_override_pattern"] = pattern[:layers]
	}
	types, _ := inner["layer_types"].([]any)
	if len(types) > layers {
		types = types[:layers]
		inner["layer_types"] = types
	}
	if share, ok := inner["num_kv_shared_layers"].(float64); ok && len(types) == layers {
		first := layers - int(share)*layers/int(n)
		// llama.cpp expects full attention in the last layer with keys of its own.
		for first > 1 && types[first-1] != "full_attention" {
			first--
		}
		inner["num_kv_shared_layers"] = layers - first
	}
	return json.Marshal(all)
}

// parseConfig reads a config.json. The keys of a multimodal model's language model are in
// text_config.
func parseConfig(text []byte) (*config, error) {
	c := &config{Tied: true}
	var nested struct {
		Text json.RawMessage `json:"text_config"`
	}
	err := json.Unmarshal(text, c)
	if err == nil {
		err = json.Unmarshal(text, &nested)
	}
	if err == nil && nested.Text != nil {
		err = json.Unmarshal(nested.Text, c)
	}
	if err != nil {
		return nil, fmt.Errorf("parse config.json: %w", err)
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	c.resolve()
	if c.Experts > 0 && c.ExpertIntermediate == 0 {
		c.ExpertIntermediate = c.Intermediate
	}
	return c, nil
}

// packing is a module's entry under quantization.
type packing struct {
	Bits  int    `json:"bits"`
	Group int    `json:"group_size"`
	Mode  string `json:"mode"`
}

// weightTypes maps packings to the types with the same number of bits. The mode "" is affine.
var weightTypes = map[packing]blockType{
	{4, 64, ""}:      typeQ40,
	{4, 32, ""}:      typeQ41,
	{8, 64, ""}:      typeQ80,
	{4, 32, "mxfp4"}: typeMXFP4,
}

// weightType returns the type of a module, such as "layers.3.self_attn.q_proj". The names in
// config.json have further prefixes.
func (c *config) weightType(module string) (blockType, error) {
	var p packing
	all, err := json.Marshal(c.Quantization)
	if err == nil {
		err = json.Unmarshal(all, &p)
	}
	for name, text := range c.Quantization {
		if err == nil && (name == module || strings.HasSuffix(name, "."+module)) {
			p = packing{}
			err = json.Unmarshal(text, &p)
		}
	}
	if p.Mode == "affine" {
		p.Mode = ""
	}
	kind, ok := weightTypes[p]
	if err == nil && !ok {
		err = fmt.Errorf("no type of GGUF has the bits of %+v, the packing of %s", p, module)
	}
	return kind, err
}

// architectures maps the model_type of a language model to the name of its architecture in
// llama.cpp and to its layers.
var architectures = map[string]struct {
	name  string
	layer func(*layout, int)
}{
	"deepseek_v3":   {"deepseek2", (*layout).deepseek2},
	"gemma3_text":   {"gemma3", (*layout).gemma3},
	"gemma4_text":   {"gemma4", (*layout).gemma4},
	"glm4_moe_lite": {"deepseek2", (*layout).deepseek2},
	"gpt_oss":       {"gpt-oss", (*layout).gptOSS},
	"lfm2_moe":      {"lfm2moe", (*layout).lfm2MoE},
	"llama":         {"llama", (*layout).llama},
	"nemotron_h":    {"nemotron_h_moe", (*layout).nemotronH},
	"qwen3":         {"qwen3", (*layout).qwen3},
	"qwen3_moe":     {"qwen3moe", (*layout).qwen3MoE},
	"qwen3_next":    {"qwen3next", (*layout).qwen3Next},
}

// layout lists the tensors of a model.
type layout struct {
	*config
	tensors []tensor
	err     error
}

// gguf returns the metadata and the tensors of c.
func (c *config) gguf() ([]entry, []tensor, error) {
	a, ok := architectures[c.ModelType]
	if !ok {
		return nil, nil, fmt.Errorf("cannot write a GGUF file of model_type %q, only of %s",
			c.ModelType, strings.Join(slices.Sorted(maps.Keys(architectures)), ", "))
	}
	l := &layout{config: c}
	l.weight("token_embd", "embed_tokens", c.Hidden, c.Vocab)
	if c.ShortTaps > 0 {
		l.norm("token_embd_norm", c.Hidden) // of the output, in spite of its name
	} else {
		l.norm("output_norm", c.Hidden)
	}
	if !c.Tied {
		l.weight("output", "lm_head", c.Hidden, c.Vocab)
	}
	if c.InputSize > 0 {
		width := c.Layers * c.InputSize
		l.weight("per_layer_token_embd", "embed_tokens_per_layer", width, c.Vocab)
		l.weight("per_layer_model_proj", "per_layer_model_projection", c.Hidden, width)
		l.norm("per_layer_proj_norm", c.InputSize)
	}
	if c.GlobalHeadDim > 0 {
		l.constant(ropeFactors, 1, c.GlobalHeadDim/2)
	}
	for i := range c.Layers {
		a.layer(l, i)
	}
	kind, err := c.weightType("")
	if l.err == nil {
		l.err = err
	}
	return append(c.metadata(a.name), entry{"general.file_type", kind.file}), l.tensors, l.err
}

// ropeFactors is a tensor of factors of the rotary frequencies in full attention.
const ropeFactors = "rope_freqs.weight"

// metadata returns the metadata of the architecture. Random tokens need no vocabulary. The scaling
// of rotary embeddings is left out, because it does not change the speed.
func (c *config) metadata(name string) []entry {
	list := []entry{{"general.architecture", name}, {"general.name", "random weights"},
		{"tokenizer.ggml.model", "no_vocab"}}
	set := func(key string, value any) { list = append(list, entry{name + "." + key, value}) }
	number := func(key string, value int) {
		if value > 0 {
			set(key, uint32(value))
		}
	}
	number("vocab_size", c.Vocab)
	number("context_length", c.Context)
	number("embedding_length", c.Hidden)
	number("block_count", c.Layers)
	set("feed_forward_length", c.feedForward())
	number("attention.head_count", c.Heads)
	set("attention.head_count_kv", c.kvHeads())
	full := max(c.HeadDim, c.GlobalHeadDim)
	number("attention.key_length", full)
	number("attention.value_length", cmp.Or(c.LatentRank, full))
	if full != c.HeadDim {
		number("attention.key_length_swa", c.HeadDim)
		number("attention.value_length_swa", c.HeadDim)
		number("rope.dimension_count_swa", c.HeadDim)
	}
	number("attention.shared_kv_layers", c.SharedLayers)
	number("embedding_length_per_layer_input", c.InputSize)
	set("attention.layer_norm_rms_epsilon", c.NormEps)
	set("rope.freq_base", max(c.RopeTheta, c.Rope.Full.Theta))
	if c.PartialRotary > 0 {
		number("rope.dimension_count", int(c.PartialRotary*float32(c.HeadDim)))
	}
	if c.Window > 0 {
		number("attention.sliding_window", c.Window)
		set("attention.sliding_window_pattern", c.sliding())
	}
	if theta := max(c.LocalTheta, c.Rope.Sliding.Theta); theta > 0 {
		set("rope.freq_base_swa", theta)
	}
	if c.LogitCap > 0 {
		set("final_logit_softcapping", c.LogitCap)
	}
	number("expert_count", c.Experts)
	number("expert_used_count", c.ExpertsPerToken)
	number("expert_feed_forward_length", c.ExpertIntermediate)
	number("expert_shared_feed_forward_length", c.SharedIntermediate)
	for _, e := range c.hybridMetadata() {
		set(e.key, e.value)
	}
	if c.FullInterval > 0 { // recurrent layers
		number("full_attention_interval", c.FullInterval)
		number("ssm.conv_kernel", c.ConvTaps)
		number("ssm.inner_size", c.LinearVHeads*c.LinearVHeadDim)
		number("ssm.state_size", c.LinearKHeadDim)
		number("ssm.time_step_rank", c.LinearVHeads)
		number("ssm.group_count", c.LinearKHeads)
	}
	return list
}

// sliding reports for each layer whether it has a sliding window.
func (c *config) sliding() []bool {
	list := make([]bool, c.Layers)
	for i := range list {
		if i < len(c.LayerTypes) {
			list[i] = c.LayerTypes[i] == "sliding_attention"
		} else if c.WindowPattern > 0 {
			list[i] = (i+1)%c.WindowPattern != 0
		}
	}
	return list
}

// weight adds the weight of a module. The shape is columns, rows and perhaps experts.
func (l *layout) weight(name, module string, shape ...int) {
	kind, err := l.weightType(module)
	if err != nil && l.err == nil {
		l.err = err
	}
	l.tensors = append(l.tensors, tensor{name: name + ".weight", kind: kind, shape: shape})
}

func (l *layout) norm(name string, n int) { l.constant(name+".weight", 1, n) }

func (l *layout) constant(name string, value float32, shape ...int) {
	l.tensors = append(l.tensors,
		tensor{name: name, kind: typeF32, shape: shape, constant: value})
}

// plain adds a float32 tensor of random values.
func (l *layout) plain(name string, shape ...int) {
	l.tensors = append(l.tensors, tensor{name: name, kind: typeF32, shape: shape})
}

// names return the prefixes of a layer's tensors in GGUF and of its modules in config.json.
func names(layer int) (blk, module string) {
	return fmt.Sprintf("blk.%d.", layer), fmt.Sprintf("layers.%d.", layer)
}

// attention adds the projections of attention. The rows of a gate follow those of q.
func (l *layout) attention(layer int, gate bool) {
	blk, m := names(layer)
	q, kv := l.Heads*l.HeadDim, l.KVHeads*l.HeadDim
	rows := q
	if gate {
		rows *= 2
	}
	l.weight(blk+"attn_q", m+"self_attn.q_proj", l.Hidden, rows)
	l.weight(blk+"attn_k", m+"self_attn.k_proj", l.Hidden, kv)
	l.weight(blk+"attn_v", m+"self_attn.v_proj", l.Hidden, kv)
	l.weight(blk+"attn_output", m+"self_attn.o_proj", q, l.Hidden)
}

func (l *layout) headNorms(layer int) {
	blk, _ := names(layer)
	l.norm(blk+"attn_q_norm", l.HeadDim)
	l.norm(blk+"attn_k_norm", l.HeadDim)
}

func (l *layout) mlp(layer int) {
	blk, m := names(layer)
	l.norm(blk+"ffn_norm", l.Hidden)
	l.weight(blk+"ffn_gate", m+"mlp.gate_proj", l.Hidden, l.Intermediate)
	l.weight(blk+"ffn_up", m+"mlp.up_proj", l.Hidden, l.Intermediate)
	l.weight(blk+"ffn_down", m+"mlp.down_proj", l.Intermediate, l.Hidden)
}

// experts adds the router and the experts, which are the modules switch in config.json.
func (l *layout) experts(layer int, switches string) {
	blk, m := names(layer)
	l.plain(blk+"ffn_gate_inp.weight", l.Hidden, l.Experts)
	l.weight(blk+"ffn_gate_exps", m+switches+".gate_proj", l.Hidden, l.ExpertIntermediate,
		l.Experts)
	l.weight(blk+"ffn_up_exps", m+switches+".up_proj", l.Hidden, l.ExpertIntermediate, l.Experts)
	l.weight(blk+"ffn_down_exps", m+switches+".down_proj", l.ExpertIntermediate, l.Hidden,
		l.Experts)
}

func (l *layout) llama(layer int) {
	blk, _ := names(layer)
	l.norm(blk+"attn_norm", l.Hidden)
	l.attention(layer, false)
	l.mlp(layer)
}

func (l *layout) qwen3(layer int) {
	l.llama(layer)
	l.headNorms(layer)
}

func (l *layout) gemma3(layer int) {
	blk, _ := names(layer)
	l.qwen3(layer)
	l.norm(blk+"post_attention_norm", l.Hidden)
	l.norm(blk+"post_ffw_norm", l.Hidden)
}

// gemma4 adds a layer of Gemma 4 without experts. The last layers have no keys and values.
func (l *layout) gemma4(layer int) {
	blk, m := names(layer)
	dim := l.HeadDim
	if !l.sliding()[layer] {
		dim = max(l.HeadDim, l.GlobalHeadDim)
	}
	l.norm(blk+"attn_norm", l.Hidden)
	l.weight(blk+"attn_q", m+"self_attn.q_proj", l.Hidden, l.Heads*dim)
	l.norm(blk+"attn_q_norm", dim)
	if layer < l.Layers-l.SharedLayers {
		l.weight(blk+"attn_k", m+"self_attn.k_proj", l.Hidden, l.KVHeads*dim)
		l.weight(blk+"attn_v", m+"self_attn.v_proj", l.Hidden, l.KVHeads*dim)
		l.norm(blk+"attn_k_norm", dim)
	}
	l.weight(blk+"attn_output", m+"self_attn.o_proj", l.Heads*dim, l.Hidden)
	l.norm(blk+"post_attention_norm", l.Hidden)
	l.mlp(layer)
	l.norm(blk+"post_ffw_norm", l.Hidden)
	l.norm(blk+"layer_output_scale", 1)
	if l.InputSize > 0 {
		l.weight(blk+"inp_gate", m+"per_layer_input_gate", l.Hidden, l.InputSize)
		l.weight(blk+"proj", m+"per_layer_projection", l.InputSize, l.Hidden)
		l.norm(blk+"post_norm", l.Hidden)
	}
}

func (l *layout) qwen3MoE(layer int) {
	blk, _ := names(layer)
	l.norm(blk+"attn_norm", l.Hidden)
	l.attention(layer, false)
	l.headNorms(layer)
	l.norm(blk+"ffn_norm", l.Hidden)
	l.experts(layer, "mlp.switch_mlp")
}

func (l *layout) gptOSS(layer int) {
	blk, _ := names(layer)
	l.norm(blk+"attn_norm", l.Hidden)
	l.norm(blk+"post_attention_norm", l.Hidden)
	l.attention(layer, false)
	l.plain(blk+"attn_q.bias", l.Heads*l.HeadDim)
	l.plain(blk+"attn_k.bias", l.KVHeads*l.HeadDim)
	l.plain(blk+"attn_v.bias", l.KVHeads*l.HeadDim)
	l.plain(blk+"attn_output.bias", l.Hidden)
	l.plain(blk+"attn_sinks.weight", l.Heads)
	l.experts(layer, "mlp.experts")
	l.plain(blk+"ffn_gate_inp.bias", l.Experts)
	l.plain(blk+"ffn_gate_exps.bias", l.ExpertIntermediate, l.Experts)
	l.plain(blk+"ffn_up_exps.bias", l.ExpertIntermediate, l.Experts)
	l.plain(blk+"ffn_down_exps.bias", l.Hidden, l.Experts)
}

func (l *layout) qwen3Next(layer int) {
	blk, m := names(layer)
	l.norm(blk+"attn_norm", l.Hidden)
	l.norm(blk+"post_attention_norm", l.Hidden)
	if (layer+1)%l.FullInterval == 0 {
		l.attention(layer, true)
		l.headNorms(layer)
	} else {
		keys, values := l.LinearKHeads*l.LinearKHeadDim, l.LinearVHeads*l.LinearVHeadDim
		l.weight(blk+"attn_qkv", m+"linear_attn.in_proj_qkvz", l.Hidden, 2*keys+values)
		l.weight(blk+"attn_gate", m+"linear_attn.in_proj_qkvz", l.Hidden, values)
		l.weight(blk+"ssm_ba", m+"linear_attn.in_proj_ba", l.Hidden, 2*l.LinearVHeads)
		l.plain(blk+"ssm_conv1d.weight", l.ConvTaps, 2*keys+values)
		l.constant(blk+"ssm_dt.bias", 1, l.LinearVHeads)
		l.constant(blk+"ssm_a", -1, l.LinearVHeads)
		l.norm(blk+"ssm_norm", l.LinearVHeadDim)
		l.weight(blk+"ssm_out", m+"linear_attn.out_proj", values, l.Hidden)
	}
	l.experts(layer, "mlp.switch_mlp")
	l.plain(blk+"ffn_gate_inp_shexp.weight", l.Hidden)
	l.weight(blk+"ffn_gate_shexp", m+"mlp.shared_expert.gate_proj", l.Hidden,
		l.SharedIntermediate)
	l.weight(blk+"ffn_up_shexp", m+"mlp.shared_expert.up_proj", l.Hidden, l.SharedIntermediate)
	l.weight(blk+"ffn_down_shexp", m+"mlp.shared_expert.down_proj", l.SharedIntermediate,
		l.Hidden)
}
