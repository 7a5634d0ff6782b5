package generate_test

// The forms that requests demand, where no dialect is needed to see them.

import (
	"encoding/json"
	"strings"
	"testing"

	"headroom/engine/chat"
	"headroom/engine/generate"
)

// templated is marked with a template.
type templated struct {
	marked
	template *chat.Template
}

func (m templated) Template() *chat.Template { return m.template }

// TestUnusedForm: an answer whose strict calls cannot be enforced has no form. With an empty one,
// it would be sampled in a slower way.
func TestUnusedForm(t *testing.T) {
	template, err := chat.ParseTemplate(`{{ messages[0].content }}{{ tools }}`)
	if err != nil {
		t.Fatal(err)
	}
	tool := json.RawMessage(`{"type":"function","function":{"name":"f","strict":true}}`)
	r := generate.Request{Messages: []chat.Message{{Role: "user", Content: "a"}},
		Tools: []json.RawMessage{tool}}
	if err := r.ChooseTools(generate.ToolChoice{}, r.Tools); err != nil || r.Calls == nil {
		t.Fatal(err, r.Calls)
	}
	m := templated{withMarks(t), template}
	if _, _, err := r.Encode(t.Context(), m, 1000); err != nil || r.Output != nil {
		t.Errorf("%+v, %v", r.Output, err)
	}
}

// TestWatchedForm: the calls of a strict function have their form where calls begin without a tag
// of one token, too. The end of the prompt says where the answer is.
func TestWatchedForm(t *testing.T) {
	const shown = "{{ tools }}{% for m in messages %}{{ m.content }}{{ m.tool_calls }}{% endfor %}"
	for source, end := range map[string]string{
		shown + `{# "parameters": dictionary of argument name #}`:        "a",
		shown + "<|start|>assistant{# <|channel|>analysis<|message|> #}": "<|start|>assistant",
	} {
		template, err := chat.ParseTemplate(source)
		if err != nil {
			t.Fatal(err)
		}
		m := templated{withMarks(t), template}
		for _, c := range []struct {
			function string
			watch    bool
			err      string
		}{
			{`{"name":"f","strict":true}`, true, ""},
			{`{"name":"f"}`, false, ""},
			{`{"name":"f","strict":true,"parameters":{"properties":{"a":{"pattern":"(?<=a)b"}}}}`,
				false, "the calls of a strict function cannot be enforced"},
		} {
			tool := json.RawMessage(`{"type":"function","function":` + c.function + `}`)
			r := generate.Request{Messages: []chat.Message{{Role: "user", Content: "a"}},
				Tools: []json.RawMessage{tool}}
			if err := r.ChooseTools(generate.ToolChoice{}, r.Tools); err != nil {
				t.Fatal(err)
			}
			_, _, err := r.Encode(t.Context(), m, 1000)
			if (err == nil) != (c.err == "") ||
				err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s, %s: got %v, expected %q", source, c.function, err, c.err)
			}
			o := r.Output
			if got := err == nil && o != nil && o.Calls != nil && o.Before.Watch; got != c.watch {
				t.Errorf("%s, %s: watched %t: %+v", source, c.function, got, o)
			}
			if c.watch && !strings.HasSuffix(o.Before.Prompt, end) {
				t.Errorf("%s: the prompt ends with %q, expected %q", source, o.Before.Prompt, end)
			}
		}
	}
}
