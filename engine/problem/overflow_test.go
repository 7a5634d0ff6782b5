package problem

import (
	"strings"
	"testing"
)

// TestOverflow checks the sentences that clients look for.
func TestOverflow(t *testing.T) {
	p := TooLong(Overflow{Tokens: 40013, Context: 32768}, "")
	const want = "This model's maximum context length is 32768 tokens. However, your prompt has " +
		"40013 tokens. Shorten the conversation, or load the model with a longer context."
	if p.Error() != want || p.Code != ContextExceeded {
		t.Errorf("got %q", p.Error())
	}
	o := Overflow{Tokens: 40960, Context: 32768, AtLeast: true}
	if got := o.OpenAI(); !strings.HasSuffix(got, "your prompt has at least 40960 tokens") {
		t.Errorf("got %q", got)
	}
	one := Overflow{Tokens: 2, Context: 1}
	if got := one.OpenAI(); !strings.Contains(got, "length is 1 token. However") {
		t.Errorf("got %q", got)
	}
	if got := o.Anthropic(); got != "prompt is too long: at least 40960 tokens > 32768 maximum" {
		t.Errorf("got %q", got)
	}
}
