package openai

// Tools in requests and tool calls in answers.

import (
	"encoding/json"
	"fmt"

	"headroom/engine/generate"
)

// wireTool has the fields of a tool that are checked.
type wireTool struct {
	Type     *string `json:"type"`
	Function *struct {
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
}

// readTools reads tools, tool_choice and parallel_tool_calls. It checks only the type, the name,
// strict, and whether parameters is an object. The chat template renders the schemas, and the
// client validates the arguments, unless the form of the answer does; see generate.ToolChoice.
func (r *ChatRequest) readTools(w *wireChat) error {
	for i, raw := range w.Tools {
		if err := checkTool(raw, fmt.Sprintf("tools[%d]", i)); err != nil {
			return err
		}
	}
	if len(w.Tools) > 0 {
		r.Tools = w.Tools
	}
	r.OneCall = w.ParallelToolCalls != nil && !*w.ParallelToolCalls
	choice := generate.ToolChoice{Param: "tool_choice", One: r.OneCall}
	kind, names, err := readToolChoice(w.ToolChoice)
	if err != nil {
		return err
	}
	choice.Names = names
	switch kind {
	case "none":
		r.NoCalls = true
		return nil
	case "required":
		choice.Required = true
	case "function":
		choice.Required, choice.One = true, true
	case "auto":
	default:
		return unsupported("tool_choice", `must be "auto", "none", "required" or a function, got `+
			"%.80q", kind)
	}
	return r.ChooseTools(choice, r.Tools)
}

// wireToolChoice is a tool_choice that is an object.
type wireToolChoice struct {
	Type     string `json:"type"`
	Function *struct {
		Name string `json:"name"`
	} `json:"function"`
	Allowed *struct {
		Mode  string           `json:"mode"`
		Tools []wireToolChoice `json:"tools"`
	} `json:"allowed_tools"`
}

// readToolChoice reads a tool_choice: the word "auto", "none" or "required", also as the type of an
// object; "function" with a name; or a mode with the names of allowed tools.
func readToolChoice(raw json.RawMessage) (kind string, names []string, err error) {
	if isNull(raw) {
		return "auto", nil, nil
	}
	if json.Unmarshal(raw, &kind) == nil {
		if kind == "any" { // Mistral's word
			kind = "required"
		}
		return kind, nil, nil
	}
	var c wireToolChoice
	if err := decode(raw, &c, "tool_choice"); err != nil {
		return "", nil, err
	}
	switch {
	case c.Function == nil && c.Type == "function":
		return "", nil, badParam("tool_choice.function", `is missing, expected {"name": ...}`)
	case c.Function != nil && c.Function.Name == "":
		return "", nil, badParam("tool_choice.function.name", "is missing")
	case c.Function != nil:
		return "function", []string{c.Function.Name}, nil
	case c.Allowed != nil:
		names = []string{}
		for i, tool := range c.Allowed.Tools {
			if tool.Function == nil {
				return "", nil, badParam(fmt.Sprintf("tool_choice.allowed_tools.tools[%d]", i),
					"expected a function")
			}
			names = append(names, tool.Function.Name)
		}
		return c.Allowed.Mode, names, nil
	}
	return c.Type, nil, nil
}

func checkTool(raw json.RawMessage, path string) error {
	if isNull(raw) {
		return badParam(path, "expected an object, got null")
	}
	var tool wireTool
	if err := decode(raw, &tool, path); err != nil {
		return err
	}
	switch {
	case tool.Type != nil && *tool.Type != "function":
		return unsupported(path+".type", "%.80q is not supported, only \"function\"", *tool.Type)
	case tool.Function == nil:
		return badParam(path+".function", "is missing")
	case tool.Function.Name == "":
		return badParam(path+".function.name", "is missing")
	case len(tool.Function.Name) > maxNameBytes:
		return badParam(path+".function.name", "at most %d bytes, got %d", maxNameBytes,
			len(tool.Function.Name))
	}
	_, err := object(path+".function.parameters", tool.Function.Parameters)
	return err
}

// ToolCall is a call of a function in an answer.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"` // number of the call, from 0; only in streams
	ID       string       `json:"id"`              // the client repeats it as tool_call_id
	Type     string       `json:"type"`            // "function"
	Function FunctionCall `json:"function"`
}

// FunctionCall is the name of a function and its arguments, a string with a JSON object.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewToolCall returns a ToolCall. index is the number of the call in the answer, from 0.
func NewToolCall(index int, id, name, arguments string) ToolCall {
	return ToolCall{Index: &index, ID: id, Type: "function",
		Function: FunctionCall{Name: name, Arguments: arguments}}
}

// withoutIndex returns the calls without Index, for a whole answer.
func withoutIndex(calls []ToolCall) (plain []ToolCall) {
	for _, c := range calls {
		c.Index = nil
		plain = append(plain, c)
	}
	return plain
}
