package control

// The OpenAPI 3.1 description of the API (https://spec.openapis.org/oas/v3.1.1.html). It is built
// from the rows of routes.go and, by reflection, from Go types. The Go documentation of each type
// says what its fields mean. The web UI generates its TypeScript types from this document.

import (
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"headroom/app/host"
)

// object is a JSON object of the description.
type object = map[string]any

// eventDocuments holds the type of each event's data in the stream of /control/events.
var eventDocuments = map[string]reflect.Type{
	"state":  reflect.TypeFor[host.State](),
	"models": reflect.TypeFor[ModelsEvent](),
	"jobs":   reflect.TypeFor[JobList](),
	"chats":  reflect.TypeFor[ChatsEvent](),
}

// openAPI returns the description. Its components hold the schemas of all request and response
// bodies. A response always has its required fields; no field of a request is required.
func (a *API) openAPI() object {
	s := &schemas{known: object{}}
	events := object{}
	for name, document := range eventDocuments {
		events[name] = s.of(document)
	}
	s.of(reflect.TypeFor[ErrorBody]())
	rows := a.Routes()
	for _, row := range rows {
		if row.Response != nil {
			s.of(row.Response)
		}
	}
	s.requestOnly = true
	paths := object{}
	for _, row := range rows {
		method, path, _ := strings.Cut(row.Pattern, " ")
		if paths[path] == nil {
			paths[path] = object{}
		}
		operation := s.operation(row, path)
		if row.Events {
			operation["x-events"] = events
		}
		paths[path].(object)[strings.ToLower(method)] = operation
	}
	token := object{"type": "apiKey", "in": "header", "name": TokenHeader}
	return object{
		"openapi": "3.1.1",
		"info": object{"title": "Headroom's control API", "version": a.host.State().Version,
			"description": "The API behind the window, the menu bar and the command line. The " +
				"OpenAI-compatible endpoint under /v1 is not part of it."},
		"paths": paths,
		"components": object{"schemas": s.known,
			"securitySchemes": object{"token": token}},
		"security": []any{object{"token": []any{}}},
	}
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (s *schemas) operation(row Route, path string) object {
	text := object{"type": "string"}
	parameters := []any{}
	for _, name := range pathParameter.FindAllStringSubmatch(path, -1) {
		parameters = append(parameters,
			object{"name": name[1], "in": "path", "required": true, "schema": text})
	}
	for _, q := range row.Queries {
		parameters = append(parameters,
			object{"name": q.Name, "in": "query", "description": q.Description, "schema": text})
	}
	done := object{"description": "Done."}
	switch {
	case row.Events:
		done["content"] = object{"text/event-stream": object{"schema": text}}
	case row.Response != nil:
		done["content"] = asJSON(s.of(row.Response))
	}
	refused := object{"description": "The reason for the refusal, and what to do.",
		"content": asJSON(s.of(reflect.TypeFor[ErrorBody]()))}
	operation := object{
		"summary":    row.Summary,
		"parameters": parameters,
		"responses":  object{strconv.Itoa(row.Status): done, "default": refused},
	}
	if row.Body != nil {
		operation["requestBody"] = object{"content": asJSON(s.of(row.Body))}
	}
	return operation
}

// asJSON returns the content of a JSON body with that schema.
func asJSON(schema object) object {
	return object{"application/json": object{"schema": schema}}
}

// schemas collects the schemas of structs by name. Other types are described inline.
type schemas struct {
	known       object
	requestOnly bool // the next new structs occur only in requests
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	rawMessage    = reflect.TypeFor[json.RawMessage]()
)

// of describes t as encoding/json writes it. It panics on a kind that no document uses yet.
func (s *schemas) of(t reflect.Type) object {
	if values, ok := enums[t]; ok {
		return object{"type": "string", "enum": values}
	}
	if t == rawMessage {
		return object{}
	}
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
	panic("control: schemas.of: there is no schema for the type " + t.String())
}

// structure returns a reference to the schema of a struct, built by the first call.
func (s *schemas) structure(t reflect.Type) object {
	name := schemaName(t)
	if s.known[name] == nil {
		s.known[name] = object{} // a struct may contain itself
		properties, required := object{}, []any{}
		s.fields(t, properties, &required)
		s.known[name] = object{"type": "object", "properties": properties, "required": required}
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) fields(t reflect.Type, properties object, required *[]any) {
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
		if f.Type == rawMessage && schemaName(t) == "SettingsModel" {
			properties[name] = object{"type": []any{"object", "null"},
				"additionalProperties": object{}}
		}
		if values, ok := fieldEnums[schemaName(t)+"."+name]; ok {
			properties[name] = object{"type": "string", "enum": values}
		}
		if !s.requestOnly && !strings.Contains(options, "omitempty") &&
			!strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}

// schemaName prefixes the type's name with its package, because two packages may each have a List.
func schemaName(t reflect.Type) string {
	folder, name := t.PkgPath()[strings.LastIndex(t.PkgPath(), "/")+1:], t.Name()
	if folder == "control" {
		return name
	}
	return strings.ToUpper(folder[:1]) + folder[1:] + name
}
