package commands

// Prompts for benchmarks: made-up sentences, cut to a number of tokens and rendered as a
// conversation.

import (
	"context"
	"strings"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// prompts builds prompts for one model.
type prompts struct{ engine *engine.Engine }

// newPrompts checks that the model's chat template accepts the benchmark's messages. A model
// without a template gets the plain texts.
func newPrompts(e *engine.Engine) (*prompts, error) {
	p := &prompts{e}
	if _, err := p.text([]chat.Message{{Role: "user", Content: "Hello."}}); err != nil {
		return nil, problem.Wrap(problem.TemplateFailed, err,
			"The model's chat template rejects the benchmark's conversation",
			"Choose another model.")
	}
	return p, nil
}

// promptWords are the words of the sentences.
var promptWords = strings.Fields(`the a our one every model cache token page block disk memory turn answer question engine keeps reads writes
	holds needs takes finds long short cold warm first last small large again later often never here there with without`)

// turn returns a user message of about that many tokens. Each seed gives different words.
func (p *prompts) turn(seed, tokens int) chat.Message {
	var b strings.Builder
	x := uint32(seed)*2654435761 + 12345
	for n := 0; n < tokens; n++ { // a word is at least one token
		x = x*1664525 + 1013904223
		b.WriteString(promptWords[(x>>8)%uint32(len(promptWords))])
		b.WriteString([]string{" ", " ", " ", " ", " ", " ", ". "}[(x>>24)%7])
	}
	ids := p.engine.Tokenizer().Encode(b.String(), tokenizer.EncodeOptions{})
	return chat.Message{Role: "user",
		Content: p.engine.Tokenizer().Decode(ids[:min(tokens, len(ids))], false)}
}

// render returns the tokens of a conversation, up to where the answer begins.
func (p *prompts) render(messages ...chat.Message) []int32 {
	text, err := p.text(messages)
	if err != nil {
		panic("commands: prompts.render: the template accepted one conversation and rejects " +
			"another: " + err.Error())
	}
	return p.engine.Tokenizer().Encode(text,
		tokenizer.EncodeOptions{AddSpecial: p.engine.Template() == nil})
}

func (p *prompts) text(messages []chat.Message) (string, error) {
	if p.engine.Template() == nil {
		var b strings.Builder
		for _, m := range messages {
			b.WriteString(m.Content + "\n")
		}
		return b.String(), nil
	}
	return p.engine.Template().Render(context.Background(),
		chat.Input{Messages: messages, AddGenerationPrompt: true,
			Kwargs: map[string]any{"enable_thinking": false}})
}
