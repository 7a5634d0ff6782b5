package chat

import (
	"slices"
	"testing"
)

// TestOpeningWithTags: content between tags cannot have a form, but calls beside it can, after
// reasoning.
func TestOpeningWithTags(t *testing.T) {
	template := parse(t, "{{ tools }}<|START_THINKING|><|START_ACTION|>")
	o, err := template.Opening("Hi<|START_THINKING|>", true, true)
	if err == nil || !o.Inside || !slices.Equal(o.Close, []string{"<|END_THINKING|>"}) ||
		!slices.Equal(o.Calls, []string{"<|START_ACTION|>"}) {
		t.Errorf("in reasoning: got %+v, %v", o, err)
	}
	o, err = template.Opening("Hi", true, false)
	if err == nil || o.Inside || o.Open != "<|START_THINKING|>" || o.Calls != nil {
		t.Errorf("before reasoning: got %+v, %v", o, err)
	}
}
