package jsonschema

import (
	"errors"
	"strings"
	"testing"
)

// TestUnsupported reads schemas that cannot be enforced, whose errors name the place and the
// keyword.
func TestUnsupported(t *testing.T) {
	for _, c := range []struct{ schema, path, keyword, reason string }{
		{`{"properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}`,
			"/properties/a", "uniqueItems", "duplicates"},
		{`{"items": {"$ref": "https://example.com/s.json"}}`, "/items", "$ref", "nothing is fetched"},
		{`{"properties": {"a/b": {"pattern": "(a)\\1"}}}`, "/properties/a~1b", "pattern",
			"at offset 3"},
		{`{"format": "regex"}`, "", "format", `"regex"`},
		{`{"minProperties": 2}`, "", "minProperties", "equal keys"},
		{`{"anyOf": [{"extends": {}}]}`, "/anyOf/0", "extends", "draft 3"},
		{`{"multipleOf": 1234567}`, "", "multipleOf", "too many digits"},
		{`{"type": "array", "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]}`,
			"/allOf/1", "contains", "two schemas"},
		{`{"type": "object", "not": {"additionalProperties": {"type": "string"}}}`, "", "not", ""},
		{`{"$defs": {"a": {"$dynamicAnchor": "x"}, "b": {"$dynamicAnchor": "x"}},
			"$dynamicRef": "#x"}`, "", "$dynamicRef", "more than one"},
	} {
		_, err := compile(c.schema, Options{})
		var got *Unsupported
		if !errors.As(err, &got) || got.Path != c.path || got.Keyword != c.keyword ||
			!strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got error %v, expected %s at %q with %q", c.schema, err, c.keyword,
				c.path, c.reason)
		}
	}
}

// TestInvalid reads schemas that break the rules.
func TestInvalid(t *testing.T) {
	for _, c := range []struct{ schema, path, reason string }{
		{``, "", "not JSON"}, {`{"a": 1`, "", "not JSON"}, {"\"\xff\"", "", "not JSON"},
		{`1`, "", "an object or a boolean"}, {`{"items": {"not": 1}}`, "/items/not", "type number"},
		{`{"a": 1, "a": 2}`, "", `the key "a"`},
		{`{"type": "text"}`, "", `"text" does not exist`}, {`{"type": 1}`, "", "type is not"},
		{`{"properties": {"p": {"minLength": -1}}}`, "/properties/p", "minLength is not"},
		{`{"minimum": "1"}`, "", "minimum is not"}, {`{"required": "a"}`, "", "required is not"},
		{`{"anyOf": []}`, "", "anyOf is not"}, {`{"properties": []}`, "", "properties is not"},
		{`{"$ref": "#/nowhere"}`, "", "leads nowhere"}, {`{"multipleOf": 0}`, "", "above 0"},
		{`{"allOf": [{"$ref": "#"}]}`, "", "contains itself"},
		{`{"enum": []}`, "", "no value is valid"}, {`false`, "", "no value is valid"},
		{`{"type": "string", "minLength": 3, "maxLength": 2}`, "", "no value is valid"},
		{`{"type": "object", "required": ["a"], "properties": {"a": false}}`, "", "no value is valid"},
	} {
		_, err := compile(c.schema, Options{})
		var got *Invalid
		if !errors.As(err, &got) || got.Path != c.path || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got error %v, expected one at %q with %q", c.schema, err, c.path,
				c.reason)
		}
	}
}

// TestOptions compares texts with and without each option.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		schema, text string
		with         Options
	}{
		{`{"type": "object"}`, "{\n  \"a\" : [ 1,\t2 ]\r\n}", Options{FlexibleWhitespace: true}},
		{`true`, `[[],{},{"a":1}]`, Options{FlexibleWhitespace: true}},
		{`{"format": "date"}`, `"x"`, Options{AnnotateFormats: true}},
	} {
		for _, o := range []Options{{}, c.with} {
			g, err := compile(c.schema, o)
			if err != nil {
				t.Fatal(err)
			}
			if want := o == c.with; matches(g, c.text) != want {
				t.Errorf("%s, %+v: %q: expected %v", c.schema, o, c.text, want)
			}
		}
	}
	g, err := compile(`{}`, Options{FlexibleWhitespace: true})
	if err != nil {
		t.Fatal(err)
	}
	if matches(g, "["+strings.Repeat(" ", maxBlanks+1)+"]") {
		t.Error("white space has no limit")
	}
	for format, refused := range map[string]bool{"slug": true, "int32": false, "date": false} {
		schema := `{"format": "` + format + `"}`
		if _, err := compile(schema, Options{}); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if _, err := compile(schema, Options{Strict: true}); (err != nil) != refused {
			t.Errorf("%s, strict: %v", format, err)
		}
	}
}
