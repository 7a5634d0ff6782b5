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
			return &coderReader{open: open, closing: closing, schemas: schemas, fault: -1}
		},
	}
}

const (
	functionOpen   = "<function="
	functionClose  = "</function>"
	parameterOpen  = "<parameter="
	parameterClose = "</parameter>"
)

// coderReader parses one call. It keeps its position between calls of read, so it scans each byte
// only once: an argument may be a whole file.
type coderReader struct {
	open       string // tags around the function
	closing    string
	schemas    map[string]schema
	name       string // of the function; "" until it has been read
	at         int    // text[:at] has been read
	parameters []parameter
	inValue    bool // text[at:] begins inside the value of the last parameter
	fault      int  // where the call is malformed; -1: nowhere yet
}

// parameter is a key and its raw value text[from:to], which is converted when the
// call is complete.
type parameter struct {
	key      string
	from, to int
}

func (r *coderReader) read(text string) (call ToolCall, n int, v verdict) {
	if r.fault >= 0 {
		return skipCall(text, r.fault, r.open, r.closing)
	}
	for v = isCall; v == isCall; {
		switch {
		case r.name == "":
			r.name, n, v = tagName(text, skipSpaces(text, r.at), functionOpen)
		case r.inValue:
			n, v = r.value(text)
		default:
			var closed bool
			if n, closed, v = r.next(text); closed {
				return r.call(text), n, v
			}
		}
		if v == isCall {
			r.at = n
		}
	}
	if v != isText {
		return ToolCall{}, n, v
	}
	at := skipSpaces(text, 0)
	if !strings.HasPrefix(text[at:], functionOpen) {
		return ToolCall{}, 0, isText
	}
	r.fault = max(n, at+len(functionOpen))
	return r.read(text)
}

// next reads a <parameter=KEY> or the end of the call.
func (r *coderReader) next(text string) (n int, closed bool, v verdict) {
	at := skipSpaces(text, r.at)
	word, decided := expect(text[at:], parameterOpen, functionClose)
	if decided && word == functionClose {
		at = skipSpaces(text, at+len(word))
		word, decided = expect(text[at:], r.closing)
	}
	switch {
	case !decided:
		return 0, false, undecided
	case word == "":
		return at, false, isText
	case word == r.closing:
		return at + len(word), true, isCall
	}
	key, n, v := tagName(text, at, parameterOpen)
	if v == isCall {
		r.parameters = append(r.parameters, parameter{key: key, from: n})
		r.inValue = true
	}
	return n, false, v
}

// value reads up to the end of a value.
func (r *coderReader) value(text string) (n int, v verdict) {
	for {
		i := strings.Index(text[r.at:], "</")
		if i < 0 {
			r.at = max(r.at, len(text)-1) // the last byte may be the <
			return 0, undecided
		}
		r.at += i
		word, decided := expect(text[r.at:], parameterClose, functionClose)
		n = r.at + len(word)
		after := skipSpaces(text, n)
		follower := ""
		if word != "" {
			follower, decided = expect(text[after:], parameterOpen, functionClose, r.closing)
		}
		switch {
		case !decided:
			return 0, undecided
		case follower == r.closing:
			return n, isText
		case follower != "" && word == parameterClose:
			r.parameters[len(r.parameters)-1].to, r.inValue = r.at, false
			return n, isCall
		}
		r.at += len("</")
	}
}

func (r *coderReader) call(text string) ToolCall {
	var arguments object
	for _, p := range r.parameters {
		value := strings.TrimSuffix(strings.TrimPrefix(text[p.from:p.to], "\n"), "\n")
		arguments.set(p.key, convert(value, r.schemas[r.name][p.key].kind))
	}
	return ToolCall{Name: r.name, Arguments: arguments.String()}
}

// tagName reads a tag such as "<function=NAME>" at text[at:]; open is "<function=". next is the
// index after the tag, or the index of the fault.
func tagName(text string, at int, open string) (name string, next int, v verdict) {
	word, decided := expect(text[at:], open)
	if !decided {
		return "", 0, undecided
	} else if word == "" {
		return "", at, isText
	}
	from := at + len(open)
	n := strings.IndexAny(text[from:], "<>\n")
	switch {
	case n < 0:
		return "", 0, undecided
	case text[from+n] != '>':
		return "", at, isText
	}
	if name = strings.TrimSpace(text[from : from+n]); name == "" {
		return "", at, isText
	}
	return name, from + n + 1, isCall
}
