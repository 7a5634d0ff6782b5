package chat

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Some formats write the arguments of tool calls as plain text. The parameter's type in the tool's
// schema decides how the text becomes JSON:
//
//	"null" in any case                       null, for every type
//	no such parameter, no type, other types  a string
//	int…, uint…, long…, short…, unsigned…    an integer, also from 5.0 and 1e3
//	num…, float…                             a number, without a fraction if it is whole
//	bool…, binary                            true if the text is "true", else false
//	object, array, arr, dict…, list…         JSON, or a Python literal
//
// Text that does not match the type stays a string. The client checks the arguments and can report
// the fault to the model.
//
// Source: mlx_lm/tool_parsers/qwen3_coder.py. In addition, a parameter may have several types
// ("type" as a list, anyOf, oneOf). Then its type is string if that is one of them, else the first
// that is not null.

// schema maps the parameters of a function to their types.
type schema map[string]property

// property is the type of a parameter, or of a value inside of one. The zero property is unknown.
type property struct {
	kind       string    // in lower case
	properties schema    // of an object
	items      *property // of an array; nil: unknown
}

// maxSchemaDepth bounds how deep types are read. Formats that nest values as elements need the
// inner ones.
const maxSchemaDepth = 8

// readSchema reads the types from a function's JSON schema. It ignores everything
// that it does not understand, since schemas come from clients.
func readSchema(raw json.RawMessage) schema { return readProperties(raw, 0) }

func readProperties(raw json.RawMessage, depth int) schema {
	var parameters struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(raw, &parameters)
	s := schema{}
	for name, inner := range parameters.Properties {
		if p := readProperty(inner, depth+1); p.kind != "" {
			s[name] = p
		}
	}
	return s
}

func readProperty(raw json.RawMessage, depth int) property {
	p := property{kind: oneKind(kindsOf(raw, 0))}
	if depth > maxSchemaDepth {
		return p
	}
	if s := readProperties(raw, depth); len(s) > 0 {
		p.properties = s
	}
	var list struct {
		Items json.RawMessage `json:"items"`
	}
	if json.Unmarshal(raw, &list) == nil && list.Items != nil {
		if items := readProperty(list.Items, depth+1); items.kind != "" {
			p.items = &items
		}
	}
	return p
}

// inner returns the type of a value with a key in a value of type p.
func (p property) inner(key string) property {
	switch {
	case p.isArray() && p.items != nil:
		return *p.items
	case p.isArray():
		return property{}
	}
	return p.properties[key]
}

func (p property) isArray() bool  { return p.kind == "array" || p.kind == "arr" || p.is("list") }
func (p property) isObject() bool { return p.kind == "object" || p.is("dict") }

func (p property) is(prefix string) bool { return strings.HasPrefix(p.kind, prefix) }

// kindsOf returns the types that a schema allows. It ignores variants that are nested too deeply.
func kindsOf(raw json.RawMessage, depth int) (kinds []string) {
	var wire struct {
		Type  json.RawMessage   `json:"type"`
		AnyOf []json.RawMessage `json:"anyOf"`
		OneOf []json.RawMessage `json:"oneOf"`
	}
	if depth > 4 || json.Unmarshal(raw, &wire) != nil {
		return nil
	}
	var one string
	if json.Unmarshal(wire.Type, &one) == nil && one != "" {
		return []string{one}
	}
	if json.Unmarshal(wire.Type, &kinds) == nil && len(kinds) > 0 {
		return kinds
	}
	for _, variant := range append(wire.AnyOf, wire.OneOf...) {
		kinds = append(kinds, kindsOf(variant, depth+1)...)
	}
	return kinds
}

// oneKind picks the type to convert to: string if it is allowed, else the first
// that is not null.
func oneKind(kinds []string) (kind string) {
	for _, k := range kinds {
		switch k = strings.ToLower(strings.TrimSpace(k)); {
		case k == "string":
			return k
		case kind == "" && k != "null":
			kind = k
		}
	}
	return kind
}

// convert returns text as a JSON value of the type kind.
func convert(text, kind string) string {
	if strings.EqualFold(text, "null") {
		return "null"
	}
	is := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(kind, p) {
				return true
			}
		}
		return false
	}
	value, ok := "", false
	switch {
	case is("int", "uint", "long", "short", "unsigned"):
		value, ok = number(text, true)
	case is("num", "float"):
		value, ok = number(text, false)
	case is("bool"), kind == "binary":
		value, ok = strconv.FormatBool(strings.EqualFold(text, "true")), true
	case kind == "object", kind == "array", kind == "arr", is("dict", "list"):
		if value, ok = lenientJSON(text); !ok {
			value, ok = pythonLiteral(text)
		}
	}
	if !ok {
		return quote(text)
	}
	return value
}

var (
	wholeNumber = regexp.MustCompile(`^([+-]?)0*([0-9]+)$`)
	anyNumber   = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
)

// number parses a decimal number and returns it as JSON. Integers of any length stay exact, and a
// number with an integer value is written as an integer. If whole is set, number rejects numbers
// without an integer value.
func number(text string, whole bool) (string, bool) {
	text = strings.TrimSpace(text)
	if m := wholeNumber.FindStringSubmatch(text); m != nil {
		if m[1] == "-" && m[2] != "0" {
			return "-" + m[2], true
		}
		return m[2], true
	}
	if !anyNumber.MatchString(text) {
		return "", false
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil: // out of range of float64
		return "", false
	case f == math.Trunc(f):
		return strconv.FormatFloat(f+0, 'f', 0, 64), true // +0 turns -0 into 0
	case whole:
		return "", false
	}
	data, err := json.Marshal(f)
	return string(data), err == nil
}
