package jsonschema

import (
	"encoding/json"
	"strings"
	"testing"

	"headroom/engine/grammar"
)

// compile builds and compiles a schema.
func compile(schema string, o Options) (*grammar.Grammar, error) {
	b := grammar.NewBuilder()
	n, err := Build(b, json.RawMessage(schema), o)
	if err != nil {
		return nil, err
	}
	return b.Compile(n)
}

func matches(g *grammar.Grammar, text string) bool {
	m := g.NewMatcher()
	return m.AcceptBytes([]byte(text)) == len(text) && m.Complete()
}

// TestListedOnly: members that no schema mentions come only where one allows them.
func TestListedOnly(t *testing.T) {
	const extra = `{"a": 1, "x": 1}`
	for _, c := range []struct {
		schema string
		yes    bool // extra is allowed
	}{
		{`{"properties": {"a": {}}}`, false},
		{`{"properties": {"a": {}}, "additionalProperties": true}`, true},
		{`{"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}`, true},
		{`{"properties": {"a": {}}, "patternProperties": {"^x": {}}}`, true},
		{`{"type": "object"}`, true},
		{`{"required": ["a"]}`, false},
		{`{"allOf": [{"properties": {"a": {}}}, {"properties": {"x": {}}}]}`, true},
		{`{"allOf": [{"properties": {"a": {}}}, {"additionalProperties": true}]}`, true},
		{`{"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}`, false},
		{`{"not": {"required": ["b"]}}`, true},
	} {
		g, err := compile(c.schema, Options{ListedOnly: true})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		if got := matches(g, extra); got != c.yes {
			t.Errorf("%s: allowed %t, expected %t", c.schema, got, c.yes)
		}
	}
}

// TestTexts compares schemas with texts of their grammars and texts that are not.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`true`, []string{`null`, `-1.5e3`, `"a\"é\u001f"`, `[1, {"a": []}]`, `{}`},
			[]string{``, `[1,2]`, `{"a":1}`, `"\u0041"`, `"\/"`, `01`, `[1, ]`, ` 1`}},
		{`{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
			"required": ["a"], "additionalProperties": false}`,
			[]string{`{"a": 1}`, `{"a": -20, "b": "x"}`},
			[]string{`{}`, `{"b": "x"}`, `{"b": "x", "a": 1}`, `{"a": 1.0}`, `{"a": 1, "c": 1}`,
				`{"a": 1, }`, `{, "a": 1}`}},
		{`{"type": "object", "properties": {"a": {"const": 1}}}`,
			[]string{`{}`, `{"a": 1}`, `{"b": 2}`, `{"a": 1, "b": 2, "c": []}`, `{"aa": 2}`},
			[]string{`{"a": 2}`, `{"b": 2, "a": 1}`, `{"\u0061": 2}`}},
		{`{"type": "integer", "minimum": -12, "exclusiveMaximum": 105}`,
			[]string{`-12`, `-11`, `-2`, `0`, `9`, `10`, `99`, `100`, `104`},
			[]string{`-13`, `-20`, `-100`, `105`, `110`, `200`, `1000`, `-0`, `1e1`}},
		{`{"type": "number", "minimum": 0.25, "maximum": 12.5}`,
			[]string{`0.25`, `0.3`, `0.251`, `1`, `12`, `12.5`, `12.50`, `12.49`, `2.0`},
			[]string{`0.2`, `0`, `0.24999`, `12.51`, `13`, `-1`, `100`}},
		{`{"type": "number", "exclusiveMinimum": -1.5}`,
			[]string{`-1.4`, `-1.49`, `0`, `-0.0`, `5.5`, `-1`, `-0.9`},
			[]string{`-1.5`, `-1.50`, `-1.51`, `-2`, `-10`}},
		{`{"multipleOf": 0.25, "type": "number"}`, []string{`1`, `1.5`, `-0.75`, `2.250`},
			[]string{`1.1`, `0.26`, `0.251`}},
		{`{"multipleOf": 12, "type": "integer"}`, []string{`0`, `12`, `144`, `-24`, `1200`},
			[]string{`1`, `18`, `20`, `13`, `4`}},
		{`{"type": "string", "minLength": 2, "maxLength": 3}`, []string{`"é\""`, `"abc"`, `"𝒳𝒳"`},
			[]string{`"a"`, `"abcd"`, `""`}},
		{`{"type": "string", "pattern": "^[\"\\\\\\n]{2}$"}`, []string{`"\"\\"`, `"\n\n"`},
			[]string{`""\"`, `"\n"`, `"\u000a\n"`}},
		{`{"enum": [1, "a", null, [1, {"b": 2}]]}`, []string{`1`, `"a"`, `null`, `[1, {"b": 2}]`},
			[]string{`1.0`, `"b"`, `true`, `[1]`, `[1, {"b": 2}, 3]`, `[1, {"b": 2, "c": 3}]`}},
		{`{"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3},
			"minItems": 1, "maxItems": 4}`,
			[]string{`[1]`, `[1, 2]`, `[1, 2, 3]`, `[1, 2, 3, 3]`},
			[]string{`[]`, `[2]`, `[1, 3]`, `[1, 2, 3, 3, 3]`}},
		{`{"type": "array", "contains": {"const": 1}, "items": {"enum": [1, 2]}}`,
			[]string{`[1]`, `[2, 1]`, `[1, 2, 1]`}, []string{`[]`, `[2]`, `[2, 2]`, `[3, 1]`}},
		{`{"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": true, "minItems": 2}`,
			[]string{`[1, 2]`, `[3, 1, 2]`}, []string{`[]`, `[1]`, `[1, 1]`, `[1, 2, 1]`}},
		{`{"type": "array", "prefixItems": [{"type": "boolean"}, {"enum": [true, 1]}],
			"items": {"const": null}, "uniqueItems": true}`,
			[]string{`[]`, `[true]`, `[true, 1]`, `[false, true, null]`, `[false, 1]`},
			[]string{`[true, true]`, `[1]`, `[false, 1, null, null]`, `[false, false]`}},
		{`{"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}},
			"additionalProperties": false}}, "$ref": "#/$defs/n"}`,
			[]string{`{}`, `{"next": {"next": {}}}`}, []string{`{"next": 1}`, `{"next": {}`}},
		{`{"oneOf": [{"type": "integer"}, {"minimum": 2}]}`, []string{`1`, `2.5`, `"a"`},
			[]string{`2`, `1.5`, `3.0`}},
		{`{"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}`,
			[]string{`{"a": 1}`, `{"b": 1}`, `{"a": 1, "c": 2}`},
			[]string{`{}`, `{"a": 1, "b": 2}`}},
		{`{"not": {"type": ["string", "object", "array"]}}`, []string{`1`, `null`},
			[]string{`"a"`, `{}`, `[]`}},
		{`{"type": "object", "properties": {"a": {}}, "not": {"additionalProperties": false,
			"properties": {"a": {}}}}`, []string{`{"b": 1}`, `{"a": 1, "b": 1}`},
			[]string{`{}`, `{"a": 1}`}},
		{`{"type": "object", "properties": {"k": {"enum": ["x", "y"]}, "v": {}},
			"required": ["k"], "if": {"properties": {"k": {"const": "x"}}},
			"then": {"required": ["v"]}, "additionalProperties": false}`,
			[]string{`{"k": "x", "v": 1}`, `{"k": "y"}`, `{"k": "y", "v": 2}`},
			[]string{`{"k": "x"}`, `{"v": 1}`, `{"k": "z"}`}},
		{`{"type": "object", "patternProperties": {"^a": {"const": 1}, "b$": {"type": "integer"}},
			"additionalProperties": {"const": "r"}}`,
			[]string{`{"ab": 1}`, `{"b": 7}`, `{"c": "r", "a": 1}`},
			[]string{`{"ab": 2}`, `{"a": 2}`, `{"b": "r"}`, `{"c": 1}`}},
		{`{"type": "object", "minProperties": 1, "maxProperties": 2, "properties": {"a": true}}`,
			[]string{`{"a": 1}`, `{"b": 1}`, `{"a": 1, "b": 2}`, `{"b": 1, "c": 2}`},
			[]string{`{}`, `{"a": 1, "b": 2, "c": 3}`, `{"b": 1, "c": 2, "d": 3}`}},
		{`{"type": "object", "propertyNames": {"maxLength": 1}, "required": ["q"]}`,
			[]string{`{"q": 1}`, `{"q": 1, "r": 2}`}, []string{`{}`, `{"qq": 1}`, `{"q": 1, "rr": 2}`}},
		{`{"type": "object", "properties": {"a": true}, "allOf": [{"properties": {"b": true}}],
			"unevaluatedProperties": false}`, []string{`{}`, `{"a": 1, "b": 2}`},
			[]string{`{"c": 1}`, `{"a": 1, "c": 1}`}},
		{`{"type": "string", "nullable": true}`, []string{`null`, `"a"`}, []string{`1`}},
		{`{"type": "string", "format": "date"}`, []string{`"2024-02-29"`, `"1999-12-31"`},
			[]string{`"2023-02-29"`, `"2023-13-01"`, `"2023-04-31"`, `"x"`}},
		{`{"format": "email", "type": "string"}`, []string{`"a.b@c.de"`, `"\"a@b\"@c"`,
			`"a@[1.2.3.4]"`, `"` + strings.Repeat("a", 64) + `@b"`},
			[]string{`"a"`, `"a@"`, `"@b"`, `".a@b"`, `"a@b.` + strings.Repeat("a", 64) + `"`,
				`"` + strings.Repeat("a", 65) + `@b"`, `"a@` + strings.Repeat("b.", 126) + `c"`}},
		{`{"type": "string", "allOf": [{"pattern": "\\p{Lu}"}, {"pattern": "\\p{Ll}"},
			{"pattern": "\\p{N}"}]}`, []string{`"aÄ1"`, `"٣Яя"`}, []string{`"aB"`, `"A1"`, `"aaa"`}},
		{`{"type": "object", "dependentRequired": {"a": ["b"]}, "properties": {"a": true, "b": true},
			"additionalProperties": false}`, []string{`{}`, `{"b": 1}`, `{"a": 1, "b": 1}`},
			[]string{`{"a": 1}`}},
	} {
		g, err := compile(c.schema, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, text := range c.yes {
			if !matches(g, text) {
				t.Errorf("%s: refuses %s", c.schema, text)
			}
		}
		for _, text := range c.no {
			if matches(g, text) {
				t.Errorf("%s: takes %s", c.schema, text)
			}
		}
	}
}
