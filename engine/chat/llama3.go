package chat

import (
	"regexp"
	"strings"
)

// llama3 is the format of Llama 3.1 and later. An answer is a call, with or without the tag:
//
//	<|python_tag|>{"name": NAME, "parameters": {…}}
//	{"name": NAME, "parameters": {…}}
//
// Without the tag, an object is a call only if its first key is one of a call's, and if it names an
// offered function; else it is JSON that the user asked for.
var llama3 = toolFormat{
	name:    "llama3",
	mark:    regexp.MustCompile(`"parameters": dictionary of argument name`),
	open:    []string{pythonTag},
	ends:    []string{"<|eom_id|>"},
	bare:    true,
	control: true,
	begin: func(schemas map[string]schema) callReader {
		return &llama3Reader{schemas: schemas}
	},
}

const pythonTag = "<|python_tag|>"

var (
	firstKey = regexp.MustCompile(`^\{\s*"([^"\\]*)"\s*:`)
	nameKey  = regexp.MustCompile(`^\{\s*"name"\s*:\s*"([^"\\]*)"`)
)

// llama3Reader parses calls, which a semicolon may separate.
type llama3Reader struct {
	schemas map[string]schema
	object  objectSpan
	calls   int // so far
}

func (r *llama3Reader) read(text string) (ToolCall, int, verdict) {
	at := skipSpaces(text, 0)
	if r.calls > 0 {
		at = len(text) - len(strings.TrimLeft(text, spaces+";"))
	}
	switch {
	case at == len(text):
		return ToolCall{}, 0, undecided
	case text[at] != '{' || r.foreign(text[at:]):
		return r.none()
	case r.object.read(text, at) == undecided:
		return ToolCall{}, 0, undecided
	}
	call, ok := readJSONCall(text[r.object.from:r.object.end], r.schemas)
	if _, offered := r.schemas[call.Name]; !ok || !offered {
		return r.none()
	}
	n := r.object.end
	r.calls++
	r.object = objectSpan{}
	return call, n, inBlock
}

// none is the verdict where no call follows. After a call that is the end of the block.
func (r *llama3Reader) none() (ToolCall, int, verdict) {
	if r.calls > 0 {
		return ToolCall{}, 0, isEnd
	}
	return ToolCall{}, 0, isText
}

// foreign reports whether the object at the beginning of text cannot be a call, as soon as its
// first member tells.
func (r *llama3Reader) foreign(text string) bool {
	if name := nameKey.FindStringSubmatch(text); name != nil {
		_, offered := r.schemas[name[1]]
		return !offered
	}
	if len(text) > 1 && strings.TrimLeft(text[1:], spaces) != "" &&
		strings.TrimLeft(text[1:], spaces)[0] != '"' {
		return true
	}
	key := firstKey.FindStringSubmatch(text)
	if key == nil {
		return len(text) > maxFunctionName
	}
	switch key[1] {
	case "name", "type", "function", "parameters", "arguments":
		return false
	}
	return true
}
