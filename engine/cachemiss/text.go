package cachemiss

// This file decodes tokens and finds positions in texts. A conversation's head is the text before
// its first user message, and its opening is the text before the first answer. Both end at the mark
// with which a chat template begins a message.

import (
	"strings"
	"unicode/utf8"
)

// Marks that begin a message in the templates of ChatML (Qwen and others), Gemma, Llama 3, Mistral,
// and Phi or GLM, in this order.
var (
	userMarks = []string{"<|im_start|>user", "<start_of_turn>user", "<|start_header_id|>user",
		"[INST]", "<|user|>"}
	assistantMarks = []string{"<|im_start|>assistant", "<start_of_turn>model",
		"<|start_header_id|>assistant", "[/INST]", "<|assistant|>"}
)

// maxHeadTokens bounds how much of a prompt is decoded to find its first messages. System prompts
// with tools have 5,000 to 40,000 tokens.
const maxHeadTokens = 1 << 16

// textTo returns the text of tokens up to the first of marks, and whether it found one. It decodes
// ever longer beginnings of tokens, because decoding them piece by piece could split a character.
func textTo(tokens []int32, decode func([]int32) string, marks []string) (text string, found bool) {
	for n := 2048; ; n *= 4 {
		n = min(n, len(tokens), maxHeadTokens)
		text = valid(decode(tokens[:n]))
		first := -1
		for _, m := range marks {
			if i := strings.Index(text, m); i >= 0 && (first < 0 || i < first) {
				first = i
			}
		}
		if first >= 0 {
			return text[:first], true
		}
		if n == len(tokens) || n == maxHeadTokens {
			return text, false
		}
	}
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// firstDifference returns the index at which a and b diverge. It is the beginning of a character.
func firstDifference(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && (n < len(a) && !utf8.RuneStart(a[n]) || n < len(b) && !utf8.RuneStart(b[n])) {
		n--
	}
	return n
}

// isWord reports whether a byte is part of a word, a number, a date, a setting or a tag. A report
// does not cut these.
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
		c >= utf8.RuneSelf || strings.IndexByte("_-:./=<|", c) >= 0
}

// wordStart returns the index of the beginning of the word at s[at]. It looks back at most limit
// bytes and never splits a character.
func wordStart(s string, at, limit int) int {
	from := at
	for from > 0 && at-from < limit && isWord(s[from-1]) {
		from--
	}
	for from < at && !utf8.RuneStart(s[from]) {
		from++
	}
	return from
}

// shownBytes is the maximum length of the text that a report shows on each side of the difference.
const shownBytes = 80

// show returns a report's excerpts of two texts whose longest common prefix is was[:at]: the common
// text before the word in which they differ, and each text from that word on.
func show(was, is string, at int) (before, wasShown, isShown string) {
	from := wordStart(was, at, shownBytes/2)
	return tail(was[:from]), front(was[from:]), front(is[from:])
}

// tail returns the end of a text. It begins with a line or a word if one begins nearby.
func tail(s string) string {
	if len(s) <= shownBytes {
		return s
	}
	s = s[len(s)-shownBytes:]
	if i := strings.IndexAny(s[:shownBytes/2], " \n"); i >= 0 {
		return s[i+1:]
	}
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// front returns the beginning of a text. It ends with a word if one ends nearby.
func front(s string) string {
	if len(s) <= shownBytes {
		return s
	}
	if i := strings.LastIndexAny(s[:shownBytes], " \n"); i >= shownBytes/2 {
		return s[:i]
	}
	n := shownBytes
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
