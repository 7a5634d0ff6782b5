package modelfile

// JSON as Python's programs write and read it: with a byte order mark, with Infinity and NaN, and
// with keys whose case matters. encoding/json refuses the first two, and takes Hidden_Size for
// hidden_size. Its errors name Go's types, which say nothing to a user.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// nonFinite maps the numbers that JSON does not have to what replaces them. encoding/json reads
// 1e999 as a number, and Decode as infinity. No key can have the value NaN, so Decode refuses it,
// but it may be in a key that nothing reads.
var nonFinite = []struct{ from, to string }{
	{"Infinity", "1e999"},
	{"NaN", `"NaN"`},
}

var byteOrderMark = []byte("\uFEFF")

// Standard returns data, JSON that Python may have written, as JSON that everything else reads.
func Standard(data []byte) []byte {
	data = bytes.TrimPrefix(data, byteOrderMark)
	for _, number := range nonFinite {
		if bytes.Contains(data, []byte(number.from)) {
			return replaceNonFinite(data)
		}
	}
	return data
}

// replaceNonFinite replaces the numbers of nonFinite outside of strings.
func replaceNonFinite(data []byte) []byte {
	var out []byte
	done, inString := 0, false // out has data[:done]
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString || c != 'I' && c != 'N':
		default:
			for _, number := range nonFinite {
				if bytes.HasPrefix(data[i:], []byte(number.from)) {
					out = append(append(out, data[done:i]...), number.to...)
					done = i + len(number.from)
					i = done - 1
					break
				}
			}
		}
	}
	if done == 0 {
		return data
	}
	return append(out, data[done:]...)
}

// KindError is the error of a value of another kind than expected, such as a text for a number.
type KindError struct {
	Key      string // its path, such as "rope_scaling.factor"; "": the value as a whole
	Got      string // such as "an array" or `"four"`
	Expected string // such as "an integer"
}

func (e *KindError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("it is %s, expected %s", e.Got, e.Expected)
	}
	return fmt.Sprintf("%s is %s, expected %s", e.Key, e.Got, e.Expected)
}

// Decode decodes JSON into v, a pointer. It follows encoding/json, but the names of keys are
// case-sensitive, only fields with a tag count, a number that is too large for a float is infinite,
// and an integer may be written as 4096.0. If a value has the wrong kind, the error is a
// *KindError, and the other fields of its struct are set. key is the key in the file whose value
// data is, or "".
func Decode(key string, data []byte, v any) error {
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	return decode(key, raw, reflect.ValueOf(v).Elem())
}

var rawType = reflect.TypeFor[json.RawMessage]()

// decode sets v to raw, which is valid JSON.
func decode(key string, raw json.RawMessage, v reflect.Value) error {
	raw = bytes.TrimSpace(raw)
	kind := v.Kind()
	switch {
	case v.Type() == rawType:
		v.SetBytes(raw)
		return nil
	case string(raw) == "null":
		if kind == reflect.Pointer || kind == reflect.Map || kind == reflect.Slice ||
			kind == reflect.Interface {
			v.SetZero()
		}
		return nil
	case kind == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return decode(key, raw, v.Elem())
	case kind == reflect.Struct && raw[0] == '{':
		return decodeStruct(key, raw, v)
	case kind == reflect.Map && raw[0] == '{':
		return decodeMap(key, raw, v)
	case kind == reflect.Slice && raw[0] == '[':
		return decodeSlice(key, raw, v)
	case (kind == reflect.Float32 || kind == reflect.Float64) && isNumber(raw):
		f, _ := strconv.ParseFloat(string(raw), v.Type().Bits()) // infinite beyond the range
		v.SetFloat(f)
		return nil
	case json.Unmarshal(raw, v.Addr().Interface()) == nil:
		return nil
	case v.CanInt() && isNumber(raw) && setWhole(v, raw):
		return nil
	}
	return &KindError{key, describe(raw), expected(v.Type())}
}

func decodeStruct(key string, raw json.RawMessage, v reflect.Value) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	var first error
	fields := fieldsOf(v.Type())
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if index, ok := fields[name]; ok {
			err := decode(join(key, name), values[name], v.FieldByIndex(index))
			first = cmp.Or(first, err)
		}
	}
	return first
}

func decodeMap(key string, raw json.RawMessage, v reflect.Value) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	if v.IsNil() {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(values)))
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		element := reflect.New(v.Type().Elem()).Elem()
		if err := decode(join(key, name), values[name], element); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), element)
	}
	return nil
}

func decodeSlice(key string, raw json.RawMessage, v reflect.Value) error {
	var values []json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), len(values), len(values)))
	for i, value := range values {
		if err := decode(fmt.Sprintf("%s[%d]", key, i), value, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the indexes of a struct's fields by their names in JSON. A field hides those of
// the same name in embedded structs.
func fieldsOf(t reflect.Type) map[string][]int {
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if known, ok := fields[name]; name != "" && (!ok || len(f.Index) < len(known)) {
			fields[name] = f.Index
		}
	}
	return fields
}

func join(key, name string) string {
	if name = Excerpt(name); key == "" {
		return name
	}
	return key + "." + name
}

// setWhole sets the integer v to a number with a fraction or an exponent, such as 4096.0 or 4e3. It
// reports whether that is a whole number which a float has exactly.
func setWhole(v reflect.Value, raw []byte) bool {
	const exact = 1 << 53
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > exact || v.OverflowInt(int64(f)) {
		return false
	}
	v.SetInt(int64(f))
	return true
}

func isNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// describe returns a value for an error: its kind, or a short value itself.
func describe(raw []byte) string {
	const most = 40
	switch {
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "an array"
	case len(raw) <= most:
		return string(raw)
	case raw[0] == '"':
		return fmt.Sprintf("a text of %d bytes", len(raw)-2)
	}
	return "a number of more than 40 digits"
}

// expected describes a Go type in JSON's terms.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}
