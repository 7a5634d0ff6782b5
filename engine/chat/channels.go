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
	finals  []string // tokens that end an answer
	// kind returns the kind of a message by its header. If it is Call, function is its name.
	kind func(header string, schemas map[string]schema) (kind Kind, function string)
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

// channelSplitter splits an answer that consists of messages.
type channelSplitter struct {
	format  *channelFormat
	tags    []string
	tools   *Tools // nil: no calls are allowed
	schemas map[string]schema

	inHeader bool
	started  bool // the header follows the start tag, and begins with a role
	kind     Kind // of the message, if inHeader is not set
	begun    bool // the message has text
	written  [Broken + 1]bool
	held     string     // text that may be part of a tag or of a header
	reader   callReader // of a call; nil: the call is over
	body     strings.Builder
}

func newChannelSplitter(format *channelFormat, prompt string, tools *Tools) *channelSplitter {
	s := &channelSplitter{format: format, tags: format.tags(), tools: tools, inHeader: true}
	if tools != nil {
		s.schemas = tools.schemas
	}
	// The prompt may end inside a message, if it was written to begin the answer.
	if i := strings.LastIndex(prompt, format.start); i >= 0 {
		header, _, ok := strings.Cut(prompt[i+len(format.start):], format.message)
		if ok && strings.HasPrefix(header, "assistant") &&
			strings.HasSuffix(prompt, format.message) {
			s.beginMessage(header)
		}
	}
	return s
}

func (s *channelSplitter) InReasoning() bool { return !s.inHeader && s.kind == Reasoning }

func (s *channelSplitter) Add(text string) []Piece {
	if s.reader != nil {
		s.body.WriteString(text)
	} else {
		s.held += text
	}
	var out []Piece
	for s.advance(&out) {
	}
	return out
}

func (s *channelSplitter) Close() []Piece {
	var out []Piece
	kind := s.kind
	if s.inHeader || s.reader != nil {
		kind = Broken
	}
	s.emit(&out, kind, s.held+s.body.String())
	s.held = ""
	s.body.Reset()
	return out
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
	at, tag := firstTag(s.held, s.tags)
	text := s.held[:at]
	s.emit(out, s.kind, text)
	switch {
	case tag == "":
		s.held = s.held[at:]
		return false
	case tag == s.format.message: // without a header
	case slices.Contains(s.format.header, tag): // without a start
		s.inHeader, s.started = true, false
		s.held = s.held[at:]
		return true
	default:
		s.inHeader, s.started = true, tag == s.format.start
	}
	s.emit(out, Broken, tag)
	s.held = s.held[at+len(tag):]
	return true
}

// advanceHeader handles a header, or the space between two messages.
func (s *channelSplitter) advanceHeader(out *[]Piece) bool {
	f := s.format
	if !s.started {
		word, decided := expect(strings.TrimLeft(s.held, spaces),
			append([]string{f.start, f.message, "to="}, f.header...)...)
		switch {
		case !decided:
			return false
		case word == "": // text without a header
			s.inHeader, s.kind, s.begun = false, Content, false
			return true
		case word == f.start:
			n := strings.Index(s.held, f.start) + len(f.start)
			s.emit(out, Broken, s.held[:n])
			s.held, s.started = s.held[n:], true
			return true
		}
	}
	at, tag := firstTag(s.held, append([]string{f.start, f.message}, f.ends...))
	switch {
	case tag == "" && len(s.held) <= maxHeader+maxTag:
		return false
	case tag == f.message && at <= maxHeader:
		s.emit(out, Broken, s.held[:at+len(tag)])
		header := s.held[:at]
		if s.started {
			header = strings.TrimLeft(header, spaces)
		} else {
			header = "assistant " + header
		}
		s.held = s.held[at+len(tag):]
		s.beginMessage(header)
	case tag != "" && at <= maxHeader: // a message without text
		s.emit(out, Broken, s.held[:at+len(tag)])
		s.held, s.started = s.held[at+len(tag):], tag == f.start
	default: // not a header: its first tag is dropped
		if at, tag := firstTag(s.held, f.header); tag != "" && skipSpaces(s.held, 0) == at {
			s.emit(out, Broken, s.held[:at+len(tag)])
			s.held = s.held[at+len(tag):]
		}
		s.inHeader, s.kind, s.begun = false, Content, false
	}
	return true
}

// beginMessage begins the text of a message. The header begins with the role.
func (s *channelSplitter) beginMessage(header string) {
	s.inHeader, s.begun, s.kind = false, false, Broken
	rest, ok := strings.CutPrefix(header, "assistant")
	if !ok {
		return // the model writes the message of somebody else
	}
	var function string
	s.kind, function = s.format.kind(rest, s.schemas)
	if s.kind == Call {
		s.kind, s.reader = Broken, s.format.begin(function, s.schemas)
		s.body.WriteString(s.held)
		s.held = ""
	}
}

// advanceCall handles the text of a call. What follows the call in its message is Broken.
func (s *channelSplitter) advanceCall(out *[]Piece) bool {
	body := s.body.String()
	call, n, v := s.reader.read(body)
	if v == undecided {
		return false
	}
	s.body.Reset()
	if (v == isCall || v == inBlock) && s.tools != nil {
		*out = append(*out, Piece{Kind: Call, Text: body[:n], Call: call})
	} else {
		s.emit(out, Broken, body[:n])
	}
	if v == inBlock {
		s.body.WriteString(body[n:])
	} else {
		s.reader, s.held = nil, body[n:]
	}
	return true
}

// emit appends text. Two messages of the same kind are two paragraphs.
func (s *channelSplitter) emit(out *[]Piece, kind Kind, text string) {
	if text == "" {
		return
	}
	if kind != Broken && !s.begun {
		if s.written[kind] {
			text = "\n\n" + text
		}
		s.begun, s.written[kind] = true, true
	}
	emit(out, kind, text)
}
