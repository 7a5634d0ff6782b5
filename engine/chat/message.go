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
	if calls := raw["tool_calls"]; !isNull(calls) {
		if calls[0] != '[' {
			return fmt.Errorf("tool_calls must be a list, got %.40s", calls)
		}
		m.ToolCalls = calls
	}
	switch content := raw["content"]; {
	case isNull(content):
	case content[0] == '[':
		m.Parts = content
	default:
		if err := json.Unmarshal(content, &m.Content); err != nil {
			return fmt.Errorf("content must be a string or a list of parts, got %.40s", content)
		}
	}
	return nil
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
