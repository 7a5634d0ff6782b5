package chat

// Tool calls whose arguments are nested elements, each of which begins with a token of its own.

import (
	"regexp"
	"strings"
)

// minimaxM3 is the format of MiniMax M3. Before each tag stands the token ]<]minimax[>[, which is
// written as ^ here. An object has an element for each key, and an array one for each item:
//
//	^<tool_call>
//	^<invoke name="NAME">^<KEY>VALUE^</KEY>^<KEY>^<item>VALUE^</item>^</KEY>^</invoke>
//	^</tool_call>
var minimaxM3 = toolFormat{
	name:    "minimax_m3",
	mark:    regexp.MustCompile(`\]<\]minimax\[>\[`),
	open:    []string{elementToken + toolOpen},
	close:   elementToken + toolClose,
	in:      []string{elementToken},
	control: true,
	begin: func(schemas map[string]schema) callReader {
		return &elementReader{schemas: schemas}
	},
}

const (
	elementToken  = "]<]minimax[>["
	elementInvoke = elementToken + "<invoke"
	maxElements   = 32 // nested in each other
)

// elementReader parses the calls of one block.
type elementReader struct {
	cursor
	schemas map[string]schema
	name    string // of the function
	part    elementPart
	stack   []element // the arguments of the call, and in them the elements that are open
	before  string    // the text before the token that has been read last
	calls   int       // so far
}

// elementPart is the part of a call that an elementReader reads next.
type elementPart uint8

const (
	elementBegin elementPart = iota // the beginning of a call's tag, or the end of the block
	elementName                     // the rest of that tag
	elementText                     // text up to a token
	elementTag                      // a tag after a token
	elementEndOfCall
	elementEndOfBlock
	elementFault // what follows a fault
)

// element is an element that has begun.
type element struct {
	key   string
	from  int // its text, or what follows its last child, begins here
	is    schema
	inner []elementValue // its children
}

// elementValue is the JSON value of an element.
type elementValue struct{ key, value string }

func (r *elementReader) read(text string) (ToolCall, int, verdict) {
	for r.part != elementFault {
		part, v := r.next(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText && r.part == elementBegin && r.calls == 0:
			return ToolCall{}, 0, isText
		case v == isText:
			part = elementFault
		case part == elementEndOfBlock:
			return ToolCall{}, r.at, isEnd
		case part == elementEndOfCall:
			call := ToolCall{Name: r.name, Arguments: objectOf(r.stack[0].inner)}
			n := r.at
			r.restart()
			r.part = elementBegin
			r.calls++
			return call, n, inBlock
		}
		r.part = part
	}
	return r.skipCall(text, minimaxM3.open[0], minimaxM3.close)
}

// next reads the next part, and returns the one after it.
func (r *elementReader) next(text string) (elementPart, verdict) {
	switch r.part {
	case elementName:
		return r.callTag(text)
	case elementText:
		at, tag := r.findTag(text, elementToken)
		if tag == "" {
			return 0, undecided
		}
		r.before = text[r.top().from:at]
		r.moveTo(at + len(tag))
		return elementTag, isCall
	case elementTag:
		return r.tag(text)
	}
	if !r.spaces(text) {
		return 0, undecided
	}
	word, decided := r.take(text, elementInvoke, minimaxM3.close)
	if word == minimaxM3.close {
		return elementEndOfBlock, isCall
	}
	return elementName, verdictOf(decided, word != "")
}

// callTag reads the rest of a call's tag.
func (r *elementReader) callTag(text string) (elementPart, verdict) {
	end := r.find(text, r.at, "<>\n")
	if end < 0 {
		return 0, undecided
	}
	name := nameAttribute.FindStringSubmatch(text[r.at:end])
	if text[end] != '>' || name == nil || name[1] == "" {
		r.moveTo(end)
		return 0, isText
	}
	r.name = name[1]
	r.moveTo(end + 1)
	r.stack = []element{{from: r.at, is: r.schemas[r.name]}}
	return elementText, isCall
}

// tag reads the tag after a token.
func (r *elementReader) tag(text string) (elementPart, verdict) {
	end := r.find(text, r.at, ">")
	size := end - r.at
	if end < 0 {
		size = len(text) - r.at
	}
	switch {
	case end < 0 && size < maxFunctionName:
		return 0, undecided
	case end < 0 || size > maxFunctionName || text[r.at] != '<':
		return 0, isText
	}
	key, closes := strings.CutPrefix(text[r.at+1:end], "/")
	if closes {
		r.moveTo(end + 1)
		done, ok := r.close(key, r.before, r.at)
		if done {
			return elementEndOfCall, verdictOf(true, ok)
		}
		return elementText, verdictOf(true, ok)
	}
	if key == "" || strings.ContainsAny(key, "< ") || strings.TrimSpace(r.before) != "" ||
		len(r.stack) > maxElements {
		return 0, isText
	}
	r.moveTo(end + 1)
	r.stack = append(r.stack, element{key: key, from: r.at, is: r.top().is.inner(key)})
	return elementText, isCall
}

func (r *elementReader) top() *element { return &r.stack[len(r.stack)-1] }

// close ends an element after its text. n is the index after its closing tag. It returns false if
// the tag is not that of the last element.
func (r *elementReader) close(key, text string, n int) (done, ok bool) {
	top := r.top()
	if len(top.inner) > 0 && strings.TrimSpace(text) != "" {
		return false, false
	}
	if len(r.stack) == 1 {
		return true, key == "invoke" && strings.TrimSpace(text) == ""
	}
	if key != top.key {
		return false, false
	}
	value := top.value(text)
	r.stack = r.stack[:len(r.stack)-1]
	r.top().inner = append(r.top().inner, elementValue{key, value})
	r.top().from = n
	return false, true
}

// value returns the JSON value of an element that has ended with text.
func (e *element) value(text string) string {
	switch {
	case len(e.inner) == 0 && text == "" && e.is.isObject():
		return "{}"
	case len(e.inner) == 0 && text == "" && e.is.isArray():
		return "[]"
	case len(e.inner) == 0:
		return e.is.convert(text)
	case e.is.isArray():
		return arrayOf(e.inner)
	case e.is.isObject():
		return objectOf(e.inner)
	}
	for _, v := range e.inner {
		if v.key != "item" {
			return objectOf(e.inner)
		}
	}
	return arrayOf(e.inner)
}

func arrayOf(values []elementValue) string {
	var items []string
	for _, v := range values {
		items = append(items, v.value)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// objectOf returns an object. The values of a repeated key become an array.
func objectOf(values []elementValue) string {
	byKey := map[string][]elementValue{}
	for _, v := range values {
		byKey[v.key] = append(byKey[v.key], v)
	}
	var out object
	for _, v := range values {
		switch same := byKey[v.key]; len(same) {
		case 0: // has been set
		case 1:
			out.set(v.key, v.value)
		default:
			out.set(v.key, arrayOf(same))
			delete(byKey, v.key)
		}
	}
	return out.String()
}
