package ollama

import (
	"encoding/json"
	"fmt"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// wireTool has the fields of a tool that are checked. The rest is for the chat template.
type wireTool struct {
	Type     *string `json:"type"`
	Function *struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Strict     *bool           `json:"strict"`
	} `json:"function"`
}

// readTools reads the functions that the model may call. Ollama has no tool_choice, and no strict:
// who sends it, as to the other APIs, gets what it means there.
func (r *Request) readTools(list []json.RawMessage) error {
	for i, raw := range list {
		if err := checkTool(raw, fmt.Sprintf("tools[%d]", i)); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		r.Tools = list
	}
	return r.ChooseTools(generate.ToolChoice{Param: "tools"}, r.Tools)
}

func checkTool(raw json.RawMessage, path string) error {
	if jsonbody.IsNull(raw) {
		return badParam(path, "expected an object, got null")
	}
	var tool wireTool
	if err := jsonbody.Decode(raw, &tool, path); err != nil {
		return err
	}
	switch {
	case tool.Type != nil && *tool.Type != "function":
		return badParam(path+".type", "%.80q is not supported, only \"function\"", *tool.Type)
	case tool.Function == nil:
		return badParam(path+".function", "is missing")
	case tool.Function.Name == "":
		return badParam(path+".function.name", "is missing")
	case len(tool.Function.Name) > jsonbody.MaxNameBytes:
		return badParam(path+".function.name", "at most %d bytes, got %d", jsonbody.MaxNameBytes,
			len(tool.Function.Name))
	}
	_, err := jsonbody.Object(path+".function.parameters", tool.Function.Parameters)
	return err
}
