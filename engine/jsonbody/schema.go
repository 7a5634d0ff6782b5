package jsonbody

// The JSON schemas of bodies, for GET /openapi.json. They are made of the tables of fields and of
// the structs that the parsers fill, so they cannot say anything else than those.

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Schema is a JSON schema.
type Schema = map[string]any

// Text is the schema of a string.
func Text() Schema { return Schema{"type": "string"} }

// OneOfTexts is the schema of one of these strings.
func OneOfTexts(values ...string) Schema { return Schema{"type": "string", "enum": values} }

// List is the schema of an array.
func List(items Schema) Schema { return Schema{"type": "array", "items": items} }

// Flag is the schema of a boolean or null, which is as if it were absent.
func Flag() Schema { return orNull(Schema{"type": "boolean"}) }

// Either is the schema of a value that has one of several schemas.
func Either(schemas ...Schema) Schema { return Schema{"anyOf": schemas} }

// Struct is the schema of an object with these properties, and others.
func Struct(properties map[string]Schema, required ...string) Schema {
	s := Schema{"type": "object"}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// BodySchema returns the schema of a body with the fields of a table. wire is the struct that the
// parser fills: it has the types of the fields that work. raw has the schemas of those that it
// keeps as JSON; without one, a field may be anything. Without a table, all fields of wire work.
func BodySchema(table []Field, wire reflect.Type, raw map[string]Schema,
	required ...string) Schema {
	if table == nil {
		for name := range Fields(wire) {
			table = append(table, Field{Name: name, Support: Works})
		}
	}
	properties := map[string]Schema{}
	for _, f := range table {
		switch f.Support {
		case Works:
			properties[f.Name] = described(workingSchema(f.Name, wire, raw), f)
		case Refused:
			properties[f.Name] = described(f.harmless(), f)
		case Inert:
			properties[f.Name] = described(Schema{}, f)
		}
	}
	return Struct(properties, required...)
}

// workingSchema returns the schema of a field that works. null is as if it were absent.
func workingSchema(name string, wire reflect.Type, raw map[string]Schema) Schema {
	if s, ok := raw[name]; ok {
		return orNull(s)
	}
	index, ok := Fields(wire)[name]
	if !ok {
		return Schema{}
	}
	return orNull(typeSchema(wire.FieldByIndex(index).Type))
}

func orNull(s Schema) Schema {
	if len(s) == 0 {
		return s
	}
	return Either(s, Schema{"type": "null"})
}

// typeSchema returns the schema of a type that Decode fills.
func typeSchema(t reflect.Type) Schema {
	if t == rawType {
		return Schema{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem())
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.String:
		return Text()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return Schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Slice:
		return List(typeSchema(t.Elem()))
	}
	return BodySchema(nil, t, nil)
}

// harmless returns the schema of the values of a refused field that are accepted.
func (f Field) harmless() Schema {
	schemas := []Schema{only(nil)}
	for _, text := range strings.Fields(f.Harmless) {
		var v any
		if json.Unmarshal([]byte(text), &v) == nil {
			schemas = append(schemas, only(v))
		}
	}
	if len(schemas) == 1 {
		return schemas[0]
	}
	return Either(schemas...)
}

// only returns the schema of a value alone. It has a type, because generators of clients leave out
// the routes that have an enum of several types, or a const that is an array or an object. An array
// has equal items.
func only(value any) Schema {
	switch v := value.(type) {
	case nil:
		return Schema{"type": "null"}
	case bool:
		return Schema{"type": "boolean", "const": v}
	case float64:
		return Schema{"type": "number", "const": v}
	case string:
		return Schema{"type": "string", "const": v}
	case []any:
		s := List(Schema{})
		if len(v) > 0 {
			s["items"], s["minItems"] = only(v[0]), len(v)
		}
		s["maxItems"] = len(v)
		return s
	}
	properties, names := map[string]Schema{}, []string{}
	for name, v := range value.(map[string]any) {
		properties[name] = only(v)
		names = append(names, name)
	}
	slices.Sort(names)
	s := Struct(properties, names...)
	s["additionalProperties"] = false
	return s
}

// described adds what becomes of the field to its schema.
func described(s Schema, f Field) Schema {
	words := slices.DeleteFunc([]string{f.Note, f.Instead}, func(w string) bool { return w == "" })
	switch f.Support {
	case Refused:
		words = append([]string{"Refused"}, words...)
	case Inert:
		words = append([]string{"No effect"}, words...)
	}
	if len(words) > 0 {
		s["description"] = strings.Join(words, ". ")
	}
	return s
}
