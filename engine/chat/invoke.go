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
	// lead is what blockOpen has of the attributes of the only call in the block; "": blockOpen is
	// a tag of its own.
	lead              string
	tagEnd            string // ends a tag with attributes; "": ">"
	object, objectEnd string // tags around all arguments as a JSON object; "": there are none
	trim              bool   // values may stand on lines of their own
	cdata             bool   // a value may be CDATA
	escaped           bool   // attributes have &amp; and &quot;
}

// The attributes with the name of a function or parameter, and with the kind of a parameter's
// value. The latter is JSON, unless string is "true" or type is "string".
var (
	nameAttribute = regexp.MustCompile(
		`\s(?:name|tool|key)\s*=\s*["']?([^"'<>]*?)["']?\s*(?:$|\s)`)
	kindAttribute = regexp.MustCompile(`\s(?:string|type)\s*=\s*["']?(\w+)`)
)

// The tags of CDATA, in which a value may have any character.
const (
	cdataOpen  = "<![CDATA["
	cdataClose = "]]>"
)

// invokeReader parses the calls of one block.
type invokeReader struct {
	invokeTags
	schemas    map[string]schema
	name       string // of the function; "" until it has been read
	at         int    // text[:at] has been read
	parameters []invokeParameter
	inValue    bool   // text[at:] begins inside the value of the last parameter
	closing    string // the tag that ends this value; "": not known yet
	fault      int    // where the call is malformed; -1: nowhere yet
	calls      int    // so far
}

// invokeParameter is a key and its raw value text[from:to].
type invokeParameter struct {
	key      string
	json     bool // the value is JSON, says the tag
	text     bool // the value is a string, says the tag
	whole    bool // the value is the object with all arguments
	from, to int
}

func newInvokeReader(tags invokeTags, schemas map[string]schema) *invokeReader {
	if tags.tagEnd == "" {
		tags.tagEnd = ">"
	}
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
			call, ok := r.call(text)
			if !ok {
				r.fault = n
				return r.read(text)
			}
			*r = invokeReader{invokeTags: r.invokeTags, schemas: r.schemas, fault: -1,
				calls: r.calls + 1}
			if r.lead != "" {
				return call, n, isCall
			}
			return call, n, inBlock
		}
		r.at = n
	}
}

// attempted reports whether the text is a call, though perhaps a malformed one.
func (r *invokeReader) attempted(text string) bool {
	if r.lead != "" {
		return r.name != ""
	}
	return strings.HasPrefix(text[skipSpaces(text, 0):], r.invoke)
}

// begin reads the opening tag of a call, or the end of the block.
func (r *invokeReader) begin(text string) (n int, done bool, v verdict) {
	from := 0
	if r.lead == "" {
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
		from = at + len(word)
	}
	attributes, n, v := r.attributesOf(text, from)
	if v == isCall {
		if r.name = r.attribute(nameAttribute, r.lead+attributes); r.name == "" {
			return n, false, isText
		}
	}
	return n, false, v
}

// next reads a parameter's opening tag, or the end of the call.
func (r *invokeReader) next(text string) (n int, done bool, v verdict) {
	at := skipSpaces(text, r.at)
	words := []string{r.parameter, r.invokeEnd}
	if r.object != "" {
		words = append(words, r.object)
	}
	word, decided := expect(text[at:], words...)
	switch {
	case !decided:
		return 0, false, undecided
	case word == "":
		return at, false, isText
	case word == r.invokeEnd:
		return at + len(word), true, isCall
	}
	attributes, n, v := r.attributesOf(text, at+len(word))
	if v != isCall {
		return n, false, v
	}
	p := invokeParameter{key: r.attribute(nameAttribute, attributes), whole: word == r.object,
		from: n}
	if p.key == "" && !p.whole {
		return n, false, isText
	}
	kind := r.attribute(kindAttribute, attributes)
	p.text = kind == "true" || kind == "string"
	p.json = kind != "" && !p.text
	r.parameters = append(r.parameters, p)
	r.inValue, r.closing = true, ""
	return n, false, isCall
}

// value reads up to the end of a value.
func (r *invokeReader) value(text string) (n int, v verdict) {
	p := &r.parameters[len(r.parameters)-1]
	if r.closing == "" {
		closing := r.parameterEnd
		if p.whole {
			closing = r.objectEnd
		}
		if r.cdata {
			word, decided := expect(text[p.from:], cdataOpen)
			if !decided {
				return 0, undecided
			}
			if word != "" {
				p.from += len(word)
				r.at, closing = p.from, cdataClose+closing
			}
		}
		r.closing = closing
	}
	end, n, v := valueEnd(text, &r.at, r.closing, r.parameter, r.invokeEnd)
	if v == isCall {
		p.to, r.inValue = end, false
	}
	return n, v
}

// call returns the call that has been read. It returns false if its arguments are not an object.
func (r *invokeReader) call(text string) (ToolCall, bool) {
	var arguments object
	for _, p := range r.parameters {
		value := text[p.from:p.to]
		if p.whole {
			return callWithJSON(r.name, value, r.schemas)
		}
		if r.trim {
			value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		}
		kind := r.schemas[r.name][p.key].kind
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
	return ToolCall{Name: r.name, Arguments: arguments.String()}, true
}

// attributesOf returns the text from text[at:] up to the end of a tag. n is the index after that,
// or of the fault.
func (r *invokeReader) attributesOf(text string, at int) (attributes string, n int, v verdict) {
	i := strings.IndexAny(text[at:], "<>\n")
	if i < 0 {
		return "", 0, undecided
	}
	word, decided := expect(text[at+i:], r.tagEnd)
	switch {
	case !decided:
		return "", 0, undecided
	case word == "":
		return "", at + i, isText
	}
	return text[at : at+i], at + i + len(word), isCall
}

var unescapeAttribute = strings.NewReplacer("&quot;", `"`, "&amp;", "&")

func (r *invokeReader) attribute(pattern *regexp.Regexp, attributes string) string {
	m := pattern.FindStringSubmatch(attributes)
	if m == nil {
		return ""
	}
	value := strings.TrimSpace(m[1])
	if r.escaped {
		value = unescapeAttribute.Replace(value)
	}
	return value
}
