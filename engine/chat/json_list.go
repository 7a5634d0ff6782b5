package chat

// Tool calls written as a list of JSON objects after a tag.

import (
	"encoding/json"
	"regexp"
	"strings"

	"headroom/engine/grammar"
	"headroom/engine/grammar/jsonschema"
	"headroom/engine/grammar/regular"
)

// The formats of this form. Where a format has a closing tag, the objects may also stand in it one
// after another, without the brackets of a list.
var (
	// command is the format of Command R7B and later:
	//
	//	<|START_ACTION|>[{"tool_name": NAME, "parameters": {…}}]<|END_ACTION|>
	command = commandFormat()

	// nemotron is the format of Nemotron Nano v2:
	//
	//	<TOOLCALL>[{"name": NAME, "arguments": {…}}]</TOOLCALL>
	nemotron = withForm(listFormat("nemotron", `<TOOLCALL>\[`, listTags{open: "<TOOLCALL>",
		closing: "</TOOLCALL>", call: readJSONCall}, false), namedCall)

	// toolCallsList is the format of Apriel, and of MiniMax M1, which has a line for each object
	// instead of a list:
	//
	//	<tool_calls>[{"name": NAME, "arguments": {…}, "id": ID}]</tool_calls>
	toolCallsList = listFormat("tool_calls", `<tool_calls>(\s|\\n)*(\[(\s|\\n)*)?\{`,
		listTags{open: "<tool_calls>", closing: "</tool_calls>", call: readJSONCall}, false)

	// apertus is the format of Apertus, whose objects have the name as their key:
	//
	//	<|tools_prefix|>[{NAME: {…}}]<|tools_suffix|>
	apertus = withForm(listFormat("apertus", `<\|tools_prefix\|>`, listTags{
		open: "<|tools_prefix|>", closing: "<|tools_suffix|>", call: apertusCall}, true),
		jsonCall("{", ": ", "}", true))

	// phi4 is the format of Phi 4 Mini, and granite3 that of Granite 3, which has no closing tag:
	//
	//	<|tool_call|>[{"name": NAME, "arguments": {…}}]<|/tool_call|>
	phi4 = withForm(listFormat("phi4", `<\|/tool_call\|>`, listTags{open: "<|tool_call|>",
		closing: "<|/tool_call|>", call: readJSONCall}, true), namedCall)
	granite3 = granite3Format()

	// granite30 is granite3 for the templates of Granite 3.0, which do not show it.
	granite30 = granite30Format()

	// gigaChat is the format of GigaChat 3.1, which makes one call in an answer:
	//
	//	<|function_call|>{"name": NAME, "arguments": {…}}
	gigaChat = listFormat("gigachat", `<\|function_call\|>`,
		listTags{open: "<|function_call|>", call: readJSONCall}, true)
)

func commandFormat() toolFormat {
	f := listFormat("command", `<\|START_ACTION\|>`, listTags{open: "<|START_ACTION|>",
		closing: "<|END_ACTION|>", call: commandCall}, true)
	const indent = "\n    "
	f.form = &callForm{before: f.open[0] + "[" + indent, between: "," + indent,
		after: "\n]" + f.close, block: true, call: func(w *callWriter, name string,
			parameters json.RawMessage) (grammar.Node, error) {
			space := w.b.Space
			digits := space.Repeat(space.Set(regular.Range('0', '9')), 1, 3)
			arguments, err := w.object(parameters, nil)
			return w.b.Seq(w.text(`{"tool_call_id": "`), w.b.Terminal(digits),
				w.text(`", "tool_name": `+jsonschema.Quote(name)+`, "parameters": `), arguments,
				w.text("}")), err
		}}
	return f
}

func granite3Format() toolFormat {
	f := listFormat("granite3", `<\|tool_call\|> followed by a JSON list`,
		listTags{open: "<|tool_call|>", call: readJSONCall}, true)
	f.write = graniteCalls
	return withForm(f, namedCall)
}

func granite30Format() toolFormat {
	f := granite3Format()
	f.name, f.mark = "granite30", regexp.MustCompile(`assistant_tool_call`)
	f.roles.result = "tool_response"
	return f
}

// gigaChat3 is the format of GigaChat 3, which has a message for the call:
//
//	TEXT<|message_sep|>
//
//	function call<|role_sep|>
//	{"name": NAME, "arguments": {…}}
var gigaChat3 = gigaChat3Format()

func gigaChat3Format() toolFormat {
	f := listFormat("gigachat3", `<\|role_sep\|>`,
		listTags{open: "function call<|role_sep|>", call: readJSONCall}, true)
	f.drop = []string{"<|message_sep|>"}
	f.in = []string{"<|role_sep|>\n", "<|message_sep|>\n\n"} // the tokens have line breaks
	return f
}

// namedCall is the form of an object in most of these formats.
var namedCall = jsonCall(`{"name": `, `, "arguments": `, "}", true)

// withForm adds the form of a list of calls.
func withForm(f toolFormat, call callWriting) toolFormat {
	f.form = &callForm{before: f.open[0] + "[", between: ", ", after: "]" + f.close, block: true,
		call: call}
	return f
}

func listFormat(name, mark string, tags listTags, control bool) toolFormat {
	return toolFormat{
		name:    name,
		mark:    regexp.MustCompile(mark),
		open:    []string{tags.open},
		close:   tags.closing,
		control: control,
		begin: func(schemas map[string]schema) callReader {
			r := &listReader{listTags: tags, schemas: schemas, inList: tags.opened}
			switch {
			case tags.fence != "":
				r.part = listFence
			case tags.opened:
				r.part = listNext
			}
			return r
		},
	}
}

// listTags has the tags of one format, and what parses an object.
type listTags struct {
	open, closing string // closing may be ""
	fence         string // before the list; "": none
	opened        bool   // the opening tag has the [, too
	call          func(text string, schemas map[string]schema) (ToolCall, bool)
}

// listReader parses the calls of one block.
type listReader struct {
	cursor
	listTags
	schemas map[string]schema
	part    listPart
	inList  bool // the [ has been read
	calls   int  // so far
	object  objectSpan
}

// listPart is the part of a block that a listReader reads next.
type listPart uint8

const (
	listBegin   listPart = iota // the [, if there is one
	listFence                   // the fence before it
	listComma                   // a comma, if there is one
	listNext                    // the beginning of an object, or the end of the list
	listObject                  // an object
	listClosing                 // the closing tag
	listEnd
	listFault // what follows a fault
)

func (r *listReader) read(text string) (ToolCall, int, verdict) {
	for r.part != listFault {
		part, v := r.next(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText && r.part != listObject && r.calls == 0:
			return ToolCall{}, 0, isText
		case v == isText:
			part = listFault
		case part == listEnd:
			return ToolCall{}, r.at, isEnd
		case r.part == listObject:
			call, ok := r.call(text[r.object.from:r.object.end], r.schemas)
			if n := r.at; ok {
				r.calls++
				r.object, r.part = objectSpan{}, listComma
				r.restart()
				return call, n, inBlock
			}
			part = listFault
		}
		r.part = part
	}
	return r.skipCall(text, r.open, r.closing)
}

// next reads the next part, and returns the one after it.
func (r *listReader) next(text string) (listPart, verdict) {
	if r.part == listObject {
		return 0, r.object.read(&r.cursor, text)
	}
	if !r.spaces(text) {
		return 0, undecided
	}
	switch r.part {
	case listFence:
		word, decided := r.take(text, r.fence)
		return listBegin, verdictOf(decided, word != "")
	case listBegin:
		word, _ := r.take(text, "[")
		r.inList = word != ""
		return listNext, isCall
	case listComma:
		if r.inList {
			r.take(text, ",")
		}
		return listNext, isCall
	case listNext:
		if text[r.at] == '{' {
			return listObject, isCall
		}
		if r.inList {
			word, _ := r.take(text, "]")
			if word == "" {
				return 0, isText
			}
			if r.closing == "" {
				return listEnd, isCall
			}
			return listClosing, isCall
		}
		if r.closing == "" { // of a single object
			return listEnd, isCall
		}
	}
	word, decided := r.take(text, r.closing)
	return listEnd, verdictOf(decided, word != "")
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
