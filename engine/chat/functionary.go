package chat

import "regexp"

// functionary31 is the format of Functionary 3.1:
//
//	<function=NAME>{…}</function>
var functionary31 = toolFormat{
	name:  "functionary31",
	mark:  regexp.MustCompile(`<function=example_function_name>\{`),
	open:  []string{functionary31Tags.open},
	close: functionary31Tags.closing,
	ends:  []string{"<|eom_id|>"},
	begin: func(schemas map[string]schema) callReader {
		return &separatedReader{tags: functionary31Tags, schemas: schemas}
	},
}

var functionary31Tags = separated{open: functionOpen, separator: ">", closing: functionClose,
	name: func(head string) string { return head }}

// functionary32 is the format of Functionary 3.2, whose messages name their recipient. The user's
// name is all. The prompt ends with the first >>>.
//
//	>>>all
//	TEXT>>>NAME
//	{…}
var functionary32 = toolFormat{
	name:     "functionary32",
	mark:     regexp.MustCompile(`>>>\$\{recipient\}`),
	open:     []string{">>>"},
	prose:    true,
	prompted: true,
	begin: func(schemas map[string]schema) callReader {
		return &recipientReader{schemas: schemas}
	},
}

// recipientReader parses one message.
type recipientReader struct {
	cursor
	schemas   map[string]schema
	recipient string
	part      recipientPart
	object    objectSpan
}

// recipientPart is the part of a message that a recipientReader reads next.
type recipientPart uint8

const (
	recipientName recipientPart = iota
	recipientLine               // the line break after the name
	recipientText               // the arguments
)

func (r *recipientReader) read(text string) (ToolCall, int, verdict) {
	if r.part == recipientName {
		name, decided := r.name(text)
		if name == "" {
			return ToolCall{}, 0, verdictOf(decided, false)
		}
		r.recipient, r.part = name, recipientLine
	}
	if r.part == recipientLine {
		word, decided := r.take(text, "\n")
		switch {
		case word == "":
			return ToolCall{}, 0, verdictOf(decided, false)
		case r.recipient == "all": // the message is content
			return ToolCall{}, r.at, isText
		}
		r.part = recipientText
	}
	switch r.object.read(&r.cursor, text) {
	case undecided:
		return ToolCall{}, 0, undecided
	case isCall:
		call, ok := callWithJSON(r.recipient, text[r.object.from:r.object.end], r.schemas)
		if ok {
			return call, r.at, isCall
		}
	}
	if r.object.begun {
		return ToolCall{}, r.at, isText
	}
	return ToolCall{}, 0, isText
}
