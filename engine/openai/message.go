package openai

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Message is one turn of a conversation.
type Message struct {
	Role       string     // never empty; what the model's template knows is for the template to say
	Content    string     // text parts joined; "" for null
	Reasoning  string     // of an assistant's earlier answer: reasoning_content, or reasoning
	Name       string     // "" when not given
	ToolCallID string     // of a tool's result
	ToolCalls  []ToolCall // of an assistant's earlier answer
}

// ToolCall is a call that an assistant made in an earlier turn.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is valid JSON: the object that OpenAI's clients send as a string, taken out of it, or as it came.
	Arguments json.RawMessage
}

type wireMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	ReasoningContent *string         `json:"reasoning_content"`
	Reasoning        *string         `json:"reasoning"`
	Name             string          `json:"name"`
	ToolCallID       string          `json:"tool_call_id"`
	ToolCalls        []wireToolCall  `json:"tool_calls"`
}

type wireToolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
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
		path := fmt.Sprintf("messages[%d]", i)
		m, err := parseMessage(raw, path)
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
		return Message{}, badParam(path+".role", "is missing; expected \"system\", \"user\" or \"assistant\"")
	}
	content, err := parseContent(w.Content, path+".content")
	if err != nil {
		return Message{}, err
	}
	m := Message{Role: w.Role, Content: content, Name: w.Name, ToolCallID: w.ToolCallID}
	if m.Role == "developer" { // OpenAI's newer word for it; no model's template knows it
		m.Role = "system"
	}
	switch {
	case w.ReasoningContent != nil:
		m.Reasoning = *w.ReasoningContent
	case w.Reasoning != nil:
		m.Reasoning = *w.Reasoning
	}
	for i, call := range w.ToolCalls {
		arguments, err := parseArguments(call.Function.Arguments, fmt.Sprintf("%s.tool_calls[%d].function.arguments", path, i))
		if err != nil {
			return Message{}, err
		}
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: arguments})
	}
	return m, nil
}

// parseContent reads a text, a list of text parts, or null.
func parseContent(raw json.RawMessage, path string) (string, error) {
	if isNull(raw) {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return "", badParam(path, "expected a string or a list of parts, got %s", kind(raw))
	}
	var b strings.Builder
	for i, rawPart := range parts {
		partPath := fmt.Sprintf("%s[%d]", path, i)
		var part wirePart
		if json.Unmarshal(rawPart, &text) == nil && !isNull(rawPart) {
			b.WriteString(text)
			continue
		}
		if err := decode(rawPart, &part, partPath); err != nil {
			return "", err
		}
		switch {
		case part.Type != "text" && part.Type != "input_text":
			return "", badParam(partPath+".type", "%q is not supported: the model reads text only", part.Type)
		case part.Text == nil:
			return "", badParam(partPath+".text", "is missing")
		}
		b.WriteString(*part.Text)
	}
	return b.String(), nil
}

// parseArguments unpacks the string in which OpenAI's clients send the JSON object of a call.
func parseArguments(raw json.RawMessage, path string) (json.RawMessage, error) {
	if isNull(raw) {
		return json.RawMessage("{}"), nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
		if strings.TrimSpace(text) == "" {
			return json.RawMessage("{}"), nil
		}
	}
	if !json.Valid(raw) || strings.TrimSpace(string(raw))[0] != '{' {
		return nil, badParam(path, "expected a JSON object, got %s", shorten(raw))
	}
	return raw, nil
}
