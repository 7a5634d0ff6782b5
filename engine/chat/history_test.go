package chat

import (
	"slices"
	"strings"
	"testing"
)

// mistralCheck is the check of Mistral's templates.
const mistralCheck = `{%- for message in messages %}
{%- for call in message.tool_calls or [] %}
{%- if not call.id is defined or call.id|length != 9 %}
{{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
{%- endif %}call {{ call.id }} {% endfor %}
{%- if message.role == "tool" %}
{%- if not message.tool_call_id is defined or message.tool_call_id|length != 9 %}
{{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
{%- endif %}result {{ message.tool_call_id }} {% endif %}
{%- endfor %}`

// idsIn renders a call with an ID and its result, and returns both IDs.
func idsIn(t *testing.T, template, id string) (call, result string) {
	t.Helper()
	prompt, err := parse(t, template).Render(t.Context(), Input{Messages: messages(t, `[
		{"role":"assistant","tool_calls":[{"id":"`+id+`","function":{"name":"f"}}]},
		{"role":"tool","tool_call_id":"`+id+`","content":"x"}]`)})
	if err != nil {
		t.Fatalf("%q: %v", id, err)
	}
	fields := strings.Fields(prompt)
	if len(fields) != 4 {
		t.Fatalf("%q: the prompt is %q", id, prompt)
	}
	return fields[1], fields[3]
}

func TestShortIDs(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"call_0123456789abcdef01234567", "call_0123456789abcdef01234568",
		"call_1", "call-1234", "ééééééééé", "aB3dE6gH9"} {
		call, result := idsIn(t, mistralCheck, id)
		if again, _ := idsIn(t, mistralCheck, id); call != result || again != call {
			t.Errorf("%q: the call has %q, the result %q, the next prompt %q", id, call, result,
				again)
		}
		if !shortID.MatchString(call) || shortID.MatchString(id) && call != id {
			t.Errorf("%q became %q", id, call)
		}
		if other, ok := seen[call]; ok {
			t.Errorf("%q and %q became %q", id, other, call)
		}
		seen[call] = id
	}
}

// TestMissingIDs checks that calls without IDs and their results get well-formed ones, which match.
func TestMissingIDs(t *testing.T) {
	const sent = `{"role":"user","content":"?"},
		{"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"id":"","function":{"name":"g"}}]},
		{"role":"tool","content":"x"},{"role":"tool","tool_call_id":null,"content":"y"},
		{"role":"assistant","tool_calls":[{"id":null,"function":{"name":"f"}},
			{"id":"aB3dE6gH9","function":{"name":"f"}}]},
		{"role":"tool","tool_call_id":"aB3dE6gH9","content":"x"},{"role":"tool","content":"y"}`
	render := func(messages []Message) []string {
		prompt, err := parse(t, mistralCheck).Render(t.Context(), Input{Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(prompt)
	}
	got := render(messages(t, "["+sent+"]"))
	if len(got) != 16 {
		t.Fatalf("the prompt is %q", got)
	}
	a, b, c, d := got[1], got[3], got[9], got[11]
	want := []string{"call", a, "call", b, "result", a, "result", b, "call", c, "call", d, "result",
		d,
		"result", c}
	if !slices.Equal(got, want) || d != "aB3dE6gH9" || a == b || a == c || b == c ||
		!shortID.MatchString(a) || !shortID.MatchString(b) || !shortID.MatchString(c) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if grown := render(messages(t, "["+sent+`,{"role":"user","content":"?"}]`)); !slices.Equal(
		grown, got) {
		t.Errorf("after another message: %q", grown)
	}
}

func TestOtherTemplatesKeepIDs(t *testing.T) {
	template := strings.ReplaceAll(mistralCheck, "!= 9", "< 1")
	if call, result := idsIn(t, template, "call_1"); call != "call_1" || result != "call_1" {
		t.Errorf("got %q and %q", call, result)
	}
}

func TestArgumentsThatAreNoObject(t *testing.T) {
	const (
		loop = `{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name }}(` +
			`{% for k, v in c.function.arguments|items %}{{ k }}={{ v }},{% endfor %})` +
			`{% endfor %}{% endfor %}`
		prints = `{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name }}(` +
			`{{ c.function.arguments }}){% endfor %}{% endfor %}`
	)
	for _, c := range []struct{ arguments, template, want string }{
		{`"{bad"`, loop, "f(arguments={bad,)g(a=1,)"},
		{`"{bad"`, prints, "f({bad)g({'a': 1})"},
		{`"[1, 2]"`, loop, "f(arguments=[1, 2],)g(a=1,)"},
		{`"null"`, loop, "f()g(a=1,)"},
		{`null`, loop, "f()g(a=1,)"},
		{`""`, loop, "f()g(a=1,)"},
		{`"{\"b\": 2}"`, loop, "f(b=2,)g(a=1,)"},
	} {
		got, err := parse(t, c.template).Render(t.Context(), Input{Messages: messages(t,
			`[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":`+c.arguments+
				`}},{"function":{"name":"g","arguments":"{\"a\":1}"}}]}]`)})
		if err != nil || got != c.want {
			t.Errorf("%s with %s: got %q, %v; expected %q", c.arguments, c.template, got, err,
				c.want)
		}
	}
}

// TestOtherFailuresStay checks that the error is that of the messages as they were sent.
func TestOtherFailuresStay(t *testing.T) {
	_, err := parse(t, `{{ raise_exception(messages[0].tool_calls[0].arguments ~ "") }}`).Render(
		t.Context(), Input{Messages: messages(t,
			`[{"role":"assistant","tool_calls":[{"name":"f","arguments":"{bad"}]}]`)})
	if err == nil || !strings.HasSuffix(err.Error(), "{bad") {
		t.Errorf("got error %v", err)
	}
}

// TestReplayedMessages checks what a template sees of messages that clients replay, in the forms of
// several APIs.
func TestReplayedMessages(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{`{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"text","text":"b"}]}`,
			`{"role": "user", "content": "ab"}`},
		{`{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},
			{"type":"redacted_thinking","data":"d"},{"type":"output_text","text":"a"}]}`,
			`{"role": "assistant", "content": "a", "reasoning_content": "t"}`},
		{`{"role":"assistant","content":[{"type":"reasoning","text":"t"},
			{"type":"reasoning","reasoning":"u"},{"type":"text","text":"a"}]}`,
			`{"role": "assistant", "content": "a", "reasoning_content": "t\n\nu"}`},
		{`{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}`,
			`{"role": "assistant", "content": "No."}`},
		{`{"role":"assistant","content":null,"refusal":"No.","tool_calls":null,"audio":null}`,
			`{"role": "assistant", "content": "No.", "refusal": "No."}`},
		{`{"role":"assistant","content":"a","tool_calls":[ ],"function_call":null,"name":null}`,
			`{"role": "assistant", "content": "a"}`},
		{`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", ` +
				`"arguments": {"a": 1}}, "id": "call_f", "type": "function"}]}`},
		{`{"role":"function","name":"f","content":"1"}`,
			`{"role": "tool", "name": "f", "content": "1", "tool_call_id": "call_f"}`},
		{`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"custom",
			"custom":{"name":"f","input":"ls"}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", ` +
				`"function": {"name": "f", "arguments": {"input": "ls"}}}]}`},
	} {
		got := strings.Trim(asJSON(t, messages(t, "["+c.message+"]")[0]), "[]")
		if got != strings.Trim(c.want, "[]") {
			t.Errorf("%s:\ngot  %s\nwant %s", c.message, got, c.want)
		}
	}
}

// TestNamedResults: results get the name of their function where a template demands one, and only
// there.
func TestNamedResults(t *testing.T) {
	const demands = `{% for m in messages %}{% if m.role == 'tool' %}{% if m.name is not defined %}` +
		`{{ raise_exception("no name") }}{% endif %}{{ m.name }}={{ m.content }} {% endif %}` +
		`{% endfor %}`
	const conversation = `{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}},
		{"id":"2","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"2","content":"x"},
		{"role":"tool","tool_call_id":"1","content":"y"}`
	list := messages(t, `[`+conversation+`,{"role":"tool","name":"h","content":"z"}]`)
	got, err := parse(t, demands).Render(t.Context(), Input{Messages: list})
	if err != nil || got != "g=x f=y h=z " {
		t.Errorf("got %q, %v", got, err)
	}
	asks := strings.ReplaceAll(demands, `{{ raise_exception("no name") }}`, "?")
	got, err = parse(t, asks).Render(t.Context(), Input{Messages: list})
	if err != nil || got != "?=x ?=y h=z " {
		t.Errorf("a template that only asks: got %q, %v", got, err)
	}
	list = messages(t, `[`+conversation+`,{"role":"tool","content":"z"}]`)
	if got, err := parse(t, demands).Render(t.Context(), Input{Messages: list}); err == nil {
		t.Errorf("a result without a call: got %q", got)
	}
}
