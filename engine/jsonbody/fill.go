package jsonbody

// Reading values of a body that Check has accepted. Values that are passed on are parts of the
// body, not copies. Names of fields are case-sensitive, unlike encoding/json's.

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"headroom/engine/generate"
)

// Decode decodes JSON into v, a pointer to a struct. Its errors are *Errors that name the field.
// path is the path of the object inside the body, "" for the body itself. data is a part of a body
// that Check has accepted.
func Decode(data []byte, v any, path string) error {
	if path == "" && IsNull(data) {
		return BadBody("The body must be a JSON object, got null")
	}
	if err := Fill(data, v, path); err != nil {
		return err
	}
	return nil
}

// Fill is Decode for callbacks of Members and Elements, which return an *Error.
func Fill(data []byte, v any, path string) *Error {
	return fill(Trimmed(data), reflect.ValueOf(v).Elem(), path)
}

var rawType = reflect.TypeFor[json.RawMessage]()

// fill sets v to a value. path is the path of the value inside the body.
func fill(raw []byte, v reflect.Value, path string) *Error {
	switch {
	case v.Type() == rawType:
		v.SetBytes(raw)
		return nil
	case IsNull(raw):
		return nil // the same as absent
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(raw, v.Elem(), path)
	case v.Kind() == reflect.Struct:
		return fillStruct(raw, v, path)
	case v.Kind() == reflect.Slice:
		return fillSlice(raw, v, path)
	case v.Kind() == reflect.Int && IsNumber(raw):
		n, ok := Integer(raw)
		if !ok {
			return generate.BadParam(path, "expected an integer, got %s", Shorten(raw))
		}
		v.SetInt(saturated(n))
		return nil
	}
	err := json.Unmarshal(raw, v.Addr().Interface())
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType) && expected(v.Type()) == "a number" && IsNumber(raw):
		return generate.BadParam(path, "the number %s is too large", Shorten(raw))
	case errors.As(err, &wrongType):
		return generate.BadParam(path, "expected %s, got %s", expected(v.Type()),
			withArticle(wrongType.Value))
	}
	return generate.BadParam(path, "expected %s: %v", expected(v.Type()), err)
}

func fillStruct(raw []byte, v reflect.Value, path string) *Error {
	switch {
	case raw[0] == '{':
	case path == "":
		return BadBody("The body must be a JSON object, got %s", Kind(raw))
	default:
		return generate.BadParam(path, "expected an object, got %s", Kind(raw))
	}
	fields := Fields(v.Type())
	return Members(raw, func(name string, value []byte) *Error {
		index, ok := fields[name]
		if !ok {
			return nil
		}
		return fill(value, v.FieldByIndex(index), join(path, name))
	})
}

// maxEntries limits the arrays of a body by their path.
var maxEntries = map[string]int{"messages": MaxMessages, "tools": MaxTools, "functions": MaxTools}

func fillSlice(raw []byte, v reflect.Value, path string) *Error {
	if raw[0] != '[' {
		return generate.BadParam(path, "expected an array, got %s", Kind(raw))
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty array is not null
	n := 0
	return Elements(raw, func(value []byte) *Error {
		if n++; n > cmp.Or(maxEntries[path], MaxValues) {
			return generate.BadParam(path, "at most %d entries", maxEntries[path])
		}
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		return fill(value, v.Index(n-1), path+"["+strconv.Itoa(n-1)+"]")
	})
}

var fieldCache sync.Map // map[string][]int by reflect.Type

// Fields returns the indexes of a struct's fields by their names in JSON.
func Fields(t reflect.Type) map[string][]int {
	if known, ok := fieldCache.Load(t); ok {
		return known.(map[string][]int)
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[name] = f.Index
		}
	}
	fieldCache.Store(t, fields)
	return fields
}

// Members calls do for each member of an object, until one returns an error.
func Members(raw []byte, do func(name string, value []byte) *Error) *Error {
	for at := 1; ; {
		at = skipSpace(raw, at)
		if raw[at] == '}' {
			return nil
		}
		end := skipValue(raw, at)
		name := string(decoded(raw[at:end]))
		at = skipSpace(raw, skipSpace(raw, end)+1) // after the colon
		end = skipValue(raw, at)
		if err := do(name, raw[at:end:end]); err != nil {
			return err
		}
		if at = skipSpace(raw, end); raw[at] == ',' {
			at++
		}
	}
}

// Elements calls do for each element of an array, until one returns an error.
func Elements(raw []byte, do func(value []byte) *Error) *Error {
	for at := 1; ; {
		at = skipSpace(raw, at)
		if raw[at] == ']' {
			return nil
		}
		end := skipValue(raw, at)
		if err := do(raw[at:end:end]); err != nil {
			return err
		}
		if at = skipSpace(raw, end); raw[at] == ',' {
			at++
		}
	}
}

// skipSpace returns the position of the next byte that is no white space.
func skipSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\t' || raw[at] == '\r') {
		at++
	}
	return at
}

// skipValue returns the end of the value at a position.
func skipValue(raw []byte, at int) int {
	for depth := 0; at < len(raw); {
		switch raw[at] {
		case '"':
			at = skipText(raw, at)
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\n', '\t', '\r':
			at++
		default:
			for at < len(raw) && strings.IndexByte("{}[],: \n\t\r", raw[at]) < 0 {
				at++
			}
		}
		if depth == 0 {
			return at
		}
	}
	return at
}

// skipText returns the end of the string at a position.
func skipText(raw []byte, at int) int {
	for at++; ; {
		switch at += plain(raw[at:]); raw[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
		at++
	}
}

// Trimmed returns a value without white space around it.
func Trimmed(raw []byte) []byte {
	at := skipSpace(raw, 0)
	end := skipValue(raw, at)
	return raw[at:end:end]
}
