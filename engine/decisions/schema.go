package decisions

// The schemas of bodies, for GET /openapi.json.

import (
	"reflect"

	"headroom/engine/jsonbody"
)

type schema = jsonbody.Schema

func openAISchema() schema {
	text := jsonbody.Text
	option := func(name string) schema {
		return schema{"type": "array", "minItems": 2, "items": jsonbody.Struct(
			map[string]schema{name: text(), "description": text()}, name)}
	}
	question := func(kind string, more map[string]schema, required ...string) schema {
		more["type"], more["instructions"] = jsonbody.OneOfTexts(kind), text()
		more["name"] = text()
		return jsonbody.Struct(more, append(required, "type", "instructions")...)
	}
	questions := jsonbody.Either(
		question("predicate", map[string]schema{}),
		question("choice", map[string]schema{"choices": option("value")}, "choices"),
		question("score", map[string]schema{"levels": option("label")}, "levels"))
	return jsonbody.BodySchema(fieldTable, reflect.TypeFor[wireRequest](), map[string]schema{
		"questions":            {"type": "array", "minItems": 1, "items": questions},
		"chat_template_kwargs": {"type": "object"},
	}, "input", "questions")
}

func systemOneSchema() schema {
	state := jsonbody.Either(jsonbody.Text(), schema{"type": "object"},
		jsonbody.List(schema{}))
	question := func(kind string, criteria schema, required ...string) schema {
		return jsonbody.Struct(map[string]schema{"type": jsonbody.OneOfTexts(kind),
			"instructions": state, "criteria": criteria}, append(required, "type")...)
	}
	return jsonbody.BodySchema(systemOneTable, reflect.TypeFor[wireSystemOne](),
		map[string]schema{
			"state": state,
			"questions": {"type": "object", "minProperties": 1,
				"additionalProperties": jsonbody.Either(
					question("noul", jsonbody.Struct(map[string]schema{"true": state,
						"false": state})),
					question("choice", schema{"type": "object", "minProperties": 2}, "criteria"),
					question("score", schema{"type": "array", "minItems": 2,
						"items": schema{}}, "criteria"))},
			"chat_template_kwargs": {"type": "object"},
		}, "state", "questions")
}
