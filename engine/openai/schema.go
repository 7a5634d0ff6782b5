package openai

// The schemas of bodies, for GET /openapi.json.

import (
	"reflect"

	"headroom/engine/jsonbody"
)

type schema = jsonbody.Schema

// The schemas of fields that the parsers keep as JSON.
var (
	tokensSchema = jsonbody.List(schema{"type": "integer", "minimum": 0})
	partsSchema  = jsonbody.List(jsonbody.Struct(map[string]schema{
		"type": jsonbody.OneOfTexts("text"), "text": jsonbody.Text()}, "type", "text"))
	contentSchema  = jsonbody.Either(jsonbody.Text(), partsSchema)
	functionSchema = map[string]schema{"name": nameSchema,
		"description": jsonbody.Text(), "parameters": {"type": "object"},
		"strict": jsonbody.Flag()}
	callsSchema = jsonbody.List(jsonbody.Struct(map[string]schema{"id": jsonbody.Text(),
		"type": jsonbody.OneOfTexts("function"), "function": jsonbody.Struct(map[string]schema{
			"name": jsonbody.Text(), "arguments": jsonbody.Text()}, "name", "arguments")},
		"id", "type", "function"))
	messageSchema = jsonbody.Struct(map[string]schema{
		"role":    jsonbody.OneOfTexts("system", "developer", "user", "assistant", "tool"),
		"content": contentSchema, "tool_calls": callsSchema, "tool_call_id": jsonbody.Text()},
		"role", "content")
	messagesSchema = schema{"type": "array", "minItems": 1, "items": messageSchema}
	nameSchema     = schema{"type": "string", "minLength": 1}
	functionChoice = jsonbody.Struct(map[string]schema{"type": jsonbody.OneOfTexts("function"),
		"function": jsonbody.Struct(map[string]schema{"name": nameSchema}, "name")},
		"type", "function")
	choiceSchema = jsonbody.Either(jsonbody.OneOfTexts("auto", "none", "required"), functionChoice,
		jsonbody.Struct(map[string]schema{"type": jsonbody.OneOfTexts("allowed_tools"),
			"allowed_tools": jsonbody.Struct(map[string]schema{
				"mode":  jsonbody.OneOfTexts("auto", "required"),
				"tools": jsonbody.List(functionChoice)}, "mode", "tools")},
			"type", "allowed_tools"))
	stopSchema = jsonbody.Either(jsonbody.Text(), jsonbody.List(jsonbody.Text()))
)

func common(more map[string]schema) map[string]schema {
	more["stop"] = stopSchema
	more["seed"] = schema{"type": "integer"}
	more["logit_bias"] = schema{"type": "object",
		"additionalProperties": schema{"type": "number", "minimum": -100, "maximum": 100}}
	return more
}

func chatSchema() schema {
	return jsonbody.BodySchema(fieldsOf(field.ofChat), reflect.TypeFor[wireChat](),
		common(map[string]schema{"messages": messagesSchema,
			"tools": jsonbody.List(jsonbody.Struct(map[string]schema{
				"type":     jsonbody.OneOfTexts("function"),
				"function": jsonbody.Struct(functionSchema, "name")}, "type", "function")),
			"tool_choice":          choiceSchema,
			"think":                jsonbody.Either(schema{"type": "boolean"}, jsonbody.Text()),
			"chat_template_kwargs": {"type": "object"},
		}), "messages")
}

func completionSchema() schema {
	return jsonbody.BodySchema(fieldsOf(field.ofCompletion), reflect.TypeFor[wireCompletion](),
		common(map[string]schema{"prompt": jsonbody.Either(jsonbody.Text(), tokensSchema,
			jsonbody.List(jsonbody.Text()), jsonbody.List(tokensSchema))}), "prompt")
}

func tokenizeSchema() schema {
	return jsonbody.BodySchema(nil, reflect.TypeFor[wireTokenize](),
		map[string]schema{"messages": messagesSchema})
}

func detokenizeSchema() schema {
	return jsonbody.BodySchema(nil, reflect.TypeFor[wireDetokenize](),
		map[string]schema{"tokens": tokensSchema}, "tokens")
}

func embeddingSchema() schema {
	texts := jsonbody.Either(jsonbody.Text(), tokensSchema, jsonbody.List(jsonbody.Text()),
		jsonbody.List(tokensSchema))
	return jsonbody.BodySchema(embeddingFields, reflect.TypeFor[wireEmbedding](),
		map[string]schema{"input": texts, "content": texts}, "input")
}
