package chat

import (
	"regexp"
	"strings"
)

// The formats of this form:
//
//	<tool_call>NAME
//	<arg_key>KEY</arg_key>
//	<arg_value>VALUE</arg_value>
//	</tool_call>
//
// A VALUE is not escaped. An </arg_value> ends it only if an <arg_key> or the </tool_call> follows.
var (
	// glm is the format of GLM 4.5 and later, and of Laguna.
	glm = argumentFormat("glm", `<arg_key>`, argumentTags{open: toolOpen, closing: toolClose,
		keyOpen: "<arg_key>", keyClose: "</arg_key>",
		valueOpen: "<arg_value>", valueClose: "</arg_value>"})

	// longcat is the format of LongCat, whose tags have names of their own. It knows a JSON object
	// between the tags of a call, too.
	longcat = argumentFormat("longcat", `<longcat_tool_call>`, argumentTags{
		open: "<longcat_tool_call>", closing: "</longcat_tool_call>",
		keyOpen: "<longcat_arg_key>", keyClose: "</longcat_arg_key>",
		valueOpen: "<longcat_arg_value>", valueClose: "</longcat_arg_value>", json: true})

	// hunyuan is the format of Hunyuan 3. Its template appends a word to the name of each tag, and
	// a <tool_sep> follows the function's name.
	hunyuan = argumentFormat("hunyuan", `HYTK = ':opensource'(?s:.*)<tool_sep\{\}>`, argumentTags{
		open: "<tool_call:opensource>", closing: "</tool_call:opensource>",
		separator: "<tool_sep:opensource>",
		keyOpen:   "<arg_key:opensource>", keyClose: "</arg_key:opensource>",
		valueOpen: "<arg_value:opensource>", valueClose: "</arg_value:opensource>",
	}, "<tool_calls:opensource>", "</tool_calls:opensource>")
)

// argumentTags are the tags of one format.
type argumentTags struct {
	open, closing         string
	separator             string // after the function's name; "": none
	keyOpen, keyClose     string
	valueOpen, valueClose string
	json                  bool // a call may also be a JSON object
}

func argumentFormat(name, mark string, tags argumentTags, drop ...string) toolFormat {
	in := []string{tags.keyOpen, tags.keyClose, tags.valueOpen, tags.valueClose}
	if tags.separator != "" {
		in = append(in, tags.separator)
	}
	return toolFormat{
		name:  name,
		mark:  regexp.MustCompile(mark),
		open:  []string{tags.open},
		close: tags.closing,
		drop:  drop,
		in:    in,
		begin: func(schemas map[string]schema) callReader {
			r := &argumentReader{argumentTags: tags, schemas: schemas, fault: -1}
			if tags.json {
				r.object = newJSONReader(tags.open, tags.closing, schemas)
			}
			return r
		},
	}
}

// functionName is a name that a function may have.
var functionName = regexp.MustCompile(`^[A-Za-z0-9_./:-]+$`)

// argumentReader parses one call. It scans each byte once.
type argumentReader struct {
	argumentTags
	schemas    map[string]schema
	name       string
	at         int // text[:at] has been read
	parameters []parameter
	inValue    bool
	fault      int         // where the call is malformed; -1: nowhere yet
	object     *jsonReader // of a call that is a JSON object; nil: there are none
}

func (r *argumentReader) read(text string) (call ToolCall, n int, v verdict) {
	if r.fault >= 0 {
		return skipCall(text, r.fault, r.open, r.closing)
	}
	if at := skipSpaces(text, 0); r.object != nil && at < len(text) && text[at] == '{' {
		return r.object.read(text)
	}
	for {
		done := false
		switch {
		case r.name == "":
			n, v = r.function(text)
			switch {
			case r.fault >= 0:
				return r.read(text)
			case v == isText:
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
func (r *argumentReader) function(text string) (n int, v verdict) {
	from := len(text) - len(strings.TrimLeft(text, lineBreaks))
	n = strings.IndexAny(text[from:min(len(text), from+maxFunctionName+1)], "< \t\r\n")
	name := text[from:]
	if n >= 0 {
		name = text[from : from+n]
	}
	switch {
	case len(name) > maxFunctionName:
		return 0, isText
	case name == "" && n < 0:
		return 0, undecided
	case !functionName.MatchString(name):
		return 0, isText
	case n < 0:
		return 0, undecided
	}
	end := skipSpaces(text, from+n)
	if r.separator != "" {
		word, decided := expect(text[end:], r.separator, r.keyOpen, r.closing)
		switch {
		case !decided:
			return 0, undecided
		case word == "":
			return 0, isText
		case word != r.separator:
			r.fault = end
			return 0, isText
		}
		end = skipSpaces(text, end+len(word))
	}
	word, decided := expect(text[end:], r.keyOpen, r.closing)
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
func (r *argumentReader) next(text string) (n int, done bool, v verdict) {
	at := skipSpaces(text, r.at)
	word, decided := expect(text[at:], r.keyOpen, r.closing)
	switch {
	case !decided:
		return 0, false, undecided
	case word == "":
		return 0, false, isText
	case word == r.closing:
		return at + len(word), true, isCall
	}
	from := at + len(word)
	i := strings.IndexByte(text[from:], '<')
	if i < 0 {
		return 0, false, undecided
	}
	if word, decided = expect(text[from+i:], r.keyClose); decided && word != "" {
		at = skipSpaces(text, from+i+len(word))
		word, decided = expect(text[at:], r.valueOpen)
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
func (r *argumentReader) value(text string) (n int, v verdict) {
	end, n, v := valueEnd(text, &r.at, r.valueClose, r.keyOpen, r.closing)
	if v == isCall {
		r.parameters[len(r.parameters)-1].to, r.inValue = end, false
	}
	return n, v
}

func (r *argumentReader) call(text string) ToolCall {
	var arguments object
	for _, p := range r.parameters {
		arguments.set(p.key, convert(text[p.from:p.to], r.schemas[r.name][p.key].kind))
	}
	return ToolCall{Name: r.name, Arguments: arguments.String()}
}
