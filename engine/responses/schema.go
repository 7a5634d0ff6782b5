package responses

// The schema of bodies, for GET /openapi.json.

import (
	"reflect"

	"headroom/engine/jsonbody"
)

type schema = jsonbody.Schema

func bodySchema() schema {
	text := jsonbody.Text
	item := func(kind string, properties map[string]schema, required ...string) schema {
		properties["type"] = jsonbody.OneOfTexts(kind)
		return jsonbody.Struct(properties, append(required, "type")...)
	}
	name := schema{"type": "string", "minLength": 1}
	choice := jsonbody.Either(jsonbody.OneOfTexts("auto", "none", "required"),
		item("function", map[string]schema{"name": name}, "name"),
		item("allowed_tools", map[string]schema{"mode": jsonbody.OneOfTexts("auto", "required"),
			"tools": jsonbody.List(item("function", map[string]schema{"name": name}, "name"))},
			"mode", "tools"))
	part := jsonbody.Struct(map[string]schema{"text": text(),
		"type": jsonbody.OneOfTexts("input_text", "output_text")}, "type", "text")
	content := jsonbody.Either(text(), jsonbody.List(part))
	items := schema{"type": "array", "minItems": 1, "items": jsonbody.Either(
		item("message", map[string]schema{"content": content,
			"role": jsonbody.OneOfTexts("user", "assistant", "system", "developer")},
			"role", "content"),
		item("function_call", map[string]schema{"call_id": text(), "name": text(),
			"arguments": text()}, "call_id", "name", "arguments"),
		item("function_call_output", map[string]schema{"call_id": text(), "output": content},
			"call_id", "output"),
		item("reasoning", map[string]schema{"summary": jsonbody.List(jsonbody.Struct(
			map[string]schema{"type": jsonbody.OneOfTexts("summary_text"), "text": text()},
			"type", "text"))}, "summary"))}
	return jsonbody.BodySchema(fieldTable, reflect.TypeFor[wireRequest](), map[string]schema{
		"input": jsonbody.Either(text(), items),
		"tools": jsonbody.List(item("function", map[string]schema{
			"name": name, "parameters": {"type": "object"}, "strict": jsonbody.Flag()}, "name")),
		"tool_choice":          choice,
		"metadata":             {"type": "object", "additionalProperties": text()},
		"stop":                 jsonbody.Either(text(), jsonbody.List(text())),
		"seed":                 {"type": "integer"},
		"chat_template_kwargs": {"type": "object"},
	}, "input")
}
