package openai

// Validation of messages. Only the keys that every model needs are checked. The whole message is
// passed on unchanged, because the chat template may read its other keys.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"headroom/engine/jsonbody"
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
	Function *wireNamed `json:"function"`
	Custom   *wireNamed `json:"custom"`
}

type wireNamed struct {
	Name *string `json:"name"`
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
	if w.Role == "tool" || w.Role == "function" {
		raw, w.Content = withRemarks(raw, w.Content)
	}
	if err := checkContent(w.Content, path+".content"); err != nil {
		return Message{}, err
	}
	for i, call := range w.ToolCalls {
		if err := call.check(fmt.Sprintf("%s.tool_calls[%d]", path, i)); err != nil {
			return Message{}, err
		}
	}
	if w.Role == "developer" { // OpenAI's new name for system, which chat templates do not support
		w.Role = "system"
	}
	return Message{Role: w.Role, Raw: raw, HasCalls: len(w.ToolCalls) > 0,
		Prefix: w.Prefix != nil && *w.Prefix}, nil
}

// check returns an error unless the call names a function or a custom tool. Its name may be empty:
// a model may have written it so.
func (c wireToolCall) check(path string) error {
	called, field := c.Function, ".function"
	if called == nil && c.Custom != nil {
		called, field = c.Custom, ".custom"
	}
	if called == nil || called.Name == nil {
		return badParam(path+field+".name", "is missing")
	}
	return nil
}

// withRemarks returns the result of a tool with a remark in place of each part that is not text,
// such as an image. The client replays the result in every later request, so it is not refused.
func withRemarks(message, content json.RawMessage) (changed, parts json.RawMessage) {
	if kind(content) != "an array" {
		return message, content
	}
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil {
		return message, content
	}
	found := false
	for i, raw := range list {
		var part struct{ Type string }
		if kind(raw) != "an object" || json.Unmarshal(raw, &part) != nil || part.Type == "" ||
			slices.Contains(readable, part.Type) {
			continue
		}
		found = true
		list[i], _ = json.Marshal(map[string]string{"type": "text", // cannot fail
			"text": "[" + part.Type + " left out: the model reads text only]"})
	}
	if !found {
		return message, content
	}
	parts, _ = json.Marshal(list) // cannot fail: they are valid
	var b bytes.Buffer
	_ = jsonbody.Members(jsonbody.Trimmed(message), func(name string, value []byte) *Error {
		if name == "content" {
			value = parts
		}
		quoted, _ := json.Marshal(name) // cannot fail
		b.WriteByte("{,"[min(b.Len(), 1)])
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(value)
		return nil
	})
	b.WriteByte('}')
	return b.Bytes(), parts
}

// readable are the types of the parts that checkContent accepts.
var readable = []string{"text", "input_text", "output_text", "refusal", "thinking", "reasoning",
	"redacted_thinking"}

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
		switch part.Type { // as in readable
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
