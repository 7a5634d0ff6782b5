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
		return &elementReader{schemas: schemas, fault: -1}
	},
}

const (
	elementToken  = "]<]minimax[>["
	elementInvoke = elementToken + "<invoke"
	maxElements   = 32 // nested in each other
)

// elementReader parses the calls of one block.
type elementReader struct {
	schemas map[string]schema
	name    string    // of the function; "" until it has been read
	at      int       // text[:at] has been read
	stack   []element // the arguments of the call, and in them the elements that are open
	calls   int       // so far
	fault   int       // where the call is malformed; -1: nowhere yet
}

// element is an element that has begun.
type element struct {
	key   string
	from  int // its text, or what follows its last child, begins here
	is    property
	inner []elementValue // its children
}

// elementValue is the JSON value of an element.
type elementValue struct{ key, value string }

func (r *elementReader) read(text string) (ToolCall, int, verdict) {
	if r.fault >= 0 {
		return skipCall(text, r.fault, minimaxM3.open[0], minimaxM3.close)
	}
	if r.name == "" {
		switch n, v := r.begin(text); {
		case v == isText && r.calls == 0 && r.fault < 0:
			return ToolCall{}, 0, isText
		case v == isText:
			r.fault = max(r.fault, n)
			return r.read(text)
		case v != isCall:
			return ToolCall{}, n, v
		}
	}
	for {
		n, done, v := r.tag(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText:
			r.fault = n
			return r.read(text)
		case done:
			call := ToolCall{Name: r.name, Arguments: objectOf(r.stack[0].inner)}
			*r = elementReader{schemas: r.schemas, calls: r.calls + 1, fault: -1}
			return call, n, inBlock
		}
		r.at = n
	}
}

// begin reads the opening tag of a call, or the end of the block.
func (r *elementReader) begin(text string) (n int, v verdict) {
	at := skipSpaces(text, 0)
	word, decided := expect(text[at:], elementInvoke, minimaxM3.close)
	switch {
	case !decided:
		return 0, undecided
	case word == "":
		return at, isText
	case word == minimaxM3.close:
		return at + len(word), isEnd
	}
	at += len(word)
	i := strings.IndexAny(text[at:], "<>\n")
	if i < 0 {
		return 0, undecided
	}
	name := nameAttribute.FindStringSubmatch(text[at : at+i])
	if text[at+i] != '>' || name == nil || name[1] == "" {
		r.fault = at + i
		return r.fault, isText
	}
	r.name, r.at = name[1], at+i+1
	arguments := property{kind: "object", properties: r.schemas[r.name]}
	r.stack = []element{{from: r.at, is: arguments}}
	return r.at, isCall
}

// tag reads up to the end of the next tag. done reports whether that ends the call.
func (r *elementReader) tag(text string) (n int, done bool, v verdict) {
	i := strings.Index(text[r.at:], elementToken)
	if i < 0 {
		r.at = max(r.at, len(text)-len(elementToken)+1)
		return 0, false, undecided
	}
	r.at += i
	from := r.at + len(elementToken)
	end := strings.IndexByte(text[from:], '>')
	if end < 0 && len(text)-from < maxFunctionName {
		return 0, false, undecided
	}
	if end < 0 || end > maxFunctionName || text[from] != '<' {
		return from, false, isText
	}
	n = from + end + 1
	key, closes := strings.CutPrefix(text[from+1:n-1], "/")
	before := text[r.stack[len(r.stack)-1].from:r.at]
	switch {
	case closes:
		done, ok := r.close(key, before, n)
		if !ok {
			return n, false, isText
		}
		return n, done, isCall
	case key == "" || strings.ContainsAny(key, "< ") || strings.TrimSpace(before) != "" ||
		len(r.stack) > maxElements:
		return from, false, isText
	}
	r.stack = append(r.stack, element{key: key, from: n, is: r.top().is.inner(key)})
	return n, false, isCall
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
		return convert(text, e.is.kind)
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
		if same := byKey[v.key]; len(same) > 1 {
			out.set(v.key, arrayOf(same))
		} else {
			out.set(v.key, v.value)
		}
	}
	return out.String()
}
