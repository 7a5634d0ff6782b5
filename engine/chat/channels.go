package chat

import (
	"slices"
	"strings"
)

// Some models write an answer as several messages, each with a header that says who it is for:
//
//	HEADER <|message|> TEXT <|end|> <|start|>assistant HEADER <|message|> TEXT …
//
// The prompt ends with <|start|>assistant. A channelSplitter takes the headers and the tags out of
// the text. A message for a function is a tool call, which a callReader parses. Tags of a message
// have no meaning inside the arguments of a call.

// channelFormat is a format of messages with headers.
type channelFormat struct {
	name    string
	marks   []string // the template contains all of them
	start   string   // begins a message; its role and header follow
	message string   // ends a header
	ends    []string // end a message
	header  []string // more tags, which occur in headers
	content []string // texts of the header of content, in order, the message tag last
	finals  []string // tokens that end an answer
	// kind returns the kind of a message by its header. If it is Call, function is its name.
	kind func(header string, schemas map[string]schema) (kind Kind, function string)
	// form writes calls that are forced; nil: they cannot be.
	form *callForm
	// begin returns a reader for the text of a call.
	begin func(function string, schemas map[string]schema) callReader
}

// channelFormats has a row for each format.
var channelFormats = []*channelFormat{&harmony, &atem}

// channelsOf returns the format of a template whose answers are messages, or nil.
func channelsOf(source string) *channelFormat {
	for _, f := range channelFormats {
		if !slices.ContainsFunc(f.marks,
			func(mark string) bool { return !strings.Contains(source, mark) }) {
			return f
		}
	}
	return nil
}

func (f *channelFormat) tags() []string {
	return slices.Concat([]string{f.start, f.message}, f.ends, f.header)
}

// maxHeader is the longest header of a message, in bytes. maxTag is more than any tag has.
const (
	maxHeader = 512
	maxTag    = 64
)

// channelSplitter splits an answer that consists of messages. Its work is linear in the text; see
// cursor.
type channelSplitter struct {
	format  *channelFormat
	tags    []string
	first   []string // what a header without a start begins with
	after   []string // what ends a header
	tools   *Tools   // nil: no calls are allowed
	schemas map[string]schema

	form     bool // content has a form: tags in it are content
	inHeader bool
	started  bool // the header follows the start tag, and begins with a role
	opened   bool // another header has begun
	kind     Kind // of the message, if inHeader is not set
	begun    bool // the message has text
	called   bool // the text ends with a complete call
	written  [Broken + 1]bool
	reader   callReader // of a call; nil: the call is over

	// held is text that may be part of a tag or of a header, or the text of a call. head is the
	// position in a header.
	held tail
	head cursor
}

func newChannelSplitter(format *channelFormat, prompt string, tools *Tools) *channelSplitter {
	s := &channelSplitter{format: format, tags: format.tags(), tools: tools, inHeader: true,
		first: append([]string{format.start, format.message, "to="}, format.header...),
		after: append([]string{format.start, format.message}, format.ends...)}
	if tools != nil {
		s.schemas = tools.schemas
	}
	// The prompt may end inside a message, if it was written to begin the answer.
	if i := strings.LastIndex(prompt, format.start); i >= 0 {
		header, text, ok := strings.Cut(prompt[i+len(format.start):], format.message)
		ended := slices.ContainsFunc(format.ends,
			func(end string) bool { return strings.Contains(text, end) })
		if ok && strings.HasPrefix(header, "assistant") && !ended {
			s.beginMessage(header)
		}
	}
	return s
}

func (s *channelSplitter) hasForm(Opening) { s.form = true }

func (s *channelSplitter) InReasoning() bool { return !s.inHeader && s.kind == Reasoning }

func (s *channelSplitter) EndsWithCall() bool { return s.called && isBlank(s.held.text) }

func (s *channelSplitter) Add(text string) []Piece {
	s.held.add(text)
	var out []Piece
	for s.advance(&out) {
	}
	return out
}

func (s *channelSplitter) Close(cutOff bool) []Piece {
	var out []Piece
	s.called = s.EndsWithCall()
	kind := s.kind
	switch {
	case s.inHeader:
		kind = Broken
	case s.reader != nil:
		kind = s.broken()
	case cutOff && len(s.held.text) >= minPartial:
		kind = Broken
	}
	s.emit(&out, kind, s.held.text)
	s.cut(len(s.held.text))
	return out
}

// cut drops the first n bytes of the held text.
func (s *channelSplitter) cut(n int) {
	s.held.cut(n)
	s.head.restart()
}

// advance handles the held text up to and including the next tag. It returns false
// if there is none.
func (s *channelSplitter) advance(out *[]Piece) bool {
	switch {
	case s.reader != nil:
		return s.advanceCall(out)
	case s.inHeader:
		return s.advanceHeader(out)
	}
	held := s.held.text
	if s.form && s.kind == Content {
		s.emit(out, s.kind, held)
		s.cut(len(held))
		return false
	}
	at, tag := s.head.findTag(held, s.tags...)
	s.emit(out, s.kind, held[:at])
	switch {
	case tag == "":
		s.cut(at)
		return false
	case tag == s.format.message: // without a header
	case slices.Contains(s.format.header, tag): // without a start
		s.beginHeader(false)
		s.cut(at)
		return true
	default:
		s.beginHeader(tag == s.format.start)
	}
	s.emit(out, Broken, tag)
	s.cut(at + len(tag))
	return true
}

func (s *channelSplitter) beginHeader(started bool) {
	s.inHeader, s.started, s.opened = true, started, false
}

// advanceHeader handles a header, or the space between two messages.
func (s *channelSplitter) advanceHeader(out *[]Piece) bool {
	f, held := s.format, s.held.text
	if !s.started && !s.opened {
		if !s.head.spaces(held) {
			return false
		}
		word, decided := s.head.word(held, s.first...)
		switch n := s.head.at + len(word); {
		case !decided:
			return false
		case word == "":
			s.beginText()
			return true
		case word == f.start:
			s.emit(out, Broken, held[:n])
			s.beginHeader(true)
			s.cut(n)
			return true
		}
		s.opened = true
	}
	from := s.head.at
	at, tag := s.head.findTag(held[:min(len(held), from+maxHeader+maxTag)], s.after...)
	n := at + len(tag)
	switch {
	case tag == "" && len(held) < from+maxHeader+maxTag:
		return false
	case tag == f.message && at <= from+maxHeader:
		s.emit(out, Broken, held[:n])
		header := strings.TrimLeft(held[:at], spaces)
		if !s.started {
			header = "assistant " + header
		}
		s.cut(n)
		s.beginMessage(header)
	case tag != "" && at <= from+maxHeader: // a message without text
		s.emit(out, Broken, held[:n])
		s.beginHeader(tag == f.start)
		s.cut(n)
	default:
		s.beginText()
		s.emit(out, Broken, held[:from])
		s.cut(from + s.withoutHeader(out, held[from:from+maxHeader]))
	}
	return true
}

// beginText begins text without a header.
func (s *channelSplitter) beginText() {
	s.inHeader, s.kind, s.begun = false, Content, false
	s.head.restart()
}

// withoutHeader emits text that begins like a header and is none. Its tags are dropped. n is the
// number of bytes that this covers; a tag may begin at text[n:].
func (s *channelSplitter) withoutHeader(out *[]Piece, text string) (n int) {
	for {
		at, tag := firstTag(text[n:], s.format.header)
		s.emit(out, Content, text[n:n+at])
		s.emit(out, Broken, tag)
		if n += at + len(tag); tag == "" {
			return n
		}
	}
}

// beginMessage begins the text of a message. The header begins with the role.
func (s *channelSplitter) beginMessage(header string) {
	s.inHeader, s.begun, s.called, s.kind = false, false, false, Broken
	rest, ok := strings.CutPrefix(header, "assistant")
	if !ok {
		return // the model writes the message of somebody else
	}
	var function string
	s.kind, function = s.format.kind(rest, s.schemas)
	if s.kind == Call {
		s.kind, s.reader = Broken, s.format.begin(function, s.schemas)
	}
}

// advanceCall handles the text of a call. What follows the call in its message is Broken.
func (s *channelSplitter) advanceCall(out *[]Piece) bool {
	call, n, v := s.reader.read(s.held.text)
	if v == undecided {
		return false
	}
	text := s.held.text[:n]
	if (v == isCall || v == inBlock) && s.tools != nil {
		*out = append(*out, Piece{Kind: Call, Text: text, Call: call})
		s.called = true
	} else {
		s.emit(out, s.broken(), text)
	}
	s.cut(n)
	if v != inBlock {
		s.reader = nil
	}
	return true
}

// broken returns the kind of a call that is none for the client; see tagSplitter.emitBroken.
func (s *channelSplitter) broken() Kind {
	if s.tools == nil {
		return Content
	}
	return Broken
}

// emit appends text. Two messages of the same kind are two paragraphs.
func (s *channelSplitter) emit(out *[]Piece, kind Kind, text string) {
	if text == "" {
		return
	}
	if kind != Broken && !isBlank(text) {
		s.called = false
	}
	if kind != Broken && !s.begun {
		if s.written[kind] {
			text = "\n\n" + text
		}
		s.begun, s.written[kind] = true, true
	}
	emit(out, kind, text)
}
