package generate

// The form of an answer, which clients call structured output; see engine/structured.

import (
	"encoding/json"

	"headroom/engine/problem"
	"headroom/engine/structured"
)

// SetOutput demands a form of the answer, as the parameter param says. A form that cannot be
// enforced is refused, and so is a second one. The error is a *ParamError.
func (p *Params) SetOutput(param string, o structured.Output) error {
	if p.Output != nil {
		return BadParam(param, "an answer can have one form, and the request has another one")
	}
	if _, err := o.Compile(); err != nil {
		return Unsupported(param, "%v", err)
	}
	p.Output = &o
	return nil
}

// openOutput sets what may come before the content of the answer to a conversation.
func (r *Request) openOutput(m Model, text string) error {
	if r.Output == nil || r.Continue {
		return nil
	}
	o, err := m.Template().Opening(text, len(r.Tools) > 0, len(r.Tools) > 0 && !r.NoCalls)
	if err != nil {
		return problem.New(problem.BadRequest, "The answer cannot have the form that the request "+
			"demands", err.Error(), "")
	}
	with := *r.Output
	with.Before = structured.Before{Inside: o.Inside, Open: o.Open, Close: o.Close, Calls: o.Calls}
	r.Output = &with
	return nil
}

// SetJSONObject demands a JSON object. There may be white space between its parts.
func (p *Params) SetJSONObject(param string) error {
	return p.SetOutput(param, structured.Output{Kind: structured.JSONObject, Whitespace: true})
}

// SetSchema demands JSON of a schema, which is a JSON value or the text of one. Without one, and
// for null or an empty text, it does nothing.
func (p *Params) SetSchema(param string, schema json.RawMessage, strict bool) error {
	var text *string
	if len(schema) == 0 || string(schema) == "null" {
		return nil
	}
	if json.Unmarshal(schema, &text) == nil {
		if schema = json.RawMessage(*text); *text == "" {
			return nil
		}
	}
	return p.SetOutput(param, structured.Output{Kind: structured.JSONSchema,
		Source: string(schema), Strict: strict})
}
