package chat

import (
	"regexp"
	"strings"
)

// mistral is the format of Mistral's models. Newer ones write a name and its arguments, older ones
// a list:
//
//	[TOOL_CALLS]NAME[ARGS]{…}[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}
//	[TOOL_CALLS][{"name": NAME, "arguments": {…}, "id": ID}]
var mistral = toolFormat{
	name:    "mistral",
	mark:    regexp.MustCompile(`\[TOOL_CALLS\]`),
	open:    []string{mistralOpen},
	drop:    []string{mistralArgs, mistralID},
	control: true,
	begin: func(schemas map[string]schema) callReader {
		return &mistralReader{schemas: schemas}
	},
}

const (
	mistralOpen = "[TOOL_CALLS]"
	mistralArgs = "[ARGS]"
	mistralID   = "[CALL_ID]"
)

// mistralReader parses what follows a [TOOL_CALLS].
type mistralReader struct {
	schemas map[string]schema
	inList  bool
	calls   int // of the list so far
	object  objectSpan
	fault   bool
}

func (r *mistralReader) read(text string) (ToolCall, int, verdict) {
	at := skipSpaces(text, 0)
	switch {
	case r.fault: // there is no closing tag
		return skipCall(text, 0, mistralOpen, "")
	case at == len(text):
		return ToolCall{}, 0, undecided
	case r.inList:
		return r.element(text, at)
	case text[at] == '[':
		// The first element of a list, or another tag.
		if at = skipSpaces(text, at+1); at == len(text) {
			return ToolCall{}, 0, undecided
		}
		if text[at] != '{' && text[at] != ']' {
			return ToolCall{}, 0, isText
		}
		r.inList = true
		return r.element(text, at)
	}
	return r.named(text, at)
}

// element reads an element of a list at text[at:], or the end of the list.
func (r *mistralReader) element(text string, at int) (ToolCall, int, verdict) {
	if r.calls > 0 && text[at] == ',' {
		if at = skipSpaces(text, at+1); at == len(text) {
			return ToolCall{}, 0, undecided
		}
	}
	if text[at] == ']' {
		return ToolCall{}, at + 1, isEnd
	}
	switch r.object.read(text, at) {
	case undecided:
		return ToolCall{}, 0, undecided
	case isCall:
		call, ok := readJSONCall(text[r.object.from:r.object.end], r.schemas)
		if n := r.object.end; ok {
			r.calls++
			r.object = objectSpan{}
			return call, n, inBlock
		}
	}
	r.fault = true
	return r.read(text)
}

var mistralName = regexp.MustCompile(`^[A-Za-z0-9_.:/-]+`)

// named reads a name, perhaps an ID, and an object at text[at:].
func (r *mistralReader) named(text string, at int) (ToolCall, int, verdict) {
	name := mistralName.FindString(text[at:])
	end := skipSpaces(text, at+len(name))
	if name == "" || len(name) > maxFunctionName {
		return ToolCall{}, 0, isText
	}
	word, decided := expect(text[end:], mistralArgs, mistralID, "{")
	if word == mistralID {
		from := end + len(word)
		i := strings.IndexByte(text[from:], '[')
		if i < 0 {
			return ToolCall{}, 0, undecided
		}
		end = from + i
		word, decided = expect(text[end:], mistralArgs)
	}
	switch {
	case !decided || end == len(text):
		return ToolCall{}, 0, undecided
	case word == "":
		return ToolCall{}, 0, isText
	case word == mistralArgs:
		end += len(word)
	}
	switch r.object.read(text, end) {
	case undecided:
		return ToolCall{}, 0, undecided
	case isCall:
		call, ok := callWithJSON(name, text[r.object.from:r.object.end], r.schemas)
		if ok {
			return call, r.object.end, isCall
		}
	}
	r.fault = true
	return r.read(text)
}
