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
	// glm is the format of GLM 4.5, GLM 4.6, Ling 3 and Laguna.
	glm = argumentFormat("glm", `<arg_key>`, glmTags)

	// glm47 is the format of GLM 4.7 and later, which is glm without line breaks.
	glm47 = glm47Format()

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

func glm47Format() toolFormat {
	f := argumentFormat("glm47", `<tool_call>\{function-name\}<arg_key>`, glmTags)
	f.form = &callForm{before: toolOpen, between: toolClose + toolOpen, after: toolClose,
		call: (&argumentForm{key: "<arg_key>", afterKey: "</arg_key><arg_value>",
			next: "</arg_value>", tags: glmTags.all()}).call}
	return f
}

var glmTags = argumentTags{open: toolOpen, closing: toolClose,
	keyOpen: "<arg_key>", keyClose: "</arg_key>",
	valueOpen: "<arg_value>", valueClose: "</arg_value>"}

// argumentTags are the tags of one format.
type argumentTags struct {
	open, closing         string
	separator             string // after the function's name; "": none
	keyOpen, keyClose     string
	valueOpen, valueClose string
	json                  bool // a call may also be a JSON object
}

// all returns the tags that no value may have.
func (t *argumentTags) all() []string {
	return []string{t.open, t.closing, t.keyOpen, t.keyClose, t.valueOpen, t.valueClose}
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
		form: &callForm{between: "\n", call: (&argumentForm{
			head: tags.open, afterName: tags.separator + "\n",
			key: tags.keyOpen, afterKey: tags.keyClose + "\n" + tags.valueOpen,
			next: tags.valueClose + "\n", tail: tags.closing,
			tags: tags.all()}).call},
		begin: func(schemas map[string]schema) callReader {
			r := &argumentReader{argumentTags: tags, schemas: schemas}
			if tags.json {
				r.object = newJSONReader(tags.open, tags.closing, schemas)
			}
			return r
		},
	}
}

// argumentReader parses one call.
type argumentReader struct {
	cursor
	argumentTags
	schemas    map[string]schema
	function   string
	part       argumentPart
	parameters []parameter
	value      valueEnd
	object     *jsonReader // of a call that is a JSON object; nil: there are none
	fault      bool
}

// argumentPart is the part of a call that an argumentReader reads next.
type argumentPart uint8

const (
	argumentStart     argumentPart = iota // white space before the name, or an object
	argumentName                          // the function's name
	argumentSeparator                     // after the name
	argumentFirst                         // the first key's tag, or the end of a call
	argumentNext                          // a key's tag or the end
	argumentKey                           // the key, up to its closing tag
	argumentOpen                          // the value's tag
	argumentValue                         // the value
	argumentObject                        // all of the call
	argumentEnd
)

func (r *argumentReader) read(text string) (ToolCall, int, verdict) {
	for !r.fault {
		if r.part == argumentObject {
			return r.object.read(text)
		}
		part, v := r.next(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText && r.part <= argumentFirst && !r.fault:
			return ToolCall{}, 0, isText
		case v == isText:
			r.fault = true
		case part == argumentEnd:
			return r.call(text), r.at, isCall
		}
		r.part = part
	}
	return r.skipCall(text, r.open, r.closing)
}

// next reads the next part, and returns the one after it.
func (r *argumentReader) next(text string) (argumentPart, verdict) {
	if r.part != argumentName && r.part != argumentKey && r.part != argumentValue &&
		!r.spaces(text) {
		return 0, undecided
	}
	switch r.part {
	case argumentStart:
		return r.start(text)
	case argumentName:
		return r.name(text)
	case argumentSeparator:
		word, decided := r.word(text, r.separator, r.keyOpen, r.closing)
		if word == r.separator {
			r.moveTo(r.at + len(word))
			return argumentFirst, isCall
		}
		r.fault = word != ""
		return 0, verdictOf(decided, false)
	case argumentFirst, argumentNext:
		word, decided := r.take(text, r.keyOpen, r.closing)
		if word == r.closing {
			return argumentEnd, isCall
		}
		return argumentKey, verdictOf(decided, word != "")
	case argumentKey:
		return r.key(text)
	case argumentOpen:
		word, decided := r.take(text, r.valueOpen)
		r.parameters[len(r.parameters)-1].from = r.at
		return argumentValue, verdictOf(decided, word != "")
	default:
		v := r.value.find(&r.cursor, text, r.valueClose, r.keyOpen, r.closing)
		r.parameters[len(r.parameters)-1].to = r.value.end
		return argumentNext, v
	}
}

// verdictOf is the verdict on an expected word.
func verdictOf(decided, found bool) verdict {
	switch {
	case !decided:
		return undecided
	case found:
		return isCall
	}
	return isText
}

// start finds out whether a call is an object or begins with a name.
func (r *argumentReader) start(text string) (argumentPart, verdict) {
	switch {
	case r.object != nil && text[r.at] == '{':
		return argumentObject, isCall
	case strings.ContainsAny(text[:r.at], " \t"):
		return 0, isText
	}
	return argumentName, isCall
}

// name reads the name.
func (r *argumentReader) name(text string) (argumentPart, verdict) {
	name, decided := r.cursor.name(text)
	switch {
	case !decided:
		return 0, undecided
	case name == "" || strings.IndexByte("< \t\r\n", text[r.at]) < 0:
		return 0, isText
	}
	r.function = name
	if r.separator == "" {
		return argumentFirst, isCall
	}
	return argumentSeparator, isCall
}

// key reads a key and its closing tag.
func (r *argumentReader) key(text string) (argumentPart, verdict) {
	end := r.find(text, r.at, "<")
	if end < 0 {
		return 0, undecided
	}
	word, decided := r.wordAt(text, end, r.keyClose)
	key := strings.TrimSpace(text[r.at:end])
	if !decided || word == "" || key == "" {
		return 0, verdictOf(decided, false)
	}
	r.parameters = append(r.parameters, parameter{key: key})
	r.moveTo(end + len(word))
	return argumentOpen, isCall
}

func (r *argumentReader) call(text string) ToolCall {
	var arguments object
	for _, p := range r.parameters {
		arguments.set(p.key, r.schemas[r.function].inner(p.key).convert(text[p.from:p.to]))
	}
	return ToolCall{Name: r.function, Arguments: arguments.String()}
}
