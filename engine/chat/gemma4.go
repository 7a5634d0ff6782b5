package chat

// Tool calls whose strings stand between tags instead of quotes.

import (
	"encoding/json"
	"regexp"
	"strings"

	"headroom/engine/grammar"
	"headroom/engine/grammar/jsonschema"
)

// gemma4 is the format of Gemma 4:
//
//	<|tool_call>call:NAME{KEY:<|"|>TEXT<|"|>,KEY:1,KEY:{KEY:true},KEY:[null]}<tool_call|>
//
// Models write JSON there, too, or JSON in part. So a key or a value may also be a JSON string.
var gemma4 = gemmaFormat("gemma4", "<|tool_call>", "<tool_call|>", `<|"|>`)

// functionGemma is the format of FunctionGemma:
//
//	<start_function_call>call:NAME{KEY:<escape>TEXT<escape>,KEY:1}<end_function_call>
var functionGemma = gemmaFormat("function_gemma", "<start_function_call>", "<end_function_call>",
	"<escape>")

func gemmaFormat(name, open, closing, quote string) toolFormat {
	return toolFormat{
		name:    name,
		mark:    regexp.MustCompile(regexp.QuoteMeta(open)),
		open:    []string{open},
		close:   closing,
		in:      []string{quote},
		ends:    []string{"<|tool_response>", "<start_function_response>"},
		control: true,
		form:    gemmaForm(open, closing, quote),
		begin: func(schemas map[string]schema) callReader {
			return &gemmaReader{open: open, closing: closing, quote: quote, schemas: schemas}
		},
	}
}

// gemmaName is the pattern of keys that gemmaParser.key reads without quotes: no white space, no
// invisible characters, and no marks.
const gemmaName = `^[^\u0000-\u0020,:{}\[\]"<>\u007f-\u00a0\u1680\u2000-\u200f\u2028-\u202f` +
	`\u205f\u3000\ufeff]+$`

func gemmaForm(open, closing, quote string) *callForm {
	braces := jsonschema.Brackets{Open: "{", Colon: ":", Close: "}", Names: gemmaName}
	return &callForm{before: open + gemmaCall, between: closing + open + gemmaCall, after: closing,
		call: func(w *callWriter, name string, parameters json.RawMessage) (grammar.Node, error) {
			return notedCall(&jsonschema.Notation{Quotes: []string{w.mark(quote)},
				Verbatim: true, Avoid: quote, Null: []string{"null"}, False: []string{"false"},
				True: []string{"true"}, Tight: true, Object: braces, Outermost: braces},
				isGemmaFunction)(w, name, parameters)
		}}
}

// isGemmaFunction reports whether gemmaParser.call reads a name as it is.
func isGemmaFunction(name string) bool {
	return name != "" && name == strings.TrimSpace(name) && !strings.ContainsAny(name, "<>\n{")
}

// gemmaReader parses one call. A string ends with the next quote, so it cannot contain one.
type gemmaReader struct {
	cursor
	open, closing, quote string
	schemas              map[string]schema
	from                 int // the call begins at text[from:]; 0: not known yet
	inString             bool
}

const gemmaCall = "call:"

func (r *gemmaReader) read(text string) (ToolCall, int, verdict) {
	if r.from == 0 {
		if !r.spaces(text) {
			return ToolCall{}, 0, undecided
		}
		word, decided := r.take(text, gemmaCall)
		if word == "" {
			return ToolCall{}, 0, verdictOf(decided, false)
		}
		r.from = r.at
	}
	switch end, tag := r.end(text); tag {
	case "":
		return ToolCall{}, 0, undecided
	case r.open: // without a closing tag
		return ToolCall{}, end, isText
	default:
		n := end + len(tag)
		p := gemmaParser{text: strings.ToValidUTF8(text[r.from:end], "\uFFFD"), quote: r.quote}
		if call, ok := p.call(r.schemas); ok {
			return call, n, isCall
		}
		return ToolCall{}, n, isText
	}
}

// end returns the first tag outside of strings that ends the call, and its index. The tag is "" as
// long as there is none.
func (r *gemmaReader) end(text string) (at int, tag string) {
	for {
		tags := []string{r.quote, r.closing, r.open}
		if r.inString {
			tags = tags[:1]
		}
		at, tag = r.findTag(text, tags...)
		if tag != r.quote {
			return at, tag
		}
		r.moveTo(at + len(tag))
		r.inString = !r.inString
	}
}

// gemmaParser parses NAME{…} and writes the arguments as JSON. Its methods return false where the
// text is malformed.
type gemmaParser struct {
	text, quote string
	at          int
	out         strings.Builder
}

func (p *gemmaParser) call(schemas map[string]schema) (ToolCall, bool) {
	brace := strings.IndexByte(p.text, '{')
	if brace < 0 {
		return ToolCall{}, false
	}
	name := strings.TrimSpace(p.text[:brace])
	p.at = brace
	if name == "" || strings.ContainsAny(name, "<>\n") || !p.items(0, '{', '}') {
		return ToolCall{}, false
	}
	if skipSpaces(p.text, p.at) != len(p.text) {
		return ToolCall{}, false
	}
	return callWithJSON(name, p.out.String(), schemas)
}

// items reads the members of an object or the elements of a list, with its brackets.
func (p *gemmaParser) items(depth int, open, end byte) bool {
	p.at++
	p.out.WriteByte(open)
	for n := 0; ; n++ {
		p.at = skipSpaces(p.text, p.at)
		if p.at == len(p.text) {
			return false
		}
		if p.text[p.at] == end {
			break
		}
		if n > 0 {
			if p.text[p.at] != ',' {
				return false
			}
			p.at++
			p.out.WriteByte(',')
		}
		if open == '{' && !p.key() || !p.value(depth+1) {
			return false
		}
	}
	p.at++
	p.out.WriteByte(end)
	return true
}

// key reads a key and the colon after it.
func (p *gemmaParser) key() bool {
	p.at = skipSpaces(p.text, p.at)
	key, quoted := p.str()
	if text, ok := p.jsonString(":"); ok {
		quoted = json.Unmarshal([]byte(text), &key) == nil
	}
	if !quoted {
		n := strings.IndexAny(p.text[p.at:], ":,{}[]")
		if n <= 0 {
			return false
		}
		key = strings.TrimSpace(p.text[p.at : p.at+n])
		p.at += n
	}
	p.at = skipSpaces(p.text, p.at)
	if key == "" || p.at == len(p.text) || p.text[p.at] != ':' {
		return false
	}
	p.at++
	p.out.WriteString(quote(key) + ":")
	return true
}

// value reads a value. A word without quotes is a number, true, false, null or a string.
func (p *gemmaParser) value(depth int) bool {
	p.at = skipSpaces(p.text, p.at)
	if p.at == len(p.text) || depth > maxLiteralDepth {
		return false
	}
	switch p.text[p.at] {
	case '{':
		return p.items(depth, '{', '}')
	case '[':
		return p.items(depth, '[', ']')
	}
	if text, ok := p.str(); ok {
		p.out.WriteString(quote(text))
		return true
	}
	if text, ok := p.jsonString(",}]"); ok {
		p.out.WriteString(text)
		return true
	}
	n := strings.IndexAny(p.text[p.at:], ",{}[]")
	if n <= 0 {
		return false
	}
	word := strings.TrimSpace(p.text[p.at : p.at+n])
	p.at += n
	switch digits, ok := number(word, false); {
	case word == "" || strings.Contains(word, p.quote):
		return false
	case word == "true" || word == "false" || word == "null":
		p.out.WriteString(word)
	case ok:
		p.out.WriteString(digits)
	default:
		p.out.WriteString(quote(word))
	}
	return true
}

// str reads a string between quotes, if one is next.
func (p *gemmaParser) str() (string, bool) {
	rest, ok := strings.CutPrefix(p.text[p.at:], p.quote)
	if !ok {
		return "", false
	}
	text, _, ok := strings.Cut(rest, p.quote)
	if ok {
		p.at += len(text) + 2*len(p.quote)
	}
	return text, ok
}

// jsonString reads a JSON string, if one is next and a byte of followers is after it. Other text
// that begins with a quote is a word.
func (p *gemmaParser) jsonString(followers string) (string, bool) {
	if p.at == len(p.text) || p.text[p.at] != '"' {
		return "", false
	}
	end := p.at + 1
	for ; end < len(p.text) && p.text[end] != '"'; end++ {
		if p.text[end] == '\\' {
			end++
		}
	}
	if end >= len(p.text) {
		return "", false
	}
	next := skipSpaces(p.text, end+1)
	text, ok := lenientJSON(p.text[p.at : end+1])
	if !ok || next == len(p.text) || strings.IndexByte(followers, p.text[next]) < 0 {
		return "", false
	}
	p.at = next
	return text, true
}
