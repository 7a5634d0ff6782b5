package checkpoint

// Parsing of config.json. It supports all common layouts: a nested text_config, two names for the
// quantization, and three places for the rope parameters. Values that would silently give bad
// answers, such as an unsupported packing or rope type, are errors.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// Config is a parsed config.json. Text models have their keys at the top level, and multimodal
// models under text_config. Config merges the keys of both. Those of text_config take precedence.
type Config struct {
	ModelType string
	// Architectures has the classes of transformers that the checkpoint is for, such as
	// "Qwen3ForCausalLM". It is empty in many conversions.
	Architectures []string
	Quantization  Quantization
	// Modules say what a model computes that generates no text; nil: it generates text. Only
	// Source.Config sets it.
	Modules  *modelfile.Modules
	keys     map[string]json.RawMessage
	merged   []byte          // keys as one JSON object
	outerEOS json.RawMessage // eos_token_id at the top level; keys may have another
}

// maxModelTypeBytes bounds the name of an architecture, which errors and lists show.
const maxModelTypeBytes = 100

// errNoModelType is in the error of ParseConfig for a config.json that is not that of a language
// model.
var errNoModelType = errors.New("config.json has no model_type")

// ParseConfig parses a config.json. Errors are Problems. If the quantization alone is not supported
// or not valid, ParseConfig returns the Config with the error.
func ParseConfig(data []byte) (*Config, error) {
	c := &Config{}
	if err := modelfile.Decode("", data, &c.keys); err != nil {
		what := "config.json is not valid JSON"
		if kind := new(modelfile.KindError); errors.As(err, &kind) {
			what = "config.json does not describe a model"
		}
		return nil, problem.Wrap(problem.ModelBroken, err, what,
			"Download or convert the model again.")
	}
	// Not all writers write a list of strings, and nothing depends on other values.
	_ = json.Unmarshal(c.keys["architectures"], &c.Architectures)
	key, quantization := quantizationIn(c.keys)
	c.merged = data
	if err := modelfile.Decode("", data, &struct {
		ModelType *string `json:"model_type"`
	}{&c.ModelType}); err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err,
			"config.json does not describe a model", "Download or convert the model again.")
	}
	if text, ok := c.keys["text_config"]; ok {
		var inner map[string]json.RawMessage
		if err := modelfile.Decode("text_config", text, &inner); err != nil {
			return nil, problem.Wrap(problem.ModelBroken, err,
				"config.json does not describe a model", "Download or convert the model again.")
		}
		if quantization == nil {
			if key, quantization = quantizationIn(inner); key != "" {
				key = "text_config." + key
			}
		}
		c.outerEOS = c.keys["eos_token_id"]
		maps.Copy(c.keys, inner)
		var err error
		if c.merged, err = json.Marshal(c.keys); err != nil {
			return nil, problem.Wrap(problem.ModelBroken, err, "config.json is not valid JSON",
				"Download or convert the model again.")
		}
	}
	if c.ModelType == "" {
		return nil, problem.Wrap(problem.UnknownArchitecture, errNoModelType,
			"This folder has no language model that Headroom can run",
			"Choose the folder of a language model in MLX's or Hugging Face's format.")
	}
	if n := len(c.ModelType); n > maxModelTypeBytes {
		return nil, problem.New(problem.ModelBroken, "The model_type in config.json is too long",
			fmt.Sprintf("it has %d bytes, expected at most %d", n, maxModelTypeBytes),
			"Download or convert the model again.")
	}
	return c, c.Quantization.parse(key, quantization)
}

// Has reports whether config.json has the key with another value than null.
func (c *Config) Has(key string) bool { return firstOf(c.keys, key) != nil }

// IsNull reports whether config.json has the key with the value null.
func (c *Config) IsNull(key string) bool { return bytes.Equal(c.keys[key], []byte("null")) }

// EOSTokenIDs returns the values of eos_token_id, at the top level and in text_config. Each is a
// token id or a list of them. In some models only the list at the top level has the token that ends
// a message.
func (c *Config) EOSTokenIDs() []json.RawMessage {
	var values []json.RawMessage
	for _, value := range []json.RawMessage{c.outerEOS, c.keys["eos_token_id"]} {
		if value != nil {
			values = append(values, value)
		}
	}
	return values
}

// Decode decodes the keys of config.json into v, a pointer to a struct with json tags; see
// modelfile.Decode. It ignores keys that have no field. Fields that have no key keep their value.
func (c *Config) Decode(v any) error {
	if err := modelfile.Decode("", c.merged, v); err != nil {
		return problem.Wrap(problem.ModelBroken, err,
			"config.json does not describe a model of type "+strconv.Quote(c.ModelType),
			"Download or convert the model again.")
	}
	return nil
}

// quantizationIn returns the quantization in an object and its key, or nothing. MLX writes the
// first key, Hugging Face the second.
func quantizationIn(keys map[string]json.RawMessage) (key string, value json.RawMessage) {
	for _, key := range []string{"quantization", "quantization_config"} {
		if value := firstOf(keys, key); value != nil {
			return key, value
		}
	}
	return "", nil
}

// firstOf returns the value of the first key in names that is present and not null.
func firstOf(keys map[string]json.RawMessage, names ...string) json.RawMessage {
	for _, n := range names {
		if v, ok := keys[n]; ok && !bytes.Equal(v, []byte("null")) {
			return v
		}
	}
	return nil
}
