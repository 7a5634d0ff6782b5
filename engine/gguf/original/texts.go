package original

// The files of text beside the weights: the tokenizer, the chat templates, and what ends an answer.

import (
	"slices"

	"headroom/engine/gguf"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// The keys of the tokens with a name.
const (
	ggml        = "tokenizer.ggml."
	templateKey = "tokenizer.chat_template"
)

// specialNames has the names of special tokens in tokenizer_config.json by their keys.
var specialNames = map[string]string{"bos_token_id": "bos_token", "eos_token_id": "eos_token",
	"unknown_token_id": "unk_token", "padding_token_id": "pad_token"}

// endKeys are the keys of tokens that end an answer.
var endKeys = []string{"eos_token_id", "eot_token_id", "eom_token_id"}

// endTexts are special tokens that end an answer, whatever the keys say: some files name only the
// end of a text. Source: llama.cpp, llama_vocab::impl::load, special_eog_ids.
var endTexts = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<end_of_turn>",
	"<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>", "<|end_of_text|>", "<end_of_utterance>"}

// samplingKeys has the keys of generation_config.json by those of the metadata.
var samplingKeys = map[string]string{"general.sampling.temp": "temperature",
	"general.sampling.top_p": "top_p", "general.sampling.top_k": "top_k",
	"general.sampling.min_p": "min_p"}

// controlKind is the type of special tokens.
const controlKind = 3

// readTexts sets the files of text.
func (m *Model) readTexts(b *builder) error {
	file, err := tokenizer.GGUFToJSON(m.File.Metadata)
	if err != nil {
		return problem.Wrap(problem.UnknownArchitecture, err,
			"The tokenizer of this GGUF file cannot be converted",
			"Download the model in MLX's or Hugging Face's format: a folder of .safetensors files.")
	}
	m.files["tokenizer.json"] = file
	meta := m.File.Metadata
	tokens := meta[ggml+"tokens"].Texts
	if n, _ := b.config["vocab_size"].(int); len(tokens) > n {
		b.failf("it has %d tokens, and embeddings of %d", len(tokens), n)
		return b.err
	}
	config := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast",
		"clean_up_tokenization_spaces": false,
		"model_max_length":             b.config["max_position_embeddings"]}
	for key, name := range specialNames {
		if id, ok := idOf(meta, key); ok {
			config[name] = tokens[id]
		}
	}
	m.putTemplates(config)
	m.put("tokenizer_config.json", config)
	m.putGeneration()
	return nil
}

// idOf returns the token of a key. ok is false if there is none.
func idOf(meta gguf.Metadata, key string) (id int, ok bool) {
	n, ok := meta.Number(ggml + key)
	return int(n), ok && n >= 0 && int(n) < len(meta[ggml+"tokens"].Texts)
}

// putTemplates adds the chat template. If there are several, they are in tokenizer_config.json.
func (m *Model) putTemplates(config map[string]any) {
	template := m.File.Metadata.Text(templateKey)
	if template == "" {
		return
	}
	names := m.File.Metadata["tokenizer.chat_templates"].Texts
	if len(names) == 0 {
		m.files["chat_template.jinja"] = []byte(template)
		return
	}
	type named struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	all := []named{{"default", template}}
	for _, name := range names {
		if text := m.File.Metadata.Text(templateKey + "." + name); text != "" {
			all = append(all, named{name, text})
		}
	}
	config["chat_template"] = all
}

// putGeneration adds generation_config.json: the tokens that end an answer, and how to sample.
func (m *Model) putGeneration() {
	meta, config := m.File.Metadata, map[string]any{}
	if id, ok := idOf(meta, "bos_token_id"); ok {
		config["bos_token_id"] = id
	}
	var ends []int
	for _, key := range endKeys {
		if id, ok := idOf(meta, key); ok && !slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	kinds := meta[ggml+"token_type"].Numbers
	for id, token := range meta[ggml+"tokens"].Texts {
		if id < len(kinds) && kinds[id] == controlKind && slices.Contains(endTexts, token) &&
			!slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	if ends != nil {
		config["eos_token_id"] = ends
	}
	for key, name := range samplingKeys {
		if n, ok := meta.Number(key); ok && n-n == 0 {
			config[name] = shortest(n)
			if name == "top_k" {
				config[name] = int(n)
			}
			config["do_sample"] = true
		}
	}
	m.put("generation_config.json", config)
}
