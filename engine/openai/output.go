package openai

// The form of an answer. OpenAI's field is response_format. Servers of open models have several
// more: vLLM's structured_outputs and its older guided_ fields, SGLang's regex and ebnf,
// llama.cpp's json_schema and grammar. At most one of them may be sent.

import (
	"encoding/json"

	"headroom/engine/structured"
)

// wireOutput has the fields that both routes share.
type wireOutput struct {
	ResponseFormat    json.RawMessage `json:"response_format"`
	StructuredOutputs json.RawMessage `json:"structured_outputs"`
	GuidedJSON        json.RawMessage `json:"guided_json"`
	GuidedRegex       *string         `json:"guided_regex"`
	GuidedChoice      []string        `json:"guided_choice"`
	GuidedGrammar     *string         `json:"guided_grammar"`
	JSONSchema        json.RawMessage `json:"json_schema"`
	Grammar           *string         `json:"grammar"`
	Regex             *string         `json:"regex"`
	EBNF              *string         `json:"ebnf"`
}

// readOutput reads the form of the answer.
func (p *Params) readOutput(w *wireOutput) error {
	text := func(kind structured.Kind, param string, source *string) func() error {
		return func() error {
			if source == nil || *source == "" {
				return nil
			}
			return p.SetOutput(param, structured.Output{Kind: kind, Source: *source})
		}
	}
	schema := func(param string, source json.RawMessage) func() error {
		return func() error { return p.SetSchema(param, source, false) }
	}
	return first(
		func() error { return p.readFormat(w.ResponseFormat) },
		func() error { return p.readStructured(w.StructuredOutputs) },
		schema("guided_json", w.GuidedJSON),
		schema("json_schema", w.JSONSchema),
		text(structured.Regex, "guided_regex", w.GuidedRegex),
		text(structured.Regex, "regex", w.Regex),
		text(structured.Grammar, "guided_grammar", w.GuidedGrammar),
		text(structured.Grammar, "grammar", w.Grammar),
		text(structured.Grammar, "ebnf", w.EBNF),
		func() error { return p.setChoice("guided_choice", w.GuidedChoice) },
	)
}

// readFormat reads response_format. A json_object may have white space between its parts.
func (p *Params) readFormat(raw json.RawMessage) error {
	if isNull(raw) {
		return nil
	}
	var f struct {
		Type       string          `json:"type"`
		JSONSchema json.RawMessage `json:"json_schema"`
		Schema     json.RawMessage `json:"schema"` // llama.cpp's
	}
	if err := decode(raw, &f, "response_format"); err != nil {
		return err
	}
	switch f.Type {
	case "":
		return badParam("response_format.type", "is missing")
	case "text":
		return nil
	case "json_object":
		if !isNull(f.Schema) {
			return p.SetSchema("response_format.schema", f.Schema, false)
		}
		return p.SetJSONObject("response_format")
	case "json_schema":
	default:
		return unsupported("response_format.type", `must be "text", "json_object" or `+
			`"json_schema", got %.80q`, f.Type)
	}
	if isNull(f.JSONSchema) {
		if isNull(f.Schema) {
			return badParam("response_format.json_schema",
				`is missing, expected {"name": ..., "schema": ...}`)
		}
		return p.SetSchema("response_format.schema", f.Schema, false)
	}
	var s struct {
		Schema json.RawMessage `json:"schema"`
		Strict *bool           `json:"strict"`
	}
	if err := decode(f.JSONSchema, &s, "response_format.json_schema"); err != nil {
		return err
	}
	if isNull(s.Schema) { // OpenAI's API takes it for any object
		if err := checkNoSchema(f.JSONSchema); err != nil {
			return err
		}
		return p.SetJSONObject("response_format")
	}
	return p.SetSchema("response_format.json_schema.schema", s.Schema,
		s.Strict != nil && *s.Strict)
}

// checkNoSchema refuses a json_schema that has the members of a schema itself. Its answer would be
// any object.
func checkNoSchema(raw json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return badParam("response_format.json_schema", "%v", err)
	}
	for _, name := range []string{"type", "properties", "$ref", "anyOf", "enum", "items"} {
		if _, ok := members[name]; ok {
			return badParam("response_format.json_schema.schema", "is missing, and json_schema "+
				"has %q. Put the schema into json_schema.schema", name)
		}
	}
	return nil
}

// readStructured reads vLLM's structured_outputs.
func (p *Params) readStructured(raw json.RawMessage) error {
	if isNull(raw) {
		return nil
	}
	var s struct {
		JSON              json.RawMessage `json:"json"`
		Regex             *string         `json:"regex"`
		Choice            []string        `json:"choice"`
		Grammar           *string         `json:"grammar"`
		JSONObject        *bool           `json:"json_object"`
		StructuralTag     json.RawMessage `json:"structural_tag"`
		WhitespacePattern *string         `json:"whitespace_pattern"`
		NoAdditional      *bool           `json:"disable_additional_properties"`
	}
	const name, at = "structured_outputs", "structured_outputs."
	if err := decode(raw, &s, name); err != nil {
		return err
	}
	switch {
	case s.NoAdditional != nil && *s.NoAdditional:
		return unsupported(at+"disable_additional_properties", "is not supported. "+
			`Send "additionalProperties": false in the schema`)
	case !isNull(s.StructuralTag):
		return unsupported(at+"structural_tag", "is not supported")
	case s.WhitespacePattern != nil:
		return unsupported(at+"whitespace_pattern", "is not supported")
	}
	set := func(kind structured.Kind, param string, source *string) error {
		if source == nil {
			return nil
		}
		return p.SetOutput(param, structured.Output{Kind: kind, Source: *source})
	}
	err := first(
		func() error { return p.SetSchema(at+"json", s.JSON, false) },
		func() error { return set(structured.Regex, at+"regex", s.Regex) },
		func() error { return p.setChoice(at+"choice", s.Choice) },
		func() error { return set(structured.Grammar, at+"grammar", s.Grammar) },
		func() error {
			if s.JSONObject == nil || !*s.JSONObject {
				return nil
			}
			return p.SetJSONObject(at + "json_object")
		},
	)
	if err == nil && p.Output == nil {
		return badParam(name, "expected one of json, regex, choice, grammar and json_object")
	}
	return err
}

func (p *Params) setChoice(param string, texts []string) error {
	if texts == nil {
		return nil
	}
	source, err := json.Marshal(texts)
	if err != nil {
		return badParam(param, "%v", err)
	}
	return p.SetOutput(param, structured.Output{Kind: structured.Choice, Source: string(source)})
}
