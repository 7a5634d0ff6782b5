package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestConvert checks the rules at the top of arguments.go.
func TestConvert(t *testing.T) {
	cases := []struct{ kind, text, want string }{
		{"string", "a", `"a"`}, {"string", "5", `"5"`}, {"string", "", `""`},
		{"", "true", `"true"`}, {"enum", "[1]", `"[1]"`},
		{"string", "null", "null"}, {"", "NULL", "null"}, {"integer", "Null", "null"},
		{"object", "null", "null"}, {"string", "null ", `"null "`},
		{"integer", "5", "5"}, {"int", "-5", "-5"}, {"int32", "+7", "7"}, {"uint8", "007", "7"},
		{"long", "0", "0"}, {"short", "-0", "0"},
		{"unsigned", "123456789012345678901234567890", "123456789012345678901234567890"},
		{"integer", "5.0", "5"}, {"integer", "1e3", "1000"}, {"integer", " 5 ", "5"},
		{"integer", "-0.0", "0"},
		{"integer", "5.5", `"5.5"`}, {"integer", "soon", `"soon"`}, {"integer", "", `""`},
		{"integer", "inf", `"inf"`}, {"integer", "nan", `"nan"`},
		{"integer", "0x10", `"0x10"`}, {"integer", "1_000", `"1_000"`},
		{"integer", "1e999", `"1e999"`},
		{"number", "5", "5"}, {"number", "5.0", "5"}, {"number", "-2.5", "-2.5"},
		{"float", ".5", "0.5"}, {"number", "1e-7", "1e-7"}, {"number", "2.", "2"},
		{"number", "1e22", "10000000000000000000000"},
		{"float64", "x", `"x"`}, {"number", ".", `"."`},
		{"boolean", "true", "true"}, {"bool", "True", "true"}, {"boolean", "false", "false"},
		{"boolean", "yes", "false"}, {"binary", "TRUE", "true"},
		{"object", `{"b": 1, "a": [true]}`, `{"b":1,"a":[true]}`},
		{"array", "[1, 2.50]", "[1,2.50]"}, {"dict[str]", `{"a":"x y"}`, `{"a":"x y"}`},
		{"list", "[\"a\nb\tc\"]", `["a\u000ab\u0009c"]`}, {"object", `"text"`, `"text"`},
		{"object", "{'a': True, 'b': [None, (1, 2,)]}", `{"a":true,"b":[null,[1,2]]}`},
		{"arr", "['it''s']", `"['it''s']"`},
		{"array", "a, b", `"a, b"`}, {"object", "{", `"{"`}, {"array", "", `""`},
		{"any", "[1, 2]", "[1,2]"}, {"any", `{"x": 1}`, `{"x":1}`}, {"any", "3", `"3"`},
		{"any", "true", `"true"`}, {"any", "(1,)", `"(1,)"`}, {"any", `"a"`, `"\"a\""`},
		{"any", "[1", `"[1"`}, {"any", "null", "null"},
		{"string array", `["a", "b"]`, `["a","b"]`}, {"string array", `{"a":1}`, `"{\"a\":1}"`},
		{"array string", "['a']", `"['a']"`}, {"string object", `{"a":1}`, `{"a":1}`},
		{"string integer", "5", `"5"`}, {"integer array", "[1]", "[1]"},
		{"integer array", "1", "1"}, {"integer number", "5.5", "5.5"},
		{"boolean integer", "1", "1"}, {"integer boolean", "True", "true"},
		{"integer boolean", "yes", `"yes"`}, {"object array", "(1,)", "[1]"},
		{"string", "<a & \"b\">\u00e9", `"<a & \"b\">é"`}, {"string", "a\xffb", "\"a\ufffdb\""},
	}
	for _, c := range cases {
		got := ofKinds(c.kind).convert(c.text)
		if got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s %q: got %s, want %s", c.kind, c.text, got, c.want)
		}
	}
}

// ofKinds returns a schema with types, between which there are spaces.
func ofKinds(kinds string) schema { return schema{kinds: strings.Fields(kinds)} }

// TestReadSchema checks the types of parameters, which the key "a" has unless path names another.
func TestReadSchema(t *testing.T) {
	const defs = `"$defs":{"R":{"type":"object","properties":{"n":{"type":"number"},` +
		`"child":{"anyOf":[{"$ref":"#/$defs/R"},{"type":"null"}]}}},"I":{"type":"integer"},` +
		`"E":{"enum":["x","y"]},"Loop":{"$ref":"#/$defs/Loop"},"a/b~":{"type":"boolean"},` +
		`"Two":{"anyOf":[{"$ref":"#/$defs/Two"},{"$ref":"#/$defs/I"}]}},`
	cases := []struct{ a, path, want string }{
		{`{"type":" Integer "}`, "a", "integer"},
		{`{"type":["null","integer"]}`, "a", "integer"},
		{`{"type":["integer","string","integer"]}`, "a", "integer string"},
		{`{"type":["null"]}`, "a", ""},
		{`{"type":[]}`, "a", "any"}, {`{"type":7}`, "a", "any"}, {`{}`, "a", "any"},
		{`true`, "a", "any"}, {`[]`, "a", "any"},
		{`{"description":"no type"}`, "a", "any"}, {`{}`, "b", ""}, {`{}`, "a b", ""},
		{`{"anyOf":[{"type":"null"},{"type":"number"}]}`, "a", "number"},
		{`{"oneOf":[{"anyOf":[{"type":"boolean"}]},{"type":"string"}]}`, "a", "boolean string"},
		{`{"type":"object","anyOf":[{"type":"string"}]}`, "a", "object"},
		{`{"allOf":[{"description":"d"},{"$ref":"#/$defs/R"}]}`, "a", "object"},
		{`{"$ref":"#/$defs/R"}`, "a", "object"}, {`{"$ref":"#/$defs/I"}`, "a", "integer"},
		{`{"$ref":"#/$defs/E"}`, "a", "string"}, {`{"$ref":"#/$defs/a~1b~0"}`, "a", "boolean"},
		{`{"$ref":"#/%24defs/I"}`, "a", "integer"},
		{`{"$ref":"#/properties/c/oneOf/1"}`, "a", "array"},
		{`{"$ref":"#/properties/c/oneOf/2"}`, "a", "any"}, {`{"$ref":"#/x"}`, "a", "any"},
		{`{"$ref":"#/$defs/I/type/x"}`, "a", "any"}, {`{"$ref":"x.json#/a"}`, "a", "any"},
		{`{"$ref":"#a"}`, "a a", ""},
		{`{"$ref":"#"}`, "a a a", "object"}, {`{"$ref":"#%zz"}`, "a", "any"},
		{`{"$ref":"#/$defs/Loop"}`, "a", "any"}, {`{"$ref":"#/$defs/Two"}`, "a", "integer"},
		{`{"$ref":"#/$defs/R"}`, "a child child child n", "number"},
		{`{"enum":[1,2.5,null,"x",true,[],{}]}`, "a", "integer number string boolean array object"},
		{`{"const":3}`, "a", "integer"}, {`{"properties":{}}`, "a", "object"},
		{`{"additionalProperties":{"type":"integer"}}`, "a x", "integer"},
		{`{"additionalProperties":false}`, "a x", ""},
		{`{"items":{"type":"integer"}}`, "a", "array"},
		{`{"type":["array","null"],"items":{"type":"object","properties":{"n":{"type":"number"}}}}`,
			"a item n", "number"},
		{strings.Repeat(`{"anyOf":[`, 3000) + strings.Repeat(`]}`, 3000), "a", "any"},
		{`{"anyOf":[` + strings.Repeat(`{"description":"x"},`, 2000) + `{"type":"integer"}]}`, "a",
			"any"},
	}
	for _, c := range cases {
		s := readSchema(json.RawMessage(`{` + defs + `"properties":{"a":` + c.a +
			`,"c":{"oneOf":[{},{"type":"array"}]}}}`))
		for _, key := range strings.Fields(c.path) {
			s = s.inner(key)
		}
		if got := strings.Join(s.kinds, " "); got != c.want {
			t.Errorf("%.120s: the type of %s is %q, want %q", c.a, c.path, got, c.want)
		}
	}
	for _, parameters := range []string{`{"properties":[]}`, `7`, ``, `{"properties":null}`} {
		if s := readSchema(json.RawMessage(parameters)).inner("a"); len(s.kinds) > 0 {
			t.Errorf("%s: got %v", parameters, s.kinds)
		}
	}
	whole := readSchema(json.RawMessage(`{"$ref":"#/$defs/R",` + defs + `"type":"object"}`))
	if got := whole.inner("n").kinds; len(got) != 1 || got[0] != "number" {
		t.Errorf("parameters that are a $ref: got %v", got)
	}
}

// TestNestedModels checks arguments whose types Pydantic writes in definitions, in formats whose
// arguments are plain text and in one whose arguments are JSON.
func TestNestedModels(t *testing.T) {
	tools := []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"f",
		"parameters":{"type":"object","properties":{"r":{"$ref":"#/$defs/R"},
			"o":{"anyOf":[{"$ref":"#/$defs/R"},{"type":"null"}],"default":null},
			"u":{"description":"anything"},"p":{"properties":{"x":{"type":"integer"}}},
			"i":{"$ref":"#/$defs/I"},"l":{"anyOf":[{"type":"string"},{"type":"array"}]},
			"s":{"description":"anything"}},
		"$defs":{"R":{"type":"object","properties":{"from":{"type":"integer"}}},
			"I":{"type":"integer"}}}}}`)}
	pairs := [][2]string{{"r", `{"from": 1}`}, {"o", `{"from": 2}`}, {"u", `[1, 2]`},
		{"p", `{"x": 1}`}, {"i", "3"}, {"l", `["a", "b"]`}, {"s", "3"}}
	for _, c := range []struct{ source, open, pair, end string }{
		{coderSource, "<tool_call>\n<function=f>\n",
			"<parameter=KEY>\nVALUE\n</parameter>\n", "</function>\n</tool_call>"},
		{"<arg_key>", "<tool_call>f\n",
			"<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n", "</tool_call>"},
		{"<minimax:tool_call>", `<minimax:tool_call><invoke name="f">`,
			`<parameter name="KEY">VALUE</parameter>`, "</invoke></minimax:tool_call>"},
		{"]<]minimax[>[", m3(`^<tool_call>^<invoke name="f">`), m3("^<KEY>VALUE^</KEY>"),
			m3("^</invoke>^</tool_call>")},
	} {
		text := c.open
		for _, p := range pairs {
			text += strings.NewReplacer("KEY", p[0], "VALUE", p[1]).Replace(c.pair)
		}
		const want = ` |  | f{"r": {"from":1}, "o": {"from":2}, "u": [1,2], "p": {"x":1}, ` +
			`"i": 3, "l": ["a","b"], "s": "3"}`
		s := parse(t, "{% raw %}"+c.source+"{% endraw %}").NewSplitter("", tools)
		if got := summary(pieces(s, []string{text + c.end})); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.source, got, want)
		}
	}
	const arguments = `{"u":"[1]","l":"[1]","s":3,"i":"3","r":"{}"}`
	const want = ` |  | f{"u": "[1]", "l": "[1]", "s": 3, "i": 3, "r": {}}`
	s := parse(t, "{% raw %}"+jsonSource+"{% endraw %}").NewSplitter("", tools)
	text := `<tool_call>{"name":"f","arguments":` + arguments + `}</tool_call>`
	if got := summary(pieces(s, []string{text})); got != want {
		t.Errorf("JSON:\ngot  %s\nwant %s", got, want)
	}
}

// TestCoerceValue checks arguments in JSON whose types differ from the declared ones.
func TestCoerceValue(t *testing.T) {
	for _, c := range []struct{ kinds, value, want string }{
		{"string", "3", `"3"`}, {"string array", "3", `"3"`}, {"string integer", "3", "3"},
		{"string", "null", "null"}, {"string", "{}", "{}"}, {"string array", `"[1]"`, `"[1]"`},
		{"any", "3", "3"}, {"any", `"[1]"`, `"[1]"`}, {"", `"3"`, `"3"`}, {"", "3", "3"},
		{"integer", `"3"`, "3"}, {"integer", `"x"`, `"x"`}, {"boolean", `"yes"`, `"yes"`},
		{"integer boolean", `"True"`, "true"}, {"array", `"[1]"`, "[1]"},
		{"integer", `"null"`, `"null"`},
	} {
		if got := coerceValue(c.value, ofKinds(c.kinds)); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.kinds, c.value, got, c.want)
		}
	}
}

// TestPythonLiteral compares with json.dumps(ast.literal_eval(text)) without spaces.
// "" means that text is not a literal.
func TestPythonLiteral(t *testing.T) {
	cases := []struct{ text, want string }{
		{"{}", "{}"}, {"[]", "[]"}, {"()", "[]"}, {" [ 1 , 2 , ] ", "[1,2]"}, {"(1,)", "[1]"},
		{"{'a': 'b', \"c\": \"d'e\"}", `{"a":"b","c":"d'e"}`},
		{"{'a': {'b': [True, False, None]}}", `{"a":{"b":[true,false,null]}}`},
		{`'a\n\'\"\\\x41\u00e9\U0001F600\q'`, `"a\n'\"\\Aé😀\\q"`}, {"-1.5", "-1.5"},
		{"['a\nb']", `["a\nb"]`},
		{"[1 2]", ""}, {"[,]", ""}, {"[1,,2]", ""}, {"[1", ""}, {"{'a'}", ""}, {"{1: 2}", ""},
		{"{'a': 1", ""}, {"'a", ""}, {`'a\`, ""}, {`'\x4'`, ""}, {"a", ""},
		{"", ""}, {"[1] x", ""}, {"[1}", ""}, {"__import__('os')", ""},
		{strings.Repeat("[", 100) + strings.Repeat("]", 100), ""},
	}
	for _, c := range cases {
		got, ok := pythonLiteral(c.text)
		if !ok {
			got = ""
		}
		if got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

// FuzzConvert checks that the argument is JSON for every text.
func FuzzConvert(f *testing.F) {
	f.Add("{'a': (1, 'b\\n'), }", "object")
	f.Add("[\"a\nb\", 1e5]", "array")
	f.Add("-00012.50e-3", "number")
	f.Add("-0", "integer")
	f.Add("[1]", "string array")
	f.Fuzz(func(t *testing.T, text, kind string) {
		if got := ofKinds(kind).convert(text); !json.Valid([]byte(got)) {
			t.Errorf("%s %q became %s", kind, text, got)
		}
	})
}

// TestNullAsText checks a text that is null for every type: it stays a text if the schema lists it,
// and null is not listed, too.
func TestNullAsText(t *testing.T) {
	for _, c := range []struct{ schema, text, want string }{
		{`{"type":"string","enum":["null","a"]}`, "null", `"null"`},
		{`{"const":"Null"}`, "Null", `"Null"`},
		{`{"$ref":"#/$defs/E"}`, "null", `"null"`},
		{`{"type":"string","enum":["null"]}`, "NULL", "null"},
		{`{"enum":["null",null]}`, "null", "null"},
		{`{"enum":["null",{},[1]]}`, "null", `"null"`},
		{`{"enum":["a",7,true]}`, "7", "7"},
		{`{"enum":["a",7,true]}`, "true", "true"},
		{`{"enum":["a",7,true]}`, "8", `"8"`},
		{`{"enum":["7",7]}`, "7", `"7"`},
		{`{"anyOf":[{"type":"string"},{"const":1.5}]}`, "1.50", "1.50"},
		{`{"type":"string"}`, "null", "null"},
		{`{"anyOf":[{"const":"null"},{"type":"null"}]}`, "null", `"null"`},
	} {
		s := readSchema(json.RawMessage(`{"$defs":{"E":{"enum":["null"]}},"properties":{"a":` +
			c.schema + `}}`)).inner("a")
		if got := s.convert(c.text); got != c.want {
			t.Errorf("%s: %q becomes %s, want %s", c.schema, c.text, got, c.want)
		}
	}
}
