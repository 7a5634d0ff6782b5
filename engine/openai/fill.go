package openai

// Reading values of a body that scan has checked. Values that are passed on are parts of the body,
// not copies. Names of fields are case-sensitive, unlike encoding/json's.

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// decode decodes JSON into v, a pointer to a struct. Its errors name the field. prefix is the path
// of the object inside the body, "" for the body itself. data is a part of a body that scan has
// checked.
func decode(data []byte, v any, prefix string) error {
	if err := fill(trimmed(data), reflect.ValueOf(v).Elem(), prefix); err != nil {
		return err
	}
	return nil
}

var rawType = reflect.TypeFor[json.RawMessage]()

// fill sets v to a value. path is the path of the value inside the body.
func fill(raw []byte, v reflect.Value, path string) *Error {
	switch {
	case v.Type() == rawType:
		v.SetBytes(raw)
		return nil
	case isNull(raw):
		return nil // the same as absent
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(raw, v.Elem(), path)
	case v.Kind() == reflect.Struct:
		return fillStruct(raw, v, path)
	case v.Kind() == reflect.Slice:
		return fillSlice(raw, v, path)
	case v.Kind() == reflect.Int && isNumber(raw):
		n, ok := integer(raw)
		if !ok {
			return badParam(path, "expected an integer, got %s", shorten(raw))
		}
		v.SetInt(saturated(n))
		return nil
	}
	err := json.Unmarshal(raw, v.Addr().Interface())
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType):
		return badParam(path, "expected %s, got %s", expected(v.Type()),
			withArticle(wrongType.Value))
	}
	return badParam(path, "expected %s: %v", expected(v.Type()), err)
}

func fillStruct(raw []byte, v reflect.Value, path string) *Error {
	switch {
	case raw[0] == '{':
	case path == "":
		return badBody("The body must be a JSON object, got %s", kind(raw))
	default:
		return badParam(path, "expected an object, got %s", kind(raw))
	}
	fields := fieldsOf(v.Type())
	return members(raw, func(name string, value []byte) *Error {
		index, ok := fields[name]
		if !ok {
			return nil
		}
		return fill(value, v.FieldByIndex(index), join(path, name))
	})
}

// maxEntries limits the arrays of a body by their path.
var maxEntries = map[string]int{"messages": maxMessages, "tools": maxTools, "functions": maxTools}

func fillSlice(raw []byte, v reflect.Value, path string) *Error {
	if raw[0] != '[' {
		return badParam(path, "expected an array, got %s", kind(raw))
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty array is not null
	n := 0
	return elements(raw, func(value []byte) *Error {
		if n++; n > cmp.Or(maxEntries[path], maxValues) {
			return badParam(path, "at most %d entries", maxEntries[path])
		}
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		return fill(value, v.Index(n-1), path+"["+strconv.Itoa(n-1)+"]")
	})
}

var fieldCache sync.Map // map[string][]int by reflect.Type

// fieldsOf returns the indexes of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type) map[string][]int {
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

// members calls do for each member of an object.
func members(raw []byte, do func(name string, value []byte) *Error) *Error {
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

// elements calls do for each element of an array.
func elements(raw []byte, do func(value []byte) *Error) *Error {
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
	for at++; raw[at] != '"'; at++ {
		if raw[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// trimmed returns a value without white space around it.
func trimmed(raw []byte) []byte {
	at := skipSpace(raw, 0)
	end := skipValue(raw, at)
	return raw[at:end:end]
}
