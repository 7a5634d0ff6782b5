package server

import (
	"headroom/engine/openai"
	"headroom/engine/sample"
)

// Sampling joins what the request says, and Options.Defaults have filled in, with what the model's
// generation_config.json recommends: the request wins, then the model, then OpenAI's temperature of
// 1. A model that says do_sample false is greedy unless the request has a temperature.
func Sampling(q *openai.Params, d sample.Defaults) sample.Params {
	p := d.Params()
	set := func(to *float32, from *float64) {
		if from != nil {
			*to = float32(*from)
		}
	}
	set(&p.Temperature, q.Temperature)
	set(&p.TopP, q.TopP)
	set(&p.MinP, q.MinP)
	set(&p.RepetitionPenalty, q.RepetitionPenalty)
	set(&p.PresencePenalty, q.PresencePenalty)
	set(&p.FrequencyPenalty, q.FrequencyPenalty)
	if q.TopP != nil && *q.TopP == 0 {
		p.TopP = leastTopP // to the sampler 0 means off; to OpenAI, the likeliest token alone
	}
	if q.TopK != nil {
		p.TopK = *q.TopK
	}
	if q.Seed != nil {
		p.Seed = new(uint64(*q.Seed))
	}
	p.LogitBias = q.LogitBias
	if q.Logprobs {
		p.Logprobs = q.TopLogprobs
	}
	return p
}

// leastTopP is below the probability of any likeliest token: it keeps that one.
const leastTopP = 1e-9
