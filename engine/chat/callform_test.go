package chat

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/grammar"
)

// callTools are functions whose arguments have several types.
var callTools = []json.RawMessage{
	json.RawMessage(`{"type":"function","function":{"name":"send","strict":true,"parameters":{
		"type":"object","properties":{
			"text":{"type":"string"},
			"count":{"type":"integer","minimum":1,"maximum":12},
			"kind":{"enum":["mail","chat"]},
			"list":{"type":"array","items":{"$ref":"#/$defs/word"},"maxItems":2},
			"urgent":{"type":"boolean"},
			"code":{"type":"string","pattern":"^[A-Z]{3}$"},
			"option":{"anyOf":[{"enum":["a","b"],"type":"string"},{"type":"null"}]}},
		"required":["text","count","list","code","option"],"additionalProperties":false,
		"$defs":{"word":{"enum":["a","b"]}}}}}`),
	json.RawMessage(`{"type":"function","function":{"name":"now"}}`),
}

// write returns a random text of a grammar.
func write(t *testing.T, g *grammar.Grammar, r *rand.Rand) string {
	m := g.NewMatcher()
	var text []byte
	for range 4000 {
		if m.Complete() && (m.Ended() || r.IntN(3) == 0) {
			return string(text)
		}
		likely := []byte(`"}<]` + "\n")
		order := append(likely[r.IntN(len(likely)):r.IntN(2)+len(likely)-1:len(likely)], '"', '<')
		if r.IntN(3) > 0 {
			order = order[:0]
		}
		for _, i := range r.Perm(96) {
			order = append(order, byte(' '+i))
		}
		order = append(order, '\n')
		for b := 0x80; b <= 0xFF; b++ {
			order = append(order, byte(b)) // of a tag
		}
		at := len(text)
		for _, b := range order {
			if m.AcceptBytes([]byte{b}) == 1 {
				text = append(text, b)
				break
			}
		}
		if len(text) == at {
			t.Fatalf("nothing may follow %q", text)
		}
	}
	return ""
}

// TestCallForms: what the form of a format writes, its reader reads as calls that fit the schema,
// and as nothing else.
func TestCallForms(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range allFormats {
		template := f.template(t)
		if form, _ := template.callForm(); form == nil || seen[f.format] {
			continue
		}
		seen[f.format] = true
		for _, one := range []bool{true, false} {
			b := grammar.NewBuilder()
			start, err := template.Calls(b, CallOptions{Tools: callTools, One: one,
				IsToken: func(string) bool { return false }})
			if err != nil {
				t.Fatalf("%s: %v", f.format, err)
			}
			g, err := b.Compile(start)
			if err != nil {
				t.Fatalf("%s: %v", f.format, err)
			}
			written := 0
			for seed := range uint64(16) {
				text := write(t, g, rand.New(rand.NewPCG(seed, 1)))
				if text == "" {
					continue // too long
				}
				written++
				checkCalls(t, template, f.format, text, one)
			}
			if written < 2 {
				t.Errorf("%s: only %d texts ended", f.format, written)
			}
		}
	}
	for _, format := range []string{"json_tools", "llama3", "mistral", "qwen3_coder", "seed_oss",
		"glm", "glm47", "glm4", "granite30", "internlm", "nemotron_mini", "harmony", "pythonic",
		"olmo3", "hunyuan_dense", "gemma4", "function_gemma", "nemotron", "command", "apertus",
		"phi4", "granite3", "kimi", "deepseek", "minimax"} {
		if !seen[format] {
			t.Errorf("%s has no test", format)
		}
	}
}

func checkCalls(t *testing.T, template *Template, format, text string, one bool) {
	t.Helper()
	prompt := ""
	if template.channels != nil {
		prompt = "<|start|>assistant"
	}
	split := template.NewSplitter(prompt, callTools)
	pieces := append(split.Add(text), split.Close(false)...)
	calls := 0
	for _, p := range pieces {
		switch {
		case p.Kind == Reasoning && template.channels != nil:
		case p.Kind == Broken && strings.HasSuffix(p.Text, "<|message|>"): // a header
		case p.Kind != Call:
			if !isEndOfCalls(p) {
				t.Fatalf("%s: %q has %s %q", format, text, p.Kind, p.Text)
			}
		default:
			calls++
			if p.Call.Name == "now" {
				continue
			}
			var a struct {
				Text   *string
				Count  *int
				Kind   string
				List   []string
				Urgent *bool
				Code   string
				Option json.RawMessage
			}
			d := json.NewDecoder(strings.NewReader(p.Call.Arguments))
			d.DisallowUnknownFields()
			err := d.Decode(&a)
			if err != nil || p.Call.Name != "send" || a.Text == nil || a.Count == nil ||
				*a.Count < 1 || *a.Count > 12 || a.List == nil || len(a.List) > 2 ||
				a.Kind != "" && a.Kind != "mail" && a.Kind != "chat" || !isCode(a.Code) ||
				!slices.Contains([]string{`"a"`, `"b"`, "null"}, string(a.Option)) {
				t.Fatalf("%s: %q is read as %s %s, %v", format, text, p.Call.Name,
					p.Call.Arguments, err)
			}
		}
	}
	if calls == 0 || one && calls > 1 {
		t.Fatalf("%s: %q is read as %d calls", format, text, calls)
	}
}

// isEndOfCalls reports whether a piece is what follows the last call, such as the end of a list.
func isEndOfCalls(p Piece) bool {
	rest := strings.TrimPrefix(strings.TrimSpace(p.Text), "]")
	return rest == "" || slices.ContainsFunc(toolFormats, func(f *toolFormat) bool {
		return f.close == rest
	})
}

func isCode(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// TestTagsInArguments: an argument that would end early, because it has a tag, is not written.
func TestTagsInArguments(t *testing.T) {
	tool := []json.RawMessage{json.RawMessage(`{"function":{"name":"f","parameters":{"properties":{
		"s":{"type":"string"},"o":{"type":"object"}},"required":["s"]}}}`)}
	tried := 0
	for _, f := range allFormats {
		template := f.template(t)
		if template.tools == nil || template.tools.form == nil {
			continue
		}
		b := grammar.NewBuilder()
		start, err := template.Calls(b, CallOptions{Tools: tool,
			IsToken: func(string) bool { return false }})
		if err != nil {
			t.Fatal(err)
		}
		g, err := b.Compile(start)
		if err != nil {
			t.Fatal(err)
		}
		// The calls of the form with X for the text and Y in the object.
		whole := write(t, g, rand.New(rand.NewPCG(1, 1)))
		for seed := uint64(2); !strings.Contains(whole, "s") && seed < 50; seed++ {
			whole = write(t, g, rand.New(rand.NewPCG(seed, 1)))
		}
		for _, tag := range template.Tags() {
			for _, value := range []string{tag, "a\n" + tag + "b", tag + "\n" + tag, "x" + tag} {
				for at := range whole {
					text := whole[:at] + value + whole[at:]
					m := g.NewMatcher()
					if m.AcceptBytes([]byte(text)) < len(text) || !m.Complete() {
						continue
					}
					tried++
					split := template.NewSplitter("", tool)
					pieces := append(split.Add(text), split.Close(false)...)
					for _, p := range pieces {
						if p.Kind != Call && !isEndOfCalls(p) {
							t.Fatalf("%s: %q has %s %q", f.format, text, p.Kind, p.Text)
						}
					}
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d texts with tags are in the grammars", tried)
	}
}

// TestCallFormErrors: what a form cannot enforce is refused.
func TestCallFormErrors(t *testing.T) {
	for _, c := range []struct{ source, tools, want string }{
		{"<tool_call>\\n<function=", `{"function":{"name":"f","strict":true,"parameters":{
			"properties":{"a":{"type":"string","pattern":"(?<=a)x"}}}}}`,
			`function "f": parameter "a": the schema at "#/properties/a": "pattern" cannot be`},
		{"<tool_call>\\n<function=", `{"function":{"name":"f","strict":true,"parameters":{
			"properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}}}`,
			`function "f": the schema at "#": "anyOf" cannot be enforced`},
		{"<tool_call>\\n<function=", `{"function":{"name":"f","strict":true,"parameters":{
			"properties":{"a":{}},"required":["a","b"]}}}`, `"b" is not among properties`},
		{"<tool_call>\\n<function=", `{"function":{"name":"f","parameters":true}}`,
			`the parameters of a function are an object`},
		{"<tool_call>\\n<function=", `{"function":{"name":"a>b"}}`,
			`function "a>b": its name cannot be written`},
		{"<tool_call>\\n{\"name\"", `{"function":{"name":"f","strict":true,"parameters":{
			"type":"array"}}}`, `the type of its parameters is not "object"`},
		{"<|tool_call:args|>", `{"function":{"name":"f"}}`,
			`there is no grammar of its format of tool calls (solar)`},
		{"<|tool_call_start|>", `{"function":{"name":"f g"}}`,
			`function "f g": its name cannot be written`},
		{"<|tool_call_start|>", `{"function":{"name":"f","strict":true,"parameters":{
			"properties":{"a b":{}}}}}`, `"a b" cannot be a key in this model's tool calls`},
		{"<|tool_call_start|>", `{"function":{"name":"f","strict":true,"parameters":{
			"patternProperties":{"^a":{}},"additionalProperties":false}}}`,
			`"patternProperties" cannot be enforced: this model writes keys without quotation`},
		{"<|tool_call_start|>", `{"function":{"name":"f","strict":true,"parameters":{
			"properties":{"a":{"type":"string","pattern":"(?<=a)x"}}}}}`,
			`function "f": the schema at "#/properties/a": "pattern" cannot be`},
		{"<minimax:tool_call>", `{"function":{"name":"f","parameters":{"properties":{"a b":{}}}}}`,
			`parameter "a b" cannot be written in this model's tool calls`},
		{"<|tool_call_begin|> <|tool_calls_section_begin|>", `{"function":{"name":"` +
			strings.Repeat("f", 1000) + `"}}`, `its name cannot be written`},
		{"<|tool_call>call:", `{"function":{"name":"f{"}}`,
			`function "f{": its name cannot be written`},
		{"<|tool_call>call:", `{"function":{"name":"f","strict":true,"parameters":{
			"properties":{"a":{"type":"object","properties":{"b:":{}}}}}}}`,
			`"b:" cannot be a key in this model's tool calls`},
	} {
		template := (&formatTests{source: c.source}).template(t)
		_, err := template.Calls(grammar.NewBuilder(), CallOptions{
			Tools: []json.RawMessage{json.RawMessage(c.tools)}, IsToken: func(string) bool {
				return false
			}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected %q", c.source, err, c.want)
		}
	}
}

// TestLooseArguments: an argument whose schema cannot be enforced still has its type, unless the
// function is strict.
func TestLooseArguments(t *testing.T) {
	template := (&formatTests{source: "<tool_call>\\n<function="}).template(t)
	b := grammar.NewBuilder()
	start, err := template.Calls(b, CallOptions{IsToken: func(string) bool { return false },
		Tools: []json.RawMessage{json.RawMessage(`{"function":{"name":"f","parameters":{
			"properties":{"a":{"type":"array","uniqueItems":true}},"required":["a"]}}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Compile(start)
	if err != nil {
		t.Fatal(err)
	}
	for value, yes := range map[string]bool{"[2, 2]": true, "2000": false, "text": false} {
		call := "<tool_call>\n<function=f>\n<parameter=a>\n" + value +
			"\n</parameter>\n</function>\n</tool_call>"
		m := g.NewMatcher()
		if got := m.AcceptBytes([]byte(call)) == len(call) && m.Complete(); got != yes {
			t.Errorf("%s: allowed %t, expected %t", value, got, yes)
		}
	}
}

// TestReferences: a $ref of an argument leads from the parameters, as in every schema.
func TestReferences(t *testing.T) {
	template := (&formatTests{source: "<tool_call>\\n<function="}).template(t)
	b := grammar.NewBuilder()
	start, err := template.Calls(b, CallOptions{IsToken: func(string) bool { return false },
		Tools: []json.RawMessage{json.RawMessage(`{"function":{"name":"f","parameters":{
			"properties":{"a":{"enum":["x","y"]},"b":{"$ref":"#/properties/a"}},
			"required":["b"]}}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Compile(start)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]bool{"x": true, "y": true, "z": false} {
		text := "<tool_call>\n<function=f>\n<parameter=b>\n" + value + "\n</parameter>\n" +
			"</function>\n</tool_call>"
		m := g.NewMatcher()
		if got := m.AcceptBytes([]byte(text)) == len(text); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}

// TestManyFunctions compiles the calls of functions whose schemas are large or hard together.
func TestManyFunctions(t *testing.T) {
	list := func(n int, one func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = one(i)
		}
		return strings.Join(parts, ",")
	}
	hard := `{"type":"object","allOf":[` + list(9, func(i int) string {
		return fmt.Sprintf(`{"anyOf":[{"required":["a%d"]},{"required":["b%d"]}]}`, i, i)
	}) + `]}`
	shared := `{"type":"object","properties":{` + list(1000, func(i int) string {
		return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/d%d"}`, i, i)
	}) + `},"$defs":{` + list(3000, func(i int) string {
		return fmt.Sprintf(`"d%d":{"type":"string","description":%q}`, i, strings.Repeat("x", 50))
	}) + `}}`
	tools := func(n int, parameters string) (list []json.RawMessage) {
		for i := range n {
			list = append(list, json.RawMessage(fmt.Sprintf(
				`{"function":{"name":"f%d","parameters":%s}}`, i, parameters)))
		}
		return list
	}
	for _, source := range []string{"<tool_call>\\n<function=", "<tool_call>\\n{\"name\"",
		"<|tool_call_start|>", "<|tool_call>call:"} {
		template := (&formatTests{source: source}).template(t)
		for name, list := range map[string][]json.RawMessage{"many": tools(200, hard),
			"hard arguments": tools(1, `{"properties":{`+list(300, func(i int) string {
				return fmt.Sprintf(`"p%d":%s`, i, hard)
			})+`}}`), "definitions": tools(1, shared)} {
			began := cpuTime(t)
			_, err := template.Calls(grammar.NewBuilder(), CallOptions{Tools: list,
				IsToken: func(string) bool { return false }})
			// Usually 30 ms. Without limits for all functions together, up to 14 s.
			if took := cpuTime(t) - began; took > 400*time.Millisecond && !testing.Short() {
				t.Errorf("%s, %s: it took %v, %v", source, name, took, err)
			}
		}
	}
}

// cpuTime returns the processor time of this process.
func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
