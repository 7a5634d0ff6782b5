package sample

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"headroom/engine/modelfile"
)

// Defaults are the sampling settings that a model's authors recommend in generation_config.json,
// for requests that do not set them. A nil field means that the file does not set it.
type Defaults struct {
	Temperature       *float32
	TopP              *float32
	TopK              *int
	MinP              *float32
	RepetitionPenalty *float32
	DoSample          *bool
	EOSTokenIDs       []int32 // each of them ends a sequence
}

// FromGenerationConfig parses generation_config.json. eos_token_id may be one number or a list. A
// null value counts as absent. Errors name the key.
func FromGenerationConfig(data []byte) (Defaults, error) {
	var raw struct {
		Temperature       *float64        `json:"temperature"`
		TopP              *float64        `json:"top_p"`
		TopK              *float64        `json:"top_k"`
		MinP              *float64        `json:"min_p"`
		RepetitionPenalty *float64        `json:"repetition_penalty"`
		DoSample          *bool           `json:"do_sample"`
		EOSTokenID        json.RawMessage `json:"eos_token_id"`
	}
	if err := modelfile.Decode("", data, &raw); err != nil {
		return Defaults{}, fmt.Errorf("generation_config.json: %w", err)
	}
	d := Defaults{
		Temperature: toFloat32(raw.Temperature), TopP: toFloat32(raw.TopP),
		MinP: toFloat32(raw.MinP), RepetitionPenalty: toFloat32(raw.RepetitionPenalty),
		DoSample: raw.DoSample,
	}
	if k := raw.TopK; k != nil {
		if *k != math.Trunc(*k) || *k < -1 || *k > math.MaxInt32 {
			return Defaults{}, fmt.Errorf("generation_config.json: top_k: got %v, it must be a "+
				"whole number of at least -1", *k)
		}
		n := int(*k)
		d.TopK = &n
	}
	if err := d.Params().Validate(); err != nil {
		return Defaults{}, fmt.Errorf("generation_config.json: %w", err)
	}
	var err error
	d.EOSTokenIDs, err = tokenIDs(raw.EOSTokenID)
	return d, err
}

func toFloat32(v *float64) *float32 {
	if v == nil {
		return nil
	}
	f := float32(*v)
	return &f
}

// tokenIDs reads one token id, a list of them, or nothing.
func tokenIDs(raw json.RawMessage) ([]int32, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var ids []int32
	if raw[0] != '[' {
		raw = slices.Concat(json.RawMessage("["), raw, json.RawMessage("]"))
	}
	if err := modelfile.Decode("eos_token_id", raw, &ids); err != nil {
		return nil, fmt.Errorf("generation_config.json: %w", err)
	}
	for _, id := range ids {
		if id < 0 {
			return nil, fmt.Errorf("generation_config.json: eos_token_id: got %d, a token id must "+
				"not be negative", id)
		}
	}
	return ids, nil
}

// Params returns the parameters of a request that sets none. They are the file's settings. The
// temperature is 0 (greedy) if do_sample is false, and 1, as in OpenAI's API, if the file has none.
// Logprobs is -1.
func (d Defaults) Params() Params {
	p := Params{Temperature: 1, Logprobs: -1}
	set := func(to *float32, from *float32) {
		if from != nil {
			*to = *from
		}
	}
	set(&p.Temperature, d.Temperature)
	set(&p.TopP, d.TopP)
	set(&p.MinP, d.MinP)
	set(&p.RepetitionPenalty, d.RepetitionPenalty)
	if d.TopK != nil {
		p.TopK = *d.TopK
	}
	if d.DoSample != nil && !*d.DoSample {
		p.Temperature = 0
	}
	return p
}
