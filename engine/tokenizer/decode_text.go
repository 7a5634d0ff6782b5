package tokenizer

// The decoders Replace and Strip. Mostly they come before and after Fuse, which joins all tokens to
// one, so they pass on parts of a token.

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"headroom/engine/tokenizer/regex"
)

// maxDecodeGrowth bounds how many bytes all decoders of the kind Replace make of one. Those of
// published tokenizers replace a character by a space.
const maxDecodeGrowth = 64

// replaceDecoder replaces every match of a pattern in a token. A regular expression needs the whole
// token.
func replaceDecoder(t *Tokenizer, p *part) (decoderStep, error) {
	var f replaceJSON
	if err := p.read(&f); err != nil {
		return nil, err
	}
	found, err := t.finder(f.Pattern)
	if err != nil {
		return nil, err
	}
	// An expression may match before each byte, and the byte stays.
	t.decodeGrowth = max(t.decodeGrowth, 1) * (len(f.Content) + 1)
	if t.decodeGrowth > maxDecodeGrowth {
		return nil, fmt.Errorf("the replacements may make %d bytes of one, expected at most %d",
			t.decodeGrowth, maxDecodeGrowth)
	}
	if l, ok := found.(literal); ok {
		return func(next decodeStage) decodeStage {
			return &replacer{next: next, literal: []byte(l), content: []byte(f.Content)}
		}, nil
	}
	re := found.(pattern).Regexp
	return func(next decodeStage) decodeStage {
		matcher := re.NewMatcher()
		return &wholeTokens{next: next, rewrite: func(w *wholeTokens) {
			w.pass(replaceMatches(matcher, string(w.token), f.Content))
		}}
	}, nil
}

// replaceMatches returns s with every match replaced. A text for which the expression is too
// complex stays as it is.
func replaceMatches(m *regex.Matcher, s, content string) []byte {
	var b strings.Builder
	done := 0
	m.Reset(s, nil)
	for from, to, ok := m.Next(); ok && s != ""; from, to, ok = m.Next() {
		b.WriteString(s[done:from])
		b.WriteString(content)
		done = to
	}
	if m.Err() != nil {
		return []byte(s)
	}
	b.WriteString(s[done:])
	return []byte(b.String())
}

// replacer replaces a string. It holds back what may be the beginning of a match.
type replacer struct {
	next             decodeStage
	literal, content []byte
	held             []byte
}

func (r *replacer) write(part []byte) {
	r.held = append(r.held, part...)
	rest := r.held
	for {
		i := bytes.Index(rest, r.literal)
		if i < 0 {
			break
		}
		r.next.write(rest[:i])
		r.next.write(r.content)
		rest = rest[i+len(r.literal):]
	}
	keep := min(len(r.literal)-1, len(rest))
	for !bytes.HasPrefix(r.literal, rest[len(rest)-keep:]) {
		keep--
	}
	r.next.write(rest[:len(rest)-keep])
	r.held = append(r.held[:0], rest[len(rest)-keep:]...)
}

func (r *replacer) endToken() {
	r.next.write(r.held)
	r.held = r.held[:0]
	r.next.endToken()
}

func (r *replacer) end() { r.next.end() }

// stripDecoder removes up to start characters at the beginning of a token, and up to stop at its
// end, if they are content.
func stripDecoder(_ *Tokenizer, p *part) (decoderStep, error) {
	var f struct {
		Content string `json:"content"`
		Start   uint32 `json:"start"`
		Stop    uint32 `json:"stop"`
	}
	if err := p.read(&f); err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(f.Content) != 1 {
		return nil, fmt.Errorf("content is %q, expected one character", f.Content)
	}
	return func(next decodeStage) decodeStage {
		return &stripper{next: next, content: []byte(f.Content), start: int(f.Start),
			stop: int(f.Stop)}
	}, nil
}

type stripper struct {
	next        decodeStage
	content     []byte
	start, stop int
	begun       int // characters of this token that were removed; -1: something else was passed on
	held        int // characters that may be at the end
}

func (s *stripper) write(part []byte) {
	for len(part) > 0 {
		if s.begun >= 0 && s.begun < s.start && bytes.HasPrefix(part, s.content) {
			s.begun++
			part = part[len(s.content):]
			continue
		}
		s.begun = -1
		other := len(part)
		if s.stop > 0 {
			other = bytes.Index(part, s.content)
		}
		if other < 0 {
			other = len(part)
		}
		if other > 0 {
			s.release(0)
			s.next.write(part[:other])
			part = part[other:]
			continue
		}
		s.held++
		part = part[len(s.content):]
		s.release(s.stop)
	}
}

// release passes on held characters, except for keep.
func (s *stripper) release(keep int) {
	for ; s.held > keep; s.held-- {
		s.next.write(s.content)
	}
}

func (s *stripper) endToken() {
	s.begun, s.held = 0, 0
	s.next.endToken()
}

func (s *stripper) end() { s.next.end() }
