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
	cursor
	invokeTags
	schemas    map[string]schema
	name       string // of the function
	part       invokePart
	parameters []invokeParameter
	closing    string // the tag that ends the value
	value      valueEnd
	calls      int  // so far
	attempted  bool // the tag of a call has been read
}

// invokePart is the part of a call that an invokeReader reads next.
type invokePart uint8

const (
	invokeBegin     invokePart = iota // the tag of a call, or the end of the block
	invokeName                        // the rest of that tag
	invokeNext                        // the tag of a parameter, or the end of the call
	invokeCharacter                   // the tag of CDATA, if there is one
	invokeValue                       // a value
	invokeEndOfCall
	invokeEndOfBlock
	invokeFault // what follows a fault
)

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
	r := &invokeReader{invokeTags: tags, schemas: schemas}
	r.begin()
	return r
}

// begin begins the next call.
func (r *invokeReader) begin() {
	r.restart()
	r.name, r.parameters, r.part = "", nil, invokeBegin
	if r.lead != "" {
		r.part = invokeName
	}
}

func (r *invokeReader) read(text string) (ToolCall, int, verdict) {
	for r.part != invokeFault {
		part, v := r.next(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText && r.calls == 0 && !r.attempted:
			return ToolCall{}, 0, isText
		case v == isText:
			part = invokeFault
		case part == invokeEndOfBlock:
			return ToolCall{}, r.at, isEnd
		case part == invokeEndOfCall:
			if call, ok := r.call(text); ok {
				n := r.at
				r.begin()
				r.calls++
				if r.lead != "" {
					return call, n, isCall
				}
				return call, n, inBlock
			}
			part = invokeFault
		}
		r.part = part
	}
	return r.skipCall(text, r.blockOpen, r.blockEnd)
}

// next reads the next part, and returns the one after it.
func (r *invokeReader) next(text string) (invokePart, verdict) {
	switch r.part {
	case invokeName:
		attributes, v := r.attributes(text, r.at)
		if v == isCall {
			r.name = r.attribute(nameAttribute, r.lead+attributes)
			r.attempted = r.attempted || r.name != ""
			v = verdictOf(true, r.name != "")
		}
		return invokeNext, v
	case invokeCharacter:
		return r.character(text)
	case invokeValue:
		v := r.value.find(&r.cursor, text, r.closing, r.parameter, r.invokeEnd)
		r.parameters[len(r.parameters)-1].to = r.value.end
		return invokeNext, v
	}
	if !r.spaces(text) {
		return 0, undecided
	}
	if r.part == invokeBegin {
		word, decided := r.take(text, r.invoke, r.blockEnd)
		switch word {
		case "":
			return 0, verdictOf(decided, false)
		case r.blockEnd:
			return invokeEndOfBlock, isCall
		}
		r.attempted = true
		return invokeName, isCall
	}
	word, decided := r.word(text, r.parameter, r.invokeEnd, r.object)
	switch word {
	case "":
		return 0, verdictOf(decided, false)
	case r.invokeEnd:
		r.moveTo(r.at + len(word))
		return invokeEndOfCall, isCall
	}
	return r.parameterTag(text, word)
}

// parameterTag reads the tag of a parameter, which begins with word.
func (r *invokeReader) parameterTag(text, word string) (invokePart, verdict) {
	attributes, v := r.attributes(text, r.at+len(word))
	if v != isCall {
		return 0, v
	}
	p := invokeParameter{key: r.attribute(nameAttribute, attributes), whole: word == r.object,
		from: r.at}
	if p.key == "" && !p.whole {
		return 0, isText
	}
	kind := r.attribute(kindAttribute, attributes)
	p.text = kind == "true" || kind == "string"
	p.json = kind != "" && !p.text
	r.parameters = append(r.parameters, p)
	r.closing = r.parameterEnd
	if p.whole {
		r.closing = r.objectEnd
	}
	if r.cdata {
		return invokeCharacter, isCall
	}
	return invokeValue, isCall
}

// character reads the tag of CDATA before a value, if there is one.
func (r *invokeReader) character(text string) (invokePart, verdict) {
	word, decided := r.take(text, cdataOpen)
	if word != "" {
		r.parameters[len(r.parameters)-1].from = r.at
		r.closing = cdataClose + r.closing
	}
	return invokeValue, verdictOf(decided, true)
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
		is := r.schemas[r.name].inner(p.key)
		converted := ""
		switch body, ok := lenientJSON(value); {
		case p.text:
			converted = quote(value)
		case p.json && ok:
			converted = coerceValue(body, is)
		default:
			converted = is.convert(value)
		}
		arguments.set(p.key, converted)
	}
	return ToolCall{Name: r.name, Arguments: arguments.String()}, true
}

// attributes returns the text from text[from:] up to the end of a tag, and moves past that.
func (r *invokeReader) attributes(text string, from int) (attributes string, v verdict) {
	end := r.find(text, from, "<>\n")
	if end < 0 {
		return "", undecided
	}
	word, decided := r.wordAt(text, end, r.tagEnd)
	if word == "" {
		if decided {
			r.moveTo(end)
		}
		return "", verdictOf(decided, false)
	}
	r.moveTo(end + len(word))
	return text[from:end], isCall
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
