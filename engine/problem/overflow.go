package problem

import "fmt"

// Overflow is the size of a prompt that is longer than the context of its model.
type Overflow struct {
	Tokens  int // of the prompt; the least that it has, if AtLeast is set
	Context int // that the model can hold
	AtLeast bool
}

// OpenAI returns the sentences of OpenAI's API. Agents look for them to know that they have to
// shorten a conversation: LiteLLM and aider for the first one, pi for a part of it.
func (o Overflow) OpenAI() string {
	least := ""
	if o.AtLeast {
		least = "at least "
	}
	return fmt.Sprintf("This model's maximum context length is %s. However, your prompt has %s%s",
		tokens(o.Context), least, tokens(o.Tokens))
}

func tokens(n int) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", n)
}

// Anthropic returns the sentence of Anthropic's API. Claude Code reads both numbers.
func (o Overflow) Anthropic() string {
	least := ""
	if o.AtLeast {
		least = "at least "
	}
	return fmt.Sprintf("prompt is too long: %s%d tokens > %d maximum", least, o.Tokens, o.Context)
}

// TooLong returns the Problem of a prompt that is longer than the context. why adds to the sizes
// and may be empty.
func TooLong(o Overflow, why string) *Problem {
	p := New(ContextExceeded, o.OpenAI(), why,
		"Shorten the conversation, or load the model with a longer context.")
	p.Overflow = &o
	return p
}
