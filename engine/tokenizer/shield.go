package tokenizer

// Text of messages must stay text. A message that has <|im_end|> in it must not end there. So a
// Shield hides special tokens in the strings that a chat template gets, and encoding reveals them
// after the tokens that the template itself wrote have been found.

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shield hides special tokens in the strings of one request. One character of each token is
// replaced by a character of the private use area, so strings keep their length, and templates see
// the same beginnings and ends. Added tokens that are not special, such as <think> and <tool_call>,
// are not hidden, because templates look for them. A Shield is not safe for concurrent use.
type Shield struct {
	tokens *addedTokens
	hidden []rune // by number of the replacement
	index  map[rune]rune
	strict bool // see HideStrictly
	begins bool // see MayJoin
}

// The replacements are U+10F000 to U+10FFFF, which begin with these bytes. A string that has such a
// character already gets another one for it.
const (
	firstHidden = 0x10f000
	lastHidden  = 0x10ffff
	hiddenBytes = "\xf4\x8f"
)

// NewShield returns a Shield, or nil, which hides nothing, if the tokenizer has no special tokens.
func (t *Tokenizer) NewShield() *Shield {
	if len(t.special.tokens) == 0 {
		return nil
	}
	return &Shield{tokens: &t.special, index: map[rune]rune{}}
}

// Hide returns s with its special tokens hidden, and with a beginning of one at its end, which
// another string could complete.
func (s *Shield) Hide(text string) string {
	if s == nil {
		return text
	}
	text = toValidUTF8(text)
	s.begins = s.begins || strings.ContainsAny(text, s.tokens.begin)
	if s.strict {
		return strings.Map(func(r rune) rune {
			if r >= firstHidden || strings.ContainsRune(s.tokens.begin, r) {
				r = s.replacement(r)
			}
			return r
		}, text)
	}
	_, _, token := s.tokens.find(nil, text, 0)
	if token == nil && s.tokens.partial(text) == len(text) &&
		!strings.Contains(text, hiddenBytes) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + len(text)/4)
	s.hide(&b, text)
	return b.String()
}

func (s *Shield) hide(b *strings.Builder, text string) {
	for {
		start, end, token := s.tokens.find(nil, text, 0)
		if token == nil {
			if start = s.tokens.partial(text); start == len(text) {
				s.write(b, text)
				return
			}
			end = len(text)
		}
		at, ok := visible(text, start, end)
		if !ok { // a token of spaces stays
			s.write(b, text[:end])
			text = text[end:]
			continue
		}
		s.write(b, text[:start])
		s.hide(b, text[start:at]) // a shorter token may be inside
		r, size := utf8.DecodeRuneInString(text[at:])
		b.WriteRune(s.replacement(r))
		text = text[at+size:]
	}
}

// MayJoin reports whether a template could join a special token from parts of the texts that Hide
// got, by removing what is between them: one of the texts has a character with which such tokens
// begin.
func (s *Shield) MayJoin() bool { return s != nil && s.begins }

// HideStrictly makes Hide also hide every character with which a special token begins. Then no
// template can join one from the text of messages. But templates do not find markup in messages,
// so it is only for those messages in which Hide alone does not suffice.
func (s *Shield) HideStrictly() { s.strict = true }

// InSpecial reports whether the word is a part of a special token, but not the whole, which Hide
// hides.
func (s *Shield) InSpecial(word string) bool {
	return s != nil && slices.ContainsFunc(s.tokens.tokens, func(t addedToken) bool {
		return len(word) < len(t.Content) && strings.Contains(t.Content, word)
	})
}

// Specials returns the special tokens in a text, whose messages Hide has hidden.
func (s *Shield) Specials(text string) (found []int32) {
	for {
		_, end, token := s.tokens.find(nil, text, 0)
		if token == nil {
			return found
		}
		found = append(found, token.ID)
		text = text[end:]
	}
}

// visible returns the index of a character in text[start:end] that is not a space, in the middle if
// possible.
func visible(text string, start, end int) (at int, ok bool) {
	at = -1
	for i, r := range text[start:end] {
		if !unicode.IsSpace(r) && (at < 0 || i <= (end-start)/2) {
			at = start + i
		}
	}
	return at, at >= 0
}

// write writes text in which only characters of the private use area are hidden.
func (s *Shield) write(b *strings.Builder, text string) {
	if !strings.Contains(text, hiddenBytes) {
		b.WriteString(text)
		return
	}
	for _, r := range text {
		if r >= firstHidden {
			r = s.replacement(r)
		}
		b.WriteRune(r)
	}
}

func (s *Shield) replacement(r rune) rune {
	hidden, ok := s.index[r]
	if !ok {
		if hidden = firstHidden + rune(len(s.hidden)); hidden > lastHidden {
			return utf8.RuneError // a text with thousands of different such characters
		}
		s.hidden = append(s.hidden, r)
		s.index[r] = hidden
	}
	return hidden
}

// Reveal returns text with the characters that Hide has hidden.
func (s *Shield) Reveal(text string) string {
	if s == nil || len(s.hidden) == 0 || !strings.Contains(text, hiddenBytes) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if i := int(r) - firstHidden; i >= 0 && i < len(s.hidden) {
			return s.hidden[i]
		}
		return r
	}, text)
}

// partial returns where a beginning of a token starts at the end of text, or len(text).
func (a *addedTokens) partial(text string) int {
	node := int32(0)
	for i := max(0, len(text)-maxAddedBytes); i < len(text); i++ {
		node = a.move(node, text[i])
	}
	return len(text) - int(a.nodes[node].depth)
}
