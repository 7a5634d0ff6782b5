package chat

// Tool calls written as XML elements with attributes. Several models have such a format, each with
// other names of the elements. Values are not escaped, so the end of a value is inferred.

import (
	"regexp"
	"strings"
)

// invokeTags are the tags of one format:
//
//	INVOKE name="NAME">
//	PARAMETER name="KEY">VALUE PARAMETER_END
//	INVOKE_END
//	BLOCK_END
//
// A PARAMETER_END ends the value only if a PARAMETER or the INVOKE_END follows.
type invokeTags struct {
	invoke, invokeEnd       string // "<invoke" and "</invoke>"
	parameter, parameterEnd string
	blockOpen, blockEnd     string
	trim                    bool // values may stand on lines of their own
}

var (
	nameAttribute   = regexp.MustCompile(`\sname\s*=\s*["']?([^"'<>]*?)["']?\s*(?:$|\s)`)
	stringAttribute = regexp.MustCompile(`\sstring\s*=\s*["']?(true|false)`)
)

// invokeReader parses the calls of one block.
type invokeReader struct {
	invokeTags
	schemas    map[string]schema
	name       string // of the function; "" until it has been read
	at         int    // text[:at] has been read
	parameters []invokeParameter
	inValue    bool // text[at:] begins inside the value of the last parameter
	fault      int  // where the call is malformed; -1: nowhere yet
	calls      int  // so far
}

// invokeParameter is a key and its raw value text[from:to].
type invokeParameter struct {
	key      string
	json     bool // the value is JSON, says the tag
	text     bool // the value is a string, says the tag
	from, to int
}

func newInvokeReader(tags invokeTags, schemas map[string]schema) *invokeReader {
	return &invokeReader{invokeTags: tags, schemas: schemas, fault: -1}
}

func (r *invokeReader) read(text string) (call ToolCall, n int, v verdict) {
	if r.fault >= 0 {
		return skipCall(text, r.fault, r.blockOpen, r.blockEnd)
	}
	for {
		var done bool
		switch {
		case r.name == "":
			n, done, v = r.begin(text)
		case r.inValue:
			n, v = r.value(text)
		default:
			n, done, v = r.next(text)
		}
		switch {
		case v == isText && r.calls == 0 && !r.attempted(text):
			return ToolCall{}, 0, isText
		case v == isText:
			r.fault = n
			return r.read(text)
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isEnd:
			return ToolCall{}, n, isEnd
		case done:
			call = r.call(text)
			*r = invokeReader{invokeTags: r.invokeTags, schemas: r.schemas, fault: -1,
				calls: r.calls + 1}
			return call, n, inBlock
		}
		r.at = n
	}
}

// attempted reports whether the text is a call, though perhaps a malformed one.
func (r *invokeReader) attempted(text string) bool {
	return strings.HasPrefix(text[skipSpaces(text, 0):], r.invoke)
}

// begin reads the opening tag of a call, or the end of the block.
func (r *invokeReader) begin(text string) (n int, done bool, v verdict) {
	at := skipSpaces(text, 0)
	word, decided := expect(text[at:], r.invoke, r.blockEnd)
	switch {
	case !decided:
		return 0, false, undecided
	case word == "":
		return at, false, isText
	case word == r.blockEnd:
		return at + len(word), false, isEnd
	}
	var attributes string
	attributes, n, v = attributesOf(text, at+len(word))
	if v == isCall {
		if r.name = attribute(nameAttribute, attributes); r.name == "" {
			return n, false, isText
		}
	}
	return n, false, v
}

// next reads a parameter's opening tag, or the end of the call.
func (r *invokeReader) next(text string) (n int, done bool, v verdict) {
	at := skipSpaces(text, r.at)
	word, decided := expect(text[at:], r.parameter, r.invokeEnd)
	switch {
	case !decided:
		return 0, false, undecided
	case word == "":
		return at, false, isText
	case word == r.invokeEnd:
		return at + len(word), true, isCall
	}
	attributes, n, v := attributesOf(text, at+len(word))
	if v == isCall {
		key := attribute(nameAttribute, attributes)
		if key == "" {
			return n, false, isText
		}
		kind := attribute(stringAttribute, attributes)
		r.parameters = append(r.parameters, invokeParameter{key: key, json: kind == "false",
			text: kind == "true", from: n})
		r.inValue = true
	}
	return n, false, v
}

// value reads up to the end of a value.
func (r *invokeReader) value(text string) (n int, v verdict) {
	end, n, v := valueEnd(text, &r.at, r.parameterEnd, r.parameter, r.invokeEnd)
	if v == isCall {
		r.parameters[len(r.parameters)-1].to, r.inValue = end, false
	}
	return n, v
}

func (r *invokeReader) call(text string) ToolCall {
	var arguments object
	for _, p := range r.parameters {
		value := text[p.from:p.to]
		if r.trim {
			value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		}
		kind := r.schemas[r.name][p.key]
		converted := ""
		switch body, ok := lenientJSON(value); {
		case p.text:
			converted = quote(value)
		case p.json && ok:
			converted = coerceValue(body, kind)
		default:
			converted = convert(value, kind)
		}
		arguments.set(p.key, converted)
	}
	return ToolCall{Name: r.name, Arguments: arguments.String()}
}

// attributesOf returns the text from text[at:] up to the > that ends a tag. n is the index after
// it, or of the fault.
func attributesOf(text string, at int) (attributes string, n int, v verdict) {
	i := strings.IndexAny(text[at:], "<>\n")
	switch {
	case i < 0:
		return "", 0, undecided
	case text[at+i] != '>':
		return "", at + i, isText
	}
	return text[at : at+i], at + i + 1, isCall
}

func attribute(pattern *regexp.Regexp, attributes string) string {
	if m := pattern.FindStringSubmatch(attributes); m != nil {
		return strings.TrimSpace(m[1])
	}
	return ""
}
