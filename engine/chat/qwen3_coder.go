package chat

// Tool calls written as tags around unescaped values. The types of values come from the schema of
// the tool, and the end of a value is inferred.

import (
	"regexp"
	"strings"
)

// qwen3Coder is the format of Qwen3-Coder, Qwen3.5 and Qwen3.6:
//
//	<tool_call>
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
//	</tool_call>
//
// A VALUE is not escaped. So a </parameter> ends it only if a <parameter= or the </function>
// follows; any other is part of the value, which may be XML. A </function> or </parameter> that is
// directly followed by </tool_call> inside a value means that the model forgot a closing tag: the
// call is malformed. A value that contains a complete call ends too early, because the format is
// ambiguous.
//
// Seed-OSS has other tags around the function.
var (
	qwen3Coder = coderFormat("qwen3_coder", `<tool_call>(\s|\\n)*<function=`, toolOpen, toolClose)
	seedOSS    = coderFormat("seed_oss", `<seed:tool_call>`, "<seed:tool_call>",
		"</seed:tool_call>")
)

func coderFormat(name, mark, open, closing string) toolFormat {
	return toolFormat{
		name:  name,
		mark:  regexp.MustCompile(mark),
		open:  []string{open},
		close: closing,
		begin: func(schemas map[string]schema) callReader {
			return &coderReader{open: open, closing: closing, schemas: schemas}
		},
	}
}

const (
	functionOpen   = "<function="
	functionClose  = "</function>"
	parameterOpen  = "<parameter="
	parameterClose = "</parameter>"
)

// coderReader parses one call.
type coderReader struct {
	cursor
	open       string // tags around the function
	closing    string
	schemas    map[string]schema
	name       string // of the function
	part       coderPart
	parameters []parameter
	tag        string // the closing tag in a value that has been read last; "": none
	tagAt      int    // its index
}

// coderPart is the part of a call that a coderReader reads next.
type coderPart uint8

const (
	coderFunction  coderPart = iota // <function=NAME>
	coderParameter                  // <parameter=KEY> or </function>
	coderValue                      // a value
	coderClosing                    // the closing tag, after </function>
	coderEnd
	coderFault // what follows a fault
)

// parameter is a key and its raw value text[from:to], which is converted when the
// call is complete.
type parameter struct {
	key      string
	from, to int
}

func (r *coderReader) read(text string) (ToolCall, int, verdict) {
	for r.part != coderFault {
		part, v := r.next(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText && !strings.HasSuffix(text[:r.at], functionOpen) &&
			r.part == coderFunction:
			return ToolCall{}, 0, isText
		case v == isText:
			part = coderFault
		case part == coderEnd:
			return r.call(text), r.at, isCall
		}
		r.part = part
	}
	return r.skipCall(text, r.open, r.closing)
}

// next reads the next part, and returns the one after it.
func (r *coderReader) next(text string) (coderPart, verdict) {
	if r.part == coderValue {
		return coderParameter, r.value(text)
	}
	if !r.spaces(text) {
		return 0, undecided
	}
	switch r.part {
	case coderFunction:
		name, v := r.tagName(text, functionOpen)
		r.name = name
		return coderParameter, v
	case coderClosing:
		word, decided := r.take(text, r.closing)
		return coderEnd, verdictOf(decided, word != "")
	}
	word, decided := r.word(text, parameterOpen, functionClose)
	switch word {
	case "":
		return 0, verdictOf(decided, false)
	case functionClose:
		r.moveTo(r.at + len(word))
		return coderClosing, isCall
	}
	key, v := r.tagName(text, parameterOpen)
	if v == isCall {
		r.parameters = append(r.parameters, parameter{key: key, from: r.at})
	}
	return coderValue, v
}

// value reads up to the end of a value.
func (r *coderReader) value(text string) verdict {
	for {
		if r.tag == "" {
			at, tag := r.findTag(text, parameterClose, functionClose)
			if tag == "" {
				return undecided
			}
			r.tag, r.tagAt = tag, at
			r.moveTo(at + len(tag))
		}
		if !r.spaces(text) {
			return undecided
		}
		follower, decided := r.word(text, parameterOpen, functionClose, r.closing)
		if !decided {
			return undecided
		}
		tag := r.tag
		r.tag = ""
		switch {
		case follower == r.closing:
			return isText
		case follower != "" && tag == parameterClose:
			r.parameters[len(r.parameters)-1].to = r.tagAt
			return isCall
		}
	}
}

func (r *coderReader) call(text string) ToolCall {
	var arguments object
	for _, p := range r.parameters {
		value := strings.TrimSuffix(strings.TrimPrefix(text[p.from:p.to], "\n"), "\n")
		arguments.set(p.key, r.schemas[r.name].inner(p.key).convert(value))
	}
	return ToolCall{Name: r.name, Arguments: arguments.String()}
}

// tagName reads a tag such as "<function=NAME>" at the cursor, and moves past it; open is
// "<function=".
func (c *cursor) tagName(text, open string) (name string, v verdict) {
	word, decided := c.word(text, open)
	if word == "" {
		return "", verdictOf(decided, false)
	}
	from := c.at + len(open)
	end := c.find(text, from, "<>\n")
	if end < 0 {
		return "", undecided
	}
	if name = strings.TrimSpace(text[from:end]); name == "" || text[end] != '>' {
		c.moveTo(from)
		return "", isText
	}
	c.moveTo(end + 1)
	return name, isCall
}
