package chat

import (
	"regexp"

	"headroom/engine/grammar/jsonschema"
)

// llama3 is the format of Llama 3.1 and later. An answer is a call, with or without the tag:
//
//	<|python_tag|>{"name": NAME, "parameters": {…}}
//	{"name": NAME, "parameters": {…}}
//
// Without the tag, an object is a call only if its first key is one of a call's, and if it names an
// offered function; else it is JSON that the user asked for.
var llama3 = toolFormat{
	name:    "llama3",
	mark:    regexp.MustCompile(`"parameters": dictionary of argument name`),
	open:    []string{pythonTag},
	ends:    []string{"<|eom_id|>"},
	bare:    true,
	control: true,
	form: &callForm{call: jsonCall(llama3Head, llama3Middle, "}", true),
		begun: llama3Begun},
	begin: func(schemas map[string]schema) callReader {
		return &llama3Reader{schemas: schemas}
	},
}

const (
	pythonTag    = "<|python_tag|>"
	llama3Head   = `{"name": ` // before the name
	llama3Middle = `, "parameters": `
)

var llama3Name = regexp.MustCompile(`^\{\s*"name"\s*:\s*"([^"\\]*)"`)

// llama3Begun returns the beginning of a call that begins with its name, as the template shows it.
// Others do not have the form.
func llama3Begun(reader callReader, text string) (string, bool) {
	r := reader.(*llama3Reader)
	if r.first.part != firstDone {
		return "", false
	}
	text = text[r.first.from:]
	found := llama3Name.FindStringSubmatch(text)
	if found == nil {
		return "", false
	}
	rest, ok := respelled(text[len(found[0]):], llama3Middle)
	return llama3Head + jsonschema.Quote(found[1]) + rest, ok
}

// llama3Reader parses calls, which a semicolon may separate.
type llama3Reader struct {
	cursor
	schemas map[string]schema
	first   firstMember
	object  objectSpan
	calls   int // so far
}

func (r *llama3Reader) read(text string) (ToolCall, int, verdict) {
	if r.first.part == firstBrace {
		between := spaces
		if r.calls > 0 {
			between = spaces + ";"
		}
		if !r.skip(text, between) {
			return ToolCall{}, 0, undecided
		}
		if text[r.at] != '{' {
			return r.none()
		}
		r.first.begin(r.at)
	}
	v := r.first.read(text, r.schemas)
	if v == isCall {
		v = r.object.read(&r.cursor, text)
	}
	switch v {
	case undecided:
		return ToolCall{}, 0, undecided
	case isText:
		return r.none()
	}
	call, ok := readJSONCall(text[r.object.from:r.object.end], r.schemas)
	if _, offered := r.schemas[call.Name]; !ok || !offered {
		return r.none()
	}
	n := r.at
	r.calls++
	r.object, r.first = objectSpan{}, firstMember{cursor: cursor{work: r.first.work}}
	r.restart()
	return call, n, inBlock
}

// none is the verdict where no call follows. After a call that is the end of the block.
func (r *llama3Reader) none() (ToolCall, int, verdict) {
	if r.calls > 0 {
		return ToolCall{}, 0, isEnd
	}
	return ToolCall{}, 0, isText
}

// firstMember finds out whether an object can be a call, as soon as its first member tells.
type firstMember struct {
	cursor
	from int // the object begins at text[from:]
	part firstPart
}

// firstPart is the part of an object that a firstMember reads next.
type firstPart uint8

const (
	firstBrace firstPart = iota // the brace before the member
	firstQuote                  // the quote before the key
	firstKey                    // the key
	firstColon                  // the colon after the key name
	firstName                   // the quote before the name
	firstValue                  // the name
	firstDone
)

// begin begins to read an object.
func (f *firstMember) begin(at int) {
	f.moveTo(at)
	f.from = at
}

// read returns isText if the object is no call, and isCall if it may be one.
func (f *firstMember) read(text string, schemas map[string]schema) verdict {
	for f.part != firstDone {
		part, v := f.next(text, schemas)
		to := f.at
		if v == undecided {
			to = len(text)
		}
		switch {
		case f.part < firstName && to-f.from > maxFunctionName:
			return isText
		case v != isCall:
			return v
		}
		f.part = part
	}
	return isCall
}

// next reads the next part, and returns the one after it.
func (f *firstMember) next(text string, schemas map[string]schema) (firstPart, verdict) {
	switch f.part {
	case firstKey:
		key, v := f.quoted(text)
		switch key {
		case "name":
			return firstColon, v
		case "type", "function", "parameters", "arguments":
			return firstDone, v
		}
		return 0, verdictOf(v != undecided, false)
	case firstValue:
		name, v := f.quoted(text)
		if v == isText { // it has an escape
			return firstDone, isCall
		}
		_, offered := schemas[name]
		return firstDone, verdictOf(v != undecided, offered)
	}
	if !f.spaces(text) {
		return 0, undecided
	}
	word := `"`
	switch f.part {
	case firstBrace:
		word = "{"
	case firstColon:
		word = ":"
	}
	found, _ := f.take(text, word)
	if found == "" && f.part == firstName { // not a string
		return firstDone, isCall
	}
	return f.part + 1, verdictOf(true, found != "")
}

// quoted reads a string up to the quote at its end, and moves past that. It returns isText if the
// string has an escape.
func (f *firstMember) quoted(text string) (string, verdict) {
	end := f.find(text, f.at, `"\\`)
	switch {
	case end < 0:
		return "", undecided
	case text[end] == '\\':
		return "", isText
	}
	value := text[f.at:end]
	f.moveTo(end + 1)
	return value, isCall
}
