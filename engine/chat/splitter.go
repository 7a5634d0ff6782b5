package chat

import "strings"

// Reasoning models write "<think>\n…\n</think>\n\n" before their answer. The
// Splitter takes the text as it is generated, in arbitrary pieces, and separates
// reasoning from content. The tags, and the line breaks that templates write around
// them, belong to neither:
//
//   - line breaks after <think>, before </think> and after </think> are dropped;
//   - white space before a <think> at the very beginning is dropped.
//
// There may be several blocks. A tag without an effect (<think> inside reasoning,
// </think> in content) is dropped too, so that no tag ever reaches a client. An
// unclosed block stays reasoning (see DECISIONS.md).
//
// If tools were offered, each tool call is a piece; see tools.go. All other text is
// unchanged.

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Kind is the kind of a piece of generated text.
type Kind uint8

// The kinds of text. Do not store their values: they may change.
const (
	Content Kind = iota
	Reasoning
	Call
)

// String returns "content", "reasoning" or "call".
func (k Kind) String() string { return [...]string{"content", "reasoning", "call"}[k] }

// Piece is a stretch of text of one kind; Text is never empty.
type Piece struct {
	Kind Kind
	Text string   // as the model wrote it; for a Call, including its tags
	Call ToolCall // set if Kind is Call
}

// StartsInReasoning reports whether text generated after the prompt begins inside a think block,
// which is the case if the prompt ends with <think>. A <think> in a message does not open a block.
func StartsInReasoning(prompt string) bool {
	return strings.HasSuffix(strings.TrimRight(prompt, spaces), thinkOpen)
}

// Splitter splits the text of one sequence. It is not safe for concurrent use.
type Splitter struct {
	tools *Tools // nil: tool calls are content
	kind  Kind   // of the next text
	start bool   // only white space so far
	trim  string // characters to drop if they come next
	held  string // text that may be part of a tag, or of the white space around one

	// While kind is Call:
	lead   string          // <tool_call> and the white space before it
	body   strings.Builder // the text after it
	reader callReader
}

const lineBreaks = "\r\n"

// NewSplitter returns a Splitter for text that begins inside or outside a think block (see
// StartsInReasoning). If tools is nil, tool calls are content.
func NewSplitter(startInReasoning bool, tools *Tools) *Splitter {
	if startInReasoning {
		return &Splitter{tools: tools, kind: Reasoning, trim: lineBreaks}
	}
	return &Splitter{tools: tools, start: true}
}

// InReasoning reports whether the text so far ends inside a think block.
func (s *Splitter) InReasoning() bool { return s.kind == Reasoning }

// Add adds the next generated text and returns the completed pieces, in order. It returns none
// while a tag may be arriving.
func (s *Splitter) Add(text string) []Piece {
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

// Close ends the text and returns the text held back. An incomplete tool call is
// content.
func (s *Splitter) Close() []Piece {
	var out []Piece
	if s.kind == Call {
		s.kind = Content
	}
	emit(&out, s.kind, s.lead+s.held+s.body.String())
	s.held, s.lead = "", ""
	s.body.Reset()
	return out
}

// advance handles the held text up to and including the next tag. It returns false
// if there is none.
func (s *Splitter) advance(out *[]Piece) bool {
	if s.kind == Call {
		return s.advanceCall(out)
	}
	if s.trim != "" {
		if s.held = strings.TrimLeft(s.held, s.trim); s.held != "" {
			s.trim = ""
		}
	}
	at, tag := s.nextTag()
	text := s.held[:at]
	blank := s.start && strings.TrimSpace(text) == ""
	switch {
	case tag == "" && blank:
		return false // dropped if a tag follows
	case tag == toolOpen:
		text = strings.TrimRight(text, spaces)
	case tag != "" && blank:
		text = ""
	case s.kind == Reasoning && tag != thinkOpen:
		text = strings.TrimRight(text, lineBreaks) // </think> may follow
	case tag == "" && s.tools != nil:
		text = strings.TrimRight(text, spaces) // <tool_call> may follow
	}
	emit(out, s.kind, text)
	switch tag {
	case "":
		s.start = false
		s.held = s.held[len(text):]
		return false
	case toolOpen:
		s.kind, s.lead, s.reader = Call, s.held[len(text):at+len(tag)],
			s.tools.format.begin(s.tools.schemas)
		s.body.WriteString(s.held[at+len(tag):])
		s.start, s.held = false, ""
		return true
	default:
		if tag == thinkOpen || s.kind == Reasoning || blank {
			s.trim = lineBreaks
		}
		s.kind = Content
		if tag == thinkOpen {
			s.kind = Reasoning
		}
	}
	s.start = false
	s.held = s.held[at+len(tag):]
	return true
}

// advanceCall handles the text after a <tool_call>. It returns false while the call
// is incomplete.
func (s *Splitter) advanceCall(out *[]Piece) bool {
	body := s.body.String()
	call, n, v := s.reader.read(body)
	if v == undecided {
		return false
	}
	text := s.lead + body[:n]
	s.kind, s.lead, s.held = Content, "", body[n:]
	s.body.Reset()
	if v == isCall {
		*out = append(*out, Piece{Kind: Call, Text: text, Call: call})
		s.trim = spaces
	} else {
		emit(out, Content, text)
	}
	return true
}

// nextTag returns the first tag in the held text and its index. If there is none, tag is "", and
// s.held[at:] is the beginning of a tag or empty.
func (s *Splitter) nextTag() (at int, tag string) {
	tags := []string{thinkOpen, thinkClose, toolOpen}
	if s.tools == nil || s.kind == Reasoning {
		tags = tags[:2]
	}
	at = len(s.held)
	for _, t := range tags {
		if i := strings.Index(s.held[:at], t); i >= 0 {
			at, tag = i, t
		}
	}
	if tag != "" {
		return at, tag
	}
	for _, t := range tags {
		at = min(at, len(s.held)-overlap(s.held, t))
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
