package chat

import (
	"encoding/json"
	"regexp"
	"strings"

	"headroom/engine/grammar"
)

// glm4 is the format of GLM-4-9B and GLM-4-0414. A call has no tag. It stands where an answer
// begins, and a token begins each further one:
//
//	NAME
//	{…}<|assistant|>NAME
//	{…}
//
// A line at the beginning is a call only if it names an offered function and an object follows.
// Text may stand before the first token, as an answer of its own.
//
// Source: the code of the model card and of GLM-4's own server.
var glm4 = toolFormat{
	name:    "glm4",
	mark:    regexp.MustCompile(`# 可用工具`),
	open:    []string{glm4Turn},
	ends:    []string{"<|observation|>"},
	named:   true,
	control: true,
	roles:   callRoles{result: "observation", metadata: true},
	form:    &callForm{between: glm4Turn, call: glm4Call, begun: glm4Begun},
	begin: func(schemas map[string]schema) callReader {
		return &glm4Reader{schemas: schemas}
	},
}

const glm4Turn = "<|assistant|>"

func glm4Call(w *callWriter, name string, parameters json.RawMessage) (grammar.Node, error) {
	if !isFunctionName(name) {
		return 0, errUnwritableName
	}
	return jsonCall("", "\n", "", false)(w, name, parameters)
}

// glm4Begun returns the beginning of a call once its line has ended. Later is too late: a token may
// be a whole object.
func glm4Begun(reader callReader, text string) (string, bool) {
	r := reader.(*glm4Reader)
	if r.part != glm4Object {
		return "", false
	}
	return r.function + "\n" + strings.TrimLeft(text[r.line:], spaces), true
}

// glm4Reader parses one call.
type glm4Reader struct {
	cursor
	schemas  map[string]schema
	function string
	line     int // text[line:] follows the name's line
	part     glm4Part
	object   objectSpan
}

// glm4Part is the part of a call that a glm4Reader reads next.
type glm4Part uint8

const (
	glm4Start glm4Part = iota // white space before the name
	glm4Name                  // the name of an offered function
	glm4Line                  // the rest of its line
	glm4Object
	glm4Fault // what follows a fault
)

func (r *glm4Reader) read(text string) (ToolCall, int, verdict) {
	if r.part == glm4Fault {
		return r.skipCall(text, glm4Turn)
	}
	for r.part < glm4Object {
		if v := r.head(text); v != isCall {
			return ToolCall{}, 0, v
		}
		r.part++
	}
	switch v := r.object.read(&r.cursor, text); {
	case r.object.broken:
		r.part = glm4Fault
		return r.skipCall(text, glm4Turn)
	case v != isCall:
		return ToolCall{}, 0, v
	}
	call, ok := callWithJSON(r.function, text[r.object.from:r.object.end], r.schemas)
	return call, r.at, verdictOf(true, ok)
}

// head reads a part before the object.
func (r *glm4Reader) head(text string) verdict {
	switch r.part {
	case glm4Start:
		return verdictOf(r.spaces(text), true)
	case glm4Name:
		name, decided := r.name(text)
		if !decided {
			return verdictOf(!r.mayName(text[r.at:]), false)
		}
		_, offered := r.schemas[name]
		r.function = name
		return verdictOf(true, offered)
	}
	if !r.skip(text, " \t\r") {
		return undecided
	}
	word, _ := r.take(text, "\n")
	r.line = r.at
	return verdictOf(true, word != "")
}

// mayName reports whether a text begins the name of an offered function.
func (r *glm4Reader) mayName(text string) bool {
	r.work++
	for name := range r.schemas {
		if strings.HasPrefix(name, text) {
			return true
		}
	}
	return false
}
