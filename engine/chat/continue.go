package chat

// An answer that continues the last message of the conversation. Templates have no variable for
// this. So the end of the message's content is marked, and the prompt is cut at the mark, as
// transformers does for continue_final_message.

import (
	"errors"
	"strings"

	"headroom/engine/chat/jinja"
)

// endMark marks the end of a content. Its characters have no meaning to anybody.
const endMark = "\U000F1C0E\U000F1C0F\U000F1C0E"

// markEnd appends endMark to the content of the last message.
func markEnd(messages *jinja.List) error {
	if len(messages.Items) == 0 {
		return errors.New("there is no message to continue")
	}
	last, ok := messages.Items[len(messages.Items)-1].(*jinja.Dict)
	if !ok {
		return errors.New("the last message cannot be continued: it is no object")
	}
	content, _ := last.Get("content")
	if text, ok := joinText(content); ok {
		content = text
	}
	text, ok := content.(string)
	if !ok {
		return errors.New("the last message cannot be continued: it has more than text")
	}
	last.Set("content", text+endMark)
	return nil
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
