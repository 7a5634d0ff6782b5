package tokenizer

// Splitting text into words. BPE merges only within a word. The splitters form a chain, in which
// each passes its pieces to the next. Pieces are substrings, so no text is copied.

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// splitter is one pre_tokenizer. split splits text, which is not empty, and calls
// e.split(at+1, piece) for each piece. The parameter at is the index of the splitter in the chain.
type splitter interface {
	split(e *encoder, at int, text string)
}

// split makes the scanner a splitter. It has the behavior Isolated.
func (s scanner) split(e *encoder, at int, text string) {
	for i := 0; i < len(text); {
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

// span is a byte range of text. match is true if the range is a match of a pattern.
type span struct {
	from, to int
	match    bool
}

// finder appends the spans of text: the matches of a pattern and the text between them, in order
// and without gaps.
type finder func(spans []span, text string) []span

// patternSplitter splits text at the matches of the finder find. behavior determines what happens
// to the matches. If invert is true, matches and other text are exchanged.
type patternSplitter struct {
	find     finder
	behavior behavior
	invert   bool
}

func (p *patternSplitter) split(e *encoder, at int, text string) {
	spans := p.find(e.spans[at][:0], text)
	if p.invert {
		for i := range spans {
			spans[i].match = !spans[i].match
		}
	}
	e.spans[at] = spans // for reuse
	for _, s := range p.behavior(spans) {
		e.split(at+1, text[s.from:s.to])
	}
}

// behavior converts the spans of a finder to pieces. It may overwrite its argument.
type behavior func([]span) []span

// behaviors maps the names of behaviors in tokenizer.json; see SplitDelimiterBehavior in
// https://github.com/huggingface/tokenizers, tokenizer/normalizer.rs.
var behaviors = map[string]behavior{
	"Isolated": func(spans []span) []span { return spans },
	"Removed": func(spans []span) []span {
		kept := spans[:0]
		for _, s := range spans {
			if !s.match {
				kept = append(kept, s)
			}
		}
		return kept
	},
	"Contiguous":         joinSpans(func(last, s bool) bool { return last == s }),
	"MergedWithPrevious": joinSpans(func(last, s bool) bool { return s && !last }),
	"MergedWithNext":     mergeWithNext,
}

// joinSpans returns a behavior that appends a span to the previous piece if join returns true. The
// arguments of join report whether the previous span and this one are matches.
func joinSpans(join func(last, s bool) bool) behavior {
	return func(spans []span) []span {
		out, last := spans[:0], false
		for _, s := range spans {
			if join(last, s.match) && len(out) > 0 {
				out[len(out)-1].to = s.to
			} else {
				out = append(out, s)
			}
			last = s.match
		}
		return out
	}
}

func mergeWithNext(spans []span) []span {
	first, next := len(spans), false // the pieces so far are in spans[first:]
	for i := len(spans) - 1; i >= 0; i-- {
		s := spans[i]
		if s.match && !next && first < len(spans) {
			spans[first].from = s.from
		} else {
			first--
			spans[first] = s
		}
		next = s.match
	}
	return spans[first:]
}

// findString returns a finder for a literal, which must not be empty.
func findString(literal string) finder {
	return func(spans []span, text string) []span {
		for done := 0; ; {
			i := strings.Index(text[done:], literal)
			if i < 0 {
				return appendRest(spans, done, len(text))
			}
			spans = appendRest(spans, done, done+i)
			spans = append(spans, span{done + i, done + i + len(literal), true})
			done += i + len(literal)
		}
	}
}

// findRegex returns a finder for a regular expression. regexp2 has the syntax of .NET, including
// the look-ahead and the character classes that tokenizers use. It processes only a few MB/s, so it
// is used only for patterns that have no scanner.
func findRegex(pattern string) (finder, error) {
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", pattern, err)
	}
	return func(spans []span, text string) []span {
		done, runes := 0, 0 // runes is the number of runes in text[:done]
		skip := func(n int) int {
			at := done
			for ; n > 0; n-- {
				_, size := utf8.DecodeRuneInString(text[at:])
				at += size
			}
			return at
		}
		// The only possible error is a timeout, and no timeout is set.
		for m, err := re.FindStringMatch(text); m != nil &&
			err == nil; m, err = re.FindNextMatch(m) {
			from := skip(m.Index - runes)
			spans = appendRest(spans, done, from)
			done = from
			to := skip(m.Length)
			spans = append(spans, span{from, to, true})
			done, runes = to, m.Index+m.Length
		}
		return appendRest(spans, done, len(text))
	}, nil
}

// findDigits finds each character of \p{N}.
func findDigits(spans []span, text string) []span {
	done := 0
	for i, r := range text {
		if unicode.IsNumber(r) {
			spans = appendRest(spans, done, i)
			done = i + utf8.RuneLen(r)
			spans = append(spans, span{i, done, true})
		}
	}
	return appendRest(spans, done, len(text))
}

func appendRest(spans []span, from, to int) []span {
	if from < to {
		spans = append(spans, span{from, to, false})
	}
	return spans
}
