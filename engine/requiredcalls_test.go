package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/structured"
)

// requiredFormats are formats of calls, with the names that their tags have as tokens of the demo
// model. The call is one of get_time with the city Boston.
var requiredFormats = []struct{ name, template, tokens, open, call string }{
	{"LFM2", `<|tool_call_start|>`, `<tool_call> <|tool_call_start|> </tool_call> ` +
		`<|tool_call_end|>`, "<|tool_call_start|>",
		`<|tool_call_start|>[get_time(city="Boston")]<|tool_call_end|>`},
	{"LFM2, no tokens", `<|tool_call_start|>`, "", "", ""},
	{"Gemma 4", `<|tool_call>call:`, `<tool_call> <|tool_call> </tool_call> <tool_call|> ` +
		`<tool_response> <|\"|>`, "<|tool_call>",
		`<|tool_call>call:get_time{city:<|"|>Boston<|"|>}<tool_call|>`},
	{"Kimi", `<|tool_calls_section_begin|>`, `<tool_call> <|tool_call_begin|> </tool_call> ` +
		`<|tool_call_end|> <tool_response> <|tool_call_argument_begin|>`, "<|tool_call_begin|>",
		`<|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>{"city": "Boston"}` +
			`<|tool_call_end|>`},
	{"GLM 4.7", `<tool_call>{function-name}<arg_key>`, "", "<tool_call>", `<tool_call>get_time` +
		`<arg_key>city</arg_key><arg_value>Boston</arg_value></tool_call>`},
	{"InternLM", `<|action_start|><|plugin|>`, "", "", ""},
	{"Nemotron Mini", `'<tool> ' + tool`, "", "", ""},
	{"GLM 4", `# 可用工具`, "", "", ""},
	{"Gemma 4, no tokens", `<|tool_call>call:`, "", "", ""},
}

// callingModel opens a model of random weights with a template, and with other names of tokens.
func callingModel(t *testing.T, template, tokens string) *engine.Engine {
	t.Helper()
	dir := randomModel(t, "../app/demo/model/config.json", "../app/demo/model")
	template = `{{ tools }}{% for m in messages %}{{ m.content }}{{ m.tool_calls }}{% endfor %}` +
		"{# " + template + " #}"
	path := filepath.Join(dir, "chat_template.jinja")
	if err := os.WriteFile(path, []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "tokenizer.json")
	data, err := os.ReadFile(path)
	if err == nil {
		renamed := strings.NewReplacer(strings.Fields(tokens)...).Replace(string(data))
		err = os.WriteFile(path, []byte(renamed), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return openModel(t, engine.Source{Dir: dir}, engine.Options{NoPrefixCache: true})
}

// TestRequiredCalls: required calls of a model with random weights are read as calls whose
// arguments fit random schemas.
func TestRequiredCalls(t *testing.T) {
	n := 6
	switch {
	case testing.Short():
		n = 4
	case long():
		n = 32
	}
	for _, f := range requiredFormats {
		e := callingModel(t, f.template, f.tokens)
		ended := 0
		for seed := range uint64(n) {
			r := rand.New(rand.NewPCG(seed, 6))
			schema, err := json.Marshal(map[string]any{"type": "object", "required": []any{"first"},
				"properties": map[string]any{"first": randomSchema(r, 2),
					"second": randomSchema(r, 2)}, "additionalProperties": false})
			if err != nil {
				t.Fatal(err)
			}
			tools := []json.RawMessage{json.RawMessage(fmt.Sprintf(
				`{"function":{"name":"f","strict":true,"parameters":%s}}`, schema))}
			a := answerOf(t, e, engine.Request{Prompt: encode(e, question), MaxTokens: 200,
				Sampling: randomSampling(r), ShowTags: true, Output: &structured.Output{
					Kind: structured.Calls, Tools: tools, OneCall: seed%2 == 0}})
			if a.err != nil {
				t.Fatalf("%s, %s: %v", f.name, schema, a.err)
			}
			if a.finish == engine.FinishLength {
				continue
			}
			ended++
			calls := callsOf(e.Template(), a.text, tools)
			if len(calls) == 0 || seed%2 == 0 && len(calls) > 1 {
				t.Errorf("%s, %s: %q has %d calls", f.name, schema, a.text, len(calls))
			}
			for _, arguments := range calls {
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(arguments))
				if err == nil {
					err = validatorOf(t, schema).Validate(value)
				}
				if err != nil {
					t.Errorf("%s, %s: %q: %v", f.name, schema, a.text, err)
				}
			}
		}
		if ended < n/2 {
			t.Errorf("%s: only %d of %d answers ended", f.name, ended, n)
		}
	}
}

// callsOf returns the arguments of the calls in an answer.
func callsOf(template *chat.Template, text string, tools []json.RawMessage) (all []string) {
	split := template.NewSplitter("", tools)
	for _, p := range append(split.Add(text), split.Close(true)...) {
		if p.Kind == chat.Call {
			all = append(all, p.Call.Arguments)
		}
	}
	return all
}

// TestStrictCalls: a call that the model begins by itself fits the schema of a strict function.
func TestStrictCalls(t *testing.T) {
	for _, f := range requiredFormats {
		if f.call == "" {
			continue // nothing says where calls begin
		}
		e := callingModel(t, f.template, f.tokens)
		r := scriptCall(e, f.call)
		tools := []json.RawMessage{timeTool}
		plain := answerOf(t, e, r)
		r.Output = &structured.Output{Calls: &structured.Output{Kind: structured.Calls,
			Tools: tools, OneBlock: true}, Before: structured.Before{Calls: []string{f.open}}}
		a := answerOf(t, e, r)
		cities := citiesOf(t, e.Template(), "", plain.text, tools)
		if !slices.Equal(cities, []string{"Boston"}) {
			t.Errorf("%s: without a form %q", f.name, plain.text)
		}
		cities = citiesOf(t, e.Template(), "", a.text, tools)
		if !slices.Equal(cities, []string{"Rome"}) && !slices.Equal(cities, []string{"Oslo"}) {
			t.Errorf("%s: %q (%v)", f.name, a.text, a.err)
		}
	}
}
