package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"headroom/engine/grammar"
)

// Templates that know neither tool_calls nor the role tool, like those of GLM-4-0414, GLM-4-9B and
// Granite 3.0.
const (
	glm0414Template = `{% if tools %}[system]# 可用工具{% for t in tools %} {{ t.function.name }}` +
		`{% endfor %}{% endif %}{% for m in messages %}{% set meta = m.get("metadata", "") %}` +
		`{% if m.role == 'observation' %}[observation]{{ m.content }}{% elif m.role in ` +
		`['user', 'assistant', 'system'] %}[{{ m.role }}]{{ meta }}
{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}`
	glm9BTemplate = `{% for item in messages %}{% if item['tools'] is defined %}[system]# 可用工具` +
		`{% set tools = item['tools'] %}{% for t in tools %} {{ t['function']['name'] }}{% endfor %}` +
		`{% endif %}{% if item['content'] %}[{{ item['role'] }}]{{ item['metadata'] }}
{{ item['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}`
	granite30Template = `{% if tools %}[tools]{{ tools[0].function.name }}{% endif %}` +
		`{% for m in messages %}{% if m.role == 'assistant_tool_call' %}[assistant]<|tool_call|>` +
		`{{ m.content }}{% elif m.role in ['user', 'assistant', 'system', 'tool_response'] %}` +
		`[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}`
)

const rolesConversation = `[{"role":"user","content":"When?"},
	{"role":"assistant","content":"Wait.","reasoning_content":"hm","tool_calls":[
		{"id":"1","type":"function","function":{"name":"f",
			"arguments":"{\"a\": \"é\", \"o\": {\"k\": [1]}}"}},
		{"id":"2","type":"function","function":{"name":"now","arguments":""}},
		{"id":"3","type":"function","function":{"name":"now","arguments":"{bad"}}]},
	{"role":"tool","tool_call_id":"1","content":"12"},
	{"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"13"}]},
	{"role":"assistant","content":null,"tool_calls":[{"id":"4","function":{"name":"now"}}]},
	{"role":"tool","tool_call_id":"4","content":"14"}]`

// TestCallRoles: calls and results are in the prompt in the template's own roles, and tools where
// it looks for them.
func TestCallRoles(t *testing.T) {
	glmTurns := "[user]\nWhen?[assistant]\nWait.[assistant]f\n" +
		`{"a": "é", "o": {"k": [1]}}` + "[assistant]now\n{}[assistant]now\n{bad" +
		"[observation]12[observation]13[assistant]now\n{}[observation]14[assistant]"
	for _, c := range []struct{ source, want string }{
		{glm0414Template, "[system]# 可用工具 time" + glmTurns},
		{glm9BTemplate, "[system]# 可用工具 time" +
			strings.ReplaceAll(glmTurns, "[observation]", "[observation]\n")},
		{granite30Template, "[tools]time[user]When?[assistant]Wait.\n" +
			`<|tool_call|>[{"name": "f", "arguments": {"a": "é", "o": {"k": [1]}}}, ` +
			`{"name": "now", "arguments": {}}, {"name": "now", "arguments": "{bad"}]` +
			`[tool_response]12[tool_response]13[assistant]<|tool_call|>[{"name": "now", ` +
			`"arguments": {}}][tool_response]14`},
	} {
		template, err := ParseTemplate(c.source)
		if err != nil {
			t.Fatal(err)
		}
		if template.fallback != nil {
			t.Errorf("%s: it ignores tools", c.source)
		}
		arranged, err := template.Arrange(t.Context(), messages(t, rolesConversation), true)
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Messages: arranged, AddGenerationPrompt: true,
			Tools: []json.RawMessage{json.RawMessage(fallbackTool)}}
		got, err := template.Render(t.Context(), in)
		if err != nil || got != c.want {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", c.source, got, err, c.want)
		}
		again, err := template.Render(t.Context(), in)
		if again != got {
			t.Errorf("%s: again %q, %v", c.source, again, err)
		}
	}
}

// TestNameIDs: calls and results have IDs with the name of the function.
func TestNameIDs(t *testing.T) {
	const template = `{% for m in messages %}{% for tool_call in m.tool_calls or [] %}` +
		`<|tool_calls_section_begin|>{{ ID }}={{ tool_call['function']['arguments'] | tojson }} ` +
		`{% endfor %}{% if m.role == 'tool' %}{{ m.tool_call_id }}: {{ m.content }} {% endif %}` +
		`{% endfor %}`
	const conversation = `[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[
			{"id":"call_1","function":{"name":"f","arguments":"{}"}},
			{"id":"call_2","function":{"name":"g","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call_2","content":"2"},{"role":"tool","content":"1"},
		{"role":"assistant","tool_calls":[{"id":"call_3","function":{"name":"f"}}]},
		{"role":"tool","tool_call_id":"other","content":"3"},
		{"role":"tool","tool_call_id":"none","content":"4"}]`
	const byName = "'functions.' + tool_call['function']['name'] + ':' + loop.index0 | string"
	for id, last := range map[string]string{"tool_call['id']": "2", byName: "0"} {
		source := strings.ReplaceAll(template, "ID", id)
		got, err := parse(t, source).Render(t.Context(), Input{Messages: messages(t, conversation)})
		want := strings.ReplaceAll("functions.f:0={} functions.g:1={} functions.g:1: 2 "+
			"functions.f:0: 1 functions.f:N={} functions.f:N: 3 none: 4 ", "N", last)
		if got = strings.ReplaceAll(got, "<|tool_calls_section_begin|>", ""); err != nil ||
			got != want {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", id, got, err, want)
		}
	}
}

// TestRequiredSpelling: required calls are spelled as the templates of these formats do.
func TestRequiredSpelling(t *testing.T) {
	tools := []json.RawMessage{
		json.RawMessage(`{"function":{"name":"f","parameters":{"properties":{"s":{"type":"string"},
			"n":{"type":"integer"}},"required":["s","n"]}}}`),
		json.RawMessage(`{"function":{"name":"now"}}`),
	}
	const object = `{"s": "é", "n": 3}`
	for format, text := range map[string]string{
		"glm47": "<tool_call>f<arg_key>s</arg_key><arg_value>é</arg_value><arg_key>n</arg_key>" +
			"<arg_value>3</arg_value></tool_call><tool_call>now</tool_call>",
		"glm": "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>é</arg_value>\n" +
			"<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
		"glm4":      "f\n" + object + "<|assistant|>now\n{}",
		"granite30": `<|tool_call|>[{"name": "f", "arguments": ` + object + `}]`,
		"internlm": "<|action_start|><|plugin|>\n" + `{"name": "f", "parameters": ` + object +
			"}<|action_end|>",
		"nemotron_mini": `<toolcall> {"name": "f", "arguments": ` + object + `} </toolcall>`,
	} {
		b := grammar.NewBuilder()
		start, err := templateOf(t, format).Calls(b, CallOptions{Tools: tools,
			IsToken: func(string) bool { return false }})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		g, err := b.Compile(start)
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		m := g.NewMatcher()
		if n := m.AcceptBytes([]byte(text)); n < len(text) || !m.Complete() {
			t.Errorf("%s: %q is not taken from %q on", format, text, text[n:])
		}
		split := templateOf(t, format).NewSplitter("", tools)
		calls := callsOf(append(split.Add(text), split.Close(false)...))
		want := 1 + strings.Count(text, "now")
		if len(calls) != want || strings.ReplaceAll(calls[0].Arguments, " ", "") !=
			strings.ReplaceAll(object, " ", "") {
			t.Errorf("%s: %q has the calls %v", format, text, calls)
		}
	}
}
