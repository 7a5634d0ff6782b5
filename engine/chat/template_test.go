package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// parseFile parses the template in a file.
func parseFile(t *testing.T, path string) *Template {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := ParseTemplate(string(source))
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// parse parses an excerpt of a template. It counts as one that renders tools.
func parse(t testing.TB, source string) *Template {
	t.Helper()
	tmpl, err := ParseTemplate(source)
	if err != nil {
		t.Fatal(err)
	}
	tmpl.fallback, tmpl.tools = nil, toolFormatOf(source)
	return tmpl
}

func messages(t *testing.T, text string) (list []Message) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestDemoPrompts renders the bundled model's template for the conversations that it was trained
// and evaluated with. testdata/demo_prompts.json has each conversation with the prompt that Jinja2
// renders.
func TestDemoPrompts(t *testing.T) {
	tmpl := parseFile(t, "../../app/demo/model/chat_template.jinja")
	data, err := os.ReadFile("testdata/demo_prompts.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Messages []Message
		Tools    []json.RawMessage
		Thinking bool
		Prompt   string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 28 {
		t.Fatalf("only %d cases", len(cases))
	}
	for i, c := range cases {
		got, err := tmpl.Render(t.Context(),
			Input{Messages: c.Messages, Tools: c.Tools, AddGenerationPrompt: true,
				Kwargs: map[string]any{"enable_thinking": c.Thinking}})
		if err != nil {
			t.Errorf("case %d: %v", i, err)
		} else if got != c.Prompt {
			t.Errorf("case %d:\ngot  %q\nwant %q", i, got, c.Prompt)
		}
	}
}

// goldenTemplates is the folder of a template that may be used in tests but is not distributed.
const goldenTemplates = "../../../shared/goldens/templates"

func TestQwen36Template(t *testing.T) {
	if _, err := os.Stat(goldenTemplates); err != nil {
		t.Skip("skipped: needs the Qwen3.6 chat template in ", goldenTemplates,
			", which is not part of this repository")
	}
	tmpl := parseFile(t, filepath.Join(goldenTemplates, "qwen3.6.jinja"))
	data, err := os.ReadFile(filepath.Join(goldenTemplates, "qwen3.6.input.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(goldenTemplates, "qwen3.6.expected.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Messages            []Message
		Tools               []json.RawMessage
		AddGenerationPrompt bool `json:"add_generation_prompt"`
		EnableThinking      bool `json:"enable_thinking"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render(t.Context(),
		Input{Messages: in.Messages, Tools: in.Tools, AddGenerationPrompt: in.AddGenerationPrompt,
			Kwargs: map[string]any{"enable_thinking": in.EnableThinking}})
	if err != nil || got != string(want) {
		t.Errorf("err %v\ngot  %q\nwant %q", err, got, want)
	}
	_, err = tmpl.Render(t.Context(), Input{Messages: messages(t,
		`[{"role":"user","content":"a"},{"role":"system","content":"b"}]`)})
	if e := new(TemplateError); !errors.As(err, &e) || !e.Raised ||
		e.Message != "System message must be at the beginning." {
		t.Errorf("a late system message: got %v", err)
	}
}

func TestMessageForms(t *testing.T) {
	tests := []struct{ name, template, messages, want string }{
		{"null content is empty", `{{ messages[0].content is string }}{{ messages[0].content }}`,
			`[{"role":"assistant","content":null}]`, "True"},
		{"missing content is empty", `[{{ messages[0].content }}]`, `[{"role":"assistant"}]`, "[]"},
		{"text parts are joined for a template that supports only strings",
			`{{ messages[0].content + '!' }}`,
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			"ab!"},
		{"parts stay a list for a template that loops over them",
			`{% for p in messages[0]['content'] %}<{{ p.text }}>{% endfor %}`,
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			"<a><b>"},
		{"other parts reach the template", `{{ messages[0].content[0].type }}`,
			`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]`,
			"image_url"},
		{"decoded arguments keep their order",
			`{% for k, v in messages[0].tool_calls[0].function.arguments | items %}{{ k }}={{ v | tojson }};{% endfor %}`,
			`[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":[2.0,null],\"m\":\"é\"}"}}]}]`,
			`z=1;a=[2.0, null];m="é";`},
		{"arguments that are not JSON stay text",
			`{{ messages[0].tool_calls[0].function.arguments is string }}`,
			`[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\": "}}]}]`, "True"},
		{"empty arguments become {}", `{{ messages[0].tool_calls[0].function.arguments | tojson }}`,
			`[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":""}}]}]`, "{}"},
		{"reasoning becomes reasoning_content", `{{ messages[0].reasoning_content }}`,
			`[{"role":"assistant","content":"a","reasoning":"why"}]`, "why"},
		{"all keys stay in order, even unknown ones", `{{ messages[0] | tojson }}`,
			`[{"zeta":1,"role":"tool","tool_call_id":"7","content":"r","name":"n"}]`,
			`{"zeta": 1, "role": "tool", "tool_call_id": "7", "content": "r", "name": "n"}`},
	}
	for _, tt := range tests {
		got, err := parse(t, tt.template).Render(t.Context(),
			Input{Messages: messages(t, tt.messages)})
		if err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestMessageErrors(t *testing.T) {
	for _, text := range []string{`1`, `{}`, `{"role":3}`, `{"role":"user","content":3}`,
		`{"role":"user","content":{"text":"x"}}`, `{"role":"assistant","tool_calls":{}}`,
		`{"role":"user","role":""}`} {
		var m Message
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	tmpl := parse(t, "{{ messages }}")
	for name, in := range map[string]Input{
		"tools":      {Tools: []json.RawMessage{json.RawMessage(`{"a":`)}},
		"tool calls": {Messages: []Message{{Role: "assistant", ToolCalls: json.RawMessage(`[3]`)}}},
		"parts":      {Messages: []Message{{Role: "user", Parts: json.RawMessage(`[`)}}},
		"reserved":   {Kwargs: map[string]any{"messages": 1}},
		"kwargs":     {Kwargs: map[string]any{"x": json.RawMessage(`{`)}},
	} {
		if got, err := tmpl.Render(t.Context(), in); err == nil {
			t.Errorf("%s: rendered %q, want an error", name, got)
		}
	}
}

func TestInputVariables(t *testing.T) {
	tests := []struct {
		template string
		in       Input
		want     string
	}{
		{`{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }}`, Input{},
			"True True False"},
		{`{{ enable_thinking is defined }}`, Input{}, "False"},
		{`{{ enable_thinking is false }}`, Input{Kwargs: map[string]any{"enable_thinking": false}},
			"True"},
		{`{{ n }} {{ x }} {{ m | tojson }} {{ o | tojson }}`,
			Input{Kwargs: map[string]any{"n": 5.0, "x": 0.5,
				"m": map[string]any{"b": 1.0, "a": []any{"x"}},
				"o": json.RawMessage(`{"b":1,"a":2.0}`)}},
			`5 0.5 {"a": ["x"], "b": 1} {"b": 1, "a": 2.0}`},
		{`{{ strftime_now("%d %b %Y") }}`, Input{Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)},
			"04 Mar 2026"},
		{`{{ bos_token }}{{ messages[0].role }}`, Input{Kwargs: map[string]any{"bos_token": "<s>"},
			Messages: []Message{{Role: "user", Content: "hi"}}}, "<s>user"},
	}
	for _, tt := range tests {
		got, err := parse(t, tt.template).Render(t.Context(), tt.in)
		if err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v; want %q", tt.template, got, err, tt.want)
		}
	}
}

func TestNoTemplate(t *testing.T) {
	if _, err := ParseTemplate(""); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("got %v", err)
	}
}

// TestConcurrentRender renders one template in several goroutines with different messages.
func TestConcurrentRender(t *testing.T) {
	tmpl := parseFile(t, "../../app/demo/model/chat_template.jinja")
	var wg sync.WaitGroup
	for i := range 8 {
		name := strings.Repeat("x", i+1)
		wg.Go(func() {
			for range 50 {
				got, err := tmpl.Render(t.Context(),
					Input{Messages: []Message{{Role: "user", Content: name}}})
				if want := "<|im_start|>user\n" + name + "<|im_end|>\n"; err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			}
		})
	}
	wg.Wait()
}

// TestLongConversation renders 4,000 messages of 5 kB and a megabyte of tools, which
// must stay below the interpreter's bounds.
func TestLongConversation(t *testing.T) {
	tmpl := parseFile(t, "../../app/demo/model/chat_template.jinja")
	in := Input{AddGenerationPrompt: true}
	for i := range 4000 {
		role := []string{"user", "assistant"}[i%2]
		in.Messages = append(in.Messages,
			Message{Role: role, Content: strings.Repeat("word ", 1000)})
	}
	tool := json.RawMessage(`{"type":"function","function":{"name":"f","parameters":{"a":[` +
		strings.Repeat(`1,`, 5000) + `2]}}}`)
	for range 100 {
		in.Tools = append(in.Tools, tool)
	}
	got, err := tmpl.Render(t.Context(), in)
	if err != nil || strings.Count(got, "<|im_start|>") != 4002 {
		t.Errorf("got %d bytes with %d turns, %v", len(got), strings.Count(got, "<|im_start|>"),
			err)
	}
}

// FuzzMessages renders the bundled template with arbitrary request bodies. It must not panic, and
// two renderings must be equal.
func FuzzMessages(f *testing.F) {
	source, err := os.ReadFile("../../app/demo/model/chat_template.jinja")
	if err != nil {
		f.Fatal(err)
	}
	tmpl, err := ParseTemplate(string(source))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`[{"role":"user","content":"hi"}]`)
	f.Add(
		`[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}]`)
	f.Add(`[{"role":"user","content":[{"type":"text","text":"\ud800"}]}]`)
	f.Fuzz(func(t *testing.T, body string) {
		var list []Message
		if json.Unmarshal([]byte(body), &list) != nil {
			return
		}
		a, errA := tmpl.Render(t.Context(), Input{Messages: list})
		b, errB := tmpl.Render(t.Context(), Input{Messages: list})
		if a != b || (errA == nil) != (errB == nil) {
			t.Fatalf("two renderings differ: %q, %v and %q, %v", a, errA, b, errB)
		}
	})
}
