package settings

// Fields that this version does not know. An earlier or a later Headroom has written them, or a
// person. They stay in the file when it is written again.

import (
	"encoding/json"
	"reflect"
	"strings"
)

// members are members of a JSON object.
type members = map[string]json.RawMessage

// unknown has the members of the file's objects that are no settings of this version.
type unknown struct {
	top, cache members
	models     map[string]members // by ID
}

// unknownIn returns the unknown members of a document of this version.
func unknownIn(document members) unknown {
	u := unknown{top: unknownMembers[Settings](document),
		cache: unknownMembers[Cache](object(document, "cache"))}
	for id, text := range object(document, "models") {
		var model members
		if json.Unmarshal(text, &model) != nil {
			continue // not an object, which parse reports
		}
		if fields := unknownMembers[Model](model); len(fields) > 0 {
			if u.models == nil {
				u.models = map[string]members{}
			}
			u.models[id] = fields
		}
	}
	return u
}

// object returns the members of an object in a document; nil if it is missing or no object.
func object(document members, name string) (in members) {
	key, _ := keyOf(document, name)
	_ = json.Unmarshal(document[key], &in)
	return in
}

// unknownMembers returns the members that are no fields of T.
func unknownMembers[T any](all members) members {
	known := members{}
	for f := range reflect.TypeFor[T]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			known[name] = nil
		}
	}
	var fields members
	for name, value := range all {
		if _, ok := keyOf(known, name); ok {
			continue
		}
		if fields == nil {
			fields = members{}
		}
		fields[name] = value
	}
	return fields
}

// document is the file without the unknown members of the outermost object.
type document struct {
	Settings
	Cache  json.RawMessage            `json:"cache"`
	Models map[string]json.RawMessage `json:"models,omitempty"`
}

// document returns the settings with the unknown members of "cache" and of models. Those of a model
// stay if all other settings of the model have been removed.
func (u unknown) document(s Settings) document {
	d := document{Settings: s, Cache: appendMembers(mustMarshal(s.Cache), u.cache),
		Models: map[string]json.RawMessage{}}
	for id, m := range s.Models {
		d.Models[id] = mustMarshal(m)
	}
	for id, fields := range u.models {
		key, ok := keyOf(d.Models, id)
		if !ok {
			key, d.Models[id] = id, json.RawMessage("{}")
		}
		d.Models[key] = appendMembers(d.Models[key], fields)
	}
	return d
}

// mustMarshal encodes settings, which cannot fail.
func mustMarshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("settings: encode: " + err.Error())
	}
	return text
}

// appendMembers returns a JSON object with more members, which it does not have.
func appendMembers(object json.RawMessage, more members) json.RawMessage {
	if len(more) == 0 {
		return object
	}
	text := append([]byte{}, object[:len(object)-1]...)
	if len(text) > 1 {
		text = append(text, ',')
	}
	return append(text, encodeObject(more)[1:]...)
}
