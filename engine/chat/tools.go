package chat

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Tool calls. A model that was offered tools writes its calls into its answer,
// between <tool_call> and </tool_call>, in the format that its chat template shows.
// The Splitter takes them out of the text, and a toolFormat (qwen3_coder.go,
// json_tools.go) parses the text between the tags.
//
//   - A call is returned when its </tool_call> has arrived.
//   - The white space around a call belongs to it: templates write it, and content
//     should not consist of line breaks alone.
//   - A call of a function that was not offered is returned too: the client answers it with an
//     error that the model can read. Its arguments stay strings.
//   - A malformed call is content, tags included, so that nothing is lost. The
//     text after the fault is parsed as usual.
//   - A call that is cut off by the end of the answer is content too.
//   - A <tool_call> in reasoning is not a call. Tags inside a call have no meaning:
//     an argument may mention <think>.
//
// Source: mlx_lm/tokenizer_utils.py, mlx_lm/tool_parsers.

const (
	toolOpen  = "<tool_call>"
	toolClose = "</tool_call>"

	spaces = " \t\r\n"
)

// ToolCall is one call of a function.
type ToolCall struct {
	Name      string // never empty
	Arguments string // a JSON object, its keys as the model wrote them
}

// Tools are the functions that a request offers, and the format of the model's
// calls. They are safe for concurrent use.
type Tools struct {
	format  toolFormat
	schemas map[string]schema // by function
}

// Tools returns the offered tools for NewSplitter. Each tool is {"type": "function", "function":
// {...}}, as in the request. It returns nil if no tools are offered, or if the tool call format of
// the template is unknown. Calls then stay text.
func (t *Template) Tools(offered []json.RawMessage) *Tools {
	if len(offered) == 0 || t.format == nil {
		return nil
	}
	tools := &Tools{format: t.format, schemas: map[string]schema{}}
	for _, raw := range offered {
		var tool struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		}
		if json.Unmarshal(raw, &tool) == nil {
			tools.schemas[tool.Function.Name] = readSchema(tool.Function.Parameters)
		}
	}
	return tools
}

// verdict is a callReader's decision about the text after <tool_call>.
type verdict uint8

const (
	undecided verdict = iota // more text is needed
	isText                   // not a call
	isCall
)

// toolFormat is a format of tool calls.
type toolFormat interface {
	// begin returns a reader for the text after a <tool_call>.
	begin(schemas map[string]schema) callReader
}

// callReader parses one call. Its verdict depends only on the text, not on the pieces in which the
// text arrives.
type callReader interface {
	// read parses the text after <tool_call>. Each call of read passes the text of the previous
	// call and the text that has arrived since. n is the number of bytes that the verdict covers. A
	// call ends with its </tool_call>. Text ends at the fault, and n may be 0.
	read(text string) (call ToolCall, n int, v verdict)
}

// Patterns that identify the format from a template's instructions and calls. In the source of a
// template, a line break is a newline or the two characters \n of a string literal.
var (
	qwen3CoderMark = regexp.MustCompile(`<tool_call>(\s|\\n)*<function=`)
	jsonToolsMark  = regexp.MustCompile(`<tool_call>(\s|\\n)*\{\s*\\?"(name|arguments)\\?"`)
)

// formatOf returns the format of tool calls in a chat template, or nil if it is unknown.
func formatOf(source string) toolFormat {
	switch {
	case qwen3CoderMark.MatchString(source):
		return qwen3Coder{}
	case jsonToolsMark.MatchString(source):
		return jsonTools{}
	}
	return nil
}

// expect returns the word that text begins with, or "" for none. decided is false if text is a
// proper prefix of a word, because more text is needed.
func expect(text string, words ...string) (word string, decided bool) {
	for _, w := range words {
		if strings.HasPrefix(text, w) {
			return w, true
		}
	}
	for _, w := range words {
		if strings.HasPrefix(w, text) {
			return "", false
		}
	}
	return "", true
}

// skipSpaces returns the index of the first byte of text[at:] that is not white space. The index
// counts from the beginning of text. It is len(text) if there is no such byte.
func skipSpaces(text string, at int) int {
	return len(text) - len(strings.TrimLeft(text[at:], spaces))
}
