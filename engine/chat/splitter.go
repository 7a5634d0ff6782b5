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
// client. An unclosed block stays reasoning (see DECISIONS.md). Everything else,
// <tool_call> included, passes as it is.

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Kind tells what a piece of generated text is.
type Kind uint8

// The two kinds of text. Their numbers are not meant to be stored.
const (
	Content Kind = iota
	Reasoning
)

func (k Kind) String() string { return [...]string{"content", "reasoning"}[k] }

// Piece is a stretch of text of one kind; Text is never empty.
type Piece struct {
	Kind Kind
	Text string
}

// StartsInReasoning tells whether text generated after the prompt begins inside
// a think block: the last <think> of the prompt comes after its last </think>.
func StartsInReasoning(prompt string) bool {
	return strings.LastIndex(prompt, thinkOpen) > strings.LastIndex(prompt, thinkClose)
}

// Splitter splits the text of one sequence. It is not safe for concurrent use.
type Splitter struct {
	kind  Kind   // of the text that comes next
	start bool   // nothing but white space so far
	trim  bool   // line breaks that come next belong to the tag before
	held  string // text that may turn out to be part of a tag or its line breaks
}

// NewSplitter returns a Splitter for text that begins inside a think block or
// before one; StartsInReasoning tells from the prompt.
func NewSplitter(startInReasoning bool) *Splitter {
	if startInReasoning {
		return &Splitter{kind: Reasoning, trim: true}
	}
	return &Splitter{start: true}
}

// InReasoning tells whether the text so far ended inside a think block.
func (s *Splitter) InReasoning() bool { return s.kind == Reasoning }

// Add takes the next generated text and returns what is now certain, in order;
// often one piece, none while a tag may be arriving.
func (s *Splitter) Add(text string) []Piece {
	s.held += text
	var out []Piece
	for s.advance(&out) {
	}
	return out
}

// Close ends the text and returns what was still held back.
func (s *Splitter) Close() []Piece {
	var out []Piece
	emit(&out, s.kind, s.held)
	s.held = ""
	return out
}

// advance handles the held text up to the next tag; false if there is none.
func (s *Splitter) advance(out *[]Piece) bool {
	if s.trim {
		s.held = strings.TrimLeft(s.held, "\r\n")
		s.trim = s.held == ""
	}
	at, tag := firstTag(s.held)
	if at < 0 {
		at = len(s.held) - max(overlap(s.held, thinkOpen), overlap(s.held, thinkClose))
	}
	text := s.held[:at]
	blank := s.start && strings.TrimSpace(text) == ""
	switch {
	case tag == "" && blank:
		return false // a tag may follow and swallow this white space
	case tag != "" && blank:
		text = ""
	case s.kind == Reasoning && tag != thinkOpen:
		text = strings.TrimRight(text, "\r\n") // </think> may follow
	}
	emit(out, s.kind, text)
	if tag == "" {
		s.start = false
		s.held = s.held[len(text):]
		return false
	}
	s.held = s.held[at+len(tag):]
	s.trim = tag == thinkOpen || s.kind == Reasoning || blank
	s.start = false
	s.kind = Content
	if tag == thinkOpen {
		s.kind = Reasoning
	}
	return true
}

// firstTag returns the first tag in text and its place, or -1.
func firstTag(text string) (at int, tag string) {
	at = -1
	for _, t := range []string{thinkOpen, thinkClose} {
		if i := strings.Index(text, t); i >= 0 && (at < 0 || i < at) {
			at, tag = i, t
		}
	}
	return at, tag
}

func emit(out *[]Piece, kind Kind, text string) {
	if text != "" {
		*out = append(*out, Piece{kind, text})
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
