package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// toolTest is a text that a model writes, and what becomes of it.
type toolTest struct {
	name, text       string
	startInReasoning bool   // the prompt ends with the opening tag of reasoning
	want             string // see summary
}

// formatTests are the cases of one format.
type formatTests struct {
	format string
	source string // an excerpt of a template that shows the format
	tests  []toolTest
}

func (f *formatTests) template(t testing.TB) *Template {
	t.Helper()
	return parse(t, "{% raw %}"+f.source+"{% endraw %}")
}

// offered returns the tools that these tests offer.
func offered() []json.RawMessage {
	return []json.RawMessage{
		json.RawMessage(`{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
			"s":{"type":"string"},"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},"o":{"type":"object"},"l":{"type":"array"}}}}}`),
		json.RawMessage(`{"type":"function","function":{"name":"now"}}`),
		json.RawMessage(`{"type":"function","function":{"name":"h","parameters":{"properties":{
			"list":{"type":"array","items":{"type":"integer"}},
			"at":{"type":"object","properties":{"x":{"type":"number"},"tag":{"type":"string"}}}}}}}`),
	}
}

// splitterOf returns the Splitter of an answer to a prompt that ends inside reasoning or not.
func splitterOf(template *Template, startInReasoning bool) *Splitter {
	prompt := "assistant"
	switch {
	case template.channels != nil:
		prompt = template.channels.start + prompt
	case startInReasoning:
		prompt += template.reasoning.open
	case template.tools != nil && template.tools.prompted:
		prompt += template.tools.open[0]
	}
	return template.NewSplitter(prompt, offered())
}

// pieces returns the pieces of a text that arrives in parts.
func pieces(s *Splitter, parts []string) (all []Piece) {
	for _, p := range parts {
		all = append(all, s.Add(p)...)
	}
	return append(all, s.Close(false)...)
}

// summary returns pieces on one line: "reasoning | content | calls".
func summary(all []Piece) string {
	var reasoning, content string
	var calls []string
	for _, p := range all {
		switch p.Kind {
		case Reasoning:
			reasoning += p.Text
		case Call:
			calls = append(calls, p.Call.Name+p.Call.Arguments)
		case Content:
			content += p.Text
		}
	}
	return fmt.Sprintf("%s | %s | %s", reasoning, content, strings.Join(calls, " "))
}

// forAllToolTests calls run for every case of every format.
func forAllToolTests(t *testing.T, run func(t *testing.T, template *Template, tt toolTest)) {
	for _, f := range allFormats {
		template := f.template(t)
		for _, tt := range f.tests {
			t.Run(f.format+"/"+tt.name, func(t *testing.T) { run(t, template, tt) })
		}
	}
}

func TestToolCalls(t *testing.T) {
	forAllToolTests(t, func(t *testing.T, template *Template, tt toolTest) {
		all := pieces(splitterOf(template, tt.startInReasoning), []string{tt.text})
		if got := summary(all); got != tt.want {
			t.Errorf("%q:\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
	})
}

// TestToolCallPieces checks that the result does not depend on the pieces: every
// split in two, single bytes, and random pieces.
func TestToolCallPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	forAllToolTests(t, func(t *testing.T, template *Template, tt toolTest) {
		cuts := [][]string{strings.Split(tt.text, "")}
		for at := range len(tt.text) + 1 {
			cuts = append(cuts, []string{tt.text[:at], tt.text[at:]})
		}
		for range 50 {
			cuts = append(cuts, cut(rng, tt.text))
		}
		for _, parts := range cuts {
			all := pieces(splitterOf(template, tt.startInReasoning), parts)
			if got := summary(all); got != tt.want {
				t.Fatalf("cut as %q:\ngot  %s\nwant %s", parts, got, tt.want)
			}
		}
	})
}

// TestCutOff ends every answer after each of its bytes. The calls are then the first ones of the
// whole answer, and no tag is in the content. If the model would have gone on, neither is the
// beginning of a tag, unless it is short.
func TestCutOff(t *testing.T) {
	forAllToolTests(t, func(t *testing.T, template *Template, tt toolTest) {
		whole := callsOf(pieces(splitterOf(template, tt.startInReasoning), []string{tt.text}))
		for at := range len(tt.text) {
			s := splitterOf(template, tt.startInReasoning)
			all := append(s.Add(tt.text[:at]), s.Close(true)...)
			calls := callsOf(all)
			if len(calls) > len(whole) || !slices.Equal(calls, whole[:len(calls)]) {
				t.Fatalf("%q has the calls %v, the whole answer %v", tt.text[:at], calls, whole)
			}
			checkPieces(t, template, all)
			for _, tag := range template.Tags() {
				for n := minPartial; n < len(tag); n++ {
					if strings.HasSuffix(contentIn(all), tag[:n]) && !isInside(template, tag) {
						t.Fatalf("%q ends with a part of %s", contentIn(all), tag)
					}
				}
			}
			all = pieces(splitterOf(template, tt.startInReasoning), []string{tt.text[:at]})
			checkPieces(t, template, all)
		}
	})
}

func contentIn(all []Piece) (content string) {
	for _, p := range all {
		if p.Kind == Content {
			content += p.Text
		}
	}
	return content
}

// isInside reports whether a tag is only dropped inside calls.
func isInside(template *Template, tag string) bool {
	return template.channels != nil || !slices.Contains(template.tools.outside(), tag) &&
		tag != template.reasoning.open && tag != template.reasoning.close
}

func callsOf(all []Piece) (calls []ToolCall) {
	for _, p := range all {
		if p.Kind == Call {
			calls = append(calls, p.Call)
		}
	}
	return calls
}

// checkPieces checks what holds for every text: calls are valid, and no tag is in the content.
func checkPieces(t *testing.T, template *Template, all []Piece) {
	t.Helper()
	content := ""
	for _, p := range all {
		if p.Text == "" && p.Kind != Call {
			t.Fatal("a piece without text")
		}
		if p.Kind == Content {
			content += p.Text
		}
		if p.Kind != Call {
			continue
		}
		var arguments map[string]any
		if err := json.Unmarshal([]byte(p.Call.Arguments), &arguments); err != nil ||
			arguments == nil || p.Call.Name == "" {
			t.Fatalf("the call %+v: %v", p.Call, err)
		}
	}
	tags := template.Tags()
	if template.tools != nil && !template.tools.control {
		tags = append([]string{template.reasoning.open, template.reasoning.close},
			template.tools.outside()...)
	}
	for _, tag := range tags {
		if strings.Contains(content, tag) && !slices.Contains(inTags(template), tag) {
			t.Fatalf("the content %q contains %s", content, tag)
		}
	}
}

// inTags returns the tags that are dropped only inside calls, or where a call follows.
func inTags(template *Template) []string {
	if template.tools == nil {
		return nil
	}
	tags := append(slices.Clone(template.tools.in), template.reasoning.mark)
	if template.tools.prose {
		tags = append(tags, template.tools.open...)
	}
	return tags
}

// TestFormatsOfTemplates checks which format each excerpt selects, and the templates of peers if
// they are there.
func TestFormatsOfTemplates(t *testing.T) {
	for _, f := range allFormats {
		if got := formatName(f.template(t)); got != f.format {
			t.Errorf("%q: got %q, want %q", f.source, got, f.format)
		}
	}
	if got := formatName(parseFile(t,
		"../../app/demo/model/chat_template.jinja")); got != "qwen3_coder" {
		t.Errorf("the bundled model's template: %q", got)
	}
	if got := formatName(parse(t, "{{ messages }}")); got != "" {
		t.Errorf("a template without tools: %q", got)
	}
	folder := os.Getenv("HEADROOM_TEMPLATES")
	if folder == "" {
		return
	}
	all := maps.Clone(templateFormats)
	maps.Copy(all, moreFormats)
	for name, want := range all {
		if got := formatName(parseFile(t, filepath.Join(folder, name+".jinja"))); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func formatName(t *Template) string {
	switch {
	case t.channels != nil:
		return t.channels.name
	case t.tools != nil:
		return t.tools.name
	}
	return ""
}

// TestTags checks that no tag of a format begins with another one: the result would depend on the
// pieces of the text.
func TestTags(t *testing.T) {
	for _, f := range allFormats {
		template := f.template(t)
		tags := template.Tags()
		if template.channels == nil {
			tags = append([]string{template.reasoning.open, template.reasoning.close},
				template.tools.outside()...)
		}
		for i, a := range tags {
			for j, b := range tags {
				if i != j && strings.HasPrefix(a, b) {
					t.Errorf("%s: %s begins with %s", f.format, a, b)
				}
			}
		}
	}
}

// TestToolCallsStream checks that text is returned as soon as it cannot be part of a call, and that
// a call is returned with its last byte.
func TestToolCallsStream(t *testing.T) {
	s := splitterOf(parse(t, coderSource), false)
	for _, step := range []struct {
		add, want string
	}{
		{"Hi", "content Hi"}, {" you\n", "content  you"},
		{"<b", "content \n<b"}, {"> <", "content >"},
		{"tool_call>", ""}, {"\n<function=now", ""},
		{">\n</function>\n</tool_call", ""}, {">", "call now"},
		{"\n\n", ""}, {"Done", "content Done"}, {"<tool_call>", ""},
		{"x", "broken <tool_call>,content x"},
		{" <func", ""}, {"tion=g", ""}, {">", "content  <function=,content g>"},
		{"\n<function=now", ""}, {">\n</function", ""}, {">", "call now"},
		{"\n</tool_call>\n", ""}, {"End", "content End"},
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

// TestNestedElements checks that elements nest no deeper than maxElements.
func TestNestedElements(t *testing.T) {
	for depth, want := range map[int]string{
		maxElements: ` |  | g{"k": ` + strings.Repeat(`{"k": `, maxElements-1) + `"x"` +
			strings.Repeat("}", maxElements),
		maxElements + 1: " |  | ",
	} {
		text := "^<tool_call>^<invoke name=\"g\">" + strings.Repeat("^<k>", depth) + "x" +
			strings.Repeat("^</k>", depth) + "^</invoke>^</tool_call>"
		s := splitterOf(parse(t, "]<]minimax[>["), false)
		if got := summary(pieces(s, []string{m3(text)})); got != want {
			t.Errorf("%d elements: got %s, want %s", depth, got, want)
		}
	}
}

// TestNoTools checks that there are no calls unless tools were offered and their format is known.
// What the model wrote is content then, without tags that are control tokens.
func TestNoTools(t *testing.T) {
	known, unknown := parse(t, coderSource), parse(t, "{{ messages }}{{ tools }}")
	if known.Tools(nil) != nil || unknown.Tools(offered()) != nil {
		t.Error("Tools is not nil, although no tools are offered or the format is unknown")
	}
	gemma := parse(t, "{{ tools }}<|tool_call><|channel>")
	llama := parse(t, `{{ tools }}{% raw %}"parameters": dictionary of argument name{% endraw %}`)
	olmo := parse(t, "{{ tools }}<function_calls></function_calls>")
	harmony := parse(t, "{{ tools }}<|start|>assistant<|channel|>analysis<|message|>")
	hunyuan := parse(t, "{{ tools }}<tool_call>function_name\n```json")
	for _, c := range []struct {
		template   *Template
		text, want string
	}{
		{known, coder("now"), coder("now")},
		{known, "a\n" + coder("now") + "\nb", "a\n" + coder("now") + "\nb"},
		{known, "a\n" + coder("f", "s", "x")[:40], "a\n" + coder("f", "s", "x")[:40]},
		{known, "<tool_call>\n<function=f>hm</function></tool_call>x",
			"<tool_call>\n<function=f>hm</function></tool_call>x"},
		{known, "Write `<tool_call>` and `</tool_call>` or  <tool_call> .",
			"Write `<tool_call>` and `</tool_call>` or  <tool_call> ."},
		{known, "Write <tool_call> or <tool", "Write <tool_call> or <tool"},
		{known, "a\n<function=now>\n</function>", "a\n<function=now>\n</function>"},
		{parse(t, jsonSource), "a <tool_call>{\"name\":\"now\"}</tool_call>",
			"a <tool_call>{\"name\":\"now\"}</tool_call>"},
		{gemma, "a\n<|tool_call>call:now{}<tool_call|>\n", "a\ncall:now{}"},
		{gemma, "<|tool_call>call:now{}<tool_call|>", "call:now{}"},
		{gemma, "<|tool_call>call:now{s:", "call:now{s:"},
		{gemma, "Write <|tool_call> .", "Write ."},
		{harmony, "<|channel|>commentary to=functions.now<|message|>{}<|call|>", "{}"},
		{harmony, "<|channel|>commentary to=functions.now<|message|>{\"a\"", "{\"a\""},
		{llama, `{"name": "f", "parameters": {`, `{"name": "f", "parameters": {`},
		{olmo, "Write <function_calls> .", "Write <function_calls> ."},
		{olmo, "a <function_calls>now()</function_calls>",
			"a <function_calls>now()</function_calls>"},
		{hunyuan, "Write <tool_call> and ```json or <tool_calls>",
			"Write <tool_call> and ```json or <tool_calls>"},
		{hunyuan, "a<tool_call>now\n```json\n{}\n```</tool_call>",
			"a<tool_call>now\n```json\n{}\n```</tool_call>"},
	} {
		if got := summary(pieces(c.template.NewSplitter("", nil), []string{c.text})); got !=
			" | "+c.want+" | " {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// TestNoToolsKeepText checks all formats: an answer with a call has content if no tools were
// offered, and it does not depend on the pieces.
func TestNoToolsKeepText(t *testing.T) {
	forAllToolTests(t, func(t *testing.T, template *Template, tt toolTest) {
		whole := pieces(template.NewSplitter("", nil), []string{tt.text})
		bytes := pieces(template.NewSplitter("", nil), strings.Split(tt.text, ""))
		if got, want := summary(bytes), summary(whole); got != want {
			t.Errorf("%q: in bytes %s, whole %s", tt.text, got, want)
		}
		calls := tt.want[strings.LastIndex(tt.want, " | ")+3:]
		if tt.name == "no arguments" && template.channels != nil {
			return // only a header
		}
		if got := summary(whole); calls != "" && strings.Trim(got, " |") == "" {
			t.Errorf("%q: the answer is empty", tt.text)
		}
	})
}

// TestRefuseCalls checks all formats: the calls are gone, and the rest stays.
func TestRefuseCalls(t *testing.T) {
	forAllToolTests(t, func(t *testing.T, template *Template, tt toolTest) {
		s := splitterOf(template, tt.startInReasoning)
		s.RefuseCalls()
		want := tt.want[:strings.LastIndex(tt.want, " | ")+3]
		if got := summary(pieces(s, strings.Split(tt.text, ""))); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", tt.text, got, want)
		}
	})
}

// TestCutOffInACall checks that a call in a value is not taken for one if the answer was cut off in
// the value.
func TestCutOffInACall(t *testing.T) {
	const text = `a<minimax:tool_call><invoke name="f"><parameter name="s">The end is ` +
		`</minimax:tool_call> as in <minimax:tool_call><invoke name="now"></invoke>`
	for cutOff, want := range map[bool]string{true: " | a | ", false: " | a as in | now{}"} {
		s := splitterOf(parse(t, "<minimax:tool_call>"), false)
		if got := summary(append(s.Add(text), s.Close(cutOff)...)); got != want {
			t.Errorf("cut off: %t: got %q, want %q", cutOff, got, want)
		}
	}
}

// TestEndsWithCall checks that an answer that ends right after a call is known to be complete.
func TestEndsWithCall(t *testing.T) {
	object := `<tool_call>{"name":"now"}</tool_call>`
	for text, want := range map[string]bool{
		"a" + object: true, object + "\n": true, object + "\nb": false, "a": false, "": false,
		object + "<": false, object + "<tool_ca": false, object + "\n<tool_call>": false,
		object + "<tool_call>{": false, object + object: true, object + "<think>b": false,
		object + "<tool_call>hm</tool_call>": false, object[:len(object)-1]: false,
	} {
		s := splitterOf(parse(t, jsonSource), false)
		s.Add(text)
		s.Close(true)
		if s.EndsWithCall() != want {
			t.Errorf("%q: got %t", text, !want)
		}
	}
	const block = `<minimax:tool_call><invoke name="now"></invoke>`
	const message = "<|channel|>commentary to=functions.now<|message|>"
	for _, c := range []struct {
		source, text string
		want         bool
	}{
		{"<minimax:tool_call>", block, true},
		{"<minimax:tool_call>", block + "\n</minimax:tool_call>\n", true},
		{"<minimax:tool_call>", block + "<invoke", false},
		{"<|start|>assistant<|channel|>analysis<|message|>", message + "{}", true},
		{"<|start|>assistant<|channel|>analysis<|message|>", message + "{}<|call|>", true},
		{"<|start|>assistant<|channel|>analysis<|message|>", message + "{", false},
		{"<|start|>assistant<|channel|>analysis<|message|>", message + "{}<|call|><|start|>ass",
			false},
	} {
		s := splitterOf(parse(t, "{% raw %}"+c.source+"{% endraw %}"), false)
		s.Add(c.text)
		s.Close(true)
		if s.EndsWithCall() != c.want {
			t.Errorf("%q: got %t", c.text, !c.want)
		}
	}
}

// TestToolUse checks that requests with tools get the tags, calls and effort of the template
// tool_use, and that its tags are among those of both.
func TestToolUse(t *testing.T) {
	plain := parse(t, "{{ enable_thinking }}")
	both := plain.WithToolUse(parse(t, `{% if reasoning_effort in ['xhigh'] %}{% endif %}`+
		"{# <|START_THINKING|><|START_ACTION|> <|python_tag|> #}"))
	text := "<|START_THINKING|>why<|END_THINKING|><|START_ACTION|>[{\"tool_name\":\"now\"}]" +
		"<|END_ACTION|>"
	for _, tt := range []struct {
		tools []json.RawMessage
		want  string
	}{{offered(), "why |  | now{}"}, {nil, " | " + text + " | "}} {
		got := summary(pieces(both.NewSplitter("", tt.tools), []string{text}))
		if got != tt.want {
			t.Errorf("%d tools: got %q, want %q", len(tt.tools), got, tt.want)
		}
	}
	if got := both.EffortVariables("", nil, true)["reasoning_effort"]; got != "low" {
		t.Errorf("with tools, the effort is %v", got)
	}
	if got := both.EffortVariables("none", nil, false)["enable_thinking"]; got != false {
		t.Errorf("without tools, enable_thinking is %v", got)
	}
	if plain.Tools(offered()) != nil || both.Tools(offered()) == nil {
		t.Error("Tools is not that of tool_use")
	}
	for _, tag := range []string{"<think>", "<|START_ACTION|>"} {
		if !slices.Contains(both.Tags(), tag) {
			t.Errorf("%s is not among the tags", tag)
		}
	}
	if got := both.WithToolUse(parse(t, kimiMark)).EndTags(); !slices.Contains(got, kimiEnd) {
		t.Errorf("the end tags are %v", got)
	}
}

const kimiMark, kimiEnd = "<|open|><|sep|>", "<|end_of_msg|>"

// FuzzToolParser checks for all formats that the result does not depend on the pieces, that calls
// are valid, that no tag is in the content, and that nothing but white space and tags is lost.
func FuzzToolParser(f *testing.F) {
	var templates []*Template
	for i, format := range allFormats {
		templates = append(templates, format.template(f))
		for _, tt := range format.tests {
			f.Add(tt.text, uint8(i), tt.startInReasoning, uint64(1))
		}
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	f.Fuzz(func(t *testing.T, text string, format uint8, startInReasoning bool, seed uint64) {
		template := templates[int(format)%len(templates)]
		all := pieces(splitterOf(template, startInReasoning), []string{text})
		parts := cut(rand.New(rand.NewPCG(seed, 0)), text)
		whole := summary(all)
		if got := summary(pieces(splitterOf(template, startInReasoning), parts)); got != whole {
			t.Fatalf("%s: cut as %q:\n%s\n%s", formatName(template), parts, got, whole)
		}
		checkPieces(t, template, all)
		joined, plain := "", true
		for _, p := range all {
			joined += p.Text
		}
		for _, tag := range template.Tags() {
			plain = plain && !strings.Contains(text, tag)
		}
		if plain && template.channels == nil && squeeze(joined) != squeeze(text) {
			t.Fatalf("%q became %q", text, joined)
		}
	})
}
