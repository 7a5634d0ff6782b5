package jsonbody

// The words of errors about JSON. An error names the field, the expected type and the type
// received, in JSON's terms and not in Go's.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"headroom/engine/generate"
)

// Check returns an error unless the body is JSON that means the same to every program.
// encoding/json would silently replace invalid bytes, and the model would answer a different
// prompt.
func Check(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return BadBody("The body is empty; expected a JSON object")
	}
	if utf8.Valid(body) {
		return scan(body)
	}
	at := 0
	for at < len(body) {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return BadBody("The body is not valid UTF-8: byte 0x%02x at %s. Send JSON encoded as UTF-8",
		body[at], position(body, int64(at)+1))
}

// position returns the line and column of a byte. offset counts the bytes up to and including it.
func position(data []byte, offset int64) string {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
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
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// withArticle describes a value in JSON's terms, such as "a string", "1.5" or "an array". value is
// its description in an error of encoding/json, such as "string", "number 1.5" or "array".
func withArticle(value string) string {
	switch {
	case value == "bool":
		return "a boolean"
	case value == "array":
		return "an array"
	case value == "object":
		return "an object"
	case strings.HasPrefix(value, "number "):
		return strings.TrimPrefix(value, "number ")
	}
	return "a " + value
}

// Kind describes the type of a raw JSON value. It reads only the first byte.
func Kind(raw json.RawMessage) string {
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
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// IsNull reports whether a value is absent or null.
func IsNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// Shorten truncates a value to 40 characters for an error message.
func Shorten(raw json.RawMessage) string {
	const most = 40
	runes := []rune(string(raw[:min(len(raw), 4*most)]))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most]) + "…"
}

// Object checks that a value is absent, null or a JSON object. It returns nil unless it is an
// object. path is the path of the value inside the body.
func Object(path string, raw json.RawMessage) (json.RawMessage, error) {
	if IsNull(raw) {
		return nil, nil
	}
	if bytes.TrimSpace(raw)[0] != '{' {
		return nil, generate.BadParam(path, "expected an object, got %s", Kind(raw))
	}
	return raw, nil
}
