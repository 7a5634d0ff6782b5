package settings

// The document in the file: its versions, and what becomes of values that make no sense.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// version is that of the documents written today.
const version = 2

// migrations[v] converts a document from version v to v+1. A document without a version has
// version 0.
var migrations = []func(map[string]json.RawMessage){
	0: func(map[string]json.RawMessage) {},
	1: renameKeys,
}

// renamedKeys maps the top-level keys of version 1 to the keys of version 2. renamedCacheKeys does
// the same for the keys of "cache".
var (
	renamedKeys = map[string]string{"restMinutes": "idleUnloadMinutes",
		"easeWhenHot": "throttleWhenHot"}
	renamedCacheKeys = map[string]string{"hotSize": "memoryCacheSize",
		"maxStallMs": "maxPrefillStallMs"}
)

// renameKeys converts a document from version 1 to 2.
func renameKeys(document map[string]json.RawMessage) {
	rename(document, renamedKeys)
	key, _ := keyOf(document, "cache")
	var cache map[string]json.RawMessage
	if json.Unmarshal(document[key], &cache) != nil || cache == nil {
		return // missing, or not an object, which parse reports
	}
	rename(cache, renamedCacheKeys)
	document[key], _ = json.Marshal(cache) // cannot fail: the values were just parsed
}

// rename moves the values of old keys to their new keys. A new key that exists keeps its value.
func rename(object map[string]json.RawMessage, names map[string]string) {
	for old, name := range names {
		key, ok := keyOf(object, old)
		if !ok {
			continue
		}
		if _, exists := keyOf(object, name); !exists {
			object[name] = object[key]
		}
		delete(object, key)
	}
}

// keyOf returns the key of object that is equal to name. Like encoding/json, it ignores case.
func keyOf(object map[string]json.RawMessage, name string) (key string, ok bool) {
	if _, ok := object[name]; ok {
		return name, true
	}
	for key := range object {
		if strings.EqualFold(key, name) {
			return key, true
		}
	}
	return "", false
}

// valueError is the error of a value that makes no sense.
type valueError struct {
	path []string // the keys that lead to the value
	err  error
}

func (e *valueError) Error() string { return strings.Join(e.path, ".") + ": " + e.err.Error() }
func (e *valueError) Unwrap() error { return e.err }

// invalidKey reports whether one of the errors is of the API key. Keys of JSON match without regard
// to case.
func invalidKey(invalid []error) bool {
	return slices.ContainsFunc(invalid, func(err error) bool {
		var v *valueError
		return errors.As(err, &v) && strings.EqualFold(v.path[0], "apiKey")
	})
}

// parse reads a document of any version. Missing values have their defaults. Values that make no
// sense, or that check refuses, have them too, and invalid has a *valueError for each. The error is
// not nil if the text is not a JSON object.
func parse(data []byte, check checkModelFunc) (s Settings, invalid []error, err error) {
	var document map[string]json.RawMessage
	if !utf8.Valid(data) { // encoding/json would replace what is not
		return Settings{}, nil, errors.New("it is not UTF-8")
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return Settings{}, nil, err
	}
	if document == nil {
		return Settings{}, nil, errors.New("not a JSON object")
	}
	invalid = dropTwice(data, document)
	written := 0
	key, ok := keyOf(document, "version")
	if text := document[key]; ok {
		if err := json.Unmarshal(text, &written); err != nil || written < 0 {
			invalid = append(invalid,
				&valueError{[]string{key}, fmt.Errorf("%s is not a version", text)})
			written = version
		}
	}
	for v := written; v < version; v++ {
		migrations[v](document)
	}
	delete(document, key)
	s = Default()
	kept, dropped := valid(nil, document, check)
	if err := json.Unmarshal(kept, &s); err != nil {
		return Settings{}, nil, err // cannot happen: valid has decoded every part
	}
	s.unknown = unknownIn(document)
	if name := misspeltKey(s.unknown.top); name != "" && s.APIKey == "" && !s.NoAPIKey {
		dropped = append(dropped, &valueError{[]string{"apiKey"},
			fmt.Errorf("%q may be this key, misspelt or damaged", name)})
	}
	s.Version = max(written, version)
	s.NoAPIKey = s.NoAPIKey && s.APIKey == ""
	return s.clone(), append(invalid, dropped...), nil
}

// atLine adds the line to an error in the syntax of data.
func atLine(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) || len(data) == 0 {
		return err
	}
	before := data[:min(len(data), max(0, int(syntax.Offset)))]
	return fmt.Errorf("line %d: %w", 1+bytes.Count(before, []byte("\n")), err)
}

// dropTwice removes the keys that the text has more than once, also in another case, and returns
// their errors: which of the values was meant is unknown. data is a JSON object.
func dropTwice(data []byte, document map[string]json.RawMessage) (invalid []error) {
	names := topKeys(data)
	for i, name := range names {
		same := func(other string) bool { return strings.EqualFold(other, name) }
		if slices.IndexFunc(names, same) == i && slices.ContainsFunc(names[i+1:], same) {
			maps.DeleteFunc(document, func(key string, _ json.RawMessage) bool { return same(key) })
			invalid = append(invalid, &valueError{[]string{name}, errors.New("it occurs twice")})
		}
	}
	return invalid
}

// topKeys returns the keys of a JSON object in their order.
func topKeys(data []byte) (names []string) {
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // the brace; data was parsed before
	for d.More() {
		name, _ := d.Token()
		text, _ := name.(string)
		names = append(names, text)
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return names
		}
	}
	return names
}

// valid returns the members of an object that decode into valid Settings, as JSON, and errors for
// the others. path has the keys that lead to the object. valid treats nested objects in the same
// way, so that one invalid member does not drop the whole nested object. Of members that contradict
// each other, the first ones stay.
func valid(path []string, object map[string]json.RawMessage,
	check checkModelFunc) (json.RawMessage, []error) {
	var invalid []error
	kept := make(map[string]json.RawMessage, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at := append(slices.Clone(path), key)
		err := decodes(at, object[key], check)
		if err == nil {
			kept[key] = object[key]
			continue
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(object[key], &members) == nil &&
			decodes(at, []byte("{}"), check) == nil {
			part, errs := valid(at, members, check)
			kept[key] = part
			invalid = append(invalid, errs...)
			continue
		}
		invalid = append(invalid, &valueError{at, err})
	}
	if decodes(path, encodeObject(kept), check) != nil {
		invalid = append(invalid, dropContradictions(path, kept, check)...)
	}
	return encodeObject(kept), invalid
}

// dropContradictions removes the members of an object that are valid alone but not together with
// the members before them, and returns their errors.
func dropContradictions(path []string, object map[string]json.RawMessage,
	check checkModelFunc) (invalid []error) {
	kept := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		kept[key] = object[key]
		if err := decodes(path, encodeObject(kept), check); err != nil {
			delete(kept, key)
			delete(object, key)
			invalid = append(invalid, &valueError{append(slices.Clone(path), key), err})
		}
	}
	return invalid
}

// decodes returns the error of settings in which only this value differs from the defaults.
func decodes(path []string, value json.RawMessage, check checkModelFunc) error {
	for _, key := range slices.Backward(path) {
		value = encodeObject(map[string]json.RawMessage{key: value})
	}
	s := Default()
	if err := json.Unmarshal(value, &s); err != nil {
		return inWords(err)
	}
	return s.check(check)
}

// InWords returns an error of encoding/json in JSON's terms, not in Go's, with the key that it is
// about.
func InWords(err error) error {
	var wrong *json.UnmarshalTypeError
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no key %s", name)
	}
	if !errors.As(err, &wrong) {
		return err
	}
	if wrong.Field == "" {
		return inWords(err)
	}
	return fmt.Errorf("%s: %w", wrong.Field, inWords(err))
}

// inWords is InWords without the key.
func inWords(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	want := "an object"
	switch t := wrong.Type; t.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.String:
		want = "a text"
	case reflect.Int, reflect.Int64:
		want = "an integer"
	case reflect.Float64:
		if number, ok := strings.CutPrefix(wrong.Value, "number "); ok {
			return fmt.Errorf("the number %s is too large", number)
		}
		want = "a number"
	case reflect.Slice:
		want = "a list"
	}
	return fmt.Errorf("expected %s, got %s", want, wrong.Value)
}

// encodeObject encodes an object whose values were parsed, so that it cannot fail.
func encodeObject(object map[string]json.RawMessage) json.RawMessage {
	text, _ := json.Marshal(object)
	return text
}

// encode returns the text of the file: the settings, and the fields of other versions.
func encode(s Settings) []byte {
	text := appendMembers(mustMarshal(s.unknown.document(s)), s.unknown.top)
	if indentedBytes(text) <= maxBytes { // more for the deeply nested fields of another version
		var indented bytes.Buffer
		_ = json.Indent(&indented, text, "", "  ") // cannot fail: the text was just encoded
		text = indented.Bytes()
	}
	return append(text, '\n')
}

// indentedBytes returns the length of a JSON text with two spaces for each level of nesting, or a
// little more.
func indentedBytes(text []byte) (n int) {
	depth, inString, escaped := 0, false, false
	for _, c := range text {
		n++
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
			n += 1 + 2*depth
		case c == '}' || c == ']':
			depth--
			n += 1 + 2*depth
		case c == ',':
			n += 1 + 2*depth
		case c == ':':
			n++
		}
	}
	return n
}
