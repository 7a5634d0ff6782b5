package chat

import (
	"regexp"
	"strings"

	"headroom/engine/grammar/jsonschema"
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
	write:   pythonicCalls,
	form: &callForm{before: pythonicOpen + "[", between: ", ", after: "]" + pythonicClose,
		block: true, call: notedCall(&pythonArguments, isFunctionName)},
	begin: func(schemas map[string]schema) callReader {
		return &pythonicReader{open: pythonicOpen, closing: pythonicClose, schemas: schemas}
	},
}

const (
	pythonicOpen  = "<|tool_call_start|>"
	pythonicClose = "<|tool_call_end|>"
)

// olmo3 is the format of Olmo 3: calls in Python on lines of their own, with arguments in JSON. Its
// tags are no control tokens.
//
//	<function_calls>NAME(KEY="TEXT", KEY=1)
//	NAME()</function_calls>
var olmo3 = toolFormat{
	name:  "olmo3",
	mark:  regexp.MustCompile(`<function_calls>`),
	open:  []string{olmo3Open},
	close: olmo3Close,
	form: &callForm{before: olmo3Open, between: "\n", after: olmo3Close, block: true,
		call: notedCall(&olmo3Arguments, isFunctionName)},
	begin: func(schemas map[string]schema) callReader {
		return &pythonicReader{open: olmo3Open, closing: olmo3Close, lines: true, schemas: schemas}
	},
}

const (
	olmo3Open  = "<function_calls>"
	olmo3Close = "</function_calls>"
)

// olmo3Arguments are keyword arguments whose values are JSON.
var olmo3Arguments = jsonschema.Notation{
	Quotes:    []string{`"`},
	Null:      []string{"null"},
	False:     []string{"false"},
	True:      []string{"true"},
	Object:    jsonschema.Brackets{Open: "{", Colon: ": ", Close: "}"},
	Outermost: jsonschema.Brackets{Open: "(", Colon: "=", Close: ")", Names: keyword.String()},
}

// pythonArguments are keyword arguments. The template of LFM2 writes texts between single quotation
// marks, and lists and dicts as JSON; models write what Python does, too.
var pythonArguments = jsonschema.Notation{
	Quotes:    []string{`"`, "'"},
	Null:      []string{"None", "null"},
	False:     []string{"False", "false"},
	True:      []string{"True", "true"},
	Object:    jsonschema.Brackets{Open: "{", Colon: ": ", Close: "}"},
	Outermost: jsonschema.Brackets{Open: "(", Colon: "=", Close: ")", Names: keyword.String()},
}

// pythonicReader parses the calls of one list, or of one block of lines.
type pythonicReader struct {
	cursor
	open, closing string
	lines         bool // calls stand on lines, without the brackets of a list
	schemas       map[string]schema
	part          pythonicPart
	calls         int // so far
	function      string
	arguments     objectSpan
}

// pythonicPart is the part of a list that a pythonicReader reads next.
type pythonicPart uint8

const (
	pythonicList      pythonicPart = iota // the [
	pythonicComma                         // a comma, if there is one
	pythonicCall                          // a call or the ]
	pythonicFunction                      // the name of a function
	pythonicArguments                     // what follows it
	pythonicEnd                           // what follows the ]
	pythonicFault                         // what follows a fault
)

func (r *pythonicReader) read(text string) (ToolCall, int, verdict) {
	for r.part != pythonicFault {
		part, v := r.next(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText && (r.part == pythonicList ||
			r.lines && r.calls == 0 && r.part == pythonicFunction):
			return ToolCall{}, 0, isText
		case v == isText:
			part = pythonicFault
		case r.part == pythonicEnd:
			return ToolCall{}, r.at, isEnd
		case r.part == pythonicArguments:
			if call, ok := r.call(text); ok {
				n := r.at
				r.calls++
				r.arguments, r.part = objectSpan{}, pythonicComma
				r.restart()
				return call, n, inBlock
			}
			part = pythonicFault
		}
		r.part = part
	}
	return r.skipCall(text, r.open, r.closing)
}

// next reads the next part, and returns the one after it.
func (r *pythonicReader) next(text string) (pythonicPart, verdict) {
	switch r.part {
	case pythonicFunction:
		name, decided := r.name(text)
		r.function = name
		return pythonicArguments, verdictOf(decided, name != "" && text[r.at] == '(')
	case pythonicArguments:
		r.arguments.python = true
		return 0, r.arguments.read(&r.cursor, text)
	}
	if !r.spaces(text) {
		return 0, undecided
	}
	switch r.part {
	case pythonicList:
		if r.lines { // prose may name the tag
			return pythonicCall, verdictOf(true, beginsName(text, r.at))
		}
		word, _ := r.take(text, "[")
		return pythonicCall, verdictOf(true, word != "")
	case pythonicComma:
		r.take(text, ",")
		return pythonicCall, isCall
	case pythonicCall:
		if r.lines && text[r.at] == '<' {
			return pythonicEnd, isCall
		}
		if word, _ := r.take(text, "]"); word != "" {
			return pythonicEnd, isCall
		}
		return pythonicFunction, isCall
	}
	word, decided := r.take(text, r.closing)
	return 0, verdictOf(decided, word != "")
}

// beginsName reports whether the name of a function may begin at text[at:], or a tag, after line
// breaks alone.
func beginsName(text string, at int) bool {
	c := text[at] | 0x20 // a letter in lower case
	return !strings.ContainsAny(text[:at], " \t") &&
		('a' <= c && c <= 'z' || text[at] == '_' || text[at] == '<')
}

// call returns the call that has been read.
func (r *pythonicReader) call(text string) (ToolCall, bool) {
	arguments, ok := keywordArguments(text[r.arguments.from+1 : r.arguments.end-1])
	if !ok {
		return ToolCall{}, false
	}
	return callWithJSON(r.function, arguments, r.schemas)
}

var keyword = regexp.MustCompile(`^[A-Za-z0-9_.-]+`)

// keywordArguments converts arguments such as a=1, b='x' to a JSON object.
func keywordArguments(text string) (string, bool) {
	var out object
	p := literalParser{text: strings.ToValidUTF8(text, "\uFFFD")}
	for {
		if p.skip(); p.at == len(p.text) {
			return out.String(), true
		}
		key := keyword.FindString(p.text[p.at:])
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
