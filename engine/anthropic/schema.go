package anthropic

// The schemas of bodies, for GET /openapi.json.

import (
	"reflect"

	"headroom/engine/jsonbody"
)

type schema = jsonbody.Schema

func messageSchema() schema { return bodySchema("max_tokens", "messages") }

func countSchema() schema { return bodySchema("messages") }

// bodySchema returns the schema of a request with these required fields.
func bodySchema(required ...string) schema {
	text := jsonbody.Text
	block := func(kind string, properties map[string]schema, required ...string) schema {
		properties["type"] = jsonbody.OneOfTexts(kind)
		return jsonbody.Struct(properties, append(required, "type")...)
	}
	said := block("text", map[string]schema{"text": text()}, "text")
	texts := jsonbody.Either(text(), jsonbody.List(said))
	blocks := jsonbody.List(jsonbody.Either(said,
		block("thinking", map[string]schema{"thinking": text(), "signature": text()}, "thinking"),
		block("tool_use", map[string]schema{"id": text(), "name": text(),
			"input": {"type": "object"}}, "id", "name", "input"),
		block("tool_result", map[string]schema{"tool_use_id": text(), "content": texts},
			"tool_use_id")))
	return jsonbody.BodySchema(fieldTable, reflect.TypeFor[wireRequest](), map[string]schema{
		"messages": {"type": "array", "minItems": 1, "items": jsonbody.Struct(map[string]schema{
			"role":    jsonbody.OneOfTexts("user", "assistant", "system"),
			"content": jsonbody.Either(text(), blocks)}, "role", "content")},
		"system": texts,
		"tools": jsonbody.List(jsonbody.Struct(map[string]schema{
			"name": {"type": "string", "minLength": 1}, "description": text(),
			"input_schema": {"type": "object"}, "strict": jsonbody.Flag()},
			"name", "input_schema")),
		"tool_choice": jsonbody.Struct(map[string]schema{
			"type": jsonbody.OneOfTexts("auto", "any", "tool", "none"), "name": text(),
			"disable_parallel_tool_use": {"type": "boolean"}}, "type"),
	}, required...)
}
