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
//   - a call that is malformed or cut off is Broken
//   - if the request offers no tools, there are no calls: their text is content, without tags that
//     are control tokens (see DECISIONS.md)
//
// If content has a form (HasForm), tags in it are content, too. All other text is unchanged. The
// result depends on the text alone, not on its pieces.

// Kind is the kind of a piece of generated text.
type Kind uint8

// The kinds of text. Do not store their values: they may change.
const (
	Content Kind = iota
	Reasoning
	Call
	Broken // a tool call that is malformed, cut off or refused; clients do not see it
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
type Splitter struct {
	splitter
	noCalls bool
}

// splitter is what formats with tags (tagSplitter) and formats with messages (channelSplitter)
// implement.
type splitter interface {
	// Add adds the next generated text and returns the completed pieces, in order. It returns none
	// while a tag may be arriving.
	Add(text string) []Piece
	// Close ends the text and returns the text held back. cutOff tells that the model would have
	// gone on. Then what has begun of a call or of a tag is Broken.
	Close(cutOff bool) []Piece
	// InReasoning reports whether the text so far ends inside a block of reasoning.
	InReasoning() bool
	// EndsWithCall reports whether the text so far ends with a complete call, after which only
	// white space and tags may follow.
	EndsWithCall() bool
	// hasForm says that content has a form; see HasForm.
	hasForm(o Opening)
}

// NewSplitter returns a Splitter for the answer to a prompt that the template rendered. offered
// are the tools of the request; see Tools.
func (t *Template) NewSplitter(prompt string, offered []json.RawMessage) *Splitter {
	t = t.of(len(offered) > 0)
	if t.channels != nil {
		return &Splitter{splitter: newChannelSplitter(t.channels, prompt, t.Tools(offered))}
	}
	return &Splitter{splitter: newTagSplitter(t.reasoning, t.tools, prompt, t.Tools(offered))}
}

// HasForm says that the content of the answer has a form, before which may come what o says. Once
// content has begun, all text is content: what looks like a tag is none, since the form demands it.
// Call it before Add.
func (s *Splitter) HasForm(o Opening) { s.hasForm(o) }

// RefuseCalls makes all calls Broken.
func (s *Splitter) RefuseCalls() { s.noCalls = true }

// Add adds the next generated text and returns the completed pieces, in order. It returns none
// while a tag may be arriving.
func (s *Splitter) Add(text string) []Piece { return s.allowed(s.splitter.Add(text)) }

// Close ends the text and returns the text held back. cutOff tells that the model would have gone
// on. Then what has begun of a call or of a tag is Broken.
func (s *Splitter) Close(cutOff bool) []Piece { return s.allowed(s.splitter.Close(cutOff)) }

func (s *Splitter) allowed(all []Piece) []Piece {
	for i := range all {
		if s.noCalls && all[i].Kind == Call {
			all[i] = Piece{Kind: Broken, Text: all[i].Text}
		}
	}
	return all
}

// tagSplitter splits a text in which tags enclose reasoning and tool calls. Its work is linear in
// the text; see cursor.
type tagSplitter struct {
	reasoning reasoningFormat
	format    *toolFormat // nil: there are no tags of calls
	tools     *Tools      // nil: no calls are allowed
	all       []string    // the tags outside of calls; those of reasoning first
	kind      Kind        // of the next text
	start     bool        // only white space so far
	fresh     bool        // no content since the start, a call or a block of reasoning
	called    bool        // the text ends with a complete call
	trim      string      // characters to drop if they come next
	form      *contentForm

	// held is, outside of calls, text that may be part of a tag or of the white space around one.
	// In a call, it is the text after the opening tag or after the call before.
	held  tail
	seen  int // no tag begins before held.text[seen]
	blank int // held.text[:blank] is white space
	work  int // as that of cursor

	// While kind is Call:
	lead   string // the opening tag and the white space before it
	inner  bool   // the tag is format.inner
	reader callReader
}

// contentForm is the form of the content that is to come; nil: none.
type contentForm struct {
	open  string   // begins reasoning in its place; "": nothing does
	calls []string // begin calls in its place
	begun bool     // all text is content
}

const lineBreaks = "\r\n"

func newTagSplitter(reasoning reasoningFormat, format *toolFormat, prompt string,
	tools *Tools) *tagSplitter {
	if tools == nil && format != nil && !format.control && !format.prompted {
		format = nil // its tags are content like any other text
	}
	s := &tagSplitter{reasoning: reasoning, format: format, tools: tools, all: reasoning.tags()}
	switch {
	case format == nil:
	case s.mentions():
		s.all = append(s.all, format.open...)
	default:
		s.all = append(s.all, format.outside()...)
	}
	if format != nil && tools != nil {
		s.all = append(s.all, format.inner)
	}
	if reasoning.opens(prompt) {
		s.kind, s.trim = Reasoning, lineBreaks
	} else {
		s.start, s.fresh = true, true
		if format != nil && format.named {
			s.trim = lineBreaks
		}
		if format != nil && format.prompted && strings.HasSuffix(prompt, format.open[0]) {
			s.beginCall(0, 0, "")
		}
	}
	return s
}

// mentions reports whether a tag that no call follows is content. Without tools, a model may write
// about tags.
func (s *tagSplitter) mentions() bool {
	return s.format.prose || s.tools == nil && !s.format.control
}

func (s *tagSplitter) InReasoning() bool { return s.kind == Reasoning }

func (s *tagSplitter) EndsWithCall() bool {
	return s.called && (s.kind != Call || s.lead == "" && isBlank(s.held.text))
}

func isBlank(text string) bool { return skipSpaces(text, 0) == len(text) }

func (s *tagSplitter) Add(text string) []Piece {
	s.held.add(text)
	var out []Piece
	for s.advance(&out) {
	}
	return out
}

// How Close treats an incomplete end.
const (
	maxRereads = 16 // of the text after a closing tag in an incomplete call
	minPartial = 3  // bytes of the beginning of a tag that are Broken if the text is cut off
)

func (s *tagSplitter) Close(cutOff bool) []Piece {
	var out []Piece
	for rereads := 0; s.kind == Call; rereads++ {
		s.endCall(&out, cutOff || rereads == maxRereads)
		for s.advance(&out) {
		}
	}
	n := len(s.held.text)
	if s.form == nil && cutOff && n-s.seen >= minPartial {
		n, s.called = s.seen, false
	}
	s.emit(&out, s.held.text[:n])
	emit(&out, Broken, s.held.text[n:])
	s.kind = Content
	s.cut(len(s.held.text))
	return out
}

// endCall ends a call that is incomplete at the end of the text. If whole is set, all of it is
// Broken.
func (s *tagSplitter) endCall(out *[]Piece, whole bool) {
	s.called = s.EndsWithCall()
	body, lead := s.held.text, s.lead
	s.kind, s.lead = Content, ""
	switch object := strings.Contains(body, "{"); {
	case whole:
	case s.format.prose && !object || s.inner && !strings.Contains(body, parameterOpen),
		s.format.named && !object && isBlank(lead):
		s.emit(out, lead) // a tag in prose, or a word, with which the text ends
		return
	case s.format.named && !object:
		s.emitBroken(out, lead)
		return
	}
	n := len(body)
	// A closing tag may have been taken for part of a value, if a quote is missing.
	if closing := strings.Index(body, s.format.close); !whole && closing >= 0 &&
		s.format.close != "" {
		n = closing + len(s.format.close)
	}
	s.emitBroken(out, lead+body[:n])
	s.cut(n)
}

// emitBroken appends a call that is none for the client. It is content without its tags if the
// request offers no tools, since nothing else may be in the answer.
func (s *tagSplitter) emitBroken(out *[]Piece, text string) {
	if s.tools != nil {
		emit(out, Broken, text)
		return
	}
	for _, tag := range slices.Concat(s.format.outside(), s.format.in, s.format.ends) {
		text = strings.ReplaceAll(text, tag, "")
	}
	if !isBlank(text) { // otherwise it has only tags
		emit(out, Content, text)
		s.called, s.fresh = false, false
	}
}

// cut drops the first n bytes of the held text.
func (s *tagSplitter) cut(n int) {
	s.held.cut(n)
	s.seen, s.blank = max(0, s.seen-n), max(0, s.blank-n)
}

// emit appends text outside of calls.
func (s *tagSplitter) emit(out *[]Piece, text string) {
	if !isBlank(text) {
		s.called, s.fresh = false, false
	}
	emit(out, s.kind, text)
}

// advance handles the held text up to and including the next tag. It returns false
// if there is none.
func (s *tagSplitter) advance(out *[]Piece) bool {
	if s.kind == Call {
		return s.advanceCall(out)
	}
	if s.trim != "" {
		s.cut(len(s.held.text) - len(strings.TrimLeft(s.held.text, s.trim)))
		if s.held.text != "" {
			s.trim = ""
		}
	}
	if s.form != nil && s.kind == Content {
		return s.advanceForm(out)
	}
	held := s.held.text
	if s.fresh && s.tools != nil && (s.format.bare || s.format.named) {
		if at := skipSpaces(held, s.blank); at < len(held) && s.format.mayBegin(held[at]) {
			s.beginCall(0, at, "")
			return true
		}
	}
	at, tag := s.nextTag()
	blank := s.start && s.trimmed(at, spaces) == 0
	isCall := s.format != nil && tag != "" &&
		(tag == s.format.inner || slices.Contains(s.format.open, tag))
	inFormat := tag != "" && tag != s.reasoning.open && tag != s.reasoning.close
	end := at
	switch {
	case tag == "" && blank:
		return false // dropped if a tag follows
	case inFormat:
		end = s.trimmed(at, spaces)
	case tag != "" && blank:
		end = 0
	case s.kind == Reasoning && tag != s.reasoning.open:
		end = s.trimmed(at, lineBreaks) // the closing tag may follow
	case tag == "" && len(s.all) > 2:
		end = s.trimmed(at, spaces) // a call may follow, or the end of an answer
	}
	s.emit(out, held[:end])
	switch {
	case tag == "":
		s.start = false
		s.cut(end)
		return false
	case isCall:
		s.beginCall(end, at+len(tag), tag)
		return true
	case inFormat:
		s.trim = lineBreaks
	case tag == s.reasoning.open:
		s.kind, s.trim, s.fresh, s.called = Reasoning, lineBreaks, false, false
	default:
		if s.kind == Reasoning || blank {
			s.trim, s.fresh = lineBreaks, true
		}
		s.kind = Content
		if s.form != nil {
			s.form.open = ""
		}
	}
	s.start = false
	s.cut(at + len(tag))
	return true
}

func (s *tagSplitter) hasForm(o Opening) {
	s.form = &contentForm{calls: o.Calls}
	if o.Open != "" {
		s.form.open = s.reasoning.open
	}
}

// advanceForm handles text outside of reasoning if the content has a form.
func (s *tagSplitter) advanceForm(out *[]Piece) bool {
	held := s.held.text
	if s.form.begun {
		s.emit(out, held)
		s.cut(len(held))
		return false
	}
	at := 0
	if len(s.form.calls) > 0 { // white space may come before a call
		at = skipSpaces(held, 0)
	}
	for i, tag := range append(s.form.calls[:len(s.form.calls):len(s.form.calls)], s.form.open) {
		switch opens := i == len(s.form.calls); {
		case tag == "":
		case strings.HasPrefix(held[at:], tag) && opens:
			s.kind, s.trim, s.start, s.fresh = Reasoning, lineBreaks, false, false
			s.cut(at + len(tag))
			return true
		case strings.HasPrefix(held[at:], tag):
			s.form = nil
			s.beginCall(0, at+len(tag), tag)
			return true
		case strings.HasPrefix(tag, held[at:]):
			return false
		}
	}
	s.form.begun = true
	return true
}

// trimmed returns the length of held.text[:at] without the characters of set at its end.
func (s *tagSplitter) trimmed(at int, set string) int {
	for end := at; end > s.blank; end-- {
		s.work++
		if strings.IndexByte(set, s.held.text[end-1]) < 0 {
			return end
		}
	}
	s.blank = at
	return 0
}

// beginCall begins a call with a tag, if it has one. held.text[from:to] is the tag and the white
// space before it.
func (s *tagSplitter) beginCall(from, to int, tag string) {
	var schemas map[string]schema
	if s.tools != nil {
		schemas = s.tools.schemas
	}
	begin := s.format.begin
	if s.inner = tag != "" && tag == s.format.inner; s.inner {
		begin = s.format.beginInner
	}
	s.kind, s.lead, s.reader = Call, s.held.text[from:to], begin(schemas)
	s.start, s.fresh = false, false
	s.cut(to)
}

// advanceCall handles the text after an opening tag. It returns false while the call is incomplete.
func (s *tagSplitter) advanceCall(out *[]Piece) bool {
	call, n, v := s.reader.read(s.held.text)
	if v == undecided {
		return false
	}
	text := s.lead + s.held.text[:n]
	switch isCall := v == isCall || v == inBlock; {
	case v == isText && n == 0 && (!s.isTag(s.lead) || s.mentions()):
		s.kind = Content
		s.emit(out, s.lead) // a bare call that is none, or a tag that no call follows
	case isCall && s.tools != nil:
		*out = append(*out, Piece{Kind: Call, Text: text, Call: call})
		s.called = true
	default:
		s.emitBroken(out, text)
		s.called = s.called && v == isEnd // tags only
	}
	s.lead = ""
	s.cut(n)
	if v == inBlock {
		return true
	}
	s.kind = Content
	switch {
	case v != isText:
		s.trim, s.fresh = spaces, true
	case s.format.named:
		s.trim = lineBreaks
	}
	return true
}

// isTag reports whether text ends with an opening tag of a call.
func (s *tagSplitter) isTag(text string) bool {
	return slices.ContainsFunc(s.format.open,
		func(tag string) bool { return strings.HasSuffix(text, tag) })
}

// nextTag returns the first tag in the held text and its index. If there is none, tag is "", and
// held.text[at:] is the beginning of a tag or empty.
func (s *tagSplitter) nextTag() (at int, tag string) {
	tags := s.all
	if s.kind == Reasoning {
		tags = tags[:2]
	}
	at, tag = firstTag(s.held.text[s.seen:], tags)
	s.work += examinedFor(at, tag, len(s.held.text)-s.seen)
	s.seen += at
	return s.seen, tag
}

// firstTag returns the first of tags in text and its index. If there is none, tag is "", and
// text[at:] is the beginning of a tag or empty. Empty tags do not count.
func firstTag(text string, tags []string) (at int, tag string) {
	for at = range len(text) {
		for _, t := range tags {
			if t == "" || t[0] != text[at] {
				continue
			}
			if strings.HasPrefix(text[at:], t) {
				return at, t
			}
			if len(text)-at < len(t) && strings.HasPrefix(t, text[at:]) {
				return at, ""
			}
		}
	}
	return len(text), ""
}

// examinedFor returns how many bytes firstTag has examined in a text of some length.
func examinedFor(at int, tag string, length int) int {
	if tag == "" {
		return length // the beginning of a tag, too
	}
	return at + len(tag)
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
