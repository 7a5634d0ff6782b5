package chat

// Templates that know neither tool_calls nor the role tool. Their calls and results are messages
// with a role, or a key, of the template's own. What a client replays takes that form here. The
// form depends only on the message, so that the prompt stays the same as the conversation grows.

import (
	"regexp"
	"strings"

	"headroom/engine/chat/jinja"
)

// callRoles is how a template gets calls and results that it does not know as OpenAI's. The zero
// value changes nothing.
type callRoles struct {
	// result is the role of a result; "": tool.
	result string
	// metadata makes a message of each call: its key metadata has the name of the function, and its
	// content the arguments. Text before the calls is a message of its own.
	metadata bool
}

// toolsKeyMark is how a template reads tools from a message: that of GLM-4-9B.
var toolsKeyMark = regexp.MustCompile(`\bitem\[['"]tools['"]\] is defined`)

// inRoles returns messages and tools for the template. tools may be nil. Where a message has the
// tools, the first one does, and tools is nil then. The messages themselves stay as they are.
func (t *Template) inRoles(messages []any, tools *jinja.List) ([]any, *jinja.List) {
	if t.tools == nil || t.tools.roles == (callRoles{}) {
		return messages, tools
	}
	var out []any
	if t.toolsKey && tools != nil {
		m := newMessage("system", "")
		m.Set("tools", tools)
		out, tools = append(out, m), nil
	}
	for _, item := range messages {
		out = append(out, t.tools.roles.messages(item)...)
	}
	return out, tools
}

// messages returns the messages that take the place of one.
func (r callRoles) messages(item any) []any {
	m, ok := item.(*jinja.Dict)
	switch {
	case !ok:
		return []any{item}
	case roleOf(m) == "tool" && r.result != "":
		m = m.Clone()
		m.Set("role", r.result)
		return []any{m}
	case !r.metadata || len(toolCalls(m)) == 0:
		return []any{m}
	}
	var out []any
	if strings.TrimSpace(contentOf(m)) != "" {
		out = append(out, m.Without("tool_calls"))
	}
	for _, c := range toolCalls(m) {
		call := function(c)
		name, _ := call.Get("name")
		arguments, _ := call.Get("arguments")
		text, ok := arguments.(string)
		if !ok {
			text = argumentsText(arguments)
		}
		message := newMessage("assistant", text)
		message.Set("metadata", name)
		out = append(out, message)
	}
	return out
}

// argumentsText returns arguments as JSON text. Missing ones are an empty object.
func argumentsText(value any) string {
	if value == nil {
		return "{}"
	}
	text, err := jsonOf(value)
	if err != nil {
		return "{}" // does not happen: the bounds grow with the value
	}
	return text
}
