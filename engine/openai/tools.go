package openai

// Tools in requests and tool calls in answers. Decoding is not constrained, so a tool_choice that
// requires a call is refused.

import (
	"encoding/json"
	"fmt"
)

// wireTool has the fields of a tool that are checked here.
type wireTool struct {
	Type     *string `json:"type"`
	Function *struct {
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// parseTools returns the tools that the model may call. It checks only the type, the name and that
// parameters is an object. The chat template renders the schemas, and the client validates
// arguments against them.
func parseTools(list []json.RawMessage, choice json.RawMessage) ([]json.RawMessage, error) {
	for i, raw := range list {
		if err := checkTool(raw, fmt.Sprintf("tools[%d]", i)); err != nil {
			return nil, err
		}
	}
	var text string
	switch {
	case isNull(choice):
	case json.Unmarshal(choice, &text) != nil:
		return nil, badParam("tool_choice",
			"the choice of a function is not supported, only \"auto\" and \"none\". Send only "+
				"that function and ask for it in the prompt")
	case text == "none":
		return nil, nil
	case text != "auto":
		return nil, badParam("tool_choice",
			"%q is not supported, only \"auto\" and \"none\"", text)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, nil
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
	}
	_, err := object(path+".function.parameters", tool.Function.Parameters)
	return err
}

// ToolCall is a call of a function in an answer.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"` // its number in the answer; in streams only
	ID       string       `json:"id"`              // the tool_call_id of the client's tool message
	Type     string       `json:"type"`            // "function"
	Function FunctionCall `json:"function"`
}

// FunctionCall is a function's name and its arguments, a JSON object as text.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewToolCall returns a call. index counts the calls of an answer from 0.
func NewToolCall(index int, id, name, arguments string) ToolCall {
	return ToolCall{Index: &index, ID: id, Type: "function",
		Function: FunctionCall{Name: name, Arguments: arguments}}
}

// withoutIndex returns the calls as a whole answer has them.
func withoutIndex(calls []ToolCall) (plain []ToolCall) {
	for _, c := range calls {
		c.Index = nil
		plain = append(plain, c)
	}
	return plain
}
