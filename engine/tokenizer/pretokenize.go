package tokenizer

// Splitting text into words. A model merges only within a word. The splitters form a chain, in
// which each passes its pieces to the next. Most pieces are substrings, so no text is copied. Each
// kind of pre_tokenizer is one row of splitterKinds.

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"headroom/engine/tokenizer/regex"
)

// splitter is one step of a pre_tokenizer. split splits text, which is not empty, and calls
// e.split(at+1, piece) for each piece. The parameter at is the index of the splitter in the chain.
// A splitter that drops the beginning of the text calls e.dropStart.
type splitter interface {
	split(e *encoder, at int, text string)
}

// splitterKinds has the kinds of pre_tokenizers by their names in tokenizer.json. Each appends its
// splitters.
var splitterKinds = map[string]func(*Tokenizer, *part) error{
	"BertPreTokenizer":   bertSplitter,
	"ByteLevel":          byteLevelSplitter,
	"CharDelimiterSplit": delimiterSplitter,
	"Digits":             digitSplitter,
	"FixedLength":        lengthSplitter,
	"Metaspace":          metaspaceSplitter,
	"Punctuation":        punctuationSplitter,
	"Split":              patternSplit,
	"UnicodeScripts":     scriptSplitter,
	"Whitespace":         whitespaceSplitter,
	"WhitespaceSplit":    spaceSplitter,
}

func (t *Tokenizer) buildSplitters(parts []*part) error {
	for _, p := range parts {
		build, ok := splitterKinds[p.kind]
		if !ok {
			return fmt.Errorf("type %q is not supported", p.kind)
		}
		if err := build(t, p); err != nil {
			return fmt.Errorf("%s: %w", p.kind, err)
		}
	}
	return nil
}

// patternSplit splits text at the matches of a pattern.
func patternSplit(t *Tokenizer, p *part) error {
	var f struct {
		Pattern  patternJSON `json:"pattern"`
		Behavior string      `json:"behavior"`
		Invert   bool        `json:"invert"`
	}
	if err := p.read(&f); err != nil {
		return err
	}
	if f.Pattern.Regex != nil {
		return t.addPattern(*f.Pattern.Regex, f.Behavior, f.Invert)
	}
	found, err := t.finder(f.Pattern)
	if err != nil {
		return err
	}
	return t.addFinder(found, f.Behavior, f.Invert)
}

func (t *Tokenizer) addPattern(pattern, behavior string, invert bool) error {
	if s, known := knownPatterns[pattern]; known && behavior == "Isolated" && !invert {
		t.splitters = append(t.splitters, s)
		return nil
	}
	f, err := t.finder(patternJSON{Regex: &pattern})
	if err != nil {
		return err
	}
	return t.addFinder(f, behavior, invert)
}

func (t *Tokenizer) addFinder(f finder, name string, invert bool) error {
	b, ok := behaviors[name]
	if !ok {
		return fmt.Errorf("behavior %q is unknown", name)
	}
	if b == removed {
		t.faithful = false
	}
	t.splitters = append(t.splitters,
		&patternSplitter{slot: t.addSearch(f), behavior: b, invert: invert})
	return nil
}

// digitSplitter separates digits from other text, and from each other if individual_digits is true.
func digitSplitter(t *Tokenizer, p *part) error {
	var f struct {
		IndividualDigits bool `json:"individual_digits"`
	}
	err := p.read(&f)
	behavior := "Contiguous"
	if f.IndividualDigits {
		behavior = "Isolated"
	}
	t.mustAddFinder(runes(isNumber), behavior)
	return err
}

// punctuationSplitter splits text at punctuation.
func punctuationSplitter(t *Tokenizer, p *part) error {
	f := struct {
		Behavior string `json:"behavior"`
	}{"Isolated"}
	if err := p.read(&f); err != nil {
		return err
	}
	return t.addFinder(runes(isPunctuation), f.Behavior, false)
}

// spaceSplitter splits text at spaces, and drops them.
func spaceSplitter(t *Tokenizer, _ *part) error {
	t.mustAddFinder(runes(unicode.IsSpace), "Removed")
	return nil
}

// bertSplitter drops spaces and isolates punctuation.
func bertSplitter(t *Tokenizer, _ *part) error {
	t.mustAddFinder(runes(unicode.IsSpace), "Removed")
	t.mustAddFinder(runes(isPunctuation), "Isolated")
	return nil
}

// delimiterSplitter splits text at a character, and drops it.
func delimiterSplitter(t *Tokenizer, p *part) error {
	var f struct {
		Delimiter string `json:"delimiter"`
	}
	if err := p.read(&f); err != nil {
		return err
	}
	if utf8.RuneCountInString(f.Delimiter) != 1 {
		return fmt.Errorf("delimiter is %q, expected one character", f.Delimiter)
	}
	t.mustAddFinder(literal(f.Delimiter), "Removed")
	return nil
}

// mustAddFinder is addFinder for a behavior that exists.
func (t *Tokenizer) mustAddFinder(f finder, behavior string) {
	if err := t.addFinder(f, behavior, false); err != nil {
		panic(err)
	}
}

// whitespaceSplitter splits text into words and other characters that are no spaces.
func whitespaceSplitter(t *Tokenizer, _ *part) error {
	t.faithful = false
	t.splitters = append(t.splitters, wordRuns{})
	return nil
}

// wordRuns implements the expression \w+|[^\w\s]+ of the pre_tokenizer Whitespace.
type wordRuns struct{}

func (wordRuns) split(e *encoder, at int, text string) {
	const space, word, other = 0, 1, 2
	last, from := -1, 0
	flush := func(to int) {
		switch {
		case last == space:
			e.dropStart()
		case last > space:
			e.split(at+1, text[from:to])
		}
		from = to
	}
	for i, r := range text {
		if (i+1)&(checkBytes-1) == 0 && e.check() {
			return
		}
		kind := other
		switch {
		case isWord(r):
			kind = word
		case unicode.IsSpace(r):
			kind = space
		}
		if kind != last {
			if flush(i); e.err != nil {
				return
			}
			last = kind
		}
	}
	flush(len(text))
}

// lengthSplitter splits text into pieces of some characters.
func lengthSplitter(t *Tokenizer, p *part) error {
	f := struct {
		Length int `json:"length"`
	}{5}
	err := p.read(&f)
	if err == nil && f.Length <= 0 {
		err = fmt.Errorf("length is %d, expected at least 1", f.Length)
	}
	t.splitters = append(t.splitters, fixedLength(f.Length))
	return err
}

type fixedLength int

func (n fixedLength) split(e *encoder, at int, text string) {
	from, count := 0, 0
	for i := range text {
		if count == int(n) {
			if e.split(at+1, text[from:i]); e.err != nil {
				return
			}
			from, count = i, 0
		}
		count++
	}
	e.split(at+1, text[from:])
}

// split makes the scanner a splitter. It has the behavior Isolated.
func (s scanner) split(e *encoder, at int, text string) {
	for i := 0; i < len(text) && e.err == nil; {
		end := s.next(text, i)
		e.split(at+1, text[i:end])
		i = end
	}
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
		} else if from < to {
			j.e.dropStart()
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

// runes finds each character of a class.
type runes func(rune) bool

func (r runes) newSearch() search { return &runeSearch{is: r} }

type runeSearch struct {
	is   runes
	e    *encoder
	text string
	done int
}

func (s *runeSearch) reset(e *encoder, text string) { s.e, s.text, s.done = e, text, 0 }

func (s *runeSearch) next() (from, to int, ok bool) {
	for i, r := range s.text[s.done:] {
		if s.is(r) {
			from = s.done + i
			s.done = from + utf8.RuneLen(r)
			return from, s.done, true
		}
		if (i+1)&(checkBytes-1) == 0 && s.e.check() {
			break
		}
	}
	s.done = len(s.text)
	return 0, 0, false
}
