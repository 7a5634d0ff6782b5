package responses

// Tools. A function becomes one of chat templates. A custom tool, whose input is any text, becomes
// a function with one argument, a string. Tools of OpenAI's servers are left out: agents offer them
// beside their own.

import (
	"encoding/json"
	"fmt"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// wireTool has the fields of functions and of custom tools.
type wireTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
	Format      *struct {
		Type       string `json:"type"`
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	} `json:"format"`
}

func (r *Request) readTools(w *wireRequest) error {
	c := generate.ToolChoice{Param: "tool_choice", One: r.OneCall}
	for i, raw := range w.Tools {
		if err := r.readTool(raw, fmt.Sprintf("tools[%d]", i), &c); err != nil {
			return err
		}
	}
	return r.readToolChoice(w.ToolChoice, c)
}

// readTool reads a tool. It notes in c if it is strict.
func (r *Request) readTool(raw json.RawMessage, path string, c *generate.ToolChoice) error {
	if jsonbody.IsNull(raw) {
		return badParam(path, "expected an object, got null")
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := jsonbody.Decode(raw, &kind, path); err != nil {
		return err
	}
	switch {
	case kind.Type == "":
		return badParam(path+".type", "is missing")
	case row(toolTable, kind.Type).Support == leftOut:
		return nil
	}
	var tool wireTool
	if err := jsonbody.Decode(raw, &tool, path); err != nil {
		return err
	}
	switch {
	case tool.Name == "":
		return badParam(path+".name", "is missing")
	case len(tool.Name) > jsonbody.MaxNameBytes:
		return badParam(path+".name", "at most %d bytes, got %d", jsonbody.MaxNameBytes,
			len(tool.Name))
	}
	if tool.Type == "custom" {
		if r.Custom == nil {
			r.Custom = map[string]bool{}
		}
		r.Custom[tool.Name] = true
		r.Tools = append(r.Tools, tool.custom())
		return nil
	}
	parameters, err := jsonbody.Object(path+".parameters", tool.Parameters)
	if err != nil {
		return err
	}
	r.Tools = append(r.Tools, newFunction(tool.Name, tool.Description, parameters))
	if tool.Strict != nil && *tool.Strict {
		c.Strict = append(c.Strict, tool.Name)
	}
	return nil
}

// newFunction returns a function in the form of chat completions. The schema stays as it was sent.
func newFunction(name string, description *string, parameters json.RawMessage) json.RawMessage {
	function := `{"type":"function","function":{"name":` + quote(name)
	if description != nil {
		function += `,"description":` + quote(*description)
	}
	if parameters != nil {
		function += `,"parameters":` + string(parameters)
	}
	return json.RawMessage(function + "}}")
}

// customInput is the argument of the function that a custom tool becomes.
const customInput = "input"

// customParameters is its schema.
var customParameters = json.RawMessage(`{"type":"object","properties":{"` + customInput +
	`":{"type":"string","description":"The whole input of the tool, as plain text"}},"required":["` +
	customInput + `"]}`)

// custom returns a custom tool as a function. Decoding is not constrained, so the model is told the
// grammar of the input.
func (t *wireTool) custom() json.RawMessage {
	description := t.Description
	if f := t.Format; f != nil && f.Definition != "" {
		text := ""
		if description != nil {
			text = *description + "\n\n"
		}
		description = new(text + "The input must match this " + f.Syntax + " grammar:\n" +
			f.Definition)
	}
	return newFunction(t.Name, description, customParameters)
}

// inputOf returns the input of a custom tool from the arguments of a call: the string that the
// function takes, or else all arguments as they are.
func inputOf(arguments string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &members) != nil {
		return arguments
	}
	raw, ok := members[customInput]
	if !ok && len(members) == 1 {
		for _, raw = range members { // the model has taken another name
		}
	}
	var input *string
	if json.Unmarshal(raw, &input) != nil || input == nil {
		return arguments
	}
	return *input
}

// argumentsOf returns the arguments of the function that a custom tool becomes.
func argumentsOf(input string) string { return `{"` + customInput + `":` + quote(input) + `}` }

// quote returns a text as JSON.
func quote(text string) string {
	data, _ := json.Marshal(text) // never fails
	return string(data)
}

// readToolChoice reads tool_choice: "auto", "none" or "required", as a text or as the type of an
// object; a function; or a mode with the allowed tools.
func (r *Request) readToolChoice(choice json.RawMessage, c generate.ToolChoice) error {
	kind, object := "auto", wireToolChoice{}
	if !jsonbody.IsNull(choice) && json.Unmarshal(choice, &kind) != nil {
		if err := jsonbody.Decode(choice, &object, "tool_choice"); err != nil {
			return err
		}
		kind = object.Type
	}
	switch kind {
	case "allowed_tools":
		c.Names, c.Required = []string{}, object.Mode == "required"
		for _, tool := range object.Tools {
			c.Names = append(c.Names, tool.Name)
		}
	case "function", "custom":
		if object.Name == "" {
			return badParam("tool_choice.name", "is missing")
		}
		c.Names, c.Required, c.One = []string{object.Name}, true, true
	case "required":
		c.Required = true
	case "none":
		r.NoCalls = true
		return nil
	case "auto":
	default:
		return unsupported("tool_choice", `must be "auto", "none", "required" or a function, got `+
			"%.80q", kind)
	}
	return r.ChooseTools(c, r.Tools)
}

type wireToolChoice struct {
	Type  string           `json:"type"`
	Name  string           `json:"name"`
	Mode  string           `json:"mode"`
	Tools []wireToolChoice `json:"tools"`
}
