package chat

import (
	"encoding/json"
	"regexp"

	"headroom/engine/grammar"
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
	form:    &mistralForm,
	begin: func(schemas map[string]schema) callReader {
		return &mistralReader{schemas: schemas}
	},
}

// mistralForm writes one call, as the tokens of the model say: newer ones have [ARGS].
var mistralForm = callForm{call: func(w *callWriter, name string,
	parameters json.RawMessage) (grammar.Node, error) {
	if w.o.IsToken(mistralArgs) {
		return jsonCall(mistralOpen, mistralArgs, "", false)(w, name, parameters)
	}
	return jsonCall(mistralOpen+`[{"name": `, `, "arguments": `, "}]", true)(w, name, parameters)
}}

const (
	mistralOpen = "[TOOL_CALLS]"
	mistralArgs = "[ARGS]"
	mistralID   = "[CALL_ID]"
)

// mistralReader parses what follows a [TOOL_CALLS].
type mistralReader struct {
	cursor
	schemas  map[string]schema
	part     mistralPart
	function string
	object   objectSpan
}

// mistralPart is the part of a call that a mistralReader reads next.
type mistralPart uint8

const (
	mistralBegin    mistralPart = iota // the [ of a list, or nothing before a name
	mistralFirst                       // the beginning of the first element, or the end of the list
	mistralComma                       // a comma, if there is one
	mistralNext                        // the beginning of another element, or the end of the list
	mistralElement                     // an element
	mistralFunction                    // the name of a function
	mistralTag                         // a tag after the name
	mistralIdentity                    // the ID, up to another tag
	mistralObject                      // the arguments
	mistralEnd
	mistralFault // what follows a fault
)

func (r *mistralReader) read(text string) (ToolCall, int, verdict) {
	for r.part != mistralFault {
		part, v := r.next(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText && r.part != mistralElement && r.part != mistralObject:
			return ToolCall{}, 0, isText
		case v == isText:
			part = mistralFault
		case part == mistralEnd:
			return ToolCall{}, r.at, isEnd
		case r.part == mistralElement:
			call, ok := readJSONCall(text[r.object.from:r.object.end], r.schemas)
			if n := r.at; ok {
				r.object, r.part = objectSpan{}, mistralComma
				r.restart()
				return call, n, inBlock
			}
			part = mistralFault
		case r.part == mistralObject:
			call, ok := callWithJSON(r.function, text[r.object.from:r.object.end], r.schemas)
			if ok {
				return call, r.at, isCall
			}
			part = mistralFault
		}
		r.part = part
	}
	return r.skipCall(text, mistralOpen, "") // there is no closing tag
}

// next reads the next part, and returns the one after it.
func (r *mistralReader) next(text string) (mistralPart, verdict) {
	switch r.part {
	case mistralElement, mistralObject:
		return 0, r.object.read(&r.cursor, text)
	case mistralFunction:
		name, decided := r.name(text)
		r.function = name
		return mistralTag, verdictOf(decided, name != "")
	case mistralIdentity:
		at := r.find(text, r.at, "[")
		if at < 0 {
			return 0, undecided
		}
		word, decided := r.wordAt(text, at, mistralArgs)
		if word != "" {
			r.moveTo(at + len(word))
		}
		return mistralObject, verdictOf(decided, word != "")
	}
	if !r.spaces(text) {
		return 0, undecided
	}
	switch c := text[r.at]; r.part {
	case mistralBegin:
		if word, _ := r.take(text, "["); word != "" {
			return mistralFirst, isCall
		}
		return mistralFunction, isCall
	case mistralComma:
		r.take(text, ",")
		return mistralNext, isCall
	case mistralFirst, mistralNext:
		if word, _ := r.take(text, "]"); word != "" {
			return mistralEnd, isCall
		}
		return mistralElement, verdictOf(true, c == '{' || r.part == mistralNext)
	}
	switch word, decided := r.word(text, mistralArgs, mistralID, "{"); word {
	case mistralArgs:
		r.moveTo(r.at + len(word))
		return mistralObject, isCall
	case mistralID:
		r.moveTo(r.at + len(word))
		return mistralIdentity, isCall
	default:
		return mistralObject, verdictOf(decided, word != "")
	}
}
