package chat

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"headroom/engine/chat/jinja"
)

// Tool calls. A model that was offered tools writes its calls into its answer, between tags, in the
// format that its chat template shows. The Splitter takes them out of the text, and the reader of
// a toolFormat parses what follows an opening tag. Each format has a file and a row in toolFormats.
//
//   - A call is returned when it is complete: with its closing tag, or where its JSON object ends.
//   - The white space around a call belongs to it: templates write it, and content
//     should not consist of line breaks alone.
//   - A call of a function that was not offered is returned too: the client answers it with an
//     error that the model can read. Its arguments stay strings.
//   - A malformed call is Broken, up to its closing tag. A tag that no call follows is text about
//     tags: it is dropped alone, and the text after it is parsed as usual.
//   - A call that is cut off by the end of the answer is Broken.
//   - A tag in reasoning is not a call. Tags inside a call have no meaning:
//     an argument may mention <think>.
//
// Source: mlx_lm/tokenizer_utils.py, mlx_lm/tool_parsers.

const (
	toolOpen  = "<tool_call>"
	toolClose = "</tool_call>"

	spaces = " \t\r\n"
)

// ToolCall is one call of a function.
type ToolCall struct {
	Name      string // never empty
	Arguments string // a JSON object, its keys as the model wrote them
}

// Tools are the functions that a request offers. They are safe for concurrent use.
type Tools struct {
	schemas map[string]schema // by function
}

// Tools returns the offered tools. Each is {"type": "function", "function": {...}}, as in the
// request. It returns nil if no tools are offered, or if the tool call format of the template is
// unknown.
func (t *Template) Tools(offered []json.RawMessage) *Tools {
	t = t.of(len(offered) > 0)
	if len(offered) == 0 || t.tools == nil && t.channels == nil {
		return nil
	}
	tools := &Tools{schemas: map[string]schema{}}
	for _, raw := range offered {
		var tool struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		}
		if json.Unmarshal(raw, &tool) == nil {
			tools.schemas[tool.Function.Name] = readSchema(tool.Function.Parameters)
		}
	}
	return tools
}

// toolFormat is a format of tool calls with tags.
type toolFormat struct {
	name  string
	mark  *regexp.Regexp // identifies the format in a template; (?s)a.*b for two marks
	open  []string       // tags, each of which begins a call or a block of calls
	close string         // the tag that ends a call; "": none
	drop  []string       // more tags that may stand around calls, and mean nothing elsewhere
	in    []string       // more tags inside calls
	ends  []string       // tokens that end an answer with calls
	// bare: an answer that begins with { may be a call without a tag.
	bare bool
	// named: an answer that begins with the name of a function may be a call without a tag. Other
	// content begins after a line break, which belongs to the template.
	named bool
	// prose: a tag is common in prose. One that no call follows is content.
	prose bool
	// prompted: the prompt ends with the opening tag of the first call, or of an answer.
	prompted bool
	// control: the tags are control tokens, which a model does not write to mention them. They are
	// no content even if no tools were offered and no call follows.
	control bool
	// example returns a call for templates that ignore tools; see fallback.go. source is that of
	// the template. nil: such a template gets jsonTools.
	example func(source string) string
	// roles is the form of calls and results in templates that do not know them as OpenAI's.
	roles callRoles
	// nameIDs: the IDs of calls tell the function; see functionids.go.
	nameIDs bool
	// write writes calls for templates that drop them; see fallback.go. nil: none is known to.
	write *jinja.Template
	// form writes calls that are forced; nil: they cannot be.
	form *callForm
	// begin returns a reader for the text after an opening tag.
	begin func(schemas map[string]schema) callReader
	// inner is a tag inside calls that begins one, too, if the opening tag is missing; "": there is
	// none. It is common in prose. beginInner returns a reader for the text after it.
	inner      string
	beginInner func(schemas map[string]schema) callReader
}

// toolFormats has a row for each format. The first whose mark is in the template applies.
var toolFormats = []*toolFormat{
	&minimax, &minimaxM3, &deepseekV32, &deepseekV4, &deepseek, &gemma4, &functionGemma, &longcat,
	&hunyuan, &hunyuanDense, &glm47, &glm, &pythonic, &olmo3, &seedOSS, &qwen3Coder, &kimi, &kimiK3,
	&minicpm5, &mistral, &command, &glm4,
	&nemotron, &toolCallsList, &apertus, &phi4, &granite3, &granite30, &internlm, &nemotronMini,
	&gigaChat, &gigaChat3, &solar,
	&commandRPlus, &fireFunction, &functionary31, &functionary32, &jsonTools, &llama3,
}

// toolFormatOf returns the format of tool calls in a chat template, or nil if it is unknown.
func toolFormatOf(source string) *toolFormat {
	for _, f := range toolFormats {
		if f.mark.MatchString(source) {
			return f
		}
	}
	return nil
}

// mayBegin reports whether an answer that begins with a character may be a call without a tag.
func (f *toolFormat) mayBegin(c byte) bool {
	return f.bare && c == '{' || f.named && isNameByte(c)
}

// outside returns the tags that the Splitter looks for outside of calls.
func (f *toolFormat) outside() []string {
	tags := slices.Concat(f.open, f.drop)
	if f.close != "" {
		tags = append(tags, f.close)
	}
	return tags
}

// Tags returns the tags that the template's Splitter needs to see. Where they are special tokens,
// the text of an answer must contain them.
func (t *Template) Tags() []string {
	var tags []string
	if t.toolUse != nil {
		tags = t.toolUse.Tags()
	}
	if t.channels != nil {
		return append(tags, t.channels.tags()...)
	}
	tags = append(tags, t.reasoning.tags()...)
	if t.reasoning.mark != t.reasoning.open {
		tags = append(tags, t.reasoning.mark)
	}
	if t.tools != nil {
		tags = slices.Concat(tags, t.tools.outside(), t.tools.in)
	}
	return tags
}

// EndTags returns tokens that end an answer, besides those that the model's configuration names.
func (t *Template) EndTags() []string {
	var tags []string
	if t.toolUse != nil {
		tags = t.toolUse.EndTags()
	}
	switch {
	case t.channels != nil:
		tags = append(tags, t.channels.finals...)
	case t.tools != nil:
		tags = append(tags, t.tools.ends...)
	}
	return tags
}

// verdict is a callReader's decision about the text after an opening tag.
type verdict uint8

const (
	undecided verdict = iota // more text is needed
	isText                   // not a call, up to the fault
	isCall                   // a call, and the end of its block
	inBlock                  // a call, and the block goes on
	isEnd                    // the end of the block, without another call
)

// callReader parses the calls of one block. Its verdict depends only on the text, not on the pieces
// in which the text arrives.
type callReader interface {
	// read parses the text after an opening tag, or after the call before. Each call of read passes
	// the text of the previous call and the text that has arrived since. A reader uses a cursor, so
	// that its work is linear in the text. n is the number of bytes that the verdict covers. It is
	// 0 for a tag that no call follows.
	read(text string) (call ToolCall, n int, v verdict)
}

// expect returns the word that text begins with, or "" for none. decided is false if text is a
// proper prefix of a word, because more text is needed. Empty words do not count.
func expect(text string, words ...string) (word string, decided bool) {
	for _, w := range words {
		if w != "" && strings.HasPrefix(text, w) {
			return w, true
		}
	}
	for _, w := range words {
		if w != "" && strings.HasPrefix(w, text) {
			return "", false
		}
	}
	return "", true
}

// skipSpaces returns the index of the first byte of text[at:] that is not white space. The index
// counts from the beginning of text. It is len(text) if there is no such byte.
func skipSpaces(text string, at int) int {
	return len(text) - len(strings.TrimLeft(text[at:], spaces))
}
