package generate_test

import (
	"encoding/json"
	"testing"

	"headroom/engine/chat"
	"headroom/engine/generate"
)

// TestThinkingVariables checks that the names by which clients turn reasoning on and off reach a
// template that has another one, and that the template's own name takes precedence.
func TestThinkingVariables(t *testing.T) {
	m := newDemo()
	const (
		granite = "{{ thinking is defined }} {{ thinking }}"
		qwen    = "{{ enable_thinking is defined }} {{ enable_thinking }}"
		seed    = "{{ thinking_budget }}"
		gptOSS  = "{{ reasoning_effort }}<|start|><|channel|><|message|>"
	)
	for _, c := range []struct{ template, effort, kwargs, want string }{
		{granite, "", `{"enable_thinking":false}`, "True False"},
		{granite, "", `{"enable_thinking":true}`, "True True"},
		{granite, "none", `{"enable_thinking":true}`, "True True"},
		{granite, "", `{"enable_thinking":true,"thinking":false}`, "True False"},
		{granite, "", `{"thinking":"sometimes"}`, "True sometimes"},
		{granite, "", ``, "False "},
		{qwen, "", `{"thinking":false}`, "True False"},
		{qwen, "", `{"thinking":null}`, "False "},
		{seed, "", `{"enable_thinking":false}`, "0"},
		{seed, "low", `{"thinking_budget":7}`, "7"},
		{seed, "high", `{"thinking":false}`, "0"},
		{gptOSS, "", `{"enable_thinking":false}`, "low<|start|><|channel|><|message|>"},
	} {
		var err error
		if m.template, err = chat.ParseTemplate(c.template); err != nil {
			t.Fatal(err)
		}
		r := generate.Request{Messages: []chat.Message{{Role: "user", Content: "x"}},
			Effort: c.effort}
		if c.kwargs != "" {
			r.TemplateKwargs = json.RawMessage(c.kwargs)
		}
		prompt, _, err := r.Encode(t.Context(), m, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.tokenizer.Decode(prompt, false); got != c.want {
			t.Errorf("%s, effort %q, %s: got %q, want %q", c.template, c.effort, c.kwargs, got,
				c.want)
		}
	}
}
