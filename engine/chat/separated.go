package chat

// Tool calls whose arguments are a JSON object after a name and a separator.

import (
	"encoding/json"
	"regexp"
	"strings"

	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

// kimi is the format of Kimi K2. The number of the call is not part of the name.
//
//	<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0
//	<|tool_call_argument_begin|>{…}<|tool_call_end|><|tool_calls_section_end|>
var kimi = kimiFormat()

func kimiFormat() toolFormat {
	f := separatedFormat("kimi", kimiTags, "<|tool_calls_section_begin|>",
		"<|tool_calls_section_end|>")
	f.nameIDs = true
	f.form = separatedForm(&f, func(w *callWriter, name string,
		parameters json.RawMessage) (grammar.Node, error) {
		space := w.b.Space
		digits := space.Repeat(space.Set(regular.Range('0', '9')), 1, 3)
		arguments, err := w.object(parameters, nil)
		return w.b.Seq(w.text("functions."+name+":"), w.b.Terminal(digits),
			w.text(kimiTags.separator), arguments), err
	})
	return f
}

var kimiTags = separated{open: "<|tool_call_begin|>",
	separator: "<|tool_call_argument_begin|>", closing: "<|tool_call_end|>",
	name: func(head string) string {
		head = strings.TrimPrefix(head, "functions.")
		if i := strings.LastIndexByte(head, ':'); i >= 0 {
			head = head[:i]
		}
		return head
	}}

// deepseek is the format of DeepSeek V3 and R1. In V3.1 the name stands before the separator, and
// the object is not fenced.
//
//	<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME
//	```json
//	{…}
//	```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
var deepseek = deepseekFormat()

func deepseekFormat() toolFormat {
	f := separatedFormat("deepseek", separated{open: "<｜tool▁call▁begin｜>",
		separator: "<｜tool▁sep｜>", closing: "<｜tool▁call▁end｜>", fence: "```json",
		name: func(head string) string { return head }},
		"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
	f.example = func(source string) string {
		call := "the function's name<｜tool▁sep｜>" + exampleArguments
		if strings.Contains(source, "```json") {
			call = "function<｜tool▁sep｜>the function's name\n```json\n" + exampleArguments + "\n```"
		}
		return "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>" + call +
			"<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
	}
	plain := jsonCall("", "<｜tool▁sep｜>", "", false)
	fenced := jsonCall("function<｜tool▁sep｜>", "\n```json\n", "\n```", false)
	f.form = separatedForm(&f, func(w *callWriter, name string,
		parameters json.RawMessage) (grammar.Node, error) {
		a, err := plain(w, name, parameters)
		if err != nil {
			return 0, err
		}
		b, err := fenced(w, name, parameters)
		return w.b.Choice(a, b), err
	})
	return f
}

// separatedForm returns the form of calls between the tags of a format.
func separatedForm(f *toolFormat, call callWriting) *callForm {
	return &callForm{section: f.drop[0], sectionEnd: f.drop[1], before: f.open[0],
		between: f.close + f.open[0], after: f.close,
		call: func(w *callWriter, name string, p json.RawMessage) (grammar.Node, error) {
			if !isFunctionName(name) || len(name) > maxFunctionName/2 {
				return 0, errUnwritableName
			}
			return call(w, name, p)
		}}
}

// solar is the format of Solar Open, which gives each call an ID:
//
//	<|tool_calls|><|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{…}<|tool_call:end|>
//	<|calls|>
var solar = solarFormat()

func solarFormat() toolFormat {
	f := separatedFormat("solar", separated{open: "<|tool_call:begin|>",
		separator: "<|tool_call:args|>", closing: "<|tool_call:end|>",
		name: func(head string) string {
			_, name, _ := strings.Cut(head, solarName)
			return strings.TrimSpace(name)
		}}, "<|tool_calls|>", "<|calls|>")
	f.mark = regexp.MustCompile(`<\|tool_call:args\|>`)
	f.in = append(f.in, solarName)
	f.ends = []string{"<|calls|>"}
	return f
}

const solarName = "<|tool_call:name|>"

func separatedFormat(name string, tags separated, drop ...string) toolFormat {
	return toolFormat{
		name:    name,
		mark:    regexp.MustCompile(regexp.QuoteMeta(drop[0])),
		open:    []string{tags.open},
		close:   tags.closing,
		drop:    drop,
		in:      []string{tags.separator},
		control: true,
		begin: func(schemas map[string]schema) callReader {
			return &separatedReader{tags: tags, schemas: schemas}
		},
	}
}

// separated has the tags of one format.
type separated struct {
	open, separator, closing string
	plain                    bool                     // open is no control token
	fence                    string                   // before the object, after a name; "": none
	name                     func(head string) string // the name in the text before the separator
}

// separatedReader parses one call.
type separatedReader struct {
	cursor
	tags     separated
	schemas  map[string]schema
	function string
	object   objectSpan
	part     separatedPart
}

// separatedPart is the part of a call that a separatedReader reads next.
type separatedPart uint8

const (
	separatedHead     separatedPart = iota // up to the separator
	separatedLine                          // the name, if it follows the separator
	separatedFence                         // before the object
	separatedObject                        // the arguments
	separatedFenceEnd                      // after the object
	separatedClosing                       // the closing tag
	separatedFault                         // what follows a fault
)

func (r *separatedReader) read(text string) (ToolCall, int, verdict) {
	for r.part != separatedFault {
		part, v := r.next(text)
		switch {
		case v == undecided:
			return ToolCall{}, 0, undecided
		case v == isText && r.part == separatedHead && r.tags.plain:
			return ToolCall{}, 0, isText
		case v == isText:
			part = separatedFault
		case r.part == separatedClosing:
			call, ok := callWithJSON(r.function, text[r.object.from:r.object.end], r.schemas)
			if ok {
				return call, r.at, isCall
			}
			return ToolCall{}, r.at, isText
		}
		r.part = part
	}
	return r.skipCall(text, r.tags.open, r.tags.closing)
}

// next reads the next part, and returns the one after it.
func (r *separatedReader) next(text string) (separatedPart, verdict) {
	switch r.part {
	case separatedHead:
		return r.head(text)
	case separatedLine:
		return r.line(text)
	case separatedFence:
		if !r.spaces(text) {
			return 0, undecided
		}
		if _, decided := r.take(text, r.tags.fence); !decided {
			return 0, undecided
		}
		return separatedObject, isCall
	case separatedObject:
		next := separatedFenceEnd
		if r.tags.fence == "" {
			next = separatedClosing
		}
		return next, r.object.read(&r.cursor, text)
	case separatedFenceEnd:
		if !r.spaces(text) {
			return 0, undecided
		}
		if _, decided := r.take(text, "```"); !decided {
			return 0, undecided
		}
		return separatedClosing, isCall
	}
	if !r.spaces(text) {
		return 0, undecided
	}
	switch word, decided := r.word(text, r.tags.closing); {
	case !decided:
		return 0, undecided
	case word == "":
		return 0, isText
	default:
		r.moveTo(r.at + len(word))
		return separatedFault, isCall
	}
}

// plainHead is head for a tag that prose may have: a name follows it, and then the separator.
func (r *separatedReader) plainHead(text string) (separatedPart, verdict) {
	if !r.spaces(text) {
		return 0, undecided
	}
	if r.function == "" {
		if !beginsName(text, r.at) {
			return 0, isText
		}
		name, decided := r.name(text)
		if !decided || name == "" {
			return 0, verdictOf(decided, false)
		}
		r.function = name
		return separatedHead, isCall
	}
	word, decided := r.take(text, r.tags.separator)
	return separatedObject, verdictOf(decided, word != "")
}

// head reads the text before the separator, and the separator.
func (r *separatedReader) head(text string) (separatedPart, verdict) {
	if r.tags.plain {
		return r.plainHead(text)
	}
	at, tag := r.findTag(text, r.tags.separator, r.tags.closing, r.tags.open)
	switch {
	case tag == "" && len(text) < maxFunctionName:
		return 0, undecided
	case tag != r.tags.separator || at >= maxFunctionName:
		return 0, isText
	}
	r.function = r.tags.name(strings.TrimSpace(text[:at]))
	r.moveTo(at + len(tag))
	if r.tags.fence == "" {
		return separatedObject, isCall
	}
	return separatedLine, isCall
}

// line reads a name on a line of its own. There is none if the object follows.
func (r *separatedReader) line(text string) (separatedPart, verdict) {
	if !r.spaces(text) {
		return 0, undecided
	}
	if text[r.at] == '{' {
		return separatedObject, isCall
	}
	end := r.find(text, r.at, "<\n")
	switch {
	case end < 0 && len(text)-r.at <= maxFunctionName:
		return 0, undecided
	case end < 0 || text[end] == '<':
		return 0, isText
	}
	r.function = strings.TrimSpace(text[r.at:end])
	r.moveTo(end)
	return separatedFence, isCall
}
