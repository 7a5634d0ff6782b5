package chat

// Tool calls written as JSON objects between tags.

import "regexp"

// jsonTools is the format of Hermes, Qwen2.5, Qwen3, Granite 4, Falcon-H1 and others:
//
//	<tool_call>
//	{"name": NAME, "arguments": {...}}
//	</tool_call>
//
// A </tool_call> inside a string of the object is part of that string.
var jsonTools = toolFormat{
	name: "json_tools",
	// In the source of a template, a line break is a newline or the two characters \n of a string
	// literal. Hermes' example begins with the letters of the template.
	mark: regexp.MustCompile(`<tool_call>(\s|\\n)*\{\s*\\?["'](name|arguments)\\?["']|` +
		`(?s)<tool_call>(\n|\\n).*tool_call\.name`),
	open:  []string{toolOpen},
	close: toolClose,
	example: func(string) string {
		return "<tool_call>\n" + `{"name": "the function's name", "arguments": ` +
			exampleArguments + "}\n</tool_call>"
	},
	write: jsonCalls,
	form: &callForm{between: "\n", call: jsonCall("<tool_call>\n{\"name\": ", ", \"arguments\": ",
		"}\n</tool_call>", true)},
	begin: func(schemas map[string]schema) callReader {
		return newJSONReader(toolOpen, toolClose, schemas)
	},
}

// exampleArguments are the arguments of the example of a call.
const exampleArguments = `{"an argument's name": "its value"}`

// jsonReader parses one call.
type jsonReader struct {
	cursor
	open, closing string
	schemas       map[string]schema
	object        objectSpan
	fault         bool
}

func newJSONReader(open, closing string, schemas map[string]schema) *jsonReader {
	return &jsonReader{open: open, closing: closing, schemas: schemas}
}

func (r *jsonReader) read(text string) (ToolCall, int, verdict) {
	if r.fault {
		return r.skipCall(text, r.open, r.closing)
	}
	switch v := r.object.read(&r.cursor, text); {
	case r.object.broken:
		r.fault = true
		return r.read(text)
	case v != isCall:
		return ToolCall{}, 0, v
	}
	if !r.spaces(text) {
		return ToolCall{}, 0, undecided
	}
	word, decided := r.word(text, r.closing)
	if !decided {
		return ToolCall{}, 0, undecided
	}
	if word != "" {
		call, ok := readJSONCall(text[r.object.from:r.object.end], r.schemas)
		if ok {
			return call, r.at + len(word), isCall
		}
	}
	r.fault = true
	return r.read(text)
}
