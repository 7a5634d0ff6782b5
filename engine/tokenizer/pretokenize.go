package tokenizer

// Splitting text into words. BPE merges only within a word. The splitters form a chain, in which
// each passes its pieces to the next. Pieces are substrings, so no text is copied.

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"headroom/engine/tokenizer/regex"
)

// splitter is one pre_tokenizer. split splits text, which is not empty, and calls
// e.split(at+1, piece) for each piece. The parameter at is the index of the splitter in the chain.
type splitter interface {
	split(e *encoder, at int, text string)
}

// split makes the scanner a splitter. It has the behavior Isolated.
func (s scanner) split(e *encoder, at int, text string) {
	for i := 0; i < len(text) && e.err == nil; {
		end := s.next(text, i)
		e.split(at+1, text[i:end])
		i = end
	}
}

// prefixSpace implements add_prefix_space of the ByteLevel pre-tokenizer.
type prefixSpace struct{}

func (prefixSpace) split(e *encoder, at int, text string) {
	if !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	e.split(at+1, text)
}

// finder finds the matches of a pattern. It is immutable; a search has the state of one search.
type finder interface{ newSearch() search }

// search finds the matches in one text after another.
type search interface {
	// reset starts a search of text for e, whose context can end it.
	reset(e *encoder, text string)
	// next returns the byte range of the next match. Matches do not overlap.
	next() (from, to int, ok bool)
}

// patternSplitter splits text at the matches of a finder. behavior determines what happens to the
// matches. If invert is true, matches and other text are exchanged.
type patternSplitter struct {
	slot     int // of the search in encoder.searches
	behavior behavior
	invert   bool
}

func (p *patternSplitter) split(e *encoder, at int, text string) {
	s := e.searches[p.slot]
	s.reset(e, text)
	pieces := joiner{e: e, at: at, text: text, behavior: p.behavior}
	done := 0
	for e.err == nil {
		from, to, ok := s.next()
		if !ok {
			break
		}
		if done < from {
			pieces.add(done, from, p.invert)
		}
		pieces.add(from, to, !p.invert)
		done = to
	}
	if done < len(text) {
		pieces.add(done, len(text), p.invert)
	}
	pieces.flush()
}

// behavior says how the spans of a text become pieces. A span is a match or the text between two.
type behavior uint8

const (
	isolated           behavior = iota
	removed                     // matches are dropped
	contiguous                  // matches in a row are one piece, and so are other spans
	mergedWithPrevious          // a match belongs to the span before it
	mergedWithNext              // a match belongs to the span after it
)

// behaviors maps the names of behaviors in tokenizer.json; see SplitDelimiterBehavior in
// https://github.com/huggingface/tokenizers, tokenizer/normalizer.rs.
var behaviors = map[string]behavior{"Isolated": isolated, "Removed": removed,
	"Contiguous": contiguous, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext}

// joiner joins spans to pieces and passes them to the next splitter. It holds one piece back.
type joiner struct {
	e        *encoder
	at       int
	text     string
	behavior behavior

	from, to int  // the piece that is held back
	held     bool // there is one
	match    bool // the last span was a match
}

func (j *joiner) add(from, to int, match bool) {
	join := false
	switch j.behavior {
	case isolated:
		j.e.split(j.at+1, j.text[from:to])
		return
	case removed:
		if !match {
			j.e.split(j.at+1, j.text[from:to])
		}
		return
	case contiguous:
		join = match == j.match
	case mergedWithPrevious:
		join = match && !j.match
	case mergedWithNext:
		join = !match && j.match
	}
	j.match = match
	if join && j.held {
		j.to = to
		return
	}
	j.flush()
	j.from, j.to, j.held = from, to, true
}

func (j *joiner) flush() {
	if j.held {
		j.held = false
		j.e.split(j.at+1, j.text[j.from:j.to])
	}
}

// literal finds a string, which must not be empty.
type literal string

func (l literal) newSearch() search { return &literalSearch{literal: string(l)} }

type literalSearch struct {
	literal, text string
	done          int
}

func (s *literalSearch) reset(_ *encoder, text string) { s.text, s.done = text, 0 }

func (s *literalSearch) next() (from, to int, ok bool) {
	i := strings.Index(s.text[s.done:], s.literal)
	if i < 0 {
		return 0, 0, false
	}
	from = s.done + i
	s.done = from + len(s.literal)
	return from, s.done, true
}

// pattern finds the matches of a regular expression.
type pattern struct{ *regex.Regexp }

func (p pattern) newSearch() search { return &patternSearch{matcher: p.NewMatcher()} }

type patternSearch struct {
	matcher *regex.Matcher
	e       *encoder
}

func (s *patternSearch) reset(e *encoder, text string) {
	s.e = e
	s.matcher.Reset(text, e.stop)
}

func (s *patternSearch) next() (from, to int, ok bool) {
	from, to, ok = s.matcher.Next()
	if !ok && s.matcher.Err() != nil {
		s.e.fail(s.matcher.Err())
	}
	return from, to, ok
}

// numerals finds each character of \p{N}.
type numerals struct{}

func (numerals) newSearch() search { return &numeralSearch{} }

type numeralSearch struct {
	text string
	done int
}

func (s *numeralSearch) reset(_ *encoder, text string) { s.text, s.done = text, 0 }

func (s *numeralSearch) next() (from, to int, ok bool) {
	for i, r := range s.text[s.done:] {
		if unicode.IsNumber(r) {
			from = s.done + i
			s.done = from + utf8.RuneLen(r)
			return from, s.done, true
		}
	}
	s.done = len(s.text)
	return 0, 0, false
}
