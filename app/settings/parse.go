package settings

// The document in the file: its versions, and what becomes of values that make no sense.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
// sense have them too, and invalid has a *valueError for each. The error is not nil if the text is
// not a JSON object.
func parse(data []byte) (s Settings, invalid []error, err error) {
	var document map[string]json.RawMessage
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
	if err := checkLaunch(document); err != nil {
		invalid = append(invalid, err)
	}
	s = Default()
	kept, dropped := valid(nil, document)
	if err := json.Unmarshal(kept, &s); err != nil {
		return Settings{}, nil, err // cannot happen: valid has decoded every part
	}
	s.Version = max(written, version)
	if s.Port < 1 || s.Port > 65535 {
		s.Port = Default().Port
	}
	s.IdleUnloadMinutes = max(s.IdleUnloadMinutes, 0)
	s.Cache.repair()
	s.NoAPIKey = s.NoAPIKey && s.APIKey == ""
	return s.clone(), append(invalid, dropped...), nil
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

// checkLaunch removes a value of launch that does not exist, and returns its error.
func checkLaunch(document map[string]json.RawMessage) error {
	key, ok := keyOf(document, "launch")
	var launch Launch
	if !ok || json.Unmarshal(document[key], &launch) != nil || // valid reports the type
		launch == LaunchAsLeft || launch == LaunchOn || launch == LaunchOff {
		return nil
	}
	delete(document, key)
	return &valueError{[]string{key}, fmt.Errorf("%q is not a value, expected %q, %q or %q", launch,
		LaunchOn, LaunchOff, LaunchAsLeft)}
}

// valid returns the members of an object that decode into Settings, as JSON, and errors for the
// others. path has the keys that lead to the object. valid treats nested objects in the same way,
// so that one invalid member does not drop the whole nested object.
func valid(path []string, object map[string]json.RawMessage) (json.RawMessage, []error) {
	var invalid []error
	kept := make(map[string]json.RawMessage, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at := append(slices.Clone(path), key)
		err := decodes(at, object[key])
		if err == nil {
			kept[key] = object[key]
			continue
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(object[key], &members) == nil && decodes(at, []byte("{}")) == nil {
			part, errs := valid(at, members)
			kept[key] = part
			invalid = append(invalid, errs...)
			continue
		}
		invalid = append(invalid, &valueError{at, err})
	}
	text, _ := json.Marshal(kept) // cannot fail: the values were parsed
	return text, invalid
}

// decodes returns the error of decoding settings that have only this value.
func decodes(path []string, value json.RawMessage) error {
	for _, key := range slices.Backward(path) {
		value, _ = json.Marshal(map[string]json.RawMessage{key: value})
	}
	return json.Unmarshal(value, &Settings{})
}

func encode(s Settings) []byte {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("settings: encode: " + err.Error()) // cannot happen for these types
	}
	return append(data, '\n')
}
