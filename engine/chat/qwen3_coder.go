package chat

// Tool calls written as tags around unescaped values. The types of values come from the schema of
// the tool, and the end of a value is inferred.

import (
	"regexp"
	"slices"
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
// Models make these mistakes, and mean a call all the same:
//
//   - They forget the <tool_call>. Then <function=NAME> begins a call if the function was offered
//     and a <parameter= or the </function> follows. Any other is content.
//   - They forget a </parameter>. A <parameter=KEY> on a line of its own ends the value, too, if
//     the tool declares the KEY and it has not had a value.
//   - They write several functions into one <tool_call>. Each is a call.
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
		form: &callForm{between: "\n", call: (&argumentForm{
			head: open + "\n" + functionOpen, afterName: ">\n",
			key: parameterOpen, afterKey: ">\n", next: "\n" + parameterClose + "\n",
			tail: functionClose + "\n" + closing,
			tags: []string{open, closing, functionOpen, functionClose, parameterOpen,
				parameterClose}}).call},
		inner: functionOpen,
		beginInner: func(schemas map[string]schema) callReader {
			return &coderReader{open: open, closing: closing, schemas: schemas, alone: true,
				part: coderName}
		},
	}
}

const (
	functionOpen   = "<function="
	functionClose  = "</function>"
	parameterOpen  = "<parameter="
	parameterClose = "</parameter>"
)

// coderReader parses the calls of one block.
type coderReader struct {
	cursor
	open       string // tags around the functions
	closing    string
	alone      bool // without these tags: the text begins after <function=
	schemas    map[string]schema
	name       string // of the function
	part       coderPart
	parameters []parameter
	tag        string // the tag in a value that has been read last; "": none
	tagAt      int    // its index
	lineAt     int    // that of the blanks before it
}

// coderPart is the part of a call that a coderReader reads next.
type coderPart uint8

const (
	coderFunction  coderPart = iota // <function=NAME>
	coderName                       // the rest of that tag
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
		case v == isText && r.isMention(text):
			return ToolCall{}, 0, isText
		case v == isText:
			part = coderFault
		case part == coderEnd:
			return r.call(text), r.at, isCall
		case part == coderFunction:
			call, n := r.call(text), r.at
			r.restart()
			r.part, r.parameters = part, nil
			return call, n, inBlock
		}
		r.part = part
	}
	if r.alone {
		return r.skipCall(text, r.open, r.closing, functionClose)
	}
	return r.skipCall(text, r.open, r.closing)
}

// isMention reports whether the opening tag, after which there is no call, stands in prose.
func (r *coderReader) isMention(text string) bool {
	if r.alone {
		return len(r.parameters) == 0
	}
	return r.part == coderFunction && !strings.HasSuffix(text[:r.at], functionOpen)
}

// next reads the next part, and returns the one after it.
func (r *coderReader) next(text string) (coderPart, verdict) {
	switch r.part {
	case coderName:
		return coderParameter, r.offeredName(text)
	case coderValue:
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
		word, decided := r.word(text, r.closing, functionOpen)
		if word == functionOpen {
			return coderFunction, isCall
		}
		r.moveTo(r.at + len(word))
		return coderEnd, verdictOf(decided, word != "")
	}
	word, decided := r.word(text, parameterOpen, functionClose)
	switch word {
	case "":
		return 0, verdictOf(decided, false)
	case functionClose:
		r.moveTo(r.at + len(word))
		if r.alone {
			return coderEnd, isCall
		}
		return coderClosing, isCall
	}
	key, v := r.tagName(text, parameterOpen)
	if v == isCall {
		r.parameters = append(r.parameters, parameter{key: key, from: r.at})
	}
	return coderValue, v
}

// offeredName reads the name of a function that was offered.
func (r *coderReader) offeredName(text string) verdict {
	name, v := r.restOfTag(text, r.at)
	_, offered := r.schemas[name]
	switch {
	case v == undecided && len(text) > maxFunctionName, v == isCall && !offered:
		return isText
	}
	r.name = name
	return v
}

// value reads up to the end of a value.
func (r *coderReader) value(text string) verdict {
	for {
		if r.tag == "" {
			at, tag := r.findTag(text, parameterClose, functionClose, parameterOpen)
			if tag == "" {
				return undecided
			}
			r.tag, r.tagAt = tag, at
			r.lineAt = r.at + len(strings.TrimRight(text[r.at:at], " \t"))
			r.work += at - r.lineAt
			r.moveTo(at + len(tag))
		}
		if r.tag == parameterOpen {
			v := r.nextParameter(text)
			if v != isText {
				return v
			}
			r.tag = ""
			continue
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

// nextParameter reads the rest of a parameter's tag in a value. It returns isText if the tag
// belongs to the value. If it does not, the cursor is at the tag.
func (r *coderReader) nextParameter(text string) verdict {
	if text[r.lineAt-1] != '\n' {
		return isText
	}
	end := r.find(text, r.at, "<>\n")
	if end < 0 {
		return undecided
	}
	key := strings.TrimSpace(text[r.at:end])
	if text[end] != '>' || !r.schemas[r.name].declares(key) || r.has(key) {
		r.moveTo(end)
		return isText
	}
	if word, decided := r.wordAt(text, end+1, "\n", "\r\n"); word == "" {
		if decided {
			r.moveTo(end)
		}
		return verdictOf(decided, false)
	}
	r.parameters[len(r.parameters)-1].to = r.lineAt
	r.moveTo(r.tagAt)
	r.tag = ""
	return isCall
}

// has reports whether the call has a parameter.
func (r *coderReader) has(key string) bool {
	return slices.ContainsFunc(r.parameters, func(p parameter) bool { return p.key == key })
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
	return c.restOfTag(text, c.at+len(open))
}

// restOfTag is like tagName. The name begins at text[from:].
func (c *cursor) restOfTag(text string, from int) (name string, v verdict) {
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
