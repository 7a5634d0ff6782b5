package chat

import (
	"encoding/json"
	"reflect"
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
		{"any", "[1]", `"[1]"`},
		{"string", "<a & \"b\">\u00e9", `"<a & \"b\">é"`}, {"string", "a\xffb", "\"a\ufffdb\""},
	}
	for _, c := range cases {
		got := convert(c.text, c.kind)
		if got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s %q: got %s, want %s", c.kind, c.text, got, c.want)
		}
	}
}

func TestReadSchema(t *testing.T) {
	cases := []struct {
		parameters string
		want       schema
	}{
		{`{"type":"object","properties":{"a":{"type":" Integer "},"b":{"description":"no type"},"c":{"type":"array","items":{"type":"integer"}}}}`, schema{"a": {kind: "integer"},
			"c": {kind: "array", items: &property{kind: "integer"}}}},
		{`{"properties":{"a":{"type":["null","integer"]},"b":{"type":["integer","string"]},"c":{"type":["null"]},"d":{"type":[]}}}`, schema{"a": {kind: "integer"}, "b": {kind: "string"}}},
		{`{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"number"}]},"b":{"oneOf":[{"anyOf":[{"type":"boolean"}]},{"type":"string"}]}}}`, schema{"a": {kind: "number"}, "b": {kind: "string"}}},
		{`{"properties":{"a":true,"b":{"type":7},"c":[],"d":{"type":"integer"}}}`,
			schema{"d": {kind: "integer"}}},
		{`{"properties":{"o":{"type":"object","properties":{"l":{"type":["array","null"],"items":{
			"type":"object","properties":{"n":{"type":"number"}}}}}}}}`,
			schema{"o": {kind: "object", properties: schema{"l": {kind: "array", items: &property{
				kind: "object", properties: schema{"n": {kind: "number"}}}}}}}},
		{`{"properties":[]}`, schema{}},
		{`7`, schema{}},
		{``, schema{}},
		{`{"properties":{"a":` + strings.Repeat(`{"anyOf":[`, 1000) + strings.Repeat(`]}`, 1000) +
			`}}`, schema{}},
	}
	for _, c := range cases {
		if got := readSchema(json.RawMessage(c.parameters)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%.120s: got %v, want %v", c.parameters, got, c.want)
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
	f.Fuzz(func(t *testing.T, text, kind string) {
		if got := convert(text, kind); !json.Valid([]byte(got)) {
			t.Errorf("%s %q became %s", kind, text, got)
		}
	})
}
