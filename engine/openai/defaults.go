package openai

// What somebody has set for a model, for requests that do not say. It stands between the request,
// which wins, and what the model's authors recommend.

import (
	"encoding/json"
	"maps"
)

// Defaults are parameters by the names and in the ranges of a request. A nil pointer, and 0 tokens,
// say nothing.
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

// Check returns an *Error that names what a request could not ask for either.
func (d Defaults) Check() error {
	_, err := d.read()
	return err
}

// read is a request that says what the defaults say.
func (d Defaults) read() (*ChatRequest, error) {
	w := wireParams{Temperature: d.Temperature, TopP: d.TopP, TopK: d.TopK, MinP: d.MinP,
		RepetitionPenalty: d.RepetitionPenalty,
		PresencePenalty:   d.PresencePenalty, FrequencyPenalty: d.FrequencyPenalty, Seed: d.Seed}
	if d.MaxTokens != 0 {
		w.MaxTokens = &d.MaxTokens
	}
	r := &ChatRequest{}
	err := first(
		func() error { return r.Params.read(&w) },
		func() (err error) {
			r.TemplateKwargs, err = object("chat_template_kwargs", d.TemplateKwargs)
			return
		},
		func() error {
			if _, err := members(r.TemplateKwargs); err != nil {
				return badParam("chat_template_kwargs", "is not JSON: %v", err)
			}
			return nil
		},
	)
	return r, err
}

// Default fills in what the request does not say. Defaults that Check refuses fill in nothing.
func (p *Params) Default(d Defaults) {
	said, err := d.read()
	if err != nil {
		return
	}
	if p.MaxTokens == 0 {
		p.MaxTokens = said.MaxTokens
	}
	fill(&p.Temperature, said.Temperature)
	fill(&p.TopP, said.TopP)
	fill(&p.TopK, said.TopK)
	fill(&p.MinP, said.MinP)
	fill(&p.RepetitionPenalty, said.RepetitionPenalty)
	fill(&p.PresencePenalty, said.PresencePenalty)
	fill(&p.FrequencyPenalty, said.FrequencyPenalty)
	fill(&p.Seed, said.Seed)
}

// Default fills in what the request does not say; of the template's variables, those that it does
// not name.
func (r *ChatRequest) Default(d Defaults) {
	r.Params.Default(d)
	said, err := d.read()
	if err != nil || said.TemplateKwargs == nil {
		return
	}
	all, _ := members(said.TemplateKwargs)
	asked, err := members(r.TemplateKwargs)
	if err != nil {
		return // the template's renderer says what is wrong with it
	}
	maps.Copy(all, asked)
	if merged, err := json.Marshal(all); err == nil {
		r.TemplateKwargs = merged
	}
}

func fill[T any](to **T, from *T) {
	if *to == nil {
		*to = from
	}
}

// members are those of a JSON object; none of nil.
func members(object json.RawMessage) (map[string]json.RawMessage, error) {
	found := map[string]json.RawMessage{}
	if object == nil {
		return found, nil
	}
	return found, json.Unmarshal(object, &found)
}
