package chat

import (
	"regexp"
	"strings"
)

// pythonic is the format of LFM2: a list of calls in Python. Only the list of tools is in the
// template of LFM2.5.
//
//	<|tool_call_start|>[NAME(KEY='TEXT', KEY=1), NAME()]<|tool_call_end|>
var pythonic = toolFormat{
	name:    "pythonic",
	mark:    regexp.MustCompile(`<\|tool_call_start\|>|<\|tool_list_start\|>|"List of tools: \["`),
	open:    []string{pythonicOpen},
	close:   pythonicClose,
	control: true,
	begin: func(schemas map[string]schema) callReader {
		return &pythonicReader{schemas: schemas}
	},
}

const (
	pythonicOpen  = "<|tool_call_start|>"
	pythonicClose = "<|tool_call_end|>"
)

// pythonicReader parses the calls of one list.
type pythonicReader struct {
	schemas   map[string]schema
	began     bool // the [ has been read
	calls     int  // so far
	arguments objectSpan
	fault     bool
}

var pythonicName = regexp.MustCompile(`^[A-Za-z0-9_.-]*`)

func (r *pythonicReader) read(text string) (ToolCall, int, verdict) {
	if r.fault {
		return skipCall(text, 0, pythonicOpen, pythonicClose)
	}
	at := skipSpaces(text, 0)
	if !r.began && at < len(text) {
		if text[at] != '[' {
			return ToolCall{}, 0, isText
		}
		at = skipSpaces(text, at+1)
	} else if r.calls > 0 && at < len(text) && text[at] == ',' {
		at = skipSpaces(text, at+1)
	}
	if at == len(text) {
		return ToolCall{}, 0, undecided
	}
	if text[at] == ']' {
		at = skipSpaces(text, at+1)
		word, decided := expect(text[at:], pythonicClose)
		switch {
		case !decided:
			return ToolCall{}, 0, undecided
		case word != "":
			return ToolCall{}, at + len(word), isEnd
		}
	} else if call, n, v := r.call(text, at); v != isText {
		return call, n, v
	}
	r.fault = true
	return r.read(text)
}

// call reads the call at text[at:].
func (r *pythonicReader) call(text string, at int) (ToolCall, int, verdict) {
	name := pythonicName.FindString(text[at:])
	from := at + len(name)
	switch {
	case len(name) > maxFunctionName:
		return ToolCall{}, 0, isText
	case from == len(text):
		return ToolCall{}, 0, undecided
	case name == "" || text[from] != '(':
		return ToolCall{}, 0, isText
	}
	r.arguments.python = true
	if r.arguments.read(text, from) == undecided {
		return ToolCall{}, 0, undecided
	}
	end := r.arguments.end
	arguments, ok := keywordArguments(text[from+1 : end-1])
	if !ok {
		return ToolCall{}, 0, isText
	}
	call, ok := callWithJSON(name, arguments, r.schemas)
	if !ok {
		return ToolCall{}, 0, isText
	}
	r.began, r.arguments = true, objectSpan{}
	r.calls++
	return call, end, inBlock
}

// keywordArguments converts arguments such as a=1, b='x' to a JSON object.
func keywordArguments(text string) (string, bool) {
	var out object
	p := literalParser{text: strings.ToValidUTF8(text, "\uFFFD")}
	for {
		if p.skip(); p.at == len(p.text) {
			return out.String(), true
		}
		key := pythonicName.FindString(p.text[p.at:])
		p.at += len(key)
		if p.skip(); key == "" || !p.take("=") {
			return "", false
		}
		p.out.Reset()
		if !p.value(0) {
			return "", false
		}
		out.set(key, p.out.String())
		if p.skip(); p.at < len(p.text) && !p.take(",") {
			return "", false
		}
	}
}
