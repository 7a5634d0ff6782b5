package chat

// An answer that continues the last message of the conversation, and a prompt that continues what
// has been computed elsewhere. Templates have no variable for either. So a place in a message's
// content is marked, and the prompt is cut at the mark, as transformers does for
// continue_final_message.

import (
	"errors"
	"strings"

	"headroom/engine/chat/jinja"
)

// endMark marks the end of a content. Its characters have no meaning to anybody.
const endMark = "\U000F1C0E\U000F1C0F\U000F1C0E"

// markEnd appends endMark to the content of the last message.
func markEnd(messages *jinja.List) error {
	last, text, err := lastText(messages)
	if err == nil {
		last.Set("content", text+endMark)
	}
	return err
}

// lastText returns the last message and its content.
func lastText(messages *jinja.List) (last *jinja.Dict, text string, err error) {
	if len(messages.Items) == 0 {
		return nil, "", errors.New("there is no message to continue")
	}
	last, ok := messages.Items[len(messages.Items)-1].(*jinja.Dict)
	if !ok {
		return nil, "", errors.New("the last message cannot be continued: it is no object")
	}
	content, _ := last.Get("content")
	if text, ok := joinText(content); ok {
		content = text
	}
	if text, ok = content.(string); !ok {
		return nil, "",
			errors.New("the last message cannot be continued: it has more than text")
	}
	return last, text, nil
}

// Place is a place in a conversation.
type Place int

// The values of Place.
const (
	Beginning    Place = iota // of the prompt
	BeforeFinal               // before the content of the last message
	AfterEarlier              // after the content of the message before the last
)

// mark marks the place in the messages.
func (p Place) mark(messages *jinja.List) error {
	switch n := len(messages.Items); {
	case p == BeforeFinal:
		last, text, err := lastText(messages)
		if err == nil {
			last.Set("content", endMark+text)
		}
		return err
	case p == AfterEarlier && n > 0:
		return markEnd(jinja.NewList(messages.Items[:n-1]...))
	}
	return nil
}

// cutBefore returns what follows the marked place.
func cutBefore(prompt string) (string, error) {
	at := strings.LastIndex(prompt, endMark)
	if at < 0 {
		return "", errors.New("the conversation cannot be continued: the model's chat template " +
			"changes the content of its messages")
	}
	return prompt[at+len(endMark):], nil
}

// cutAtEnd returns a prompt without what follows the marked content.
func cutAtEnd(prompt string) (string, error) {
	at := strings.LastIndex(prompt, endMark)
	if at < 0 {
		return "", errors.New("the last message cannot be continued: the model's chat template " +
			"changes its content")
	}
	return prompt[:at], nil
}
