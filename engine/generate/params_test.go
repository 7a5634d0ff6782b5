package generate

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"headroom/engine/sample"
)

func TestSetDefaults(t *testing.T) {
	d := Defaults{MaxTokens: 100, Temperature: new(0.7), TopP: new(0.8), TopK: new(-1),
		MinP: new(0.1), RepetitionPenalty: new(0.0), PresencePenalty: new(1.5),
		FrequencyPenalty: new(-0.5), Seed: new(int64(7)),
		TemplateKwargs: json.RawMessage(`{"enable_thinking": true, "style": "dry"}`)}
	empty := &Request{}
	empty.SetDefaults(d)
	// TopK -1 and RepetitionPenalty 0 mean off, as in a request.
	want := &Request{Params: Params{MaxTokens: 100, Temperature: new(0.7), TopP: new(0.8),
		TopK: new(0), MinP: new(0.1), RepetitionPenalty: new(1.0),
		PresencePenalty: new(1.5), FrequencyPenalty: new(-0.5), Seed: new(int64(7))},
		TemplateKwargs: json.RawMessage(`{"enable_thinking":true,"style":"dry"}`)}
	if !reflect.DeepEqual(empty, want) {
		t.Errorf("request without parameters: got %+v, want %+v", empty, want)
	}
	asked := func() *Request {
		return &Request{Params: Params{MaxTokens: 9, Temperature: new(0.0), TopP: new(1.0),
			TopK: new(0), MinP: new(0.0), RepetitionPenalty: new(1.0),
			PresencePenalty: new(0.0), FrequencyPenalty: new(0.0), Seed: new(int64(1))},
			TemplateKwargs: json.RawMessage(`{"enable_thinking":false,"style":"wet"}`)}
	}
	full := asked()
	if full.SetDefaults(d); !reflect.DeepEqual(full, asked()) {
		t.Errorf("request with all parameters: got %+v, want %+v", full, asked())
	}
	some := &Request{TemplateKwargs: json.RawMessage(`{"enable_thinking":false}`)}
	some.SetDefaults(d)
	if got := string(some.TemplateKwargs); got != `{"enable_thinking":false,"style":"dry"}` {
		t.Errorf("template variables: got %s, expected the default style", got)
	}
	none := asked()
	if none.SetDefaults(Defaults{}); !reflect.DeepEqual(none, asked()) {
		t.Errorf("no defaults: got %+v, want %+v", none, asked())
	}
}

func TestCheckRefuses(t *testing.T) {
	for want, d := range map[string]Defaults{
		"temperature: ":          {Temperature: new(2.5)},
		"top_p: ":                {TopP: new(-0.1)},
		"top_k: ":                {TopK: new(-2)},
		"min_p: ":                {MinP: new(1.1)},
		"repetition_penalty: ":   {RepetitionPenalty: new(101.0)},
		"presence_penalty: ":     {PresencePenalty: new(3.0)},
		"frequency_penalty: ":    {FrequencyPenalty: new(-3.0)},
		"max_tokens: ":           {MaxTokens: -5},
		"chat_template_kwargs: ": {TemplateKwargs: json.RawMessage(`[1]`)},
		"chat_template_kwargs":   {TemplateKwargs: json.RawMessage(`{"a":`)},
	} {
		if err := d.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", d, err, want)
		}
		d.Seed = new(int64(1))
		r := &Request{}
		if r.SetDefaults(d); !reflect.DeepEqual(r, &Request{}) {
			t.Errorf("%+v: SetDefaults filled in %+v, expected nothing", d, r)
		}
	}
	if err := (Defaults{}).Check(); err != nil {
		t.Errorf("no defaults: %v", err)
	}
}

func TestSampling(t *testing.T) {
	f32 := func(v float32) *float32 { return &v }
	model := sample.Defaults{Temperature: f32(0.6), TopP: f32(0.95), TopK: new(20)}
	greedy := sample.Defaults{Temperature: f32(0.6), DoSample: new(false)}
	cases := []struct {
		name  string
		q     Params
		model sample.Defaults
		want  sample.Params
	}{
		{"no parameters", Params{}, sample.Defaults{},
			sample.Params{Temperature: 1, Logprobs: -1}},
		{"the model's recommendation", Params{}, model,
			sample.Params{Temperature: 0.6, TopP: 0.95, TopK: 20, Logprobs: -1}},
		{"do_sample false is greedy", Params{}, greedy, sample.Params{Logprobs: -1}},
		{"do_sample false with a temperature", Params{Temperature: new(0.5)}, greedy,
			sample.Params{Temperature: 0.5, Logprobs: -1}},
		{"the request takes precedence", Params{Temperature: new(0.0), TopP: new(1.0), TopK: new(0),
			MinP: new(0.25), RepetitionPenalty: new(1.5),
			PresencePenalty: new(1.0), FrequencyPenalty: new(-1.0),
			PenaltyTokens: 64,
			LogitBias:     map[int32]float32{3: 4}, Seed: new(int64(-1)), Logprobs: true,
			TopLogprobs: 5},
			model, sample.Params{TopP: 1, MinP: 0.25, RepetitionPenalty: 1.5, PresencePenalty: 1,
				FrequencyPenalty: -1, RepetitionContextTokens: 64,
				LogitBias: map[int32]float32{3: 4}, Seed: new(uint64(1<<64 - 1)),
				Logprobs: 5}},
		{"top_p 0 is greedy", Params{TopP: new(0.0)}, sample.Defaults{},
			sample.Params{Temperature: 1, TopP: leastTopP, Logprobs: -1}},
		{"logprobs without alternatives", Params{Logprobs: true}, greedy, sample.Params{}},
	}
	for _, c := range cases {
		got := c.q.Sampling(c.model)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestXTCThreshold: a threshold of 0 that was sent means that every token is likely, as in mlx-lm;
// one that was not sent is the default.
func TestXTCThreshold(t *testing.T) {
	zero := 0.0
	for _, sent := range []*float64{nil, &zero} {
		var p Params
		if err := p.SetSamplers(&Samplers{XTCThreshold: sent}); err != nil ||
			(p.XTC.Threshold == 0) != (sent == nil) || p.XTC.Threshold > 1e-30 {
			t.Errorf("sent %v: %g, %v", sent, p.XTC.Threshold, err)
		}
	}
}
