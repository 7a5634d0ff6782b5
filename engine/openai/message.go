package openai

// Checks on messages. Only what every model needs is judged; the message itself travels on as it
// came, since its remaining keys are the template's matter.

import (
	"encoding/json"
	"fmt"
)

// Message is one turn of a conversation, checked.
type Message struct {
	Role string // never empty; what the model's template knows is for the template to say
	// Raw is the whole message as it came, for the template: keys of any name, in their order. Its
	// content is a text, a list of text parts, or null.
	Raw json.RawMessage
}

// wireMessage has the fields whose types are checked here; null and absent are the same.
type wireMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	ReasoningContent *string         `json:"reasoning_content"`
	Name             *string         `json:"name"`
	ToolCallID       *string         `json:"tool_call_id"`
	ToolCalls        []wireToolCall  `json:"tool_calls"`
}

type wireToolCall struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

type wirePart struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

func parseMessages(list []json.RawMessage) ([]Message, error) {
	if len(list) == 0 {
		return nil, badParam("messages", "expected at least one message")
	}
	messages := make([]Message, len(list))
	for i, raw := range list {
		m, err := parseMessage(raw, fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return nil, err
		}
		messages[i] = m
	}
	return messages, nil
}

func parseMessage(raw json.RawMessage, path string) (Message, error) {
	if isNull(raw) {
		return Message{}, badParam(path, "expected an object, got null")
	}
	var w wireMessage
	if err := decode(raw, &w, path); err != nil {
		return Message{}, err
	}
	if w.Role == "" {
		return Message{}, badParam(path+".role",
			"is missing; expected \"system\", \"user\" or \"assistant\"")
	}
	if err := checkContent(w.Content, path+".content"); err != nil {
		return Message{}, err
	}
	if w.Role == "developer" { // OpenAI's newer word for it; no model's template knows it
		w.Role = "system"
	}
	return Message{Role: w.Role, Raw: raw}, nil
}

// checkContent accepts a text, a list of text parts, or null.
func checkContent(raw json.RawMessage, path string) error {
	if isNull(raw) || kind(raw) == "a string" {
		return nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return badParam(path, "expected a string or a list of parts, got %s", kind(raw))
	}
	for i, rawPart := range parts {
		partPath := fmt.Sprintf("%s[%d]", path, i)
		var part wirePart
		if err := decode(rawPart, &part, partPath); err != nil {
			return err
		}
		switch {
		case part.Type != "text":
			return badParam(partPath+".type", "%q is not supported: the model reads text only",
				part.Type)
		case part.Text == nil:
			return badParam(partPath+".text", "is missing")
		}
	}
	return nil
}
