package chat

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"headroom/engine/grammar"
)

// schemaMaker makes random schemas of arguments.
type schemaMaker struct{ *rand.Rand }

func (m schemaMaker) of(list ...string) string { return list[m.IntN(len(list))] }

func (m schemaMaker) object(depth int) string {
	var properties, required []string
	for _, name := range []string{"a", "b_2", "with-dash", "d"}[:m.IntN(5)] {
		properties = append(properties, fmt.Sprintf("%q:%s", name, m.value(depth-1)))
		if len(required) < 2 && m.IntN(2) == 0 {
			required = append(required, fmt.Sprintf("%q", name))
		}
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` +
		strings.Join(required, ",") + `],` +
		m.of(`"additionalProperties":false`, `"minProperties":0`, `"maxProperties":2`,
			`"additionalProperties":{"type":"integer"}`) + `}`
}

func (m schemaMaker) value(depth int) string {
	if depth > 0 && m.IntN(2) == 0 {
		switch m.IntN(3) {
		case 0:
			return m.object(depth)
		case 1:
			return `{"type":"array","items":` + m.value(depth-1) +
				m.of(`}`, `,"maxItems":2}`, `,"minItems":1}`)
		}
		return `{"anyOf":[` + m.value(depth-1) + `,{"type":"null"}]}`
	}
	return m.of(`{"type":"string"}`, `{"type":"string","maxLength":3}`, `{"type":"boolean"}`,
		`{"type":"string","pattern":"^[A-Z'\"]{2}$"}`, `{"type":"integer","minimum":-3}`,
		`{"type":"number","maximum":9}`, `{"enum":["it's","say \"x\"","'\"",7,true,null]}`,
		`{"const":{"k":[false,null,"'"]}}`, `{"type":["integer","boolean"],"not":{"const":3}}`,
		`{"type":"string","format":"date"}`, `{"type":"string","not":{"const":"a"}}`)
}

// hasControl matches JSON with a control character that is no tab or end of a line.
var hasControl = regexp.MustCompile(`\\[ubf]`)

// aboutSeveral matches what schemas of formats with tags around each argument do not have.
var aboutSeveral = regexp.MustCompile(`,"m..Properties":.}$`)

// TestRandomSchemas: of random schemas, what a form writes is read as arguments that fit. The form
// also takes them as the template and models of the format write them.
func TestRandomSchemas(t *testing.T) {
	for _, format := range []string{"pythonic", "olmo3", "hunyuan_dense", "gemma4",
		"function_gemma", "nemotron", "command", "apertus",
		"phi4", "granite3", "kimi", "deepseek", "minimax",
		"qwen3_coder", "glm"} {
		template := templateOf(t, format)
		tagged := slices.Contains([]string{"minimax", "qwen3_coder", "glm"}, format)
		written, taken := 0, 0
		for seed := range uint64(40) {
			m := schemaMaker{rand.New(rand.NewPCG(seed, 5))}
			schema := m.object(3)
			if tagged {
				schema = aboutSeveral.ReplaceAllString(schema, "}")
			}
			tools := []json.RawMessage{json.RawMessage(`{"type":"function","function":{` +
				`"name":"f","strict":true,"parameters":` + schema + `}}`)}
			g := callGrammar(t, template, tools)
			for range 4 {
				text := write(t, g, m.Rand)
				if text == "" {
					continue // too long
				}
				written++
				arguments := argumentsOf(t, template, text, tools)
				if err := fits(t, schema, arguments); err != nil {
					t.Fatalf("%s, seed %d: %s\n%q is read as %s: %v", format, seed, schema, text,
						arguments, err)
				}
				if tagged || hasControl.MatchString(arguments) {
					continue // no model writes these
				}
				for _, text := range writings(t, format, arguments) {
					taken++
					if n := g.NewMatcher().AcceptBytes([]byte(text)); n < len(text) {
						t.Fatalf("%s, seed %d: %s\n%q is taken up to %q", format, seed, schema,
							text, text[:n])
					}
				}
			}
		}
		if written < 100 || taken < 100 && !tagged {
			t.Errorf("%s: only %d texts ended, and %d were taken", format, written, taken)
		}
	}
}

func callGrammar(t *testing.T, template *Template, tools []json.RawMessage) *grammar.Grammar {
	t.Helper()
	b := grammar.NewBuilder()
	start, err := template.Calls(b, CallOptions{Tools: tools, One: true,
		IsToken: func(string) bool { return false }})
	if err != nil {
		t.Fatalf("%s: %v", tools, err)
	}
	g, err := b.Compile(start)
	if err != nil {
		t.Fatalf("%s: %v", tools, err)
	}
	return g
}

// argumentsOf returns the arguments of the one call in a text.
func argumentsOf(t *testing.T, template *Template, text string, tools []json.RawMessage) string {
	t.Helper()
	split := template.NewSplitter("", tools)
	arguments := ""
	for _, p := range append(split.Add(text), split.Close(false)...) {
		switch {
		case p.Kind == Call && arguments == "":
			arguments = p.Call.Arguments
		case !isEndOfCalls(p) || p.Kind == Call:
			t.Fatalf("%q has %s %q", text, p.Kind, p.Text)
		}
	}
	if arguments == "" {
		t.Fatalf("%q has no call", text)
	}
	return arguments
}

func fits(t *testing.T, schema, value string) error {
	t.Helper()
	c := validator.NewCompiler()
	c.AssertFormat()
	doc, err := validator.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	v, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := validator.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		return err
	}
	return v.Validate(instance)
}

// jsonWritings are calls of f as templates write them. ARGUMENTS are JSON.
var jsonWritings = map[string][]string{
	"nemotron": {`<TOOLCALL>[{"name": "f", "arguments": ARGUMENTS}]</TOOLCALL>`},
	"command": {"<|START_ACTION|>[\n    {\"tool_call_id\": \"7\", \"tool_name\": \"f\", " +
		"\"parameters\": ARGUMENTS}\n]<|END_ACTION|>"},
	"apertus":  {`<|tools_prefix|>[{"f": ARGUMENTS}]<|tools_suffix|>`},
	"phi4":     {`<|tool_call|>[{"name": "f", "arguments": ARGUMENTS}]<|/tool_call|>`},
	"granite3": {`<|tool_call|>[{"name": "f", "arguments": ARGUMENTS}]`},
	"kimi": {"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:12" +
		"<|tool_call_argument_begin|>ARGUMENTS<|tool_call_end|><|tool_calls_section_end|>"},
	"deepseek": {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>ARGUMENTS" +
		"<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\nARGUMENTS\n" +
			"```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
	"hunyuan_dense": {"<tool_calls><tool_call>f\n```json\nARGUMENTS\n```</tool_call></tool_calls>"},
}

// writings returns a call with arguments as models of a format write it.
func writings(t *testing.T, format, arguments string) []string {
	t.Helper()
	if texts := slices.Clone(jsonWritings[format]); texts != nil {
		for i := range texts {
			texts[i] = strings.Replace(texts[i], "ARGUMENTS", spacedJSON(t, arguments), 1)
		}
		return texts
	}
	switch format {
	case "gemma4", "function_gemma":
		f := map[string]*toolFormat{"gemma4": &gemma4, "function_gemma": &functionGemma}[format]
		return []string{f.open[0] + "call:f" + gemmaWriting(t, arguments, f.in[0]) + f.close}
	}
	call := func(value func(json.RawMessage) string) string {
		var parts []string
		eachMember(t, arguments, func(key string, v json.RawMessage) {
			parts = append(parts, key+"="+value(v))
		})
		return "f(" + strings.Join(parts, ", ") + ")"
	}
	asJSON := func(v json.RawMessage) string { return spacedJSON(t, string(v)) }
	if format == "olmo3" {
		return []string{olmo3Open + call(asJSON) + olmo3Close}
	}
	texts := []string{
		// The template: single quotation marks, JSON inside, True and None outside.
		call(func(v json.RawMessage) string {
			if v[0] == '[' || v[0] == '{' {
				return asJSON(v)
			}
			return pythonWriting(t, string(v), "'")
		}),
		call(func(v json.RawMessage) string { return pythonWriting(t, string(v), "'") }),
		call(func(v json.RawMessage) string { return pythonWriting(t, string(v), `"`) }),
	}
	for i := range texts {
		texts[i] = pythonicOpen + "[" + texts[i] + "]" + pythonicClose
	}
	return texts
}

// eachMember calls do for the members of a JSON object, in their order.
func eachMember(t *testing.T, text string, do func(key string, value json.RawMessage)) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	_, err := d.Token()
	for err == nil && d.More() {
		var key json.Token
		var value json.RawMessage
		if key, err = d.Token(); err == nil {
			err = d.Decode(&value)
		}
		if err == nil {
			do(key.(string), value)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// rewritten returns JSON with other marks.
func rewritten(t *testing.T, text, comma, colon string, key, scalar func(string) string) string {
	t.Helper()
	var parts []string
	inner := func(v json.RawMessage) string {
		return rewritten(t, string(v), comma, colon, key, scalar)
	}
	switch text[0] {
	case '{':
		eachMember(t, text, func(k string, v json.RawMessage) {
			parts = append(parts, key(k)+colon+inner(v))
		})
		return "{" + strings.Join(parts, comma) + "}"
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			t.Fatal(err)
		}
		for _, v := range items {
			parts = append(parts, inner(v))
		}
		return "[" + strings.Join(parts, comma) + "]"
	}
	return scalar(text)
}

func spacedJSON(t *testing.T, text string) string {
	same := func(s string) string { return s }
	return rewritten(t, text, ", ", ": ", quote, same)
}

// pythonWriting returns what Python writes for a value. Texts have mark around them.
func pythonWriting(t *testing.T, text, mark string) string {
	str := func(s string) string {
		escapes := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`,
			mark, `\`+mark)
		return mark + escapes.Replace(s) + mark
	}
	return rewritten(t, text, ", ", ": ", str, func(text string) string {
		if word, ok := map[string]string{"true": "True", "false": "False",
			"null": "None"}[text]; ok {
			return word
		}
		var s string
		if json.Unmarshal([]byte(text), &s) == nil {
			return str(s)
		}
		return text
	})
}

func gemmaWriting(t *testing.T, text, mark string) string {
	same := func(s string) string { return s }
	return rewritten(t, text, ",", ":", same, func(text string) string {
		var s string
		if text != "null" && json.Unmarshal([]byte(text), &s) == nil {
			return mark + s + mark
		}
		return text
	})
}

// notationTools are the functions of TestNotations.
var notationTools = []json.RawMessage{
	json.RawMessage(`{"function":{"name":"now"}}`),
	json.RawMessage(`{"function":{"name":"f","strict":true,"parameters":{"type":"object",
		"properties":{"s":{"type":"string"},"b":{"type":["boolean","null"]},"n":{"type":"number"},
			"o":{"type":"object","properties":{"s":{"type":"string"},"l":{"type":"array"}}}},
		"required":["s"]}}}`),
	json.RawMessage(`{"function":{"name":"g","strict":true,"parameters":{"type":"object",
		"properties":{"s":{"type":"string"}},"additionalProperties":{"type":"integer"}}}}`),
}

// TestNotations: calls as they are written by hand, and which of them the forms take. A tag between
// ⟦ and ⟧ is a token.
func TestNotations(t *testing.T) {
	for _, c := range []struct {
		format, text string
		o            CallOptions
		want         bool
	}{
		{"pythonic", `<|tool_call_start|>[f(s="x")]<|tool_call_end|>`, CallOptions{One: true}, true},
		{"pythonic", `<|tool_call_start|>[f(s='it\'s "x"', b=True, n=-1.5e-3)]<|tool_call_end|>`,
			CallOptions{}, true},
		{"pythonic", `<|tool_call_start|>[f(s="it's \"x\"\n", b=None)]<|tool_call_end|>`,
			CallOptions{}, true},
		{"pythonic", `<|tool_call_start|>[f(s="", o={"s": 'a', 'l': [None, true, {"x": []}]})]` +
			`<|tool_call_end|>`, CallOptions{}, true},
		{"pythonic", `<|tool_call_start|>[now(), f(s="x"), now(a=1, b-2={})]<|tool_call_end|>`,
			CallOptions{OneBlock: true}, true},
		{"pythonic", `<|tool_call_start|>[now(), f(s="x")]<|tool_call_end|>`,
			CallOptions{One: true}, false},
		{"pythonic", `<|tool_call_start|>[]<|tool_call_end|>`, CallOptions{}, false},
		{"pythonic", `<|tool_call_start|>[f(b=True)]<|tool_call_end|>`, CallOptions{}, false},
		{"pythonic", `<|tool_call_start|>[f(b=True, s="x")]<|tool_call_end|>`, CallOptions{}, false},
		{"pythonic", `<|tool_call_start|>[f(s="x", c=1)]<|tool_call_end|>`, CallOptions{}, false},
		{"pythonic", `<|tool_call_start|>[f(s="x')]<|tool_call_end|>`, CallOptions{}, false},
		{"pythonic", `<|tool_call_start|>[f(s=x)]<|tool_call_end|>`, CallOptions{}, false},
		{"pythonic", `<|tool_call_start|>[g(s="", n=1)]<|tool_call_end|>`, CallOptions{}, true},
		{"pythonic", `<|tool_call_start|>[g(s=1)]<|tool_call_end|>`, CallOptions{}, false},
		{"pythonic", `<|tool_call_start|>[f("x")]<|tool_call_end|>`, CallOptions{}, false},
		{"pythonic", `⟦<|tool_call_start|>⟧[f(s="</a>")]⟦<|tool_call_end|>⟧`, tokens, true},
		{"pythonic", `<|tool_call_start|>[now()]<|tool_call_end|>`, tokens, false},
		{"olmo3", `<function_calls>f(s="it's", b=true, n=2, o={"s": "", "l": [null]})` + "\nnow()" +
			`</function_calls>`, CallOptions{OneBlock: true}, true},
		{"olmo3", "<function_calls>now()\nnow()</function_calls>", CallOptions{One: true}, false},
		{"olmo3", `<function_calls>f(s='x')</function_calls>`, CallOptions{}, false},
		{"olmo3", `<function_calls>f(s="x", b=None)</function_calls>`, CallOptions{}, false},
		{"olmo3", `<function_calls>[now()]</function_calls>`, CallOptions{}, false},
		{"olmo3", `<function_calls></function_calls>`, CallOptions{}, false},
		{"hunyuan_dense", "<tool_calls><tool_call>f\n```json\n{\"s\": \"```\"}\n```</tool_call>\n" +
			"<tool_call>now\n```json\n{}\n```</tool_call></tool_calls>", CallOptions{}, true},
		{"hunyuan_dense", "<tool_call>now\n```json\n{}\n```</tool_call>",
			CallOptions{OneBlock: true}, true},
		{"hunyuan_dense", "<tool_call>now\n{}</tool_call>", CallOptions{OneBlock: true}, false},
		{"command", "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"now\", " +
			"\"parameters\": {}},\n    {\"tool_call_id\": \"12\", \"tool_name\": \"f\", " +
			"\"parameters\": {\"s\": \"]<|END_ACTION|>\"}}\n]<|END_ACTION|>", CallOptions{}, true},
		{"command", "<|START_ACTION|>[\n    {\"tool_call_id\": \"a\", \"tool_name\": \"now\", " +
			"\"parameters\": {}}\n]<|END_ACTION|>", CallOptions{}, false},
		{"gemma4", `<|tool_call>call:f{s:<|"|>it's "x"` + "\n" + `<|"|>,b:true}<tool_call|>`,
			CallOptions{One: true}, true},
		{"gemma4", `<|tool_call>call:f{s:<|"|><|"|>,o:{s:<|"|>a<|"|>,l:[1,null,{x:[]}]}}` +
			`<tool_call|><|tool_call>call:now{}<tool_call|>`, CallOptions{}, true},
		{"gemma4", `<|tool_call>call:now{}<tool_call|><|tool_call>call:now{}<tool_call|>`,
			CallOptions{OneBlock: true}, false},
		{"gemma4", `<|tool_call>call:now{a:1,größe:<|"|>x<|"|>}<tool_call|>`, CallOptions{}, true},
		{"gemma4", `<|tool_call>call:g{n:1}<tool_call|>`, CallOptions{}, true},
		{"gemma4", `<|tool_call>call:g{s:1}<tool_call|>`, CallOptions{}, false},
		{"gemma4", `<|tool_call>call:now{a b:1}<tool_call|>`, CallOptions{}, false},
		{"gemma4", `<|tool_call>call:f{s:"x"}<tool_call|>`, CallOptions{}, false},
		{"gemma4", `<|tool_call>call:f{b:true}<tool_call|>`, CallOptions{}, false},
		{"gemma4", `⟦<|tool_call>⟧call:f{s:⟦<|"|>⟧x⟦<|"|>⟧}⟦<tool_call|>⟧`, tokens, true},
		{"gemma4", `⟦<|tool_call>⟧call:f{s:⟦<|"|>⟧x<|"|>,⟦<|"|>⟧}⟦<tool_call|>⟧`, tokens, false},
		{"kimi", `<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0` +
			`<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>functions.now:1` +
			`<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`,
			CallOptions{}, true},
		{"kimi", `<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}` +
			`<|tool_call_end|>`, CallOptions{OneBlock: true}, true},
		{"kimi", `<|tool_call_begin|>now<|tool_call_argument_begin|>{}<|tool_call_end|>`,
			CallOptions{OneBlock: true}, false},
		{"minimax", "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a\nb" +
			"</parameter>\n<parameter name=\"n\">3</parameter>\n</invoke>\n" +
			"<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
			CallOptions{OneBlock: true}, true},
		{"minimax", "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a\n" +
			"</parameter>\n</invoke>\n</minimax:tool_call>", CallOptions{}, false},
		{"minimax", "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">Null" +
			"</parameter>\n</invoke>\n</minimax:tool_call>", CallOptions{}, false},
		{"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\nnull\n</parameter>\n" +
			"</function>\n</tool_call>", CallOptions{}, false},
		{"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\nnulls\n</parameter>\n" +
			"<parameter=b>\nnull\n</parameter>\n</function>\n</tool_call>", CallOptions{}, true},
	} {
		o := c.o
		o.Tools = notationTools
		if o.IsToken == nil {
			o.IsToken = func(string) bool { return false }
		}
		b := grammar.NewBuilder()
		start, err := templateOf(t, c.format).Calls(b, o)
		if err != nil {
			t.Fatal(err)
		}
		g, err := b.Compile(start)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("⟦", TagMark, "⟧", TagMark).Replace(c.text)
		m := g.NewMatcher()
		if n := m.AcceptBytes([]byte(text)); (n == len(text) && m.Complete()) != c.want {
			t.Errorf("%s: %q is taken up to %q, expected %t", c.format, text, text[:n], c.want)
		}
	}
}

var tokens = CallOptions{IsToken: func(tag string) bool { return tag != "" }}
