package chat

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Arguments of tool calls that arrive as plain text become JSON by the type that
// the tool's schema gives the parameter:
//
//	"null" in any case                       null, whatever the type
//	no such parameter, no type, other types  a string
//	int…, uint…, long…, short…, unsigned…    a whole number; 5.0 and 1e3 are whole
//	num…, float…                             a number, written whole if it is
//	bool…, binary                            true if the text is "true", else false
//	object, array, arr, dict…, list…         JSON, else a literal of Python
//
// Text that is not of its type stays a string: the client's own check of the
// arguments then tells the model what is wrong.
//
// Source: mlx_lm/tool_parsers/qwen3_coder.py. Beyond it: of several types
// ("type" as a list, anyOf, oneOf) the string counts if it is one of them, else
// the first that is not null.

// schema gives the types of a function's parameters, in lower case.
type schema map[string]string

// readSchema reads a function's JSON schema. What it does not understand counts
// as not said: other people's schemas have anything in them.
func readSchema(raw json.RawMessage) schema {
	var parameters struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(raw, &parameters)
	s := schema{}
	for name, property := range parameters.Properties {
		if kind := oneKind(kindsOf(property, 0)); kind != "" {
			s[name] = kind
		}
	}
	return s
}

// kindsOf lists the types that a schema allows; variants inside variants are
// looked at down to a depth that no honest schema has.
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

// convert makes a value of a type JSON.
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

// number reads a decimal number. Digits alone stay exact at any length; a number
// with a whole value is written whole, which whole demands.
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
	case err != nil: // beyond what a float64 holds
		return "", false
	case f == math.Trunc(f):
		return strconv.FormatFloat(f+0, 'f', 0, 64), true // +0: minus zero is zero
	case whole:
		return "", false
	}
	data, err := json.Marshal(f)
	return string(data), err == nil
}

// lenientJSON returns a JSON value without the spaces between its parts. Raw
// control characters inside strings, which models write instead of \n, are let
// through.
func lenientJSON(text string) (string, bool) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	var repaired strings.Builder
	inString, escaped := false, false
	for i := range len(text) {
		c := text[i]
		if inString && c < ' ' {
			if escaped { // a backslash before a line break: it escapes nothing
				return "", false
			}
			repaired.WriteString(`\u00` + string("0123456789abcdef"[c>>4]) +
				string("0123456789abcdef"[c&15]))
			continue
		}
		if c == '"' && !escaped {
			inString = !inString
		}
		escaped = inString && c == '\\' && !escaped
		repaired.WriteByte(c)
	}
	var out bytes.Buffer
	if json.Compact(&out, []byte(repaired.String())) != nil || out.Len() == 0 {
		return "", false
	}
	return out.String(), true
}

// quote makes a text a JSON string, with < and & as they are.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ToValidUTF8(text, "\uFFFD")) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// object is a JSON object in the order in which its keys came first; a key that
// comes again has its last value.
type object struct {
	keys   []string
	values map[string]string // JSON
}

func (o *object) set(key, value string) {
	if o.values == nil {
		o.values = map[string]string{}
	}
	if _, has := o.values[key]; !has {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o *object) String() string {
	var b strings.Builder
	for i, key := range o.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(key) + ": " + o.values[key])
	}
	return "{" + b.String() + "}"
}
