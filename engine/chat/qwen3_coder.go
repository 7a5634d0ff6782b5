package chat

import "strings"

// qwen3Coder is the form of Qwen3-Coder, Qwen3.5 and Qwen3.6:
//
//	<tool_call>
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
//	</tool_call>
//
// A VALUE is not escaped, so a </parameter> ends it only where the next thing is
// a <parameter= or the </function>: one that stands in a page of XML is a part of
// it. A </function> or </parameter> before the </tool_call> where none can be is
// a call whose end the model forgot: malformed. A value that shows a whole call
// as an example ends early; the form cannot tell.
type qwen3Coder struct{}

const (
	functionOpen   = "<function="
	functionClose  = "</function>"
	parameterOpen  = "<parameter="
	parameterClose = "</parameter>"
)

func (qwen3Coder) scan(text string, schemas map[string]schema) (call ToolCall, n int, v verdict) {
	at := skipSpaces(text, 0)
	name, at, v := tagName(text, at, functionOpen)
	if v != isCall {
		return ToolCall{}, at, v
	}
	var arguments object
	for {
		at = skipSpaces(text, at)
		word, decided := expect(text[at:], parameterOpen, functionClose)
		switch {
		case !decided:
			return ToolCall{}, 0, undecided
		case word == "":
			return ToolCall{}, at, isText
		case word == functionClose:
			at = skipSpaces(text, at+len(functionClose))
			if word, decided = expect(text[at:], toolClose); !decided {
				return ToolCall{}, 0, undecided
			} else if word == "" {
				return ToolCall{}, at, isText
			}
			return ToolCall{Name: name, Arguments: arguments.String()}, at + len(toolClose), isCall
		}
		key, from, v := tagName(text, at, parameterOpen)
		if v != isCall {
			return ToolCall{}, from, v
		}
		to, next, v := valueEnd(text, from)
		if v != isCall {
			return ToolCall{}, next, v
		}
		value := strings.TrimSuffix(strings.TrimPrefix(text[from:to], "\n"), "\n")
		arguments.set(key, convert(value, schemas[name][key]))
		at = next
	}
}

// tagName reads "<function=NAME>", whose beginning is open, at a place of text.
// next is the place after it, or that of the fault.
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

// valueEnd finds the end of the value that begins at from, and the place after
// its </parameter>, or that of the fault.
func valueEnd(text string, from int) (to, next int, v verdict) {
	for at := from; ; at += len("</") {
		n := strings.Index(text[at:], "</")
		if n < 0 {
			return 0, 0, undecided
		}
		at += n
		word, decided := expect(text[at:], parameterClose, functionClose)
		if word == "" && decided {
			continue
		}
		next = at + len(word)
		after := skipSpaces(text, next)
		follower := ""
		if decided {
			follower, decided = expect(text[after:], parameterOpen, functionClose, toolClose)
		}
		switch {
		case !decided:
			return 0, 0, undecided
		case follower == toolClose:
			return 0, after + len(toolClose), isText
		case follower != "" && word == parameterClose:
			return at, next, isCall
		}
	}
}
