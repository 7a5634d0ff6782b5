package chat

// Tool calls whose arguments are a JSON object after a name and a separator.

import (
	"regexp"
	"strings"
)

// kimi is the format of Kimi K2. The number of the call is not part of the name.
//
//	<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0
//	<|tool_call_argument_begin|>{…}<|tool_call_end|><|tool_calls_section_end|>
var kimi = separatedFormat("kimi", separated{open: "<|tool_call_begin|>",
	separator: "<|tool_call_argument_begin|>", closing: "<|tool_call_end|>",
	name: func(head string) string {
		head = strings.TrimPrefix(head, "functions.")
		if i := strings.LastIndexByte(head, ':'); i >= 0 {
			head = head[:i]
		}
		return head
	}}, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")

// deepseek is the format of DeepSeek V3 and R1. In V3.1 the name stands before the separator, and
// the object is not fenced.
//
//	<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME
//	```json
//	{…}
//	```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
var deepseek = separatedFormat("deepseek", separated{open: "<｜tool▁call▁begin｜>",
	separator: "<｜tool▁sep｜>", closing: "<｜tool▁call▁end｜>", fence: "```json",
	name: func(head string) string { return head }},
	"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")

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
			return &separatedReader{separated: tags, schemas: schemas}
		},
	}
}

// separated has the tags of one format.
type separated struct {
	open, separator, closing string
	fence                    string                   // before the object, after a name; "": none
	name                     func(head string) string // the name in the text before the separator
}

// separatedReader parses one call.
type separatedReader struct {
	separated
	schemas  map[string]schema
	function string
	object   objectSpan
	at       int // the object follows text[:at]; 0: not known yet
	fault    bool
}

// maxFunctionName is more than the longest name of a function, in bytes.
const maxFunctionName = 1024

func (r *separatedReader) read(text string) (ToolCall, int, verdict) {
	if r.fault {
		return skipCall(text, 0, r.open, r.closing)
	}
	if r.at == 0 {
		if v := r.head(text); v == undecided {
			return ToolCall{}, 0, undecided
		} else if v == isText {
			r.fault = true
			return r.read(text)
		}
	}
	v := r.object.read(text, r.at)
	if v == undecided {
		return ToolCall{}, 0, undecided
	}
	if v == isCall {
		at := skipSpaces(text, r.object.end)
		if r.fence != "" {
			word, decided := expect(text[at:], "```")
			if !decided {
				return ToolCall{}, 0, undecided
			}
			at = skipSpaces(text, at+len(word))
		}
		word, decided := expect(text[at:], r.closing)
		if !decided {
			return ToolCall{}, 0, undecided
		}
		call, ok := callWithJSON(r.function, text[r.object.from:r.object.end], r.schemas)
		if ok && word != "" {
			return call, at + len(word), isCall
		}
	}
	r.fault = true
	return r.read(text)
}

// head reads the name, up to the object.
func (r *separatedReader) head(text string) verdict {
	i, tag := firstTag(text, []string{r.separator, r.closing, r.open})
	switch {
	case tag == "" && len(text) < maxFunctionName:
		return undecided
	case tag != r.separator || i >= maxFunctionName:
		return isText
	}
	r.function = r.name(strings.TrimSpace(text[:i]))
	at := i + len(r.separator)
	if r.fence == "" {
		r.at = at
		return isCall
	}
	from := skipSpaces(text, at)
	if from == len(text) {
		return undecided
	}
	if text[from] == '{' {
		r.at = from
		return isCall
	}
	line := strings.IndexByte(text[from:], '\n')
	if line < 0 {
		return undecided
	}
	r.function = strings.TrimSpace(text[from : from+line])
	at = skipSpaces(text, from+line)
	word, decided := expect(text[at:], r.fence)
	switch {
	case !decided:
		return undecided
	case strings.Contains(r.function, "<"):
		return isText
	}
	r.at = at + len(word)
	return isCall
}
