package generate

// The form of an answer, which clients call structured output; see engine/structured.

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/grammar/jsonschema"
	"headroom/engine/problem"
	"headroom/engine/structured"
	"headroom/engine/textproc"
)

// SetOutput demands a form of the answer, as the parameter param says. A form that cannot be
// enforced is refused, and so is a second one. Required calls take precedence over any other form.
// The error is a *ParamError, or a Problem if too many forms are compiled at once.
func (p *Params) SetOutput(param string, o structured.Output) error {
	calls := p.Output != nil && p.Output.Kind == structured.Calls
	if p.Output != nil && !calls && o.Kind != structured.Calls {
		return BadParam(param, "an answer can have one form, and %s demands another one",
			p.outputParam)
	}
	if o.Kind != structured.Calls { // whose form only the model knows
		if _, err := o.Compile(nil); structured.IsOverloaded(err) {
			return err
		} else if err != nil {
			var unsupported *jsonschema.Unsupported
			if errors.As(err, &unsupported) {
				return Unsupported(param, "%v", err)
			}
			return BadParam(param, "%v", err)
		}
	}
	if !calls {
		p.Output, p.outputParam = &o, param
	}
	return nil
}

// ToolChoice is what a request says about the calls of its answer.
type ToolChoice struct {
	Param    string // its name, for errors
	Required bool   // the answer is a call, or several
	One      bool   // at most one call
	// Names are the functions that may be called; nil: all.
	Names []string
	// Strict are functions whose arguments must fit their schema, beside those that say so.
	Strict []string
}

// function is a tool as the form of its calls needs it.
type function struct {
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters,omitempty"`
		Strict     bool            `json:"strict"`
	} `json:"function"`
}

// functions returns the tools that may be called, and whether one of them is strict.
func (c *ToolChoice) functions(tools []json.RawMessage) (chosen []json.RawMessage, strict bool) {
	for _, raw := range tools {
		var f function
		if json.Unmarshal(raw, &f) != nil ||
			c.Names != nil && !slices.Contains(c.Names, f.Function.Name) {
			continue
		}
		if slices.Contains(c.Strict, f.Function.Name) {
			f.Function.Strict = true
		}
		strict = strict || f.Function.Strict
		if without, err := json.Marshal(f); err == nil {
			chosen = append(chosen, without)
		}
	}
	return chosen, strict
}

// ChooseTools sets the form of an answer that must be a call, or that of the calls that may come if
// a function is strict. tools are those of the prompt. The error is a *ParamError.
func (p *Params) ChooseTools(c ToolChoice, tools []json.RawMessage) error {
	chosen, strict := c.functions(tools)
	calls := structured.Output{Kind: structured.Calls, Tools: chosen, OneCall: c.One}
	switch {
	case c.Names != nil && len(chosen) < len(c.Names):
		return BadParam(c.Param, "it names a function that is not in tools: %.200q", c.Names)
	case !c.Required && len(chosen) < len(tools):
		return Unsupported(c.Param, `a choice of functions is only supported with the mode "required"`)
	case !c.Required && strict:
		calls.OneBlock = true // each block of calls has this form
		p.Calls = &calls
		return nil
	case !c.Required:
		return nil
	case len(chosen) == 0:
		return BadParam(c.Param, "a call is required, but there are no functions in tools")
	}
	return p.SetOutput(c.Param, calls)
}

// openOutput sets what may come before the content of the answer to a conversation.
func (r *Request) openOutput(m Model, text string) error {
	if r.Output == nil && (r.Calls == nil || r.NoCalls) {
		return nil
	}
	with := structured.Output{Kind: structured.Free}
	if r.Output != nil {
		with = *r.Output
	}
	var err error
	if with.Kind == structured.Calls {
		err = r.openCalls(m, text, &with)
	} else {
		err = r.openContent(m, text, &with)
	}
	if err == nil && (with.Kind != structured.Free || with.Calls != nil) {
		r.Output = &with
	}
	return err
}

// openCalls sets what may come before calls that are required.
func (r *Request) openCalls(m Model, text string, with *structured.Output) error {
	if _, err := with.Compile(textproc.CallForm(m)); structured.IsOverloaded(err) {
		return err
	} else if err != nil {
		return Unsupported("tool_choice", "the call that it requires cannot be enforced: %v", err)
	}
	if r.continues() || m.Template().InMessages() { // the grammar has the reasoning
		return nil
	}
	o, _ := m.Template().Opening(text, len(r.Tools) > 0, false)
	with.Before = before(o)
	return nil
}

// openContent sets what may come before or in place of the content.
func (r *Request) openContent(m Model, text string, with *structured.Output) error {
	calls := len(r.Tools) > 0 && !r.NoCalls
	o, err := m.Template().Opening(text, len(r.Tools) > 0, calls)
	switch {
	case r.continues():
		o = chat.Opening{Calls: o.Calls, Prompt: o.Prompt}
		with.Begun = r.Messages[len(r.Messages)-1].Text()
		with.Whitespace = true // the text may have any
		if with.Kind != structured.Free {
			o.Calls = nil
		}
	case with.Kind == structured.Free:
	case err != nil:
		return problem.New(problem.BadRequest, "The answer cannot have the form that the request "+
			"demands", err.Error(), "")
	}
	with.Before = before(o)
	if r.Calls == nil || !calls {
		return nil
	}
	if !beginCalls(m, o.Calls) {
		if !watchesCalls(m, r.Calls) {
			return nil
		}
		with.Before.Watch, with.Before.Prompt = true, o.Prompt
	}
	_, err = r.Calls.Compile(textproc.CallForm(m))
	var none *chat.CallError
	switch {
	case structured.IsOverloaded(err):
		return err
	case errors.As(err, &none): // the format has no form
	case err != nil:
		return Unsupported("tools", "the calls of a strict function cannot be enforced: %v", err)
	default:
		with.Calls = r.Calls
	}
	return nil
}

// continues reports whether the answer goes on with text of the last message.
func (r *Request) continues() bool {
	return r.Continue && !r.Messages[len(r.Messages)-1].Blank()
}

// beginCalls reports whether every call begins with one of these tags, and each is one token.
func beginCalls(m Model, tags []string) bool {
	return len(tags) > 0 && !slices.ContainsFunc(tags, func(tag string) bool {
		_, ok := m.Tokenizer().TokenID(strings.TrimSpace(tag))
		return !ok
	})
}

// watchesCalls reports whether it can be found in the text of an answer where these calls begin.
func watchesCalls(m Model, calls *structured.Output) bool {
	return textproc.WatchCalls(m, &structured.Output{Calls: calls}) != nil
}

func before(o chat.Opening) structured.Before {
	return structured.Before{Inside: o.Inside, Open: o.Open, Close: o.Close, Calls: o.Calls}
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
