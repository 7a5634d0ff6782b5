package generate

import (
	"encoding/json"
	"maps"
	"math"

	"headroom/engine/sample"
)

// Params are the parameters of a generation. A nil pointer is a parameter that the request omits.
type Params struct {
	MaxTokens int      // of the answer; 0: the rest of the context
	Stop      []string // strings that end the answer; none is empty

	Temperature       *float64 // [0, 2]
	TopP              *float64 // [0, 1]
	TopK              *int     // 0: off
	MinP              *float64 // [0, 1]
	RepetitionPenalty *float64 // (0, 100]; 1: off
	PresencePenalty   *float64 // [-2, 2]
	FrequencyPenalty  *float64 // [-2, 2]
	LogitBias         map[int32]float32
	Seed              *int64

	Logprobs    bool // return the log-probability of each token
	TopLogprobs int  // the number of candidates to return with it
}

// Normalize checks ranges and replaces the values that other servers accept for "off": TopK -1
// becomes 0, and RepetitionPenalty 0 becomes 1, as in mlx-lm. The error is a *ParamError.
func (p *Params) Normalize() error {
	for _, limited := range []struct {
		name      string
		value     *float64
		low, high float64
	}{
		{"temperature", p.Temperature, 0, 2},
		{"top_p", p.TopP, 0, 1},
		{"min_p", p.MinP, 0, 1},
		{"presence_penalty", p.PresencePenalty, -2, 2},
		{"frequency_penalty", p.FrequencyPenalty, -2, 2},
	} {
		if err := Within(limited.name, limited.value, limited.low, limited.high); err != nil {
			return err
		}
	}
	if err := p.normalizeTopK(); err != nil {
		return err
	}
	return p.normalizeRepetitionPenalty()
}

// Within returns a *ParamError when the value is outside [low, high]. Nil is inside.
func Within(param string, value *float64, low, high float64) error {
	if value != nil && (math.IsNaN(*value) || *value < low || *value > high) {
		return BadParam(param, "must be between %g and %g, got %v", low, high, *value)
	}
	return nil
}

func (p *Params) normalizeTopK() error {
	if p.TopK == nil {
		return nil
	}
	if *p.TopK < -1 {
		return BadParam("top_k", "must be at least 1, or 0 or -1 for off, got %d", *p.TopK)
	}
	p.TopK = new(max(*p.TopK, 0))
	return nil
}

func (p *Params) normalizeRepetitionPenalty() error {
	switch penalty := p.RepetitionPenalty; {
	case penalty == nil:
	case *penalty < 0 || *penalty > 100:
		return BadParam("repetition_penalty", "must be over 0 and at most 100 (1 is off), got %v",
			*penalty)
	case *penalty == 0:
		p.RepetitionPenalty = new(1.0)
	}
	return nil
}

// TokenLimit returns the MaxTokens for a parameter of that name: 0 for -1, which llama.cpp's and LM
// Studio's clients send for "no limit". The error is a *ParamError.
func TokenLimit(param string, limit int) (int, error) {
	switch {
	case limit == -1:
		return 0, nil
	case limit < 1:
		return 0, BadParam(param,
			"must be at least 1, got %d. Leave it out for all that the context holds", limit)
	}
	return limit, nil
}

// Defaults are the parameters that the user has set for a model. They apply where a request omits a
// parameter, and override the model's generation_config.json. A nil pointer, or 0 tokens, sets
// nothing. Ranges are those of Params.
type Defaults struct {
	MaxTokens         int
	Temperature       *float64
	TopP              *float64
	TopK              *int
	MinP              *float64
	RepetitionPenalty *float64
	PresencePenalty   *float64
	FrequencyPenalty  *float64
	Seed              *int64
	TemplateKwargs    json.RawMessage // a JSON object, or nil
}

// Check returns a *ParamError for a value that is not valid in a request either.
func (d Defaults) Check() error {
	_, err := d.params()
	return err
}

// params returns the defaults as the parameters of a request.
func (d Defaults) params() (Params, error) {
	p := Params{Temperature: d.Temperature, TopP: d.TopP, TopK: d.TopK, MinP: d.MinP,
		RepetitionPenalty: d.RepetitionPenalty, PresencePenalty: d.PresencePenalty,
		FrequencyPenalty: d.FrequencyPenalty, Seed: d.Seed}
	if err := p.Normalize(); err != nil {
		return Params{}, err
	}
	if d.MaxTokens != 0 {
		var err error
		if p.MaxTokens, err = TokenLimit("max_tokens", d.MaxTokens); err != nil {
			return Params{}, err
		}
	}
	if _, err := objectMembers(d.TemplateKwargs); err != nil {
		return Params{}, BadParam("chat_template_kwargs", "expected a JSON object: %v", err)
	}
	return p, nil
}

// SetDefaults fills in the parameters and template variables that the request omits. Defaults that
// Check refuses fill in nothing.
func (r *Request) SetDefaults(d Defaults) {
	p, err := d.params()
	if err != nil {
		return
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = p.MaxTokens
	}
	setDefault(&r.Temperature, p.Temperature)
	setDefault(&r.TopP, p.TopP)
	setDefault(&r.TopK, p.TopK)
	setDefault(&r.MinP, p.MinP)
	setDefault(&r.RepetitionPenalty, p.RepetitionPenalty)
	setDefault(&r.PresencePenalty, p.PresencePenalty)
	setDefault(&r.FrequencyPenalty, p.FrequencyPenalty)
	setDefault(&r.Seed, p.Seed)
	r.TemplateKwargs = mergeObjects(d.TemplateKwargs, r.TemplateKwargs)
}

func setDefault[T any](value **T, otherwise *T) {
	if *value == nil {
		*value = otherwise
	}
}

// mergeObjects merges two JSON objects; the members of over win. An over that is not an object is
// returned unchanged: rendering the template reports it.
func mergeObjects(under, over json.RawMessage) json.RawMessage {
	all, err := objectMembers(under)
	if err != nil || len(all) == 0 {
		return over
	}
	winners, err := objectMembers(over)
	if err != nil {
		return over
	}
	maps.Copy(all, winners)
	merged, err := json.Marshal(all)
	if err != nil {
		return over
	}
	return merged
}

// objectMembers returns the members of a JSON object. A nil object has none.
func objectMembers(object json.RawMessage) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if object == nil {
		return members, nil
	}
	return members, json.Unmarshal(object, &members)
}

// Sampling returns the sampler's parameters: those of the request, else those that the model's
// generation_config.json recommends, else OpenAI's temperature of 1. A model whose do_sample is
// false is greedy unless the request has a temperature.
func (p *Params) Sampling(recommended sample.Defaults) sample.Params {
	s := recommended.Params()
	set := func(to *float32, from *float64) {
		if from != nil {
			*to = float32(*from)
		}
	}
	set(&s.Temperature, p.Temperature)
	set(&s.TopP, p.TopP)
	set(&s.MinP, p.MinP)
	set(&s.RepetitionPenalty, p.RepetitionPenalty)
	set(&s.PresencePenalty, p.PresencePenalty)
	set(&s.FrequencyPenalty, p.FrequencyPenalty)
	if p.TopP != nil && *p.TopP == 0 {
		s.TopP = leastTopP // 0 is off in the sampler, but greedy in OpenAI's API
	}
	if p.TopK != nil {
		s.TopK = *p.TopK
	}
	if p.Seed != nil {
		s.Seed = new(uint64(*p.Seed))
	}
	s.LogitBias = p.LogitBias
	if p.Logprobs {
		s.Logprobs = p.TopLogprobs
	}
	return s
}

// leastTopP is below the probability of any most likely token, so top-p keeps only that token.
const leastTopP = 1e-9
