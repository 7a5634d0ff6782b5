package checkpoint

// Parsing of config.json. It supports all common layouts: a nested text_config, two names for the
// quantization, and three places for the rope parameters. Values that would silently give bad
// answers, such as an unsupported packing or rope type, are errors.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"

	"headroom/engine/problem"
)

// Config is a parsed config.json. Text models have their keys at the top level, and multimodal
// models under text_config. Config merges the keys of both. Those of text_config take precedence.
type Config struct {
	ModelType    string
	Quantization Quantization
	keys         map[string]json.RawMessage
	merged       []byte // keys as one JSON object
}

// maxModelTypeBytes bounds the name of an architecture, which errors and lists show.
const maxModelTypeBytes = 100

// ParseConfig parses a config.json. Errors are Problems.
func ParseConfig(data []byte) (*Config, error) {
	c := &Config{}
	if err := json.Unmarshal(data, &c.keys); err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "config.json is not valid JSON",
			"Download the model again.")
	}
	quantization := firstOf(c.keys, "quantization", "quantization_config")
	c.merged = data
	if err := c.Decode(&struct {
		ModelType *string `json:"model_type"`
	}{&c.ModelType}); err != nil {
		return nil, err
	}
	if text, ok := c.keys["text_config"]; ok {
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(text, &inner); err != nil {
			return nil, problem.Wrap(problem.ModelBroken, err,
				"text_config in config.json is not an object", "Download the model again.")
		}
		if quantization == nil {
			quantization = firstOf(inner, "quantization", "quantization_config")
		}
		maps.Copy(c.keys, inner)
		var err error
		if c.merged, err = json.Marshal(c.keys); err != nil {
			return nil, problem.Wrap(problem.ModelBroken, err, "config.json is not valid JSON",
				"Download the model again.")
		}
	}
	if c.ModelType == "" {
		return nil, problem.New(problem.ModelBroken, "config.json has no model_type", "",
			"Choose the folder of a language model in MLX or Hugging Face format.")
	}
	if n := len(c.ModelType); n > maxModelTypeBytes {
		return nil, problem.New(problem.ModelBroken, "The model_type in config.json is too long",
			fmt.Sprintf("it has %d bytes, expected at most %d", n, maxModelTypeBytes),
			"Download the model again.")
	}
	return c, c.Quantization.parse(quantization)
}

// Decode decodes the keys of config.json into v, a pointer to a struct with json tags. It ignores
// keys that have no field. Fields that have no key keep their value.
func (c *Config) Decode(v any) error {
	if err := json.Unmarshal(c.merged, v); err != nil {
		return problem.Wrap(problem.ModelBroken, err,
			"config.json does not describe a model of type "+strconv.Quote(c.ModelType),
			"Download the model again.")
	}
	return nil
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

// RopeParameters are the parameters of the rotary position embedding. New configs have these keys
// under rope_parameters. Old configs have them at the top level and under rope_scaling.
type RopeParameters struct {
	Theta         float64 `json:"rope_theta"`
	PartialFactor float64 `json:"partial_rotary_factor"`
	Type          string  `json:"rope_type"`
	LegacyType    string  `json:"type"`
	Factor        float64 `json:"factor"`
	LowFreq       float64 `json:"low_freq_factor"`
	HighFreq      float64 `json:"high_freq_factor"`
	OriginalMax   float64 `json:"original_max_position_embeddings"`
}

// Rope returns the rope parameters of a model. theta is the architecture's default of rope_theta.
func (c *Config) Rope(theta float64) (RopeParameters, error) {
	r := RopeParameters{Theta: theta, PartialFactor: 1}
	var outer struct {
		Scaling    json.RawMessage `json:"rope_scaling"`
		Parameters json.RawMessage `json:"rope_parameters"`
	}
	if err := c.Decode(&r); err != nil {
		return r, err
	}
	if err := c.Decode(&outer); err != nil {
		return r, err
	}
	err := r.read(outer.Scaling, outer.Parameters)
	return r, err
}

// LayerRope returns the rope parameters of one kind of layer, such as "full_attention" or
// "sliding_attention". In some models rope_parameters has an entry for each kind. If there is no
// entry for this kind, ok is false and r has the defaults.
func (c *Config) LayerRope(kind string, theta float64) (r RopeParameters, ok bool, err error) {
	var outer struct {
		Parameters map[string]json.RawMessage `json:"rope_parameters"`
	}
	if err := c.Decode(&outer); err != nil {
		return r, false, err
	}
	part, ok := outer.Parameters[kind]
	r = RopeParameters{Theta: theta, PartialFactor: 1}
	err = r.read(part)
	return r, ok, err
}

// read decodes the JSON objects of parts into r, except for nil parts, and checks the result.
func (r *RopeParameters) read(parts ...json.RawMessage) error {
	for _, part := range parts {
		if part == nil {
			continue
		}
		if err := json.Unmarshal(part, r); err != nil {
			return problem.Wrap(problem.ModelBroken, err,
				"The rope parameters in config.json are damaged", "Download the model again.")
		}
	}
	if r.Type == "" {
		r.Type = r.LegacyType
	}
	valid := r.Theta > 0 && r.PartialFactor > 0 && r.PartialFactor <= 1
	switch r.Type {
	case "linear":
		valid = valid && r.Factor > 0
	case "llama3":
		valid = valid && r.Factor > 0 && r.OriginalMax > 0 && 0 < r.LowFreq &&
			r.LowFreq < r.HighFreq
	}
	if !valid {
		return problem.New(problem.ModelBroken, "The rope parameters in config.json are not valid",
			fmt.Sprintf(
				"rope_type %q, rope_theta %g, partial_rotary_factor %g, factor %g, "+
					"low_freq_factor %g, high_freq_factor %g, original_max_position_embeddings %g",
				r.Type, r.Theta, r.PartialFactor, r.Factor, r.LowFreq, r.HighFreq, r.OriginalMax),
			"Download the model again.")
	}
	return nil
}

// InvFreq returns the angle per position of each rotated pair of dimensions in a head. It returns
// rotary/2 values, where rotary is headDim times PartialFactor, rounded down to an even number.
func (r RopeParameters) InvFreq(headDim int) ([]float32, error) {
	rotary := int(float64(headDim) * r.PartialFactor)
	rotary -= rotary % 2
	freqs := make([]float32, rotary/2)
	for i := range freqs {
		f := math.Pow(r.Theta, -float64(2*i)/float64(rotary))
		switch r.Type {
		case "", "default", "mrope":
		case "linear":
			f /= r.Factor
		case "llama3":
			f = r.llama3(f)
		default:
			return nil, problem.New(problem.UnknownArchitecture,
				"This type of rotary position embedding is not supported",
				fmt.Sprintf("rope_type is %q", r.Type), "Pick another model.")
		}
		freqs[i] = float32(f)
	}
	return freqs, nil
}

// llama3 scales a frequency as in Llama 3.1. The frequency of a long wavelength is divided by
// Factor, and that of a short wavelength is unchanged. Between them it is interpolated.
func (r RopeParameters) llama3(f float64) float64 {
	wavelength := 2 * math.Pi / f
	switch {
	case wavelength > r.OriginalMax/r.LowFreq:
		return f / r.Factor
	case wavelength < r.OriginalMax/r.HighFreq:
		return f
	}
	blend := (r.OriginalMax/wavelength - r.LowFreq) / (r.HighFreq - r.LowFreq)
	return (1-blend)*f/r.Factor + blend*f
}
