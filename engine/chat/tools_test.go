package chat

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Excerpts of templates that show the two formats.
const (
	coderSource = `{{- '<tool_call>\n<function=' + tool_call.name + '>\n' }}`
	jsonSource  = `{{- "XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}`
)

func TestFormatOf(t *testing.T) {
	for source, want := range map[string]toolFormat{
		coderSource:                                      qwen3Coder{},
		jsonSource:                                       jsonTools{},
		"use\n<tool_call>\n<function=example>\n":         qwen3Coder{},
		`{{- '\n<tool_call>\n{"name": "' }}`:             jsonTools{},
		`<tool_call>{'{"arguments": <args-dict>`:         nil,
		`<tool_call>\n{"arguments": <args-dict>, "name"`: jsonTools{},
		`<tool_call>{function-name}\n<arg_key>`:          nil, // GLM's
		`<|tool_call>call:`:                              nil, // Gemma's
		"{{ messages }}":                                 nil,
	} {
		if got := formatOf(source); got != want {
			t.Errorf("%q: got %T, want %T", source, got, want)
		}
	}
	if format := parseFile(t,
		"../../app/demo/model/chat_template.jinja").format; format != (qwen3Coder{}) {
		t.Errorf("the bundled model's template: %T", format)
	}
}

// offered returns the tools that these tests offer.
func offered() []json.RawMessage {
	return []json.RawMessage{
		json.RawMessage(`{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
			"s":{"type":"string"},"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},"o":{"type":"object"},"l":{"type":"array"}}}}}`),
		json.RawMessage(`{"type":"function","function":{"name":"now"}}`),
	}
}

func toolsOf(t testing.TB, source string) *Tools {
	t.Helper()
	template, err := ParseTemplate(source)
	if err != nil {
		t.Fatal(err)
	}
	tools := template.Tools(offered())
	if tools == nil {
		t.Fatalf("%q: no tools", source)
	}
	return tools
}

// summary returns the pieces of a text on one line: "reasoning | content | calls".
func summary(startInReasoning bool, tools *Tools, pieces []string) string {
	s := NewSplitter(startInReasoning, tools)
	var all []Piece
	for _, p := range pieces {
		all = append(all, s.Add(p)...)
	}
	all = append(all, s.Close()...)
	var reasoning, content string
	var calls []string
	for _, p := range all {
		switch p.Kind {
		case Reasoning:
			reasoning += p.Text
		case Call:
			calls = append(calls, p.Call.Name+p.Call.Arguments)
		default:
			content += p.Text
		}
	}
	return fmt.Sprintf("%s | %s | %s", reasoning, content, strings.Join(calls, " "))
}

// coder returns a call in the format of qwen3Coder.
func coder(name string, pairs ...string) string {
	text := "<tool_call>\n<function=" + name + ">\n"
	for i := 0; i < len(pairs); i += 2 {
		text += "<parameter=" + pairs[i] + ">\n" + pairs[i+1] + "\n</parameter>\n"
	}
	return text + "</function>\n</tool_call>"
}

type toolTest struct {
	name, text       string
	startInReasoning bool
	want             string // see summary
}

var coderTests = []toolTest{
	{"only a call", coder("f", "s", "a", "n", "3"), false, ` |  | f{"s": "a", "n": 3}`},
	{"no arguments", coder("now"), false, " |  | now{}"},
	{"after reasoning", "why\n</think>\n\n" + coder("now"), true, "why |  | now{}"},
	{"text before and after", "Wait.\n\n" + coder("now") + "\n\nDone. ", false,
		" | Wait.Done.  | now{}"},
	{"several", coder("now") + "\n" + coder("f", "n", "1") + "\n and \n" + coder("f", "n", "2"),
		false, ` | and | now{} f{"n": 1} f{"n": 2}`},
	{"without line breaks",
		"<tool_call><function=f><parameter=s>a</parameter><parameter=n>1</parameter></function></tool_call>", false, ` |  | f{"s": "a", "n": 1}`},
	{"more white space",
		"<tool_call> \n\n<function= f >\r\n\n <parameter=n>\n1\n</parameter> </function>\t\n " +
			"</tool_call>", false, ` |  | f{"n": 1}`},
	{"one line break is stripped from each side", coder("f", "s", "\n a\n\n"), false,
		` |  | f{"s": "\n a\n\n"}`},
	{"not offered", coder("g", "n", "3"), false, ` |  | g{"n": "3"}`},
	{"a key twice", coder("f", "n", "1", "s", "a", "n", "2"), false, ` |  | f{"n": 2, "s": "a"}`},
	{"tags in a value", coder("f", "s",
		"<think>\n</think> </function> <tool_call> </tool_call> <parameter=a> </parameter> < </p"),
		false,
		` |  | f{"s": "<think>\n</think> </function> <tool_call> </tool_call> <parameter=a> </parameter> < </p"}`},
	{"quotes and letters", coder("f", "s", "\"é\" \\ & <b>"), false,
		` |  | f{"s": "\"é\" \\ & <b>"}`},
	{"in reasoning", "I may write " + coder("now") + "\n</think>\nNo.", true,
		"I may write " + coder("now") + " | No. | "},
	{"in unclosed reasoning", "<think>" + coder("now"), false, coder("now") + " |  | "},
	{"reasoning between calls", coder("now") + "\n<think>\nhm\n</think>\n\n" + coder("now"), false,
		"hm |  | now{} now{}"},

	{"cut off in a value", "So:\n\n" + "<tool_call>\n<function=f>\n<parameter=s>\nhalf </think> ",
		false, " | So:\n\n<tool_call>\n<function=f>\n<parameter=s>\nhalf </think>  | "},
	{"cut off before the end", strings.TrimSuffix(coder("f", "n", "1"), "call>"), false,
		" | " + strings.TrimSuffix(coder("f", "n", "1"), "call>") + " | "},
	{"cut off in the tag", "a\n<tool_", false, " | a\n<tool_ | "},
	{"cut off after a call", coder("now") + "\n<tool_call>\n<fun", false,
		" | <tool_call>\n<fun | now{}"},

	{"the tag in prose", "Write <tool_call> first. ", false, " | Write <tool_call> first.  | "},
	{"the tag in prose, then a call", "Write <tool_call>: " + coder("now"), false,
		" | Write <tool_call>: | now{}"},
	{"JSON where XML belongs", "<tool_call>\n{\"name\": \"f\"}\n</tool_call> x", false,
		" | <tool_call>\n{\"name\": \"f\"}\n</tool_call> x | "},
	{"no name", "<tool_call>\n<function=>\n</function>\n</tool_call>", false,
		" | <tool_call>\n<function=>\n</function>\n</tool_call> | "},
	{"a name that does not end",
		"<tool_call>\n<function=f\n</function>\n</tool_call>" + coder("now"), false,
		" | <tool_call>\n<function=f\n</function>\n</tool_call> | now{}"},
	{"a name over two lines", "<tool_call>\n<function=f\n<x>\n</function>\n</tool_call>", false,
		" | <tool_call>\n<function=f\n<x>\n</function>\n</tool_call> | "},
	{"text between parameters",
		"<tool_call>\n<function=f>\nhm <parameter=s>\na\n</parameter>\n</function>\n</tool_call>",
		false,
		" | <tool_call>\n<function=f>\nhm " +
			"<parameter=s>\na\n</parameter>\n</function>\n</tool_call> | "},
	{"text after the function", "<tool_call>\n<function=now>\n</function> ok </tool_call>", false,
		" | <tool_call>\n<function=now>\n</function> ok </tool_call> | "},
	{"a parameter that does not end, then a call",
		"<tool_call>\n<function=f>\n<parameter=s>\na\n</function>\n</tool_call>\n" + coder("now"),
		false,
		" | <tool_call>\n<function=f>\n<parameter=s>\na\n</function>\n</tool_call> | now{}"},
	{"a function that does not end, then a call",
		"<tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n</tool_call>\n" + coder("now"),
		false,
		" | <tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n</tool_call> | now{}"},
}

var jsonTests = []toolTest{
	{"only a call",
		"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"a\", \"n\": 3}}\n</tool_call>",
		false, ` |  | f{"s":"a","n":3}`},
	{"arguments first", `<tool_call>{"arguments":{"z":1,"a":2.50},"name":"f"}</tool_call>`, false,
		` |  | f{"z":1,"a":2.50}`},
	{"no arguments",
		`<tool_call>{"name":"now"}</tool_call><tool_call>{"name":"now","arguments":null}</tool_call>`, false, " |  | now{} now{}"},
	{"values are not converted",
		`<tool_call>{"name":"f","arguments":{"n":"null","s":5}}</tool_call>`, false, ` |  | f{"n":"null","s":5}`},
	{"text around", "A\n<tool_call>\n{\"name\":\"now\"}\n</tool_call>\nB", false, " | AB | now{}"},
	{"tags in a string",
		`<tool_call>{"name":"f","arguments":{"s":"</tool_call> \"</tool_call> <think> \\"}}</tool_call>`, false,
		` |  | f{"s":"</tool_call> \"</tool_call> <think> \\"}`},
	{"a line break in a string",
		"<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"a\nb\"}}</tool_call>", false,
		` |  | f{"s":"a\u000ab"}`},
	{"in reasoning", `<tool_call>{"name":"now"}</tool_call></think>x`, true,
		`<tool_call>{"name":"now"}</tool_call> | x | `},
	{"cut off", `<tool_call>{"name":"now"}</tool_`, false,
		` | <tool_call>{"name":"now"}</tool_ | `},
	{"no name", `<tool_call>{"arguments":{}}</tool_call> x`, false,
		` | <tool_call>{"arguments":{}}</tool_call> x | `},
	{"arguments of another type", `<tool_call>{"name":"f","arguments":"{}"}</tool_call>`, false,
		` | <tool_call>{"name":"f","arguments":"{}"}</tool_call> | `},
	{"invalid JSON, then a call",
		`<tool_call>{name: "f"}</tool_call><tool_call>{"name":"now"}</tool_call>`, false,
		` | <tool_call>{name: "f"}</tool_call> | now{}`},
	{"not an object", `<tool_call>now()</tool_call>`, false, ` | <tool_call>now()</tool_call> | `},
	{"a missing quote", `<tool_call>{"name":"f}</tool_call> and`, false,
		` | <tool_call>{"name":"f}</tool_call> and | `},
	{"text after the object", `<tool_call>{"name":"now"} ok</tool_call>`, false,
		` | <tool_call>{"name":"now"} ok</tool_call> | `},
}

// forAllToolTests calls run for every case of both tables.
func forAllToolTests(t *testing.T, run func(t *testing.T, tools *Tools, tt toolTest)) {
	for source, tests := range map[string][]toolTest{coderSource: coderTests,
		jsonSource: jsonTests} {
		tools := toolsOf(t, source)
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%T/%s", tools.format, tt.name),
				func(t *testing.T) { run(t, tools, tt) })
		}
	}
}

func TestToolCalls(t *testing.T) {
	forAllToolTests(t, func(t *testing.T, tools *Tools, tt toolTest) {
		if got := summary(tt.startInReasoning, tools, []string{tt.text}); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	})
}

// TestToolCallPieces checks that the result does not depend on the pieces: every
// split in two, single bytes, and random pieces.
func TestToolCallPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	forAllToolTests(t, func(t *testing.T, tools *Tools, tt toolTest) {
		cuts := [][]string{strings.Split(tt.text, "")}
		for at := range len(tt.text) + 1 {
			cuts = append(cuts, []string{tt.text[:at], tt.text[at:]})
		}
		for range 50 {
			cuts = append(cuts, cut(rng, tt.text))
		}
		for _, pieces := range cuts {
			if got := summary(tt.startInReasoning, tools, pieces); got != tt.want {
				t.Fatalf("cut as %q:\ngot  %s\nwant %s", pieces, got, tt.want)
			}
		}
	})
}

// TestToolCallsStream checks that text is returned as soon as it cannot be part of a call, and that
// a call is returned with its last byte.
func TestToolCallsStream(t *testing.T) {
	s := NewSplitter(false, toolsOf(t, coderSource))
	for _, step := range []struct {
		add, want string
	}{
		{"Hi", "content Hi"}, {" you\n", "content  you"},
		{"<b", "content \n<b"}, {"> <", "content >"},
		{"tool_call>", ""}, {"\n<function=now", ""},
		{">\n</function>\n</tool_call", ""}, {">", "call now"},
		{"\n\n", ""}, {"Done", "content Done"}, {"<tool_call>", ""},
		{"x", "content <tool_call>,content x"},
	} {
		var got []string
		for _, p := range s.Add(step.add) {
			text := p.Text
			if p.Kind == Call {
				text = p.Call.Name
			}
			got = append(got, p.Kind.String()+" "+text)
		}
		if strings.Join(got, ",") != step.want {
			t.Errorf("after %q: got %q, want %q", step.add, got, step.want)
		}
	}
}

// TestNoTools checks that there are no calls unless tools were offered and their
// format is known.
func TestNoTools(t *testing.T) {
	known, unknown := parse(t, coderSource), parse(t, "{{ messages }}")
	if known.Tools(nil) != nil || unknown.Tools(offered()) != nil {
		t.Error("Tools is not nil, although no tools are offered or the format is unknown")
	}
	text := "a\n" + coder("now") + "\n"
	if got, want := summary(false, nil, []string{text}), " | "+text+" | "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzToolParser checks that the result does not depend on the pieces, that calls are valid, and
// that only white space around calls is lost.
func FuzzToolParser(f *testing.F) {
	for _, tt := range coderTests {
		f.Add(tt.text, true, tt.startInReasoning, uint64(1))
	}
	for _, tt := range jsonTests {
		f.Add(tt.text, false, tt.startInReasoning, uint64(1))
	}
	forms := map[bool]*Tools{true: toolsOf(f, coderSource), false: toolsOf(f, jsonSource)}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	f.Fuzz(func(t *testing.T, text string, xml, startInReasoning bool, seed uint64) {
		tools := forms[xml]
		whole := summary(startInReasoning, tools, []string{text})
		if got := summary(startInReasoning, tools,
			cut(rand.New(rand.NewPCG(seed, 0)), text)); got != whole {
			t.Fatalf("cutting changed the result:\n%s\n%s", got, whole)
		}
		s, all := NewSplitter(startInReasoning, tools), ""
		for _, p := range append(s.Add(text), s.Close()...) {
			all += p.Text
			if p.Kind != Call {
				continue
			}
			var arguments map[string]any
			if err := json.Unmarshal([]byte(p.Call.Arguments), &arguments); err != nil ||
				arguments == nil || p.Call.Name == "" {
				t.Fatalf("the call %+v: %v", p.Call, err)
			}
			if raw := strings.TrimSpace(p.Text); !strings.HasPrefix(raw, toolOpen) ||
				!strings.HasSuffix(raw, toolClose) {
				t.Fatalf("the call's text is %q", p.Text)
			}
		}
		if !strings.Contains(text, "think>") && squeeze(all) != squeeze(text) {
			t.Fatalf("%q became %q", text, all)
		}
	})
}
