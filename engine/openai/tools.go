package openai

// Tools in requests and tool calls in answers. A tool_choice that requires a call is an error,
// because decoding is not constrained.

import (
	"encoding/json"
	"fmt"
)

// wireTool has the fields of a tool that are checked.
type wireTool struct {
	Type     *string `json:"type"`
	Function *struct {
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// parseTools returns the tools of the prompt, and whether the model may not call them. It checks
// only the type, the name and whether parameters is an object. The chat template renders the
// schemas, and the client validates the arguments.
func parseTools(list []json.RawMessage, choice json.RawMessage) (tools []json.RawMessage,
	noCalls bool, err error) {
	for i, raw := range list {
		if err := checkTool(raw, fmt.Sprintf("tools[%d]", i)); err != nil {
			return nil, false, err
		}
	}
	text, ok := choiceText(choice)
	switch {
	case isNull(choice):
	case !ok:
		return nil, false, badParam("tool_choice",
			"choosing a function is not supported, only \"auto\" and \"none\". Send only that "+
				"function as a tool, and ask for the call in the prompt")
	case text != "auto" && text != "none":
		return nil, false, badParam("tool_choice",
			"%q is not supported, only \"auto\" and \"none\"", text)
	}
	if len(list) == 0 {
		return nil, text == "none", nil
	}
	return list, text == "none", nil
}

// choiceText returns a tool_choice that names no function: "auto", or {"type": "auto"}.
func choiceText(choice json.RawMessage) (text string, ok bool) {
	if json.Unmarshal(choice, &text) == nil {
		return text, true
	}
	var object struct {
		Type     string
		Function json.RawMessage
		Custom   json.RawMessage
		Allowed  json.RawMessage `json:"allowed_tools"`
	}
	if json.Unmarshal(choice, &object) != nil || object.Function != nil || object.Custom != nil ||
		object.Allowed != nil {
		return "", false
	}
	return object.Type, object.Type != ""
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
		return badParam(path+".type", "%q is not supported, only \"function\"", *tool.Type)
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
