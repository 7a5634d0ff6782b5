package chat

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Some formats write the arguments of tool calls as plain text. The parameter's type in the tool's
// schema decides how the text becomes JSON:
//
//	"null" in any case                       null for every type, unless enum or const lists it
//	a number or boolean of enum or const     itself
//	no such parameter, other types           a string
//	no type                                  an object or a list if it is JSON, else a string
//	int…, uint…, long…, short…, unsigned…    an integer, also from 5.0 and 1e3
//	num…, float…                             a number, without a fraction if it is whole
//	bool…, binary                            true if the text is "true", else false
//	object, array, arr, dict…, list…         JSON, or a Python literal
//
// Text that does not match the type stays a string. The client checks the arguments and can report
// the fault to the model.
//
// Source: mlx_lm/tool_parsers/qwen3_coder.py, whose rule for parameters without a type is the one
// above: a number stays a string there. In addition, a parameter may have several types (see
// schema.go). If string is one of them, only JSON that is an object or a list becomes one, and only
// if that is allowed, too; otherwise the first type that the text matches counts.

// convert returns text as a JSON value of the schema's type.
func (s schema) convert(text string) string {
	if strings.EqualFold(text, "null") && !s.lists(text) {
		return "null"
	}
	if value, ok := s.listed(text); ok {
		return value
	}
	if s.allows("string") || s.allows(untyped) {
		if value, ok := lenientJSON(text); ok && s.allowsNested(value) {
			return value
		}
		return quote(text)
	}
	for _, kind := range s.kinds {
		if len(s.kinds) > 1 && isBooleanKind(kind) && !isBoolean(text) {
			continue
		}
		if value, ok := convert(text, kind); ok {
			return value
		}
	}
	return quote(text)
}

// lists reports whether a text is a value of enum or const, and null is none.
func (s schema) lists(text string) bool {
	listed := false
	for _, n := range s.nodes {
		values, _ := n["enum"].([]any)
		if value, ok := n["const"]; ok {
			values = append(values[:len(values):len(values)], value)
		}
		if slices.Contains(values, nil) {
			return false
		}
		listed = listed || slices.Contains(values, any(text))
	}
	return listed
}

// listed returns the number or boolean of enum or const that a text is, if it is no string of
// these.
func (s schema) listed(text string) (value string, ok bool) {
	var v any
	if text == "" || strings.IndexByte("-0123456789tf", text[0]) < 0 ||
		json.Unmarshal([]byte(text), &v) != nil {
		return "", false
	}
	for _, n := range s.nodes {
		values, _ := n["enum"].([]any)
		if value, ok := n["const"]; ok {
			values = append(values[:len(values):len(values)], value)
		}
		if slices.Contains(values, any(text)) {
			return "", false
		}
		ok = ok || slices.Contains(values, v)
	}
	return strings.TrimSpace(text), ok
}

func (s schema) allows(kind string) bool { return slices.Contains(s.kinds, kind) }

// allowsNested reports whether a JSON value is an object or a list, and the schema allows it beside
// strings.
func (s schema) allowsNested(value string) bool {
	is := map[byte]func(string) bool{'{': isObjectKind, '[': isArrayKind}[value[0]]
	return is != nil && (s.allows(untyped) || slices.ContainsFunc(s.kinds, is))
}

// convert returns text as a JSON value of the type kind. It returns false if the text does not
// match it.
func convert(text, kind string) (value string, ok bool) {
	is := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(kind, p) {
				return true
			}
		}
		return false
	}
	switch {
	case is("int", "uint", "long", "short", "unsigned"):
		return number(text, true)
	case is("num", "float"):
		return number(text, false)
	case isBooleanKind(kind):
		return strconv.FormatBool(strings.EqualFold(text, "true")), true
	case isObjectKind(kind), isArrayKind(kind):
		if value, ok = lenientJSON(text); !ok {
			value, ok = pythonLiteral(text)
		}
	}
	return value, ok
}

func isBooleanKind(kind string) bool { return strings.HasPrefix(kind, "bool") || kind == "binary" }

func isBoolean(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
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
