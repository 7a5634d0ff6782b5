package rerank

import (
	"reflect"

	"headroom/engine/jsonbody"
)

// bodySchema is the schema of a body, for GET /openapi.json.
func bodySchema() jsonbody.Schema {
	document := jsonbody.Either(jsonbody.Text(),
		jsonbody.Struct(map[string]jsonbody.Schema{"text": jsonbody.Text()}, "text"))
	return jsonbody.BodySchema(fields, reflect.TypeFor[wireRequest](),
		map[string]jsonbody.Schema{
			"documents": {"type": "array", "minItems": 1, "items": document},
		}, "query", "documents")
}
