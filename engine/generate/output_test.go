package generate_test

// The forms that requests demand, where no dialect is needed to see them.

import (
	"encoding/json"
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
