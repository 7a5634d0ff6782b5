package chat

// This file converts the messages of a client to template values. Unknown fields are kept in their
// order, because the templates of some models read more than OpenAI defines. All text becomes valid
// UTF-8.

import (
	"encoding/json"
	"fmt"
	"strings"

	"headroom/engine/chat/jinja"
)

// Message is one message of an OpenAI chat request. UnmarshalJSON also keeps the fields that are
// not listed here, and the order of all keys, for the template.
type Message struct {
	Role string

	// Content is the text. If Parts is not nil, it is a JSON list of content parts and Content is
	// ignored.
	Content string
	Parts   json.RawMessage

	ReasoningContent string          // an assistant's reasoning, "" if not sent
	ToolCalls        json.RawMessage // an assistant's tool calls, a JSON list
	ToolCallID       string          // the call that a tool message answers
	Name             string

	fields *jinja.Dict // all keys as sent; nil if the message was made in Go
}

// UnmarshalJSON parses a message of an OpenAI request. A null or missing content is "". If
// reasoning_content is missing or empty, UnmarshalJSON reads the key reasoning.
func (m *Message) UnmarshalJSON(data []byte) error {
	v, err := jinja.FromJSON(data)
	if err != nil {
		return err
	}
	fields, ok := v.(*jinja.Dict)
	if !ok {
		return fmt.Errorf("a message must be a JSON object, got %.40s", data)
	}
	var raw map[string]json.RawMessage // not a struct: its names would not be case-sensitive
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	*m = Message{fields: fields}
	for name, field := range map[string]*string{"role": &m.Role, "tool_call_id": &m.ToolCallID,
		"reasoning_content": &m.ReasoningContent, "name": &m.Name} {
		if isNull(raw[name]) {
			continue
		}
		if err := json.Unmarshal(raw[name], field); err != nil {
			return fmt.Errorf("message: %s: %w", name, err)
		}
	}
	if m.Role == "" {
		return fmt.Errorf("a message needs a role")
	}
	if s := ""; m.ReasoningContent == "" && json.Unmarshal(raw["reasoning"], &s) == nil {
		m.ReasoningContent = s
	}
	switch content := raw["content"]; {
	case isNull(content):
	case content[0] == '[':
		if err := m.readParts(content); err != nil {
			return err
		}
	default:
		if err := json.Unmarshal(content, &m.Content); err != nil {
			return fmt.Errorf("content must be a string or a list of parts, got %.40s", content)
		}
	}
	return m.readHistory(raw)
}

// readHistory reads the tool calls, and what only earlier answers have.
func (m *Message) readHistory(raw map[string]json.RawMessage) error {
	calls := raw["tool_calls"]
	switch {
	case isNull(calls):
	case calls[0] != '[':
		return fmt.Errorf("tool_calls must be a list, got %.40s", calls)
	case strings.TrimSpace(string(calls[1:len(calls)-1])) != "":
		m.ToolCalls = calls
	}
	for name, value := range raw { // templates ask whether there is a key
		if isNull(value) && name != "content" || name == "tool_calls" && m.ToolCalls == nil {
			m.fields.Delete(name)
		}
	}
	if s := ""; m.Parts == nil && m.Content == "" && json.Unmarshal(raw["refusal"], &s) == nil {
		m.Content = s // an answer that is a refusal has no content
	}
	return m.readFunction(raw["function_call"])
}

// readFunction reads the forerunner of tool calls: a call in function_call, and its result in a
// message of the role function, which has the name of the function.
func (m *Message) readFunction(call json.RawMessage) error {
	const prefix = "call_"
	if m.Role == "function" {
		m.Role, m.ToolCallID = "tool", prefix+m.Name
	}
	m.fields.Delete("function_call")
	if isNull(call) || m.ToolCalls != nil {
		return nil
	}
	var function struct{ Name string }
	if err := json.Unmarshal(call, &function); err != nil {
		return fmt.Errorf("function_call: %w", err)
	}
	calls, err := json.Marshal([]map[string]any{{"id": prefix + function.Name, "type": "function",
		"function": call}})
	m.ToolCalls = calls
	return err
}

// textPart is a part of a message. Which fields are set depends on the type.
type textPart struct {
	Type      string
	Text      string
	Refusal   string
	Thinking  string
	Reasoning string
}

// readParts reads a list of content parts. Clients replay the parts of other APIs: their text parts
// have other names, and thoughts stand between them. Parts of other kinds stay, for the template to
// refuse.
func (m *Message) readParts(content json.RawMessage) error {
	m.Parts = content
	var list []json.RawMessage
	if err := json.Unmarshal(content, &list); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	thoughts, changed := "", false
	kept := make([]json.RawMessage, 0, len(list))
	for _, raw := range list {
		var part textPart
		if json.Unmarshal(raw, &part) != nil {
			kept = append(kept, raw) // no part at all, or an image
			continue
		}
		switch part.Type {
		case "input_text", "output_text":
			raw = newTextPart(part.Text)
		case "refusal":
			raw = newTextPart(part.Refusal)
		case "thinking", "reasoning":
			thoughts, changed = join2(thoughts, part.Thinking+part.Reasoning+part.Text), true
			continue
		case "redacted_thinking":
			changed = true
			continue
		default:
			kept = append(kept, raw)
			continue
		}
		kept, changed = append(kept, raw), true
	}
	if m.ReasoningContent == "" {
		m.ReasoningContent = thoughts
	}
	if !changed {
		return nil
	}
	parts, err := json.Marshal(kept)
	m.Parts = parts
	return err
}

func newTextPart(text string) json.RawMessage {
	part, _ := json.Marshal(map[string]string{"type": "text", "text": text}) // cannot fail
	return part
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// value returns the message for the template. It has the keys that the client sent, except that
// content is never null, and the arguments of tool calls are decoded so that templates can iterate
// over them. A list of text parts is joined into a string unless keepParts is set.
func (m *Message) value(keepParts bool) (*jinja.Dict, error) {
	d := jinja.NewDict()
	if m.fields != nil {
		d = m.fields.Clone()
	}
	d.Set("role", valid(m.Role))
	d.Set("content", valid(m.Content))
	if m.Parts != nil {
		parts, err := jinja.FromJSON(m.Parts)
		if err != nil {
			return nil, fmt.Errorf("content: %w", err)
		}
		if text, ok := joinText(parts); ok && !keepParts {
			parts = text
		}
		d.Set("content", parts)
	}
	if m.ReasoningContent != "" {
		d.Set("reasoning_content", valid(m.ReasoningContent))
	}
	if m.ToolCalls != nil {
		calls, err := decodeToolCalls(m.ToolCalls)
		if err != nil {
			return nil, fmt.Errorf("tool_calls: %w", err)
		}
		d.Set("tool_calls", calls)
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", valid(m.ToolCallID))
	}
	if m.Name != "" {
		d.Set("name", valid(m.Name))
	}
	return d, nil
}

// valid replaces invalid UTF-8 with U+FFFD.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// joinText joins content parts into a string, for templates that support only strings. It returns
// false if a part is not text.
func joinText(parts any) (string, bool) {
	list, ok := parts.(*jinja.List)
	if !ok {
		return "", false
	}
	var b strings.Builder
	for _, p := range list.Items {
		d, ok := p.(*jinja.Dict)
		if !ok {
			return "", false
		}
		if kind, has := d.Get("type"); has && kind != "text" {
			return "", false
		}
		v, _ := d.Get("text")
		s, ok := v.(string)
		if !ok {
			return "", false
		}
		b.WriteString(s)
	}
	return b.String(), true
}
