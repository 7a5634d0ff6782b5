package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// line ends a line where Jinja2 would drop a line break after a block.
const line = `{{ "\n" }}`

// strangeTemplates render a conversation as lines, and each refuses, drops or moves something.
var strangeTemplates = map[string]string{
	// ChatML: everything in its place
	"all": `{% for m in messages %}{{ m.role }}: {{ m.content }}` +
		`{% for c in m.tool_calls or [] %} {{ c.function.name }}{% endfor %}` + line + `{% endfor %}`,
	// Qwen 3.5
	"system first": `{% for m in messages %}{% if m.role == 'system' and not loop.first %}` +
		`{{ raise_exception('System message must be at the beginning.') }}{% endif %}` +
		`{{ m.role }}: {{ m.content }}` + line + `{% endfor %}`,
	// gpt-oss, MiniMax, SmolLM
	"drops": `{% for m in messages %}{% if m.role != 'system' or loop.first %}{{ m.role }}: ` +
		`{{ m.content }}` + line + `{% endif %}{% endfor %}`,
	// DeepSeek R1: the last system message wins
	"last wins": `{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}` +
		`{% set ns.s = m.content %}{% endif %}{% endfor %}system: {{ ns.s }}` + line +
		`{% for m in messages %}{% if m.role != 'system' %}{{ m.role }}: {{ m.content }}` + line +
		`{% endif %}{% endfor %}`,
	// DeepSeek V3
	"moves": `{% for m in messages %}{% if m.role == 'system' %}system: {{ m.content }}` + line +
		`{% endif %}{% endfor %}{% for m in messages %}{% if m.role != 'system' %}{{ m.role }}: ` +
		`{{ m.content }}` + line + `{% endif %}{% endfor %}`,
	// Gemma 2: no system, no tools, strict turns
	"gemma": `{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}` +
		`{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}` +
		`{{ raise_exception('Conversation roles must alternate') }}{% endif %}` +
		`{{ m.role }}: {{ m.content }}` + line + `{% endfor %}`,
	// Mistral: strict turns, but for calls and results
	"mistral": `{% set ns = namespace(i=0) %}{% for m in messages %}` +
		`{% if m.role == 'user' or m.role == 'assistant' and not m.tool_calls %}` +
		`{% if (m.role == 'user') != (ns.i % 2 == 0) %}` +
		`{{ raise_exception('conversation roles must alternate') }}{% endif %}` +
		`{% set ns.i = ns.i + 1 %}{% elif m.role == 'system' and not loop.first %}` +
		`{{ raise_exception('Only user, assistant and tool roles') }}{% endif %}` +
		`{{ m.role }}: {{ m.content }}` +
		`{% for c in m.tool_calls or [] %} {{ c.function.name }}{% endfor %}` + line + `{% endfor %}`,
	// Ministral, which refuses an answer without text besides
	"ministral": `{% set ns = namespace(i=0) %}{% for m in messages %}` +
		`{% if m.role == 'assistant' and not m.tool_calls and not m.content %}` +
		`{{ raise_exception('must have content') }}{% endif %}` +
		`{% if m.role == 'user' or m.role == 'assistant' and not m.tool_calls %}` +
		`{% if (m.role == 'user') != (ns.i % 2 == 0) %}` +
		`{{ raise_exception('conversation roles must alternate') }}{% endif %}` +
		`{% set ns.i = ns.i + 1 %}{% elif m.role == 'system' and not loop.first %}` +
		`{{ raise_exception('Only user, assistant and tool roles') }}{% endif %}` +
		`{{ m.role }}: {{ m.content }}` +
		`{% for c in m.tool_calls or [] %} {{ c.function.name }}{% endfor %}` + line + `{% endfor %}`,
}

// strangeConversations are conversations that agents have sent.
var strangeConversations = map[string]string{
	"two system messages": `[{"role":"system","content":"A"},{"role":"developer","content":"B"},
		{"role":"user","content":"C"}]`,
	"a later system message": `[{"role":"system","content":"A"},{"role":"user","content":"B"},
		{"role":"assistant","content":"C"},{"role":"system","content":"D"},
		{"role":"user","content":"E"}]`,
	"after the question": `[{"role":"user","content":"A"},{"role":"system","content":"B"},
		{"role":"assistant","content":"C"},{"role":"user","content":"D"}]`,
	"interrupted": `[{"role":"user","content":"A"},{"role":"assistant","content":"B",
		"tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"F","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"abcdefghi","content":"G"},{"role":"user","content":"H"}]`,
	"an answer without text": `[{"role":"user","content":"A"},{"role":"assistant","content":null},
		{"role":"user","content":"B"}]`,
	"text before calls": `[{"role":"user","content":"A"},{"role":"assistant","content":"B"},
		{"role":"assistant","content":"","tool_calls":[{"id":"abcdefghi","type":"function",
			"function":{"name":"F","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"abcdefghi","content":"G"},
		{"role":"assistant","content":"H"},{"role":"user","content":"I"}]`,
	"assistant first": `[{"role":"assistant","content":"A"},{"role":"user","content":"B"}]`,
	"only a system":   `[{"role":"system","content":"A"}]`,
}

// TestArrange shows the form of each conversation for each template.
func TestArrange(t *testing.T) {
	for _, c := range []struct{ template, conversation, want string }{
		{"all", "two system messages", "system: A\n\nB\nuser: C\n"},
		{"gemma", "two system messages", "user: A\n\nB\n\nC\n"},

		{"all", "a later system message", "system: A\nuser: B\nassistant: C\nsystem: D\nuser: E\n"},
		{"system first", "a later system message",
			"system: A\nuser: B\nassistant: C\nuser: D\nuser: E\n"},
		{"drops", "a later system message", "system: A\nuser: B\nassistant: C\nuser: D\nuser: E\n"},
		{"last wins", "a later system message",
			"system: A\nuser: B\nassistant: C\nuser: D\nuser: E\n"},
		{"moves", "a later system message", "system: A\nuser: B\nassistant: C\nuser: D\nuser: E\n"},
		{"gemma", "a later system message", "user: A\n\nB\nassistant: C\nuser: D\n\nE\n"},
		{"mistral", "a later system message",
			"system: A\nuser: B\nassistant: C\nuser: D\n\nE\n"},

		{"all", "after the question", "user: A\nsystem: B\nassistant: C\nuser: D\n"},
		{"drops", "after the question", "user: A\nuser: B\nassistant: C\nuser: D\n"},
		{"mistral", "after the question", "user: A\n\nB\nassistant: C\nuser: D\n"},

		{"all", "interrupted", "user: A\nassistant: B F\ntool: G\nuser: H\n"},
		{"mistral", "interrupted", "user: A\nassistant: B F\ntool: G\nassistant: \nuser: H\n"},
		{"ministral", "interrupted", "user: A\nassistant: B F\ntool: G\nassistant: OK.\nuser: H\n"},
		{"gemma", "interrupted",
			"user: A\nassistant: B\n\n{\"name\":\"F\",\"arguments\":\"{}\"}\nuser: G\n\nH\n"},

		{"system first", "interrupted",
			"user: A\nassistant: B\n\n{\"name\":\"F\",\"arguments\":\"{}\"}\nuser: G\nuser: H\n"},

		{"mistral", "an answer without text", "user: A\nassistant: \nuser: B\n"},
		{"ministral", "an answer without text", "user: A\n\nB\n"},
		{"all", "text before calls",
			"user: A\nassistant: B\nassistant:  F\ntool: G\nassistant: H\nuser: I\n"},
		{"mistral", "text before calls",
			"user: A\nassistant: B F\ntool: G\nassistant: H\nuser: I\n"},
		{"all", "assistant first", "assistant: A\nuser: B\n"},
		{"mistral", "assistant first", "user: \nassistant: A\nuser: B\n"},
		{"all", "only a system", "system: A\n"},
		{"gemma", "only a system", "user: A\n"},
	} {
		template := parse(t, strangeTemplates[c.template])
		got, err := renderArranged(t, template, messages(t, strangeConversations[c.conversation]))
		if err != nil || got != c.want {
			t.Errorf("%s, %s: %v\ngot  %q\nwant %q", c.template, c.conversation, err, got, c.want)
		}
	}
}

func renderArranged(t *testing.T, template *Template, list []Message) (string, error) {
	t.Helper()
	arranged, err := template.Arrange(t.Context(), list, false)
	if err != nil {
		t.Fatal(err)
	}
	return template.Render(t.Context(), Input{Messages: arranged})
}

// TestArrangeShowsEverything checks for every template and conversation that the prompt has all
// texts in their order, but for those beside calls. With HEADROOM_TEMPLATES, which `make
// oracle-templates` sets, it does so for the templates of that folder, too.
func TestArrangeShowsEverything(t *testing.T) {
	sources := map[string]string{}
	for name, source := range strangeTemplates {
		sources[name] = source
	}
	folder := os.Getenv("HEADROOM_TEMPLATES")
	files, _ := filepath.Glob(filepath.Join(folder, "*.jinja"))
	for _, file := range append(files, "../../app/demo/model/chat_template.jinja") {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources[filepath.Base(file)] = string(source)
	}
	if folder != "" && len(files) < 60 {
		t.Errorf("only %d templates", len(files))
	}
	for name, source := range sources {
		template := parse(t, source).WithSpecialTokens(map[string]string{"bos_token": "<s>",
			"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"})
		if _, err := template.Render(t.Context(), Input{Messages: messages(t,
			`[{"role":"user","content":"x"}]`)}); err != nil {
			continue // it needs tools, or variables of its own
		}
		for title, conversation := range strangeConversations {
			t.Run(name+"/"+title, func(t *testing.T) { checkArranged(t, template, conversation) })
		}
	}
}

// checkArranged gives every text of a conversation another name, so that the prompt has it once.
func checkArranged(t *testing.T, template *Template, conversation string) {
	var list []map[string]any
	if err := json.Unmarshal([]byte(conversation), &list); err != nil {
		t.Fatal(err)
	}
	var words []string
	for i, m := range list {
		text, _ := m["content"].(string)
		if text == "" {
			continue
		}
		m["content"] = "Word" + text + "."
		// Some templates drop the text of a message with calls, or show it after the results.
		if m["tool_calls"] == nil && (i+1 == len(list) || list[i+1]["tool_calls"] == nil) {
			words = append(words, "Word"+text+".")
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := renderArranged(t, template, messages(t, string(data)))
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for i, word := range words {
		n := strings.Index(prompt[at:], word)
		if n < 0 {
			t.Fatalf("%q is not after %q in the prompt:\n%s", word, words[:i], prompt)
		}
		if i > 0 || list[0]["role"] != "system" { // Mistral Nemo has it in the last message
			at += n
		}
	}
}

// TestArrangeKeepsOthers checks that the messages themselves are not changed.
func TestArrangeKeepsOthers(t *testing.T) {
	template := parse(t, strangeTemplates["gemma"])
	for _, conversation := range strangeConversations {
		list := messages(t, conversation)
		if _, err := template.Arrange(t.Context(), list, true); err != nil {
			t.Fatal(err)
		}
		for i, m := range messages(t, conversation) {
			if got, want := asJSON(t, list[i]), asJSON(t, m); got != want {
				t.Errorf("%s: message %d became %s", conversation, i, got)
			}
		}
	}
}

// asJSON returns all that a template sees of a message.
func asJSON(t *testing.T, m Message) string {
	t.Helper()
	text, err := parse(t, `{{ messages | tojson }}`).Render(t.Context(),
		Input{Messages: []Message{m}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
