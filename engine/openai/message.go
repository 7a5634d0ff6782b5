package openai

// Validation of messages. Only the keys that every model needs are checked. The whole message is
// passed on unchanged, because the chat template may read its other keys.

import (
	"encoding/json"
	"fmt"
)

// Message is one validated message of a conversation.
type Message struct {
	Role string // never empty; the chat template may reject it
	// Raw is the unchanged JSON of the message, for the chat template. Its content is a string, an
	// array of text parts, or null.
	Raw      json.RawMessage
	HasCalls bool // there are tool calls
	Prefix   bool // the message is to be continued
}

// wireMessage has the fields whose types are checked. null is the same as absent.
type wireMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	ReasoningContent *string         `json:"reasoning_content"`
	Name             *string         `json:"name"`
	ToolCallID       *string         `json:"tool_call_id"`
	ToolCalls        []wireToolCall  `json:"tool_calls"`
	Prefix           *bool           `json:"prefix"`
}

type wireToolCall struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

type wirePart struct {
	Type    string  `json:"type"`
	Text    *string `json:"text"`
	Refusal *string `json:"refusal"`
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
	if w.Role == "developer" { // OpenAI's new name for system, which chat templates do not support
		w.Role = "system"
	}
	return Message{Role: w.Role, Raw: raw, HasCalls: len(w.ToolCalls) > 0,
		Prefix: w.Prefix != nil && *w.Prefix}, nil
}

// checkContent returns an error unless the content is a string, an array of parts, or null. The
// parts are text, under the names of several APIs, and what an earlier answer had besides: clients
// replay it.
func checkContent(raw json.RawMessage, path string) error {
	if isNull(raw) || kind(raw) == "a string" {
		return nil
	}
	if kind(raw) != "an array" {
		return badParam(path, "expected a string or an array of parts, got %s", kind(raw))
	}
	i := 0
	err := elements(raw, func(rawPart []byte) *Error {
		partPath := fmt.Sprintf("%s[%d]", path, i)
		i++
		var part wirePart
		if err := fill(rawPart, &part, partPath); err != nil {
			return err
		}
		switch part.Type {
		case "text", "input_text", "output_text":
			if part.Text == nil {
				return badParam(partPath+".text", "is missing")
			}
		case "refusal":
			if part.Refusal == nil {
				return badParam(partPath+".refusal", "is missing")
			}
		case "thinking", "reasoning", "redacted_thinking":
		default:
			return unsupported(partPath+".type", "%q is not supported: the model reads text only",
				part.Type)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return nil
}
