package chat

// What may come before the content of an answer. Those who constrain the content leave it free.

import (
	"errors"
	"strings"
)

// Opening is what may come before the content of an answer.
type Opening struct {
	// Inside: the answer begins inside of reasoning, or its content needs a header.
	Inside bool
	// Open is the tag, or the token with which it begins, that begins reasoning at the start of an
	// answer; "": none does.
	Open string
	// Close are the texts before content, each of which comes after the one before.
	Close []string
	// Calls are the tags that begin calls.
	Calls []string
	// Prompt is the end of the prompt that WatchCalls needs.
	Prompt string
}

// errOpening is the error of formats whose content is between tags of its own.
var errOpening = errors.New("this model's format has tags around content, for which forms of " +
	"answers are not supported")

// errBareCalls is the error of formats whose calls begin without a tag.
var errBareCalls = errors.New("this model's tool calls begin like content, so that tools cannot " +
	`be offered together with a form of the content. Send the tool_choice "none", or no tools`)

// Opening returns what may come before the content of the answer to a prompt. calls says that the
// answer may be calls instead. The error says why the content cannot have a form; calls alone can,
// after what the result says, unless they begin like content.
func (t *Template) Opening(prompt string, tools, calls bool) (o Opening, err error) {
	t = t.of(tools)
	if t.channels != nil {
		s := newChannelSplitter(t.channels, prompt, nil)
		o.Prompt = prompt[max(0, strings.LastIndex(prompt, t.channels.start)):]
		if o.Inside = s.inHeader || s.kind != Content; o.Inside {
			o.Close = t.channels.content
		}
		return o, nil
	}
	if len(t.reasoning.drop) > 0 {
		err = errOpening
	}
	end := strings.TrimRight(prompt, spaces)
	o.Prompt = end[max(0, len(end)-maxTag):]
	o.Close = []string{t.reasoning.close}
	switch {
	case t.reasoning.opens(prompt):
		o.Inside = true
	case t.reasons && !strings.HasSuffix(end, t.reasoning.close):
		o.Open = t.reasoning.open
		if strings.HasPrefix(o.Open, t.reasoning.mark) {
			o.Open = t.reasoning.mark // a token that begins it
		}
	}
	if !calls || t.tools == nil {
		return o, err
	}
	if t.tools.bare || t.tools.named || len(t.tools.open) == 0 || t.tools.prompted {
		return o, errBareCalls
	}
	o.Calls = t.tools.open
	return o, err
}

// InMessages reports whether answers are messages with headers, as those of gpt-oss.
func (t *Template) InMessages() bool { return t.of(true).channels != nil }
