package chat

// Tool calls written as JSON objects. The reader returns undecided until the closing tag has
// arrived.

import (
	"encoding/json"
	"strings"
)

// jsonTools is the format of Qwen2.5 and Qwen3, after Hermes:
//
//	<tool_call>
//	{"name": NAME, "arguments": {...}}
//	</tool_call>
//
// A </tool_call> inside a string of the object is part of that string.
type jsonTools struct{}

func (jsonTools) begin(map[string]schema) callReader { return jsonTools{} }

func (jsonTools) read(text string) (call ToolCall, n int, v verdict) {
	from := skipSpaces(text, 0)
	if from == len(text) {
		return ToolCall{}, 0, undecided
	}
	if text[from] != '{' {
		return ToolCall{}, from, isText
	}
	first := strings.Index(text[from:], toolClose)
	if first < 0 {
		return ToolCall{}, 0, undecided
	}
	to := outsideStrings(text, from, toolClose)
	if to < 0 {
		return ToolCall{}, 0, undecided // if a quote is missing, Close returns the text
	}
	if call, ok := readJSONCall(text[from:to]); ok {
		return call, to + len(toolClose), isCall
	}
	return ToolCall{}, from + first + len(toolClose), isText
}

// outsideStrings returns the index in text of the first occurrence of word in text[from:] that is
// not inside a JSON string. It returns -1 if there is none.
func outsideStrings(text string, from int, word string) int {
	inString := false
	for at := from; at < len(text); at++ {
		switch {
		case text[at] == '"':
			inString = !inString
		case inString && text[at] == '\\':
			at++
		case !inString && strings.HasPrefix(text[at:], word):
			return at
		}
	}
	return -1
}

// readJSONCall parses the object of a call. Missing arguments become {}.
func readJSONCall(text string) (ToolCall, bool) {
	var wire struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	body, ok := lenientJSON(text)
	if !ok || json.Unmarshal([]byte(body), &wire) != nil || wire.Name == "" {
		return ToolCall{}, false
	}
	switch {
	case isNull(wire.Arguments):
		return ToolCall{Name: wire.Name, Arguments: "{}"}, true
	case wire.Arguments[0] != '{':
		return ToolCall{}, false
	}
	return ToolCall{Name: wire.Name, Arguments: string(wire.Arguments)}, true
}
