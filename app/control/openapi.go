package control

// The API described in OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.1.html), made from the rows
// of routes.go and from Go's types by reflection, so that it cannot fall behind. What a field means
// stands in the Go documentation of its type.

import (
	"encoding"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// object is a JSON object of the description.
type object = map[string]any

// openAPI is the description. Its "components" hold the schemas of all types that are sent.
func (a *API) openAPI() object {
	s := schemas{known: object{}}
	paths := object{}
	for _, row := range a.Routes() {
		method, path, _ := strings.Cut(row.Pattern, " ")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(method)] = s.operation(row, path)
	}
	return object{
		"openapi": "3.1.1",
		"info": object{"title": "Headroom's control API", "version": a.host.State().Version,
			"description": "What the window, the menu bar and the command line use. The " +
				"OpenAI-compatible endpoint under /v1 is not part of it."},
		"paths": paths,
		"components": object{"schemas": s.known,
			"securitySchemes": object{"token": object{"type": "apiKey", "in": "header", "name": TokenHeader}}},
		"security": []any{object{"token": []any{}}},
	}
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (s schemas) operation(row Route, path string) object {
	text := object{"type": "string"}
	parameters := []any{}
	for _, name := range pathParameter.FindAllStringSubmatch(path, -1) {
		parameters = append(parameters,
			object{"name": name[1], "in": "path", "required": true, "schema": text})
	}
	for _, q := range row.Queries {
		parameters = append(parameters,
			object{"name": q.Name, "in": "query", "description": q.Does, "schema": text})
	}
	done := object{"description": "Done."}
	switch {
	case row.Events:
		done["content"] = object{"text/event-stream": object{"schema": text}}
	case row.Answer != nil:
		done["content"] = object{"application/json": object{"schema": s.of(row.Answer)}}
	}
	operation := object{
		"summary":    row.Does,
		"parameters": parameters,
		"responses": object{
			strconv.Itoa(row.Status): done,
			"default": object{"description": "Why not, and what to do.",
				"content": object{"application/json": object{"schema": s.of(reflect.TypeFor[ErrorBody]())}}},
		},
	}
	if row.Body != nil {
		operation["requestBody"] = object{"content": object{"application/json": object{"schema": s.of(row.Body)}}}
	}
	return operation
}

// schemas are those of structs, by name; other types are described where they stand.
type schemas struct{ known object }

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// of describes t as encoding/json writes it. It panics on a type that no document has had yet.
func (s schemas) of(t reflect.Type) object {
	if t.Implements(textMarshaler) {
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Interface:
		return object{}
	case reflect.Pointer:
		return object{"oneOf": []any{s.of(t.Elem()), object{"type": "null"}}}
	case reflect.Slice:
		return object{"type": []any{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": []any{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	}
	panic("control: schemas.of: there is no JSON for a " + t.String())
}

// structure gives a reference to the schema of a struct, which it makes at the first call.
func (s schemas) structure(t reflect.Type) object {
	name := schemaName(t)
	if s.known[name] == nil {
		s.known[name] = object{} // a struct may hold itself
		properties, required := object{}, []any{}
		s.fields(t, properties, &required)
		s.known[name] = object{"type": "object", "properties": properties, "required": required}
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s schemas) fields(t reflect.Type, properties object, required *[]any) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			s.fields(f.Type, properties, required)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		properties[name] = s.of(f.Type)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}

// schemaName is the name of a type with its package's: two packages may each have a List.
func schemaName(t reflect.Type) string {
	folder, name := t.PkgPath()[strings.LastIndex(t.PkgPath(), "/")+1:], t.Name()
	if folder == "control" {
		return name
	}
	return strings.ToUpper(folder[:1]) + folder[1:] + name
}
