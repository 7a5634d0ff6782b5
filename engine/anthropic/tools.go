package anthropic

// Tools.

import (
	"encoding/json"
	"fmt"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// wireTool has the fields of a tool. A tool of Anthropic has a type other than "custom" and no
// input_schema.
type wireTool struct {
	Type        *string         `json:"type"`
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      *bool           `json:"strict"`
}

// readTools reads tools and tool_choice. Tools that Anthropic's servers run, such as web_search,
// are left out, because agents offer them beside their own. A request that has no other tools
// depends on them and is refused.
func (r *Request) readTools(w *wireRequest) error {
	theirs, strict := "", []string(nil)
	for i, raw := range w.Tools {
		path := fmt.Sprintf("tools[%d]", i)
		if jsonbody.IsNull(raw) {
			return badParam(path, "expected an object, got null")
		}
		var tool wireTool
		if err := jsonbody.Decode(raw, &tool, path); err != nil {
			return err
		}
		if kind := tool.Type; kind != nil && *kind != "custom" {
			if theirs == "" {
				theirs = fmt.Sprintf("%s has the type %.80q", path, *kind)
			}
			continue
		}
		function, err := tool.function(path)
		if err != nil {
			return err
		}
		r.Tools = append(r.Tools, function)
		if tool.Strict != nil && *tool.Strict {
			strict = append(strict, tool.Name)
		}
	}
	if theirs != "" && len(r.Tools) == 0 {
		return unsupported("tools", "%s, which Headroom does not have. A function has name and "+
			"input_schema, and the type \"custom\" or none", theirs)
	}
	return r.readToolChoice(w.ToolChoice, strict)
}

func (r *Request) readToolChoice(choice *wireToolChoice, strict []string) error {
	if choice == nil {
		choice = &wireToolChoice{}
	}
	r.OneCall = choice.DisableParallel != nil && *choice.DisableParallel
	chosen := generate.ToolChoice{Param: "tool_choice", One: r.OneCall, Strict: strict}
	switch choice.Type {
	case "", "auto":
	case "none":
		r.NoCalls = true
		return nil
	case "any":
		chosen.Required = true
	case "tool":
		if choice.Name == "" {
			return badParam("tool_choice.name", "is missing")
		}
		chosen.Required, chosen.One, chosen.Names = true, true, []string{choice.Name}
	default:
		return unsupported("tool_choice.type", `must be "auto", "any", "tool" or "none", got %.80q`,
			choice.Type)
	}
	return r.ChooseTools(chosen, r.Tools)
}

// function returns the tool in OpenAI's form. The schema stays as it was sent.
func (t *wireTool) function(path string) (json.RawMessage, error) {
	switch {
	case t.Name == "":
		return nil, badParam(path+".name", "is missing")
	case len(t.Name) > jsonbody.MaxNameBytes:
		return nil, badParam(path+".name", "at most %d bytes, got %d", jsonbody.MaxNameBytes,
			len(t.Name))
	}
	schema, err := jsonbody.Object(path+".input_schema", t.InputSchema)
	if err != nil {
		return nil, err
	}
	function := `{"type":"function","function":{"name":` + quote(t.Name)
	if t.Description != nil {
		function += `,"description":` + quote(*t.Description)
	}
	if schema != nil {
		function += `,"parameters":` + string(schema)
	}
	return json.RawMessage(function + "}}"), nil
}
