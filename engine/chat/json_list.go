package chat

// Tool calls written as a list of JSON objects after a tag.

import (
	"encoding/json"
	"regexp"
	"strings"
)

// The formats of this form. Where a format has a closing tag, the objects may also stand in it one
// after another, without the brackets of a list.
var (
	// command is the format of Command R7B and later:
	//
	//	<|START_ACTION|>[{"tool_name": NAME, "parameters": {…}}]<|END_ACTION|>
	command = listFormat("command", `<\|START_ACTION\|>`, listTags{open: "<|START_ACTION|>",
		closing: "<|END_ACTION|>", call: commandCall}, true)

	// nemotron is the format of Nemotron Nano v2:
	//
	//	<TOOLCALL>[{"name": NAME, "arguments": {…}}]</TOOLCALL>
	nemotron = listFormat("nemotron", `<TOOLCALL>\[`, listTags{open: "<TOOLCALL>",
		closing: "</TOOLCALL>", call: readJSONCall}, false)

	// toolCallsList is the format of Apriel, and of MiniMax M1, which has a line for each object
	// instead of a list:
	//
	//	<tool_calls>[{"name": NAME, "arguments": {…}, "id": ID}]</tool_calls>
	toolCallsList = listFormat("tool_calls", `<tool_calls>(\s|\\n)*(\[(\s|\\n)*)?\{`,
		listTags{open: "<tool_calls>", closing: "</tool_calls>", call: readJSONCall}, false)

	// apertus is the format of Apertus, whose objects have the name as their key:
	//
	//	<|tools_prefix|>[{NAME: {…}}]<|tools_suffix|>
	apertus = listFormat("apertus", `<\|tools_prefix\|>`, listTags{open: "<|tools_prefix|>",
		closing: "<|tools_suffix|>", call: apertusCall}, true)

	// phi4 is the format of Phi 4 Mini, and granite3 that of Granite 3, which has no closing tag:
	//
	//	<|tool_call|>[{"name": NAME, "arguments": {…}}]<|/tool_call|>
	phi4 = listFormat("phi4", `<\|/tool_call\|>`, listTags{open: "<|tool_call|>",
		closing: "<|/tool_call|>", call: readJSONCall}, true)
	granite3 = listFormat("granite3", `<\|tool_call\|> followed by a JSON list`,
		listTags{open: "<|tool_call|>", call: readJSONCall}, true)

	// gigaChat is the format of GigaChat 3.1, which makes one call in an answer:
	//
	//	<|function_call|>{"name": NAME, "arguments": {…}}
	gigaChat = listFormat("gigachat", `<\|function_call\|>`,
		listTags{open: "<|function_call|>", call: readJSONCall}, true)
)

func listFormat(name, mark string, tags listTags, control bool) toolFormat {
	return toolFormat{
		name:    name,
		mark:    regexp.MustCompile(mark),
		open:    []string{tags.open},
		close:   tags.closing,
		control: control,
		begin: func(schemas map[string]schema) callReader {
			return &listReader{listTags: tags, schemas: schemas, fault: -1}
		},
	}
}

// listTags has the tags of one format, and what parses an object.
type listTags struct {
	open, closing string // closing may be ""
	call          func(text string, schemas map[string]schema) (ToolCall, bool)
}

// listReader parses the calls of one block.
type listReader struct {
	listTags
	schemas map[string]schema
	inList  bool // the [ has been read
	calls   int  // so far
	object  objectSpan
	fault   int // where the list is malformed; -1: nowhere yet
}

func (r *listReader) read(text string) (ToolCall, int, verdict) {
	if r.fault >= 0 {
		return skipCall(text, r.fault, r.open, r.closing)
	}
	at := skipSpaces(text, 0)
	switch {
	case at == len(text):
	case r.calls == 0 && text[at] == '[':
		r.inList = true
		at = skipSpaces(text, at+1)
	case r.calls > 0 && r.inList && text[at] == ',':
		at = skipSpaces(text, at+1)
	}
	switch {
	case at == len(text):
		return ToolCall{}, 0, undecided
	case text[at] == '{':
		return r.element(text, at)
	}
	if n, v := r.end(text, at); v != isText {
		return ToolCall{}, n, v
	}
	if r.calls == 0 {
		return ToolCall{}, 0, isText
	}
	r.fault = at
	return r.read(text)
}

// element reads the object at text[at:].
func (r *listReader) element(text string, at int) (ToolCall, int, verdict) {
	if r.object.read(text, at) == undecided {
		return ToolCall{}, 0, undecided
	}
	n := r.object.end
	call, ok := r.call(text[r.object.from:n], r.schemas)
	if !ok {
		r.fault = n
		return r.read(text)
	}
	r.calls++
	r.object = objectSpan{}
	return call, n, inBlock
}

// end reads the end of the block at text[at:].
func (r *listReader) end(text string, at int) (n int, v verdict) {
	if r.inList {
		if text[at] != ']' {
			return 0, isText
		}
		at++
	}
	if r.closing == "" {
		return at, isEnd
	}
	at = skipSpaces(text, at)
	word, decided := expect(text[at:], r.closing)
	switch {
	case !decided:
		return 0, undecided
	case word == "":
		return 0, isText
	}
	return at + len(word), isEnd
}

// commandCall parses an object of Command. The model escapes characters that JSON does not let it
// escape, as in a regular expression: \| means |.
func commandCall(text string, schemas map[string]schema) (ToolCall, bool) {
	if call, ok := readJSONCall(text, schemas); ok {
		return call, true
	}
	var b strings.Builder
	for at := 0; at < len(text); at++ {
		if text[at] == '\\' && at+1 < len(text) {
			if text[at+1] == '|' {
				continue
			}
			b.WriteByte(text[at])
			at++
		}
		b.WriteByte(text[at])
	}
	return readJSONCall(b.String(), schemas)
}

// apertusCall parses an object whose only key is the name.
func apertusCall(text string, schemas map[string]schema) (ToolCall, bool) {
	var wire map[string]json.RawMessage
	body, ok := lenientJSON(text)
	if !ok || json.Unmarshal([]byte(body), &wire) != nil || len(wire) != 1 {
		return ToolCall{}, false
	}
	for name, arguments := range wire {
		return callWithArguments(name, arguments, schemas)
	}
	return ToolCall{}, false
}
