package chat

import "strings"

// Reasoning models write "<think>\n…\n</think>\n\n" before their answer. The
// Splitter takes the text as it is generated, in pieces cut anywhere, and says
// which part is reasoning and which is content. The tags, and the line breaks
// that templates write around them, belong to neither:
//
//   - line breaks after <think>, before </think> and after </think> are dropped;
//   - so is white space before a <think> that comes first of all.
//
// There may be several blocks. A tag that changes nothing (<think> inside
// reasoning, </think> in content) is dropped too, so that no tag ever reaches a
// client. An unclosed block stays reasoning (see DECISIONS.md).
//
// If tools were offered, calls of them are pieces of their own; see tools.go.
// Everything else passes as it is.

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Kind tells what a piece of generated text is.
type Kind uint8

// The kinds of text. Their numbers are not meant to be stored.
const (
	Content Kind = iota
	Reasoning
	Call
)

func (k Kind) String() string { return [...]string{"content", "reasoning", "call"}[k] }

// Piece is a stretch of text of one kind; Text is never empty.
type Piece struct {
	Kind Kind
	Text string   // of a Call: as the model wrote it, tags included
	Call ToolCall // of a Call
}

// StartsInReasoning tells whether text generated after the prompt begins inside
// a think block. The block must be the last thing in the prompt: a message that
// merely talks about <think> opens none.
func StartsInReasoning(prompt string) bool {
	return strings.HasSuffix(strings.TrimRight(prompt, spaces), thinkOpen)
}

// Splitter splits the text of one sequence. It is not safe for concurrent use.
type Splitter struct {
	tools *Tools // nil: there are no calls
	kind  Kind   // of the text that comes next
	start bool   // nothing but white space so far
	trim  string // characters that belong to the tag before if they come next
	held  string // text that may turn out to be part of a tag or what goes with it

	// Of a Call:
	lead   string          // its <tool_call> and the white space before it
	body   strings.Builder // what came after
	reader callReader
}

const lineBreaks = "\r\n"

// NewSplitter returns a Splitter for text that begins inside a think block or
// before one; StartsInReasoning tells from the prompt. With nil tools a call is
// content.
func NewSplitter(startInReasoning bool, tools *Tools) *Splitter {
	if startInReasoning {
		return &Splitter{tools: tools, kind: Reasoning, trim: lineBreaks}
	}
	return &Splitter{tools: tools, start: true}
}

// InReasoning tells whether the text so far ended inside a think block.
func (s *Splitter) InReasoning() bool { return s.kind == Reasoning }

// Holding tells whether some of the text so far waits for what follows it.
func (s *Splitter) Holding() bool { return s.lead+s.held != "" }

// Add takes the next generated text and returns what is now certain, in order;
// often one piece, none while a tag may be arriving.
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

// Close ends the text and returns what was still held back; a call that was cut
// off is content.
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

// advance handles the held text up to the next tag; false if there is none.
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
		return false // a tag may follow and swallow this white space
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

// advanceCall handles the text after a <tool_call>; false while it may still
// become a call.
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

// nextTag returns the first tag in the held text and its place; without one, ""
// and where the beginning of one may stand, at the end.
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

// overlap returns the length of the longest end of text that is a proper
// beginning of tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
