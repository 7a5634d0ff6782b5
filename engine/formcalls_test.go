package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/models"
	"headroom/engine/structured"
)

// timeTool is a function whose city is none that the scripts below name.
var timeTool = json.RawMessage(`{"function": {"name": "get_time", "strict": true, "parameters": {
	"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}}}`)

// Templates in the formats of the test, which show tools and calls.
const (
	llama3Template = `{{ tools }}{% for m in messages %}{{ m.content }}{{ m.tool_calls }}` +
		`{% endfor %}{# "parameters": dictionary of argument name #}`
	glm4Template = `{{ tools }}{% for m in messages %}{{ m.content }}{{ m.tool_calls }}` +
		`{% endfor %}{# # 可用工具 #}`
	gptOSSTemplate = `{{ tools }}{% for m in messages %}{{ m.content }}{{ m.tool_calls }}` +
		`{% endfor %}<|start|>assistant{# <|channel|>analysis<|message|> #}`
)

// TestWatchedCalls: in formats whose calls do not begin with a token of their own, a call that the
// model begins by itself fits the schema. What is no call stays as it is, in bits.
func TestWatchedCalls(t *testing.T) {
	for _, c := range []struct {
		name, template, prompt string
		call                   bool
		text                   string // of the model, as far as it may
	}{
		{"Llama 3", llama3Template, "", true,
			`{"name": "get_time", "parameters": {"city": "Boston"}}`},
		{"Llama 3, compact", llama3Template, "",
			true, `{"name":"get_time","parameters":{"city":"Boston"}}`},
		{"Llama 3, JSON", llama3Template, "",
			false, `{"name": "Boston", "parameters": {"city": "Boston"}}`},
		{"GLM 4", glm4Template, "", true, "get_time\n" + `{"city": "Boston"}`},
		{"GLM 4, more white space", glm4Template, "", true, "\nget_time \n" + `{"city":"Boston"}`},
		{"GLM 4, content", glm4Template, "", false, "get_time:\n" + `{"city": "Boston"}`},
		{"gpt-oss", gptOSSTemplate,
			"<|start|>assistant", true, "<|channel|>analysis<|message|>I call it.<|end|>" +
				"<|start|>assistant<|channel|>commentary to=functions.get_time <|constrain|>json" +
				`<|message|>{"city": "Boston"}<|call|>`},
		{"gpt-oss, content", gptOSSTemplate,
			"<|start|>assistant", false, "<|channel|>final<|message|>to=functions.get_time " +
				`{"city": "Boston"}`},
	} {
		dir := randomModel(t, "../app/demo/model/config.json", "../app/demo/model")
		err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(c.template), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		e := openModel(t, engine.Source{Dir: dir}, engine.Options{NoPrefixCache: true})
		r := scriptCall(e, c.text)
		tools := []json.RawMessage{timeTool}
		plain := answerOf(t, e, r)
		r.Output = &structured.Output{Calls: &structured.Output{Kind: structured.Calls,
			Tools: tools, OneCall: true}, Before: structured.Before{Watch: true, Prompt: c.prompt}}
		a := answerOf(t, e, r)
		if a.err != nil || !c.call && !equalAnswers(a, plain) {
			t.Errorf("%s: %q (%v), without a form %q", c.name, a.text, a.err, plain.text)
		}
		cities := citiesOf(t, e.Template(), c.prompt, plain.text, tools)
		if c.call != slices.Equal(cities, []string{"Boston"}) {
			t.Errorf("%s: without a form %q", c.name, plain.text)
		}
		cities = citiesOf(t, e.Template(), c.prompt, a.text, tools)
		if c.call && !slices.Equal(cities, []string{"Rome"}) &&
			!slices.Equal(cities, []string{"Oslo"}) {
			t.Errorf("%s: %q, without a form %q", c.name, a.text, plain.text)
		}
	}
}

// citiesOf returns the arguments of the calls in an answer.
func citiesOf(t *testing.T, template *chat.Template, prompt, text string,
	tools []json.RawMessage) (cities []string) {
	t.Helper()
	split := template.NewSplitter(prompt, tools)
	for _, p := range append(split.Add(text), split.Close(true)...) {
		if p.Kind != chat.Call {
			continue
		}
		var arguments struct{ City string }
		if err := json.Unmarshal([]byte(p.Call.Arguments), &arguments); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		cities = append(cities, arguments.City)
	}
	return cities
}

// scriptCall makes the model of e answer with text, and returns a request for that.
func scriptCall(e *engine.Engine, text string) engine.Request {
	prompt := encode(e, "The time?")
	script := &scripted{prompt: len(prompt), list: encode(e, text)}
	e.ReplaceModel(func(m models.Model) models.Model {
		script.Model = m
		return script
	})
	return engine.Request{Prompt: prompt, MaxTokens: len(script.list) + 20, ShowTags: true}
}
