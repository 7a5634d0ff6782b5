package openai

// JSON decoding. Its errors name the field, the value received and the value expected, in the terms
// of JSON rather than Go.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// decode reads one JSON object into v, a pointer to a struct, and names the field in its errors.
// prefix is the path of the object inside the body, "" for the body itself.
func decode(data []byte, v any, prefix string) error {
	err := json.Unmarshal(data, v)
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var ours *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &wrongType):
		// encoding/json adds the name of the embedded struct to the path. The JSON has no such
		// level.
		param := join(prefix, strings.TrimPrefix(wrongType.Field, "wireParams."))
		if param == "" {
			return badBody("The body must be a JSON object, got %s", withArticle(wrongType.Value))
		}
		return badParam(param, "expected %s, got %s", expected(wrongType.Type),
			withArticle(wrongType.Value))
	case errors.As(err, &syntax):
		return badBody("The body is not valid JSON: %s, at %s", syntax.Error(),
			position(data, syntax.Offset))
	}
	return badBody("The body is not valid JSON: %v", err)
}

// checkText refuses a body that is empty or not UTF-8. encoding/json would silently replace invalid
// bytes, and the model would answer a different prompt.
func checkText(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return badBody("The body is empty; expected a JSON object")
	}
	if utf8.Valid(body) {
		return nil
	}
	at := 0
	for at < len(body) {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return badBody("The body is not valid UTF-8: byte 0x%02x at %s. Send JSON encoded as UTF-8",
		body[at], position(body, int64(at)+1))
}

// position describes the position of a byte. offset counts the bytes up to and including it.
func position(data []byte, offset int64) string {
	read := data[:min(max(offset-1, 0), int64(len(data)))]
	line := 1 + bytes.Count(read, []byte("\n"))
	column := 1 + utf8.RuneCount(read[bytes.LastIndexByte(read, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", line, column)
}

func join(prefix, field string) string {
	if prefix == "" || field == "" {
		return prefix + field
	}
	return prefix + "." + field
}

// expected describes a Go type in JSON's terms.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// withArticle describes a value by encoding/json's name for it: "string", "number 1.5", "array".
func withArticle(value string) string {
	switch {
	case value == "bool":
		return "true or false"
	case value == "array":
		return "a list"
	case value == "object":
		return "an object"
	case strings.HasPrefix(value, "number "):
		return strings.TrimPrefix(value, "number ")
	}
	return "a " + value
}

// kind describes the type of a raw JSON value, from its first byte.
func kind(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// isNull reports whether a value is absent or null.
func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}
