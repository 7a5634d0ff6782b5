package original

// config.json of the original.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"headroom/engine/problem"
)

// builder builds config.json and the list of tensors.
type builder struct {
	*Model
	row    *architecture
	prefix string // of the keys of the architecture
	config map[string]any
	err    error // the first; a Problem
}

func (b *builder) failf(format string, args ...any) {
	if b.err == nil {
		b.err = problem.New(problem.UnknownArchitecture, "This GGUF file cannot be converted",
			fmt.Sprintf(format, args...), "Download the model in MLX's or Hugging Face's format: "+
				"a folder of .safetensors files.")
	}
}

// set sets keys of config.json to values, in pairs. A float64 is a float there even if it is whole,
// as in 7.0: see asJSON.
func (b *builder) set(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		b.config[pairs[i].(string)] = pairs[i+1]
	}
}

// number returns the number of a key of the architecture. An array of equal numbers, one for each
// layer, is one; others are refused.
func (b *builder) number(key string) (float64, bool) {
	v, ok := b.File.Metadata[b.prefix+key]
	if !ok {
		return 0, false
	}
	if v.Number-v.Number != 0 || slices.ContainsFunc(v.Numbers, func(n float64) bool {
		return n-n != 0
	}) {
		b.failf("%s%s is not a finite number", b.prefix, key)
		return 0, false
	}
	if len(v.Numbers) > 0 {
		if slices.ContainsFunc(v.Numbers, func(n float64) bool { return n != v.Numbers[0] }) {
			b.failf("%s%s differs between layers", b.prefix, key)
		}
		return v.Numbers[0], true
	}
	return b.File.Metadata.Number(b.prefix + key)
}

// count returns a whole number of the architecture, or otherwise if the file does not have it.
func (b *builder) count(key string, otherwise int) int {
	n, ok := b.number(key)
	if !ok {
		return otherwise
	}
	if n != math.Trunc(n) || n < 0 || n > math.MaxInt32 {
		b.failf("%s%s is %g, expected a whole number", b.prefix, key, n)
		return otherwise
	}
	return int(n)
}

// required is count for a key that must be there.
func (b *builder) required(key string) int {
	n := b.count(key, 0)
	if n == 0 {
		b.failf("the metadata lacks %s%s", b.prefix, key)
	}
	return n
}

// float returns a number of the architecture, or otherwise if the file does not have it. Files have
// float32: the shortest decimal number with its bits is what config.json had.
func (b *builder) float(key string, otherwise float64) float64 {
	n, ok := b.number(key)
	if !ok {
		return otherwise
	}
	return shortest(n)
}

// shortest returns the shortest decimal number that is n in float32.
func shortest(n float64) float64 {
	if float64(float32(n)) != n || n-n != 0 {
		return n
	}
	text, _ := json.Marshal(float32(n))
	var short float64
	if json.Unmarshal(text, &short) != nil {
		return n
	}
	return short
}

// layers returns the number of layers, without the blocks after them that draft tokens.
func (b *builder) layers() int {
	return max(b.count("block_count", 0)-b.count("nextn_predict_layers", 0), 0)
}

func (b *builder) hasTensor(name string) bool { return b.File.Tensor(name) != nil }

func (b *builder) headDim() int {
	return b.count("attention.key_length",
		b.count("embedding_length", 0)/max(b.count("attention.head_count", 1), 1))
}

// maxLayers is the largest number of layers: a damaged file may say any.
const maxLayers = 10_000

// build sets config.json.
func (b *builder) build() {
	vocab := 0
	if t := b.File.Tensor("token_embd.weight"); t != nil {
		vocab = t.Rows()
	} else {
		b.failf("the tensor token_embd.weight is missing")
	}
	heads, dim := b.required("attention.head_count"), b.headDim()
	eps, ok := b.number("attention.layer_norm_rms_epsilon")
	if !ok {
		b.failf("the metadata lacks %sattention.layer_norm_rms_epsilon", b.prefix)
	}
	if n := b.count("attention.value_length", dim); n != dim && !b.row.latent {
		b.failf("values have %d elements a head, and keys %d", n, dim)
	}
	wide := b.count("feed_forward_length", 0)
	if wide == 0 {
		wide = b.count("expert_feed_forward_length", 0)
	}
	if wide == 0 {
		b.failf("the metadata lacks %sfeed_forward_length", b.prefix)
	}
	if n := b.layers(); n == 0 || n > maxLayers {
		b.failf("the model has %d layers, expected 1 to %d", n, maxLayers)
		return
	}
	b.set("model_type", b.row.modelType, "architectures", []string{b.row.class},
		"vocab_size", vocab,
		"hidden_size", b.required("embedding_length"),
		"num_hidden_layers", b.layers(),
		"intermediate_size", wide,
		"num_attention_heads", heads,
		"num_key_value_heads", b.count("attention.head_count_kv", heads),
		"head_dim", dim,
		"max_position_embeddings", b.required("context_length"),
		"rms_norm_eps", shortest(eps),
		"rope_theta", b.float("rope.freq_base", 10_000),
		"hidden_act", "silu",
		"attention_bias", b.hasTensor("blk.0.attn_q.bias"),
		"tie_word_embeddings", !b.hasTensor("output.weight"))
	if b.row.config != nil {
		b.row.config(b)
	}
	if b.row.latent {
		dim = b.required("rope.dimension_count")
	}
	b.rope(dim)
	if b.row.ropeParameters {
		b.nestRope()
	}
}

// asJSON returns v with its floats as JSON that Python reads as floats: with a point or an
// exponent. transformers refuses integers for them.
func asJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, value := range v {
			all[key] = asJSON(value)
		}
		return all
	case []float64:
		all := make([]any, len(v))
		for i, n := range v {
			all[i] = asJSON(n)
		}
		return all
	case float64:
		text, err := json.Marshal(v)
		if err != nil {
			return v // put reports it
		}
		if !bytes.ContainsAny(text, ".e") {
			text = append(text, ".0"...)
		}
		return json.RawMessage(text)
	}
	return v
}

// put adds a file with v as JSON.
func (m *Model) put(name string, v map[string]any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(asJSON(v)); err != nil {
		panic("original: " + name + " as JSON: " + err.Error()) // values are checked before
	}
	m.files[name] = text.Bytes()
}
