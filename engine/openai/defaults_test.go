package openai

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestDefault(t *testing.T) {
	d := Defaults{MaxTokens: 100, Temperature: new(0.7), TopP: new(0.8), TopK: new(-1),
		MinP: new(0.1), RepetitionPenalty: new(0.0), PresencePenalty: new(1.5),
		FrequencyPenalty: new(-0.5), Seed: new(int64(7)),
		TemplateKwargs: json.RawMessage(`{"enable_thinking": true, "style": "dry"}`)}
	silent := &ChatRequest{}
	silent.Default(d)
	// top_k -1 and repetition_penalty 0 mean off, as in a request.
	want := &ChatRequest{Params: Params{MaxTokens: 100, Temperature: new(0.7), TopP: new(0.8), TopK: new(0), MinP: new(0.1), RepetitionPenalty: new(1.0),
		PresencePenalty: new(1.5), FrequencyPenalty: new(-0.5), Seed: new(int64(7))},
		TemplateKwargs: json.RawMessage(`{"enable_thinking":true,"style":"dry"}`)}
	if !reflect.DeepEqual(silent, want) {
		t.Errorf("a request that says nothing: got %+v, want %+v", silent, want)
	}
	asked := func() *ChatRequest {
		return &ChatRequest{Params: Params{MaxTokens: 9, Temperature: new(0.0), TopP: new(1.0), TopK: new(0), MinP: new(0.0), RepetitionPenalty: new(1.0),
			PresencePenalty: new(0.0), FrequencyPenalty: new(0.0), Seed: new(int64(1))},
			TemplateKwargs: json.RawMessage(`{"enable_thinking":false,"style":"wet"}`)}
	}
	loud := asked()
	if loud.Default(d); !reflect.DeepEqual(loud, asked()) {
		t.Errorf("a request that says all: got %+v, want %+v", loud, asked())
	}
	some := &ChatRequest{TemplateKwargs: json.RawMessage(`{"enable_thinking":false}`)}
	if some.Default(d); string(some.TemplateKwargs) != `{"enable_thinking":false,"style":"dry"}` {
		t.Errorf("variables are taken one by one: got %s", some.TemplateKwargs)
	}
	none := asked()
	if none.Default(Defaults{}); !reflect.DeepEqual(none, asked()) {
		t.Errorf("no defaults: got %+v, want %+v", none, asked())
	}
}

func TestDefaultsThatNoRequestMayAskFor(t *testing.T) {
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
		r := &ChatRequest{}
		if r.Default(d); !reflect.DeepEqual(r, &ChatRequest{}) {
			t.Errorf("%+v filled in %+v", d, r)
		}
	}
	if err := (Defaults{}).Check(); err != nil {
		t.Errorf("no defaults: %v", err)
	}
}
