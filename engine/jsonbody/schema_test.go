package jsonbody

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestBodySchema(t *testing.T) {
	type inner struct {
		A []string `json:"a"`
	}
	type wire struct {
		Flag   *bool           `json:"flag"`
		Inside *inner          `json:"inside"`
		N      *int            `json:"n"`
		Raw    json.RawMessage `json:"raw"`
		Shaped json.RawMessage `json:"shaped"`
		X      *float64        `json:"x"`
	}
	table := []Field{
		{Name: "flag", Support: Works, Note: "a note"},
		{Name: "gone", Support: Refused, Harmless: `0 "a" [] ["t"] {"b":false}`, Instead: "Send n"},
		{Name: "idle", Support: Inert},
		{Name: "ill", Support: Refused},
		{Name: "inside", Support: Works},
		{Name: "n", Support: Works},
		{Name: "raw", Support: Works},
		{Name: "shaped", Support: Works},
		{Name: "unknown"},
		{Name: "x", Support: Works},
	}
	got, err := json.Marshal(BodySchema(table, reflect.TypeFor[wire](),
		map[string]Schema{"shaped": Text()}, "n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"properties":{` +
		`"flag":{"anyOf":[{"type":"boolean"},{"type":"null"}],"description":"a note"},` +
		`"gone":{"anyOf":[{"type":"null"},{"const":0,"type":"number"},{"const":"a","type":"string"},` +
		`{"items":{},"maxItems":0,"type":"array"},{"items":{"const":"t","type":"string"},` +
		`"maxItems":1,"minItems":1,"type":"array"},{"additionalProperties":false,"properties":{` +
		`"b":{"const":false,"type":"boolean"}},"required":["b"],"type":"object"}],` +
		`"description":"Refused. Send n"},` +
		`"idle":{"description":"No effect"},` +
		`"ill":{"description":"Refused","type":"null"},` +
		`"inside":{"anyOf":[{"properties":{"a":{"anyOf":[{"items":{"type":"string"},` +
		`"type":"array"},{"type":"null"}]}},"type":"object"},{"type":"null"}]},` +
		`"n":{"anyOf":[{"type":"integer"},{"type":"null"}]},` +
		`"raw":{},` +
		`"shaped":{"anyOf":[{"type":"string"},{"type":"null"}]},` +
		`"x":{"anyOf":[{"type":"number"},{"type":"null"}]}},` +
		`"required":["n"],"type":"object"}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	all := BodySchema(nil, reflect.TypeFor[wire](), nil)
	if n := len(all["properties"].(map[string]Schema)); n != 6 || all["required"] != nil {
		t.Errorf("without a table: %v", all)
	}
}
