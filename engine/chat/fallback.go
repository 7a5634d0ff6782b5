package chat

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"headroom/engine/chat/jinja"
)

// Tools for templates that render the same prompt with and without them. The prompt then has an
// instruction that describes the tools and shows how to call them. It ends the system message.
// Where a template renders none, it begins the first message of the user.
//
// Some templates of DeepSeek render calls and their results, though no tools, so the instruction
// shows their format. For all others it shows jsonTools, and messages are written in that format:
//
//   - Calls end the content of their message.
//   - The results of calls are messages of the user. Several in a row are one message, because many
//     templates want the roles to alternate.
//
// Some templates render tools and results, but drop calls, such as those of Granite 3.3 and LFM2.
// There, calls end the content of their message in the template's own format.
//
// See DECISIONS.md.

// fallback is what takes the place of tools in a template that ignores them.
type fallback struct {
	example string // a call, in the format that the instruction shows
	native  bool   // the template renders calls and their results
	system  bool   // the template renders a system message
}

// fallbackTools is the instruction. The others write calls in their formats.
var (
	fallbackTools = mustParse(`You can call functions. Each line between <tools> and </tools> ` +
		`describes one as JSON:
<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools>

To call a function, write its name and its arguments, a JSON object, in this form:
{{ example }}

You may write several calls, one after another, and nothing after the last one. The next message ` +
		`has the results. If no function helps, answer as usual.`)
	jsonCalls = mustParse("{% for call in calls %}{% if not loop.first %}\n\n{% endif %}" +
		"<tool_call>\n{{ {'name': call.name, 'arguments': call.arguments} | tojson }}\n" +
		"</tool_call>{% endfor %}")
	graniteCalls = mustParse("<|tool_call|>[{% for call in calls %}" +
		"{% if not loop.first %}, {% endif %}" +
		"{{ {'name': call.name, 'arguments': call.arguments} | tojson }}{% endfor %}]")
	pythonicCalls = mustParse(pythonicOpen + "[{% for call in calls %}" +
		"{% if not loop.first %}, {% endif %}{{ call.name }}(" +
		"{% if call.arguments is mapping %}{% for key, value in call.arguments | items %}" +
		"{% if not loop.first %}, {% endif %}{{ key }}={{ ([value] | string)[1:-1] }}{% endfor %}" +
		"{% else %}{{ ([call.arguments] | string)[1:-1] }}{% endif %})" +
		"{% endfor %}]" + pythonicClose)
)

func mustParse(source string) *jinja.Template {
	t, err := jinja.Parse(source)
	if err != nil {
		panic(err)
	}
	return t
}

// The texts by which findFallback recognizes what a template renders.
const (
	sampleTool   = "probe_of_tools"
	sampleSystem = "probe of a system message"
	sampleResult = "probe of a result"
)

// findFallback sets what takes the place of tools if the template ignores them. A template that
// reads tools and fails on the messages here is taken for one that renders them.
func (t *Template) findFallback(source string) {
	if t.channels != nil {
		return
	}
	user, system := newMessage("user", "Hello"), newMessage("system", sampleSystem)
	reads := t.jinja.Reads(t.toolsName())
	for _, messages := range [][]any{{user}, {system, user}} {
		if !reads {
			break
		}
		prompt, err := t.renderSample(messages, true)
		if strings.Contains(prompt, sampleTool) {
			t.findCalls()
			return
		}
		reads = err != nil
	}
	if reads {
		return
	}
	prompt, _ := t.renderSample([]any{system, user}, false)
	t.fallback = &fallback{system: strings.Contains(prompt, sampleSystem),
		native: t.tools != nil && t.tools.example != nil}
	if t.fallback.native {
		call, result := t.rendersCalls()
		t.fallback.native = call && result
	}
	if !t.fallback.native {
		t.tools = &jsonTools
	}
	t.fallback.example = t.tools.example(source)
}

// findCalls sets what writes calls, if the template drops them, renders their results and shows a
// format that can be written. It is not asked about others: arrange.go makes text of their calls.
func (t *Template) findCalls() {
	if t.tools == nil || t.tools.write == nil {
		return
	}
	if call, result := t.rendersCalls(); result && !call {
		t.calls = t.tools.write
	}
}

// rendersCalls reports whether the template renders a call and its result.
func (t *Template) rendersCalls() (showsCall, showsResult bool) {
	called := Message{Role: "assistant", ToolCalls: json.RawMessage(`[{"id": "call00001", ` +
		`"type": "function", "function": {"name": "` + sampleTool + `", "arguments": "{}"}}]`)}
	call, err := called.value(false)
	if err != nil {
		return false, false
	}
	messages := jinja.NewList(newMessage("user", "Hello"), call, newMessage("tool", sampleResult))
	prompt, err := t.renderSample(messages.Items, false)
	if err != nil && argumentsAsText(messages) {
		prompt, err = t.renderSample(messages.Items, false)
	}
	return err == nil && strings.Contains(prompt, sampleTool),
		err == nil && strings.Contains(prompt, sampleResult)
}

// toolsName returns the name of the variable for tools. SmolLM3 and FireFunction 2 have their own.
func (t *Template) toolsName() string {
	for _, name := range []string{"tools", "xml_tools", "functions"} {
		if t.jinja.Reads(name) {
			return name
		}
	}
	return "tools"
}

// functionsText is what FireFunction 2's model card makes of tools.
var functionsText = mustParse("{% set list = namespace(of=[]) %}{% for t in tools %}" +
	"{% set list.of = list.of + [t.function or t] %}{% endfor %}{{ list.of | tojson(indent=4) }}")

// setTools sets the variables for tools, which may be nil. FireFunction 2 gets a text, and the date
// without the time: the prompt stays the same for a day.
func (t *Template) setTools(ctx context.Context, vars *jinja.Dict, tools *jinja.List,
	now time.Time) error {
	vars.Set("tools", nil)
	name := t.toolsName()
	if name != "functions" {
		if tools != nil {
			vars.Set(name, tools)
		}
		return nil
	}
	text := ""
	if tools != nil {
		var err error
		with := jinja.NewDict()
		with.Set("tools", tools)
		if text, err = functionsText.Render(ctx, with, now); err != nil {
			return err
		}
	}
	vars.Set(name, text)
	vars.Set("datetime", now.Format(time.DateOnly))
	return nil
}

func newMessage(role, content string) *jinja.Dict {
	m := jinja.NewDict()
	m.Set("role", role)
	m.Set("content", content)
	return m
}

// renderSample renders messages, perhaps with a tool.
func (t *Template) renderSample(messages []any, tool bool) (string, error) {
	vars := jinja.NewDict()
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "pad_token"} {
		vars.Set(name, "")
	}
	vars.Set("add_generation_prompt", true)
	var tools *jinja.List
	if tool {
		v, err := jinja.FromJSON([]byte(`{"type": "function", "function": {"name": "` + sampleTool +
			`", "description": "d", "parameters": {"type": "object", "properties": {"a": ` +
			`{"type": "string", "description": "d"}}, "required": ["a"]}}}`))
		if err != nil {
			return "", err
		}
		tools = jinja.NewList(v)
	}
	items, tools := t.inRoles(messages, tools)
	vars.Set("messages", jinja.NewList(items...))
	ctx, now := context.Background(), time.Unix(0, 0)
	if err := t.setTools(ctx, vars, tools, now); err != nil {
		return "", err
	}
	return t.jinja.Render(ctx, vars, now)
}

// withTools returns messages for the template. It may change them. tools may be nil.
func (f *fallback) withTools(ctx context.Context, messages []any, tools *jinja.List,
	now time.Time) ([]any, error) {
	if !f.native {
		var err error
		if messages, err = inJSON(ctx, messages, now); err != nil {
			return nil, err
		}
	}
	if tools == nil {
		return messages, nil
	}
	vars := jinja.NewDict()
	vars.Set("tools", tools)
	vars.Set("example", f.example)
	text, err := fallbackTools.Render(ctx, vars, now)
	if err != nil {
		return nil, err
	}
	return f.instructed(messages, text), nil
}

// inJSON returns messages with calls in the format jsonTools, and with their results.
func inJSON(ctx context.Context, messages []any, now time.Time) ([]any, error) {
	var out []any
	results := false // the last message has results of calls
	for _, item := range messages {
		m, ok := item.(*jinja.Dict)
		if !ok {
			continue
		}
		role, _ := m.Get("role")
		isResult := role == "tool"
		switch {
		case isResult:
			m = newMessage("user", "<tool_response>\n"+contentOf(m)+"\n</tool_response>")
		case len(toolCalls(m)) > 0:
			var err error
			if m, err = writeCalls(ctx, m, jsonCalls, now); err != nil {
				return nil, err
			}
		}
		if n := len(out); n > 0 && (isResult || role == "user") && (results || isResult) &&
			roleOf(out[n-1]) == "user" {
			addContent(out[n-1].(*jinja.Dict), contentOf(m), "\n")
			results = true
			continue
		}
		out, results = append(out, m), isResult
	}
	return out, nil
}

// instructed returns messages with an instruction.
func (f *fallback) instructed(messages []any, text string) []any {
	role := "user"
	if f.system {
		role = "system"
	}
	at := slices.IndexFunc(messages, func(m any) bool { return roleOf(m) == role })
	if at < 0 || f.system && at > 0 {
		return append([]any{newMessage(role, text)}, messages...)
	}
	m := messages[at].(*jinja.Dict)
	if f.system {
		addContent(m, text, "\n\n")
		return messages
	}
	first := newMessage(role, text)
	addContent(first, contentOf(m), "\n\n")
	content, _ := first.Get("content")
	m.Set("content", content)
	return messages
}

func roleOf(message any) string {
	m, ok := message.(*jinja.Dict)
	if !ok {
		return ""
	}
	role, _ := m.Get("role")
	text, _ := role.(string)
	return text
}

// contentOf returns the text of a message.
func contentOf(m *jinja.Dict) string {
	content, _ := m.Get("content")
	if text, ok := content.(string); ok {
		return text
	}
	text, _ := joinText(content)
	return text
}

// addContent appends text to the content of a message.
func addContent(m *jinja.Dict, text, separator string) {
	if before := contentOf(m); before != "" {
		text = before + separator + text
	}
	m.Set("content", text)
}

// withCalls returns messages whose calls are a part of their content.
func withCalls(ctx context.Context, messages []any, write *jinja.Template, now time.Time) ([]any,
	error) {
	out := slices.Clone(messages)
	for i, item := range out {
		m, ok := item.(*jinja.Dict)
		if !ok || len(toolCalls(m)) == 0 {
			continue
		}
		m, err := writeCalls(ctx, m, write, now)
		if err != nil {
			return nil, err
		}
		out[i] = m
	}
	return out, nil
}

// writeCalls returns a message whose calls end its content.
func writeCalls(ctx context.Context, m *jinja.Dict, write *jinja.Template,
	now time.Time) (*jinja.Dict, error) {
	calls := jinja.NewList()
	for _, call := range toolCalls(m) {
		f := function(call)
		if arguments, _ := f.Get("arguments"); arguments == nil {
			f = f.Clone()
			f.Set("arguments", jinja.NewDict())
		}
		calls.Items = append(calls.Items, f)
	}
	vars := jinja.NewDict()
	vars.Set("calls", calls)
	text, err := write.Render(ctx, vars, now)
	if err != nil {
		return nil, err
	}
	m = m.Without("tool_calls")
	addContent(m, text, "\n")
	return m, nil
}
