package chat

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Tool calls. A model that was offered tools writes its calls into its answer,
// between <tool_call> and </tool_call>, in the form its chat template shows it.
// The Splitter takes them out of the text; a toolFormat (qwen3_coder.go,
// json_tools.go) reads what stands between the tags.
//
// What becomes of what a model may write:
//
//   - A call counts once its </tool_call> is there, and is handed out whole.
//   - The white space around a call belongs to it: templates write it, and a
//     content of line breaks alone would be no content.
//   - A name that was not offered is a call like any other: the client answers
//     it with an error that the model can read. Nothing is converted for it.
//   - Malformed, it is content, tags included, so that nothing is lost; what
//     follows is read as if the tag had not been there.
//   - Cut off by the end of the answer, it is content too.
//   - A <tool_call> in reasoning is no call, and no tag inside a call means
//     anything: an argument may speak of <think>.
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

// Tools are the functions that a request offers, in the form in which the model
// calls them. They may be shared between goroutines.
type Tools struct {
	format  toolFormat
	schemas map[string]schema // by function
}

// Tools prepares to read calls of the offered tools, each {"type": "function",
// "function": {...}} as in the request. It returns nil, which stands for "calls
// stay text", if there are none, or if the template has no form known here.
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

// verdict is what a callReader makes of the text after <tool_call>.
type verdict uint8

const (
	undecided verdict = iota // more text is needed
	isText                   // it is no call
	isCall
)

// toolFormat is a form of tool calls.
type toolFormat interface {
	// begin prepares to read the text after a <tool_call>.
	begin(schemas map[string]schema) callReader
}

// callReader reads one call. What it decides depends on the text alone, however
// much of what follows is there already.
type callReader interface {
	// read takes the text after <tool_call> so far, which is the text of the time
	// before and what has come since. It returns how many bytes the verdict is
	// about: up to and with </tool_call> for a call, up to the fault for text,
	// which may be none.
	read(text string) (call ToolCall, n int, v verdict)
}

// What templates write into their instructions and their calls. In the source of
// a template a line break is one, or the two characters \n of a string literal.
var (
	qwen3CoderMark = regexp.MustCompile(`<tool_call>(\s|\\n)*<function=`)
	jsonToolsMark  = regexp.MustCompile(`<tool_call>(\s|\\n)*\{\s*\\?"(name|arguments)\\?"`)
)

// formatOf returns the form of tool calls in a chat template, nil if unknown.
func formatOf(source string) toolFormat {
	switch {
	case qwen3CoderMark.MatchString(source):
		return qwen3Coder{}
	case jsonToolsMark.MatchString(source):
		return jsonTools{}
	}
	return nil
}

// expect tells whether text begins with one of the words: which, or "" for none;
// undecided while text is shorter than a word that it agrees with.
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

// skipSpaces returns the place of the first byte from at on that is no space.
func skipSpaces(text string, at int) int {
	return len(text) - len(strings.TrimLeft(text[at:], spaces))
}
