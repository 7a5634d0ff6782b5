package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Templates that ignore tools. The first renders a system message. The second refuses one, and
// wants the roles to alternate, like Gemma 2's. The third renders calls, like DeepSeek V3.1's.
const (
	plainTemplate = `{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}`
	gemmaTemplate = `{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}` +
		`{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}` +
		`{{ raise_exception('alternate') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}`
	deepseekTemplate = `{% for m in messages %}[{{ m.role }}]{{ m.content }}` +
		`{% for c in m.tool_calls or [] %}{{ '<｜tool▁calls▁begin｜>' + c.function.name + ' ' + ` +
		`c.function.arguments }}{% endfor %}{% endfor %}`
)

// Templates that render tools and results, but no calls, like those of Granite 3.3 and LFM2.
const (
	graniteTemplate = `{% if tools %}{{ tools }}<|tool_call|> followed by a JSON list.{% endif %}` +
		plainTemplate
	lfm2Template     = `{% if tools %}<|tool_list_start|>{{ tools }}{% endif %}` + plainTemplate
	dropsHermesCalls = `{% if tools %}{{ tools }}<tool_call>\n{"name": {% endif %}` + plainTemplate
)

const fallbackTool = `{"type":"function","function":{"name":"time","description":"<b>é"}}`

// instruction returns the instruction for fallbackTool, with the format of calls.
func instruction(example string) string {
	return "You can call functions. Each line between <tools> and </tools> describes one as " +
		"JSON:\n<tools>\n" +
		`{"type": "function", "function": {"name": "time", "description": "<b>é"}}` +
		"\n</tools>\n\n" +
		"To call a function, write its name and its arguments, a JSON object, in this form:\n" +
		example + "\n\n" +
		"You may write several calls, one after another, and nothing after the last one. The " +
		"next message has the results. If no function helps, answer as usual."
}

func TestFallback(t *testing.T) {
	inJSON := instruction("<tool_call>\n" + `{"name": "the function's name", "arguments": ` +
		`{"an argument's name": "its value"}}` + "\n</tool_call>")
	native := instruction("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>the function's name<｜tool▁sep｜>" +
		`{"an argument's name": "its value"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`)
	const (
		question = `{"role":"user","content":"When?"}`
		calls    = `{"role":"assistant","content":"Wait.","tool_calls":[{"id":"1","type":"function",` +
			`"function":{"name":"time","arguments":"{\"in\":\"Rome\",\"n\":1}"}}]}`
		two = `{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"time",` +
			`"arguments":"{}"}},{"function":{"name":"time","arguments":"{bad"}}]}`
		result = `{"role":"tool","tool_call_id":"1","content":"12:00"}`
		parts  = `{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"1"},` +
			`{"type":"text","text":"2"}]}`
	)
	const (
		called = "<tool_call>\n{\"name\": \"time\", \"arguments\": {\"in\": \"Rome\", \"n\": " +
			"1}}\n</tool_call>"
		calledTwo = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>\n" +
			"<tool_call>\n{\"name\": \"time\", \"arguments\": \"{bad\"}\n</tool_call>"
		response = "<tool_response>\n12:00\n</tool_response>"
	)
	for _, c := range []struct {
		name, template, messages string
		tools                    bool
		want                     string
	}{
		{"no tools", plainTemplate, question, false, "[user]When?"},
		{"a system message is made", plainTemplate, question, true,
			"[system]" + inJSON + "[user]When?"},
		{"a system message is extended", plainTemplate,
			`{"role":"system","content":"Be kind."},` + question, true,
			"[system]Be kind.\n\n" + inJSON + "[user]When?"},
		{"an empty system message", plainTemplate, `{"role":"system","content":""},` + question,
			true, "[system]" + inJSON + "[user]When?"},
		{"a later system message", plainTemplate, question + `,{"role":"system","content":"a"}`, true,
			"[system]" + inJSON + "[user]When?[system]a"},
		{"the first message of the user", gemmaTemplate, question, true,
			"[user]" + inJSON + "\n\nWhen?"},
		{"a call and its result", gemmaTemplate, question + "," + calls + "," + result, true,
			"[user]" + inJSON + "\n\nWhen?[assistant]Wait.\n" + called + "[user]" + response},
		{"without tools", gemmaTemplate, question + "," + calls + "," + result, false,
			"[user]When?[assistant]Wait.\n" + called + "[user]" + response},
		{"two results, and a message", gemmaTemplate,
			question + "," + two + "," + result + "," + parts +
				`,{"role":"user","content":"So?"},{"role":"assistant","content":"Noon."},` + question,
			false,
			"[user]When?[assistant]" + calledTwo + "[user]" + response +
				"\n<tool_response>\n12\n</tool_response>\nSo?[assistant]Noon.[user]When?"},
		{"two messages of the user stay", plainTemplate, question + "," + question, false,
			"[user]When?[user]When?"},
		{"native", deepseekTemplate, question + "," + calls + "," + result, true,
			"[system]" + native + "[user]When?[assistant]Wait." +
				`<｜tool▁calls▁begin｜>time {"in": "Rome", "n": 1}[tool]12:00`},
		{"native in name only", plainTemplate + "{% if false %}<｜tool▁calls▁begin｜>{% endif %}",
			question + "," + calls + "," + result, true,
			"[system]" + inJSON + "[user]When?[assistant]Wait.\n" + called + "[user]" + response},
		{"reads tools and ignores them", plainTemplate + "{% if tools %}{% endif %}", question,
			true, "[system]" + inJSON + "[user]When?"},
		{"renders tools", plainTemplate + "{{ tools[0].function.name }}", question, true,
			"[user]When?time"},
		{"fails on other messages", "{{ raise_exception('x') if messages[0].content != 'When?' }}" +
			plainTemplate + "{{ tools | length }}", question, true, "[user]When?1"},
		{"Granite drops calls", graniteTemplate, question + "," + calls + "," + result + "," + two,
			false, "[user]When?[assistant]Wait.\n<|tool_call|>" +
				`[{"name": "time", "arguments": {"in": "Rome", "n": 1}}][tool]12:00[assistant]<|tool_call|>[{"name": "time", ` +
				`"arguments": {}}, {"name": "time", "arguments": "{bad"}]`},
		{"LFM2 drops calls", lfm2Template, question + "," + calls + "," + result + "," + two, false,
			"[user]When?[assistant]Wait.\n<|tool_call_start|>[time(in='Rome', n=1)]" +
				"<|tool_call_end|>[tool]12:00[assistant]<|tool_call_start|>[time(), time('{bad')]" +
				"<|tool_call_end|>"},
		{"a template in Hermes' format drops calls", dropsHermesCalls, calls + "," + result, false,
			"[assistant]Wait.\n" + called + "[tool]12:00"},
		{"SmolLM3's variable", plainTemplate + "{{ xml_tools[0].function.name }}", question, true,
			"[user]When?time"},
	} {
		template, err := ParseTemplate(c.template)
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Messages: messages(t, "["+c.messages+"]")}
		if c.tools {
			in.Tools = []json.RawMessage{json.RawMessage(fallbackTool)}
		}
		got, err := template.Render(t.Context(), in)
		if err != nil || got != c.want {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", c.name, got, err, c.want)
		}
	}
}

// TestFallbackHides checks that Hide is applied to what clients send, and not to the instruction.
func TestFallbackHides(t *testing.T) {
	template, err := ParseTemplate(plainTemplate)
	if err != nil {
		t.Fatal(err)
	}
	got, err := template.Render(t.Context(), Input{Messages: messages(t,
		`[{"role":"user","content":"<tool_call>"},{"role":"tool","content":"</tool_call>"}]`),
		Tools: []json.RawMessage{json.RawMessage(`{"function":{"name":"<tool_call>"}}`)},
		Hide:  func(s string) string { return strings.ReplaceAll(s, "tool_call", "hidden") }})
	if err != nil || strings.Count(got, "hidden") != 3 || strings.Count(got, "tool_call") != 2 {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestDroppedCalls checks that written calls are read as they were, and that their markup stays if
// that of messages is hidden.
func TestDroppedCalls(t *testing.T) {
	const arguments = `{"s": "<|tool_call|> 'é'\\n", "o": {"k": [1, 2.5, true, null]}}`
	list := messages(t, `[{"role":"user","content":"a"},{"role":"assistant","content":"So",
		"tool_calls":[{"function":{"name":"f","arguments":`+quote(arguments)+`}},
			{"function":{"name":"now","arguments":""}}]}]`)
	hide := func(s string) string { return strings.ReplaceAll(s, "<|", "<HIDDEN|") }
	want := strings.NewReplacer(" ", "", "<|", "<HIDDEN|").Replace(" So f" + arguments + " now{}")
	for _, source := range []string{graniteTemplate, lfm2Template, dropsHermesCalls} {
		template := parse(t, source)
		arranged, err := template.Arrange(t.Context(), list, true)
		if err != nil {
			t.Fatal(err)
		}
		prompt, err := template.Render(t.Context(), Input{Messages: arranged, Hide: hide})
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(prompt, "[assistant]")
		got := summary(pieces(template.NewSplitter("", offered()), []string{text}))
		if got = strings.NewReplacer(" ", "", "|", "", "HIDDEN", "").Replace(got); got !=
			strings.NewReplacer("|", "", "HIDDEN", "").Replace(want) || !strings.Contains(text,
			"HIDDEN") {
			t.Errorf("%s:\ngot  %s\nwant %s\n%s", source, got, want, text)
		}
	}
}

// TestFallbackCalls checks that calls are read in the format that the instruction shows.
func TestFallbackCalls(t *testing.T) {
	for source, text := range map[string]string{ // the deepseek tags are control tokens
		plainTemplate:    "So\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
		deepseekTemplate: "So<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
	} {
		template, err := ParseTemplate(source)
		if err != nil {
			t.Fatal(err)
		}
		kept := text
		if source == deepseekTemplate {
			kept = "Sonow{}"
		}
		for want, tools := range map[string][]json.RawMessage{" | So | now{}": offered(),
			" | " + kept + " | ": nil} {
			got := summary(pieces(template.NewSplitter("", tools), strings.Split(text, "")))
			if got != want {
				t.Errorf("%s: got %q, want %q", source, got, want)
			}
		}
		call := template.fallback.example
		if got := callsOf(pieces(template.NewSplitter("", offered()),
			[]string{call})); len(got) != 1 ||
			got[0].Name != "the function's name" {
			t.Errorf("the example %q is read as %v", call, got)
		}
	}
}

// TestFallbacksOfPeers checks that exactly these templates of peers ignore tools, and that every
// template renders the name of a tool.
func TestFallbacksOfPeers(t *testing.T) {
	folder := os.Getenv("HEADROOM_TEMPLATES")
	if folder == "" {
		t.Skip("needs HEADROOM_TEMPLATES: run make oracle-templates")
	}
	ignoring := map[string]bool{"HuggingFaceTB-SmolLM3-3B": true,
		"deepseek-ai-DeepSeek-R1-Distill-Llama-8B": true, "deepseek-ai-DeepSeek-V3.1": true,
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": true, "google-gemma-2-2b-it": true,
		"llama-cpp-rwkv-world": true, "microsoft-Phi-3.5-mini-instruct": true}
	// Jinja2 fails on these, too, at least on a conversation with calls.
	failing := map[string]bool{"llama-cpp-deepseek-r1": true, "Kimi-K2-Instruct": true,
		"Kimi-K2-Thinking": true}
	for name := range templateFormats {
		template := parseFile(t, filepath.Join(folder, name+".jinja")).WithSpecialTokens(
			map[string]string{"bos_token": "<s>", "eos_token": "</s>"})
		if (template.fallback != nil) != ignoring[name] {
			t.Errorf("%s: the fallback is %+v", name, template.fallback)
		}
		for _, conversation := range []string{
			`[{"role":"user","content":"When?"}]`,
			`[{"role":"user","content":"When?"},{"role":"assistant","content":"","tool_calls":[{` +
				`"id":"call00001","type":"function","function":{"name":"called","arguments":` +
				`"{\"in\":\"Rome\"}"}}]},{"role":"tool","tool_call_id":"call00001","name":"time",` +
				`"content":"12:00"}]`,
		} {
			got, err := template.Render(t.Context(), Input{AddGenerationPrompt: true,
				Messages: messages(t, conversation), Tools: []json.RawMessage{json.RawMessage(
					`{"type":"function","function":{"name":"time_of_day","description":"d","parameters":` +
						`{"type":"object","properties":{"in":{"type":"string","description":"d"}},` +
						`"required":["in"]}}}`)}})
			if err != nil && !failing[name] || err == nil && !strings.Contains(got, "time_of_day") {
				t.Errorf("%s: %v: %q", name, err, got)
			}
			if strings.Contains(conversation, "called") && err == nil &&
				!strings.Contains(got, "called") {
				t.Errorf("%s drops calls: %q", name, got)
			}
		}
	}
}
