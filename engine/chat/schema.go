package chat

// The JSON schemas of tools say which type a value has that a model wrote as plain text. They come
// from clients, so everything that is not understood is ignored.
//
// Pydantic writes nested models as {"$ref": "#/$defs/NAME"} and optional values as
// {"anyOf": [{…}, {"type": "null"}]}. So a schema is read together with all that it refers to or
// combines.

import (
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// schema is the schema of a value, such as the parameters of a function. The zero value is that of
// a value which is not declared. It is safe for concurrent use.
type schema struct {
	kinds []string         // the types in lower case, without null
	nodes []map[string]any // the schema, and those that it refers to or combines
	root  any              // has what a $ref refers to
}

// untyped is the type of a value that is declared without one.
const untyped = "any"

// maxSchemaNodes bounds how many schemas one refers to or combines.
const maxSchemaNodes = 1000

// readSchema reads a function's parameters.
func readSchema(raw json.RawMessage) schema {
	var root any
	if json.Unmarshal(raw, &root) != nil {
		return schema{}
	}
	return schemaOf(root, root)
}

// schemaOf returns the schema of a value to which several schemas apply. They are parts of root.
func schemaOf(root any, nodes ...any) schema {
	if len(nodes) == 0 {
		return schema{}
	}
	r := schemaReader{schema: schema{root: root}, refs: map[string]bool{}}
	for _, n := range nodes {
		r.read(n)
	}
	if len(r.kinds) == 0 {
		r.kinds = []string{untyped}
	}
	r.kinds = slices.DeleteFunc(r.kinds, func(kind string) bool { return kind == "null" })
	return r.schema
}

// schemaReader collects what applies to one value.
type schemaReader struct {
	schema
	refs map[string]bool // those that have been followed
}

// read adds a schema and all that it refers to or combines. A type beside those counts alone.
func (r *schemaReader) read(node any) {
	n, ok := node.(map[string]any)
	if !ok || len(r.nodes) == maxSchemaNodes {
		return
	}
	r.nodes = append(r.nodes, n)
	before := len(r.kinds)
	r.addKinds(n["type"])
	declared := len(r.kinds)
	if ref, ok := n["$ref"].(string); ok && !r.refs[ref] {
		r.refs[ref] = true
		r.read(referred(r.root, ref))
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := n[key].([]any)
		for _, part := range parts {
			r.read(part)
		}
	}
	switch {
	case declared > before:
		r.kinds = r.kinds[:declared]
	case len(r.kinds) == before:
		r.infer(n)
	}
}

// addKinds adds the value of "type", which is one type or a list of them.
func (r *schemaReader) addKinds(kinds any) {
	list, several := kinds.([]any)
	if !several {
		list = []any{kinds}
	}
	for _, kind := range list {
		if name, ok := kind.(string); ok {
			r.add(name)
		}
	}
}

func (r *schemaReader) add(kind string) {
	kind = strings.ToLower(strings.TrimSpace(kind))
	if kind != "" && !slices.Contains(r.kinds, kind) {
		r.kinds = append(r.kinds, kind)
	}
}

// infer adds the types of a schema that names none.
func (r *schemaReader) infer(n map[string]any) {
	values, _ := n["enum"].([]any)
	if value, ok := n["const"]; ok {
		values = append(values, value)
	}
	for _, v := range values {
		r.add(kindOf(v))
	}
	switch {
	case len(values) > 0:
	case n["properties"] != nil || n["additionalProperties"] != nil:
		r.add("object")
	case n["items"] != nil || n["prefixItems"] != nil:
		r.add("array")
	}
}

// kindOf returns the type of a decoded JSON value.
func kindOf(value any) string {
	switch v := value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// referred returns the part of root to which a $ref such as "#/$defs/NAME" refers, or nil.
func referred(root any, ref string) any {
	path, local := strings.CutPrefix(ref, "#")
	path, err := url.PathUnescape(path)
	if !local || err != nil || path != "" && path[0] != '/' {
		return nil
	}
	at := root
	for _, key := range strings.Split(path, "/")[1:] {
		switch v := at.(type) {
		case map[string]any:
			at = v[unescapePointer.Replace(key)]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// unescapePointer decodes a key in a JSON pointer (RFC 6901).
var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// inner returns the schema of a parameter, or of a value with a key in another one. The keys of
// elements in a list do not count.
func (s schema) inner(key string) schema {
	var found []any
	for _, n := range s.nodes {
		properties, _ := n["properties"].(map[string]any)
		switch p, ok := properties[key]; {
		case s.isArray():
			if items, ok := n["items"]; ok {
				found = append(found, items)
			}
		case ok:
			found = append(found, p)
		default:
			if more, ok := n["additionalProperties"].(map[string]any); ok {
				found = append(found, more)
			}
		}
	}
	return schemaOf(s.root, found...)
}

// declares reports whether a key is among the properties.
func (s schema) declares(key string) bool {
	for _, n := range s.nodes {
		properties, _ := n["properties"].(map[string]any)
		if _, ok := properties[key]; ok {
			return true
		}
	}
	return false
}

// isArray and isObject report whether a value is only a list or only an object.
func (s schema) isArray() bool  { return s.all(isArrayKind) }
func (s schema) isObject() bool { return s.all(isObjectKind) }

func (s schema) all(is func(kind string) bool) bool {
	for _, kind := range s.kinds {
		if !is(kind) {
			return false
		}
	}
	return len(s.kinds) > 0
}

func isArrayKind(kind string) bool {
	return kind == "array" || kind == "arr" || strings.HasPrefix(kind, "list")
}

func isObjectKind(kind string) bool {
	return kind == "object" || strings.HasPrefix(kind, "dict")
}
