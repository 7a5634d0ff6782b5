package generate

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"

	"headroom/engine/sample"
	"headroom/engine/structured"
)

// Params are the parameters of a generation. If a request omits a parameter, its pointer is nil.
type Params struct {
	MaxTokens int      // maximum length of the answer; 0: the rest of the context
	NoAnswer  bool     // generate nothing; MaxTokens does not matter
	Stop      []string // texts that end the answer; none of them is empty
	// Echo begins the answer with the prompt. With Logprobs it also returns the log-probability of
	// each token of the prompt. The request is then private, and its whole prompt is computed.
	Echo bool

	Temperature       *float64 // [0, 2]
	TopP              *float64 // [0, 1]
	TopK              *int     // 0: off
	MinP              *float64 // [0, 1]
	RepetitionPenalty *float64 // (0, 100]; 1: off
	PresencePenalty   *float64 // [-2, 2]
	FrequencyPenalty  *float64 // [-2, 2]
	// PenaltyTokens is how many of the last tokens, prompt included, the three penalties count; 0:
	// sample.DefaultContextTokens. Two of them may have their own number.
	PenaltyTokens          int
	PresencePenaltyTokens  int // 0: PenaltyTokens
	FrequencyPenaltyTokens int // 0: PenaltyTokens
	XTC                    sample.XTC
	DRY                    sample.DRY
	LogitBias              map[int32]float32
	Seed                   *int64
	IgnoreEOS              bool // continue after the model's end tokens
	// Priority orders the requests that wait: larger ones run first, then in the order of arrival.
	// It is in [-MaxPriority, MaxPriority].
	Priority int

	// Speculate is how tokens are decoded ahead, with the same result: engine.SpeculateAuto,
	// SpeculateOff, SpeculateLookup or SpeculateMTP.
	Speculate  string
	Prediction string // a text that the answer may repeat, which is then faster

	// Output is the form that the answer must have; nil: any. See SetOutput.
	Output      *structured.Output
	outputParam string // the parameter that demands Output, for errors
	// Calls is the form of calls that the model may make or not; nil: any. See ChooseTools.
	Calls *structured.Output

	Logprobs    bool // return the log-probability of each token
	TopLogprobs int  // how many of the most likely tokens to return for each position
}

// MaxPriority is the largest Priority.
const MaxPriority = 1 << 30

// Normalize checks the ranges of the parameters. It accepts the values that mean "off" in other
// servers such as mlx-lm, and replaces them: TopK -1 becomes 0, and RepetitionPenalty 0 becomes 1.
// The error is a *ParamError.
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

// Within returns a *ParamError if value is outside [low, high]. A nil value is valid.
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

// MaxTopLogprobs is the largest TopLogprobs, as in OpenAI's and Ollama's APIs.
const MaxTopLogprobs = 20

// SetLogprobs sets Logprobs and TopLogprobs to the parameters logprobs and top_logprobs of a
// request, which may be nil. The error is a ParamError.
func (p *Params) SetLogprobs(logprobs *bool, top *int) error {
	p.Logprobs = logprobs != nil && *logprobs
	switch {
	case top == nil || *top == 0:
	case *top < 0 || *top > MaxTopLogprobs:
		return BadParam("top_logprobs", "must be between 0 and %d, got %d", MaxTopLogprobs, *top)
	case !p.Logprobs:
		return BadParam("top_logprobs", "needs logprobs to be true")
	default:
		p.TopLogprobs = *top
	}
	return nil
}

// TokenLimit converts the value of the parameter param to MaxTokens. A limit of -1, which clients
// of llama.cpp and LM Studio send for "no limit", becomes 0. The error is a *ParamError.
func TokenLimit(param string, limit int) (int, error) {
	switch {
	case limit == -1:
		return 0, nil
	case limit < 1:
		return 0, BadParam(param,
			"must be at least 1, got %d. Omit it to allow the rest of the context", limit)
	}
	return limit, nil
}

// Defaults are the parameters that the user has set for a model. They apply if a request omits a
// parameter, and take precedence over the model's generation_config.json. A nil pointer, or a
// MaxTokens of 0, means that the user has not set the parameter. The ranges are those of Params.
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

// The method Or returns the defaults d, and those of other for parameters that d does not set.
func (d Defaults) Or(other Defaults) Defaults {
	return Defaults{MaxTokens: cmp.Or(d.MaxTokens, other.MaxTokens),
		Temperature: cmp.Or(d.Temperature, other.Temperature), TopP: cmp.Or(d.TopP, other.TopP),
		TopK: cmp.Or(d.TopK, other.TopK), MinP: cmp.Or(d.MinP, other.MinP),
		RepetitionPenalty: cmp.Or(d.RepetitionPenalty, other.RepetitionPenalty),
		PresencePenalty:   cmp.Or(d.PresencePenalty, other.PresencePenalty),
		FrequencyPenalty:  cmp.Or(d.FrequencyPenalty, other.FrequencyPenalty),
		Seed:              cmp.Or(d.Seed, other.Seed),
		TemplateKwargs:    mergeObjects(other.TemplateKwargs, d.TemplateKwargs)}
}

// Check returns a *ParamError if a value would not be valid in a request.
func (d Defaults) Check() error {
	_, err := d.params()
	return err
}

// params converts the defaults to the parameters of a request.
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

// SetDefaults fills in the parameters and template variables that the request omits. If d.Check
// returns an error, SetDefaults does nothing.
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

func setDefault[T any](value **T, fallback *T) {
	if *value == nil {
		*value = fallback
	}
}

// mergeObjects merges two JSON objects. If both have a member of the same name, the result has that
// of the second. If the second argument is not an object, mergeObjects returns it unchanged, and
// rendering the template reports the error.
func mergeObjects(under, over json.RawMessage) json.RawMessage {
	all, err := objectMembers(under)
	if err != nil || len(all) == 0 {
		return over
	}
	members, err := objectMembers(over)
	if err != nil {
		return over
	}
	maps.Copy(all, members)
	merged, err := json.Marshal(all)
	if err != nil {
		return over
	}
	return merged
}

// WithDefault returns a JSON object with another member, unless it has one of that name. A nil
// object is empty.
func WithDefault(object json.RawMessage, name string, value bool) json.RawMessage {
	member, err := json.Marshal(map[string]bool{name: value})
	if err != nil {
		return object
	}
	if object == nil {
		return member
	}
	return mergeObjects(member, object)
}

// objectMembers returns the members of a JSON object, or an empty map if object is nil.
func objectMembers(object json.RawMessage) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if object == nil {
		return members, nil
	}
	return members, json.Unmarshal(object, &members)
}

// Sampling returns the parameters of the sampler. A parameter that the request omits has the value
// that the model's generation_config.json recommends. Without a recommendation the temperature is
// 1, as in OpenAI's API. If the model recommends do_sample false, sampling is greedy unless the
// request has a temperature.
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
		s.TopP = leastTopP // 0 means off in the sampler, but greedy in OpenAI's API
	}
	if p.TopK != nil {
		s.TopK = *p.TopK
	}
	if p.Seed != nil {
		s.Seed = new(uint64(*p.Seed))
	}
	s.RepetitionContextTokens = p.PenaltyTokens
	s.PresenceContextTokens = p.PresencePenaltyTokens
	s.FrequencyContextTokens = p.FrequencyPenaltyTokens
	s.XTC, s.DRY = p.XTC, p.DRY
	s.LogitBias = p.LogitBias
	if p.Logprobs {
		s.Logprobs = p.TopLogprobs
	}
	return s
}

// leastTopP is smaller than the probability that the most likely token ever has, so top-p sampling
// keeps only that token.
const leastTopP = 1e-9
