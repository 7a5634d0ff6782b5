package chat

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Splitter takes the text of an answer as it is generated, in arbitrary pieces, and separates
// content, reasoning and tool calls. What the tags of a model mean is in the tables of reasoning.go
// and tools.go. The tags themselves, and the white space that templates write around them, reach
// nobody:
//
//   - line breaks around a block of reasoning are dropped, and white space before one with which
//     the answer begins
//   - a tag without an effect is dropped, such as a second opening tag
//   - an unclosed block stays reasoning
//   - a call that is malformed or cut off is Broken (see DECISIONS.md)
//
// All other text is unchanged. The result depends on the text alone, not on its pieces.

// Kind is the kind of a piece of generated text.
type Kind uint8

// The kinds of text. Do not store their values: they may change.
const (
	Content Kind = iota
	Reasoning
	Call
	Broken // a tool call that is malformed, cut off or impossible; clients do not see it
)

// String returns "content", "reasoning", "call" or "broken".
func (k Kind) String() string {
	return [...]string{"content", "reasoning", "call", "broken"}[k]
}

// Piece is a stretch of text of one kind. Text is empty only for a call without arguments.
type Piece struct {
	Kind Kind
	Text string   // as the model wrote it; for a Call, including its tags
	Call ToolCall // set if Kind is Call
}

// Splitter splits the text of one sequence. It is not safe for concurrent use.
type Splitter struct{ splitter }

// splitter is what formats with tags (tagSplitter) and formats with messages (channelSplitter)
// implement.
type splitter interface {
	// Add adds the next generated text and returns the completed pieces, in order. It returns none
	// while a tag may be arriving.
	Add(text string) []Piece
	// Close ends the text and returns the text held back.
	Close() []Piece
	// InReasoning reports whether the text so far ends inside a block of reasoning.
	InReasoning() bool
}

// NewSplitter returns a Splitter for the answer to a prompt that the template rendered. offered
// are the tools of the request; see Tools.
func (t *Template) NewSplitter(prompt string, offered []json.RawMessage) *Splitter {
	t = t.of(len(offered) > 0)
	if t.channels != nil {
		return &Splitter{newChannelSplitter(t.channels, prompt, t.Tools(offered))}
	}
	return &Splitter{newTagSplitter(t.reasoning, t.tools, prompt, t.Tools(offered))}
}

// tagSplitter splits a text in which tags enclose reasoning and tool calls.
type tagSplitter struct {
	reasoning reasoningFormat
	format    *toolFormat // nil: there are no tags of calls
	tools     *Tools      // nil: no calls are allowed
	all       []string    // the tags outside of calls; those of reasoning first
	kind      Kind        // of the next text
	start     bool        // only white space so far
	fresh     bool        // no content since the start, a call or a block of reasoning
	trim      string      // characters to drop if they come next
	held      string      // text that may be part of a tag, or of the white space around one

	// While kind is Call:
	lead   string          // the opening tag and the white space before it
	body   strings.Builder // the text after it
	reader callReader
}

const lineBreaks = "\r\n"

func newTagSplitter(reasoning reasoningFormat, format *toolFormat, prompt string,
	tools *Tools) *tagSplitter {
	s := &tagSplitter{reasoning: reasoning, tools: tools,
		all: append([]string{reasoning.open, reasoning.close}, reasoning.drop...)}
	if format != nil && (tools != nil || format.control) {
		s.format = format
		s.all = append(s.all, format.outside()...)
	}
	if reasoning.opens(prompt) {
		s.kind, s.trim = Reasoning, lineBreaks
	} else {
		s.start, s.fresh = true, true
	}
	return s
}

func (s *tagSplitter) InReasoning() bool { return s.kind == Reasoning }

func (s *tagSplitter) Add(text string) []Piece {
	if s.kind == Call {
		s.body.WriteString(text)
	} else {
		s.held += text
	}
	var out []Piece
	for s.advance(&out) {
	}
	return out
}

func (s *tagSplitter) Close() []Piece {
	var out []Piece
	for s.kind == Call {
		// A closing tag may have been taken for part of a value, if a quote is missing.
		body, n := s.body.String(), len(s.body.String())
		if i := strings.Index(body, s.format.close); i >= 0 && s.format.close != "" {
			n = i + len(s.format.close)
		}
		emit(&out, Broken, s.lead+body[:n])
		s.kind, s.held, s.lead = Content, body[n:], ""
		s.body.Reset()
		for s.advance(&out) {
		}
	}
	emit(&out, s.kind, s.held)
	s.kind, s.held = Content, ""
	return out
}

// advance handles the held text up to and including the next tag. It returns false
// if there is none.
func (s *tagSplitter) advance(out *[]Piece) bool {
	if s.kind == Call {
		return s.advanceCall(out)
	}
	if s.trim != "" {
		if s.held = strings.TrimLeft(s.held, s.trim); s.held != "" {
			s.trim = ""
		}
	}
	if s.fresh && s.tools != nil && s.format.bare {
		if at := skipSpaces(s.held, 0); at < len(s.held) && s.held[at] == '{' {
			s.beginCall(0, at)
			return true
		}
	}
	at, tag := s.nextTag()
	text := s.held[:at]
	blank := s.start && strings.TrimSpace(text) == ""
	isCall := s.format != nil && slices.Contains(s.format.open, tag)
	inFormat := tag != "" && tag != s.reasoning.open && tag != s.reasoning.close
	switch {
	case tag == "" && blank:
		return false // dropped if a tag follows
	case inFormat:
		text = strings.TrimRight(text, spaces)
	case tag != "" && blank:
		text = ""
	case s.kind == Reasoning && tag != s.reasoning.open:
		text = strings.TrimRight(text, lineBreaks) // the closing tag may follow
	case tag == "" && s.format != nil:
		text = strings.TrimRight(text, spaces) // a call may follow
	}
	emit(out, s.kind, text)
	s.fresh = s.fresh && strings.TrimSpace(text) == ""
	switch {
	case tag == "":
		s.start = false
		s.held = s.held[len(text):]
		return false
	case isCall:
		s.beginCall(len(text), at+len(tag))
		return true
	case inFormat:
		s.trim = lineBreaks
	case tag == s.reasoning.open:
		s.kind, s.trim, s.fresh = Reasoning, lineBreaks, false
	default:
		if s.kind == Reasoning || blank {
			s.trim, s.fresh = lineBreaks, true
		}
		s.kind = Content
	}
	s.start = false
	s.held = s.held[at+len(tag):]
	return true
}

// beginCall begins a call whose tag and the white space before it are s.held[from:to].
func (s *tagSplitter) beginCall(from, to int) {
	var schemas map[string]schema
	if s.tools != nil {
		schemas = s.tools.schemas
	}
	s.kind, s.lead, s.reader = Call, s.held[from:to], s.format.begin(schemas)
	s.body.WriteString(s.held[to:])
	s.start, s.fresh, s.held = false, false, ""
}

// advanceCall handles the text after an opening tag. It returns false while the call is incomplete.
func (s *tagSplitter) advanceCall(out *[]Piece) bool {
	body := s.body.String()
	call, n, v := s.reader.read(body)
	if v == undecided {
		return false
	}
	text, rest := s.lead+body[:n], body[n:]
	s.lead = ""
	s.body.Reset()
	switch {
	case v == isText && n == 0 && !s.isTag(text):
		s.kind, s.held = Content, text+rest // the text of a bare call that is none
		return true
	case v == isText:
		emit(out, Broken, text)
	case v == isEnd:
		emit(out, Broken, text) // tags only
	case s.tools == nil:
		emit(out, Broken, text)
	default:
		*out = append(*out, Piece{Kind: Call, Text: text, Call: call})
	}
	if v == inBlock {
		s.body.WriteString(rest)
		return true
	}
	s.kind, s.held = Content, rest
	if v != isText {
		s.trim, s.fresh = spaces, true
	}
	return true
}

// isTag reports whether text ends with an opening tag of a call.
func (s *tagSplitter) isTag(text string) bool {
	return slices.ContainsFunc(s.format.open,
		func(tag string) bool { return strings.HasSuffix(text, tag) })
}

// nextTag returns the first tag in the held text and its index. If there is none, tag is "", and
// s.held[at:] is the beginning of a tag or empty.
func (s *tagSplitter) nextTag() (at int, tag string) {
	tags := s.all
	if s.kind == Reasoning {
		tags = tags[:2]
	}
	return firstTag(s.held, tags)
}

// firstTag returns the first of tags in text and its index. If there is none, tag is "", and
// text[at:] is the beginning of a tag or empty.
func firstTag(text string, tags []string) (at int, tag string) {
	at = len(text)
	for _, t := range tags {
		if i := strings.Index(text[:min(len(text), at+len(t))], t); i >= 0 && i < at {
			at, tag = i, t
		}
	}
	if tag != "" {
		return at, tag
	}
	for _, t := range tags {
		at = min(at, len(text)-overlap(text, t))
	}
	return at, ""
}

func emit(out *[]Piece, kind Kind, text string) {
	if text != "" {
		*out = append(*out, Piece{Kind: kind, Text: text})
	}
}

// overlap returns the length of the longest suffix of text that is a proper prefix
// of tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
