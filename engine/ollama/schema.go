package ollama

// The schemas of bodies, for GET /openapi.json.

import (
	"reflect"

	"headroom/engine/jsonbody"
)

type schema = jsonbody.Schema

// shared returns the schemas of fields that both routes keep as JSON.
func shared(more map[string]schema) map[string]schema {
	more["keep_alive"] = jsonbody.Either(jsonbody.Text(), schema{"type": "number"})
	more["think"] = jsonbody.Either(schema{"type": "boolean"},
		jsonbody.OneOfTexts("low", "medium", "high"))
	more["options"] = jsonbody.BodySchema(optionTable, reflect.TypeFor[wireOptions](),
		map[string]schema{"seed": {"type": "integer"}, "stop": jsonbody.List(jsonbody.Text())})
	return more
}

func chatSchema() schema {
	return jsonbody.BodySchema(fieldsOf(field.ofChat), reflect.TypeFor[wireChat](),
		shared(map[string]schema{"tools": jsonbody.List(jsonbody.Struct(map[string]schema{
			"type": jsonbody.OneOfTexts("function"), "function": jsonbody.Struct(map[string]schema{
				"name": {"type": "string", "minLength": 1}, "parameters": {"type": "object"},
				"strict": jsonbody.Flag()},
				"name")}, "type", "function"))}), "model")
}

func generateSchema() schema {
	return jsonbody.BodySchema(fieldsOf(field.ofGenerate), reflect.TypeFor[wireGenerate](),
		shared(map[string]schema{}), "model")
}

func nameSchema() schema {
	return jsonbody.BodySchema(nil, reflect.TypeFor[wireName](), nil, "model")
}

// anySchema is that of the routes which refuse every request.
func anySchema() schema { return jsonbody.Struct(nil) }

func embedSchema() schema {
	return jsonbody.BodySchema(embedFields, reflect.TypeFor[wireEmbed](), map[string]schema{
		"input": jsonbody.Either(jsonbody.Text(), jsonbody.List(jsonbody.Text()))}, "model",
		"input")
}

func embeddingsSchema() schema {
	return jsonbody.BodySchema(embeddingsFields, reflect.TypeFor[wireEmbeddings](), nil, "model",
		"prompt")
}
