package textproc

// tokenizer_config.json: what transformers knows of a tokenizer beside tokenizer.json.

import (
	"encoding/json"

	"headroom/engine/checkpoint"
)

// tokenizerConfig has the keys of a tokenizer_config.json. It is empty if there is none.
type tokenizerConfig map[string]json.RawMessage

// readTokenizerConfig reads a model's tokenizer_config.json.
func readTokenizerConfig(src checkpoint.Source) tokenizerConfig {
	config := tokenizerConfig{}
	if data, err := src.ReadFile("tokenizer_config.json"); err == nil {
		_ = json.Unmarshal(data, &config) // a damaged file counts as empty
	}
	return config
}

// specialTokens returns the texts of the special tokens in tokenizer_config.json. Each is a string
// or an object with a content field. A null token stays undefined, as in Hugging Face's library.
func (config tokenizerConfig) specialTokens() map[string]string {
	tokens := map[string]string{}
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "pad_token"} {
		var text, added = "", struct {
			Content string `json:"content"`
		}{}
		if json.Unmarshal(config[name], &text) != nil &&
			json.Unmarshal(config[name], &added) == nil {
			text = added.Content
		}
		if text != "" {
			tokens[name] = text
		}
	}
	return tokens
}
