package chat

import (
	"regexp"
	"strings"
)

// glm is the format of GLM 4.5 and later, and of Laguna:
//
//	<tool_call>NAME
//	<arg_key>KEY</arg_key>
//	<arg_value>VALUE</arg_value>
//	</tool_call>
//
// A VALUE is not escaped. An </arg_value> ends it only if an <arg_key> or the </tool_call> follows.
var glm = toolFormat{
	name:  "glm",
	mark:  regexp.MustCompile(`<arg_key>`),
	open:  []string{toolOpen},
	close: toolClose,
	in:    []string{argKeyOpen, argKeyClose, argValueOpen, argValueClose},
	begin: func(schemas map[string]schema) callReader {
		return &glmReader{schemas: schemas, fault: -1}
	},
}

const (
	argKeyOpen    = "<arg_key>"
	argKeyClose   = "</arg_key>"
	argValueOpen  = "<arg_value>"
	argValueClose = "</arg_value>"
)

// functionName is a name that a function may have.
var functionName = regexp.MustCompile(`^[A-Za-z0-9_./:-]+$`)

// glmReader parses one call. It scans each byte once.
type glmReader struct {
	schemas    map[string]schema
	name       string
	at         int // text[:at] has been read
	parameters []parameter
	inValue    bool
	fault      int // where the call is malformed; -1: nowhere yet
}

func (r *glmReader) read(text string) (call ToolCall, n int, v verdict) {
	if r.fault >= 0 {
		return skipCall(text, r.fault, toolOpen, toolClose)
	}
	for {
		done := false
		switch {
		case r.name == "":
			if n, v = r.function(text); v == isText {
				return ToolCall{}, 0, isText
			}
		case r.inValue:
			n, v = r.value(text)
		default:
			n, done, v = r.next(text)
		}
		switch {
		case v == isText:
			r.fault = r.at
			return r.read(text)
		case v == undecided:
			return ToolCall{}, 0, undecided
		case done:
			return r.call(text), n, isCall
		}
		r.at = n
	}
}

// function reads the name, up to the tag that follows it.
func (r *glmReader) function(text string) (n int, v verdict) {
	from := len(text) - len(strings.TrimLeft(text, lineBreaks))
	n = strings.IndexAny(text[from:], "< \t\r\n")
	name := text[from:]
	if n >= 0 {
		name = text[from : from+n]
	}
	switch {
	case name == "" && n < 0:
		return 0, undecided
	case !functionName.MatchString(name):
		return 0, isText
	case n < 0:
		return 0, undecided
	}
	end := skipSpaces(text, from+n)
	word, decided := expect(text[end:], argKeyOpen, toolClose)
	switch {
	case !decided:
		return 0, undecided
	case word == "":
		return 0, isText
	}
	r.name = name
	return end, isCall
}

// next reads a key and the tag of its value, or the end of the call.
func (r *glmReader) next(text string) (n int, done bool, v verdict) {
	at := skipSpaces(text, r.at)
	word, decided := expect(text[at:], argKeyOpen, toolClose)
	switch {
	case !decided:
		return 0, false, undecided
	case word == "":
		return 0, false, isText
	case word == toolClose:
		return at + len(word), true, isCall
	}
	from := at + len(word)
	i := strings.IndexByte(text[from:], '<')
	if i < 0 {
		return 0, false, undecided
	}
	if word, decided = expect(text[from+i:], argKeyClose); decided && word != "" {
		at = skipSpaces(text, from+i+len(word))
		word, decided = expect(text[at:], argValueOpen)
	}
	key := strings.TrimSpace(text[from : from+i])
	switch {
	case !decided:
		return 0, false, undecided
	case word == "" || key == "":
		return 0, false, isText
	}
	n = at + len(word)
	r.parameters = append(r.parameters, parameter{key: key, from: n})
	r.inValue = true
	return n, false, isCall
}

// value reads up to the end of a value.
func (r *glmReader) value(text string) (n int, v verdict) {
	end, n, v := valueEnd(text, &r.at, argValueClose, argKeyOpen, toolClose)
	if v == isCall {
		r.parameters[len(r.parameters)-1].to, r.inValue = end, false
	}
	return n, v
}

func (r *glmReader) call(text string) ToolCall {
	var arguments object
	for _, p := range r.parameters {
		arguments.set(p.key, convert(text[p.from:p.to], r.schemas[r.name][p.key]))
	}
	return ToolCall{Name: r.name, Arguments: arguments.String()}
}
