package generate

// The form of an answer, which clients call structured output; see engine/structured.

import (
	"encoding/json"
	"slices"

	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/structured"
	"headroom/engine/textproc"
)

// SetOutput demands a form of the answer, as the parameter param says. A form that cannot be
// enforced is refused, and so is a second one. The error is a *ParamError, or a Problem if too many
// forms are compiled at once.
func (p *Params) SetOutput(param string, o structured.Output) error {
	if p.Output != nil {
		return BadParam(param, "an answer can have one form, and the request has another one")
	}
	if o.Kind != structured.Calls { // whose form only the model knows
		if _, err := o.Compile(nil); structured.IsOverloaded(err) {
			return err
		} else if err != nil {
			return Unsupported(param, "%v", err)
		}
	}
	p.Output = &o
	return nil
}

// ToolChoice is what a request says about the calls of its answer.
type ToolChoice struct {
	Param    string // its name, for errors
	Required bool   // the answer is a call, or several
	One      bool   // at most one call
	// Names are the functions that may be called; nil: all.
	Names []string
}

// ChooseTools sets the form of an answer that must be a call. tools are those of the prompt. The
// error is a *ParamError.
func (p *Params) ChooseTools(c ToolChoice, tools []json.RawMessage) error {
	chosen := tools
	if c.Names != nil {
		chosen = nil
		for _, raw := range tools {
			var tool struct {
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			}
			if json.Unmarshal(raw, &tool) == nil && slices.Contains(c.Names, tool.Function.Name) {
				chosen = append(chosen, raw)
			}
		}
	}
	switch {
	case c.Names != nil && len(chosen) < len(c.Names):
		return BadParam(c.Param, "it names a function that is not in tools: %.200q", c.Names)
	case !c.Required && len(chosen) < len(tools):
		return Unsupported(c.Param, "a choice of functions is only supported if a call is required")
	case !c.Required:
		return nil
	case len(chosen) == 0:
		return BadParam(c.Param, "a call is required, but there are no functions in tools")
	}
	return p.SetOutput(c.Param, structured.Output{Kind: structured.Calls, Tools: chosen,
		OneCall: c.One})
}

// openOutput sets what may come before the content of the answer to a conversation.
func (r *Request) openOutput(m Model, text string) error {
	if r.Output == nil || r.Continue {
		return nil
	}
	with := *r.Output
	forced := with.Kind == structured.Calls
	if forced {
		if _, err := with.Compile(textproc.CallForm(m)); structured.IsOverloaded(err) {
			return err
		} else if err != nil {
			return problem.Wrap(problem.BadRequest, err,
				"The call that tool_choice requires cannot be enforced", "")
		}
	}
	o, err := m.Template().Opening(text, len(r.Tools) > 0,
		len(r.Tools) > 0 && !r.NoCalls && !forced)
	if err != nil && !forced {
		return problem.New(problem.BadRequest, "The answer cannot have the form that the request "+
			"demands", err.Error(), "")
	}
	if forced && m.Template().InMessages() { // the grammar has the reasoning
		o = chat.Opening{}
	}
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
	if json.Unmarshal(schema, &text) == nil && text != nil {
		if schema = json.RawMessage(*text); *text == "" {
			return nil
		}
	}
	return p.SetOutput(param, structured.Output{Kind: structured.JSONSchema,
		Source: string(schema), Strict: strict})
}
