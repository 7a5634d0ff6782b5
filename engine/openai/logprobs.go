package openai

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"headroom/engine/generate"
)

// ChatLogprobs holds the log-probabilities of the generated tokens, in the format of chat
// completions. As in vLLM, every generated token has an element: also tokens of reasoning, of tool
// calls and of stop texts, and special tokens.
type ChatLogprobs struct {
	Content []ChatLogprob `json:"content"`
}

// ChatLogprob is a generated token and the most likely tokens at its position.
type ChatLogprob struct {
	TopLogprob
	TopLogprobs []TopLogprob `json:"top_logprobs"`
}

// TopLogprob is a token with its log-probability. Token is its text, with U+FFFD for each byte of
// an incomplete character. Bytes has the exact bytes.
type TopLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// NewChatLogprobs returns the log-probabilities of tokens in the format of chat completions, or nil
// if there are no tokens.
func NewChatLogprobs(tokens []generate.Token) *ChatLogprobs {
	if len(tokens) == 0 {
		return nil
	}
	l := &ChatLogprobs{}
	for _, t := range tokens {
		entry := ChatLogprob{TopLogprob: topLogprob(t), TopLogprobs: []TopLogprob{}}
		for _, candidate := range t.Top {
			entry.TopLogprobs = append(entry.TopLogprobs, topLogprob(candidate))
		}
		l.Content = append(l.Content, entry)
	}
	return l
}

func topLogprob(t generate.Token) TopLogprob {
	return TopLogprob{Token: text(t.Bytes), Logprob: finite(t.Logprob), Bytes: integers(t.Bytes)}
}

// integers returns bytes as integers. encoding/json would encode []byte as base64.
func integers(b []byte) []int {
	list := make([]int, len(b))
	for i, c := range b {
		list[i] = int(c)
	}
	return list
}

// CompletionLogprobs holds the log-probabilities of the generated tokens in the format of
// completions: four slices with an element per token.
type CompletionLogprobs struct {
	// Tokens are the texts of the tokens. As in OpenAI's API, a token that is not valid UTF-8 has
	// the form `bytes:\xf0\x9f`.
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []*float32           `json:"token_logprobs"` // null for the first of a prompt
	TopLogprobs   []map[string]float32 `json:"top_logprobs"`   // null for the first of a prompt
	// TextOffset has the offsets of the tokens' texts in the answer, in characters. The tokens of a
	// stop text continue after the end of the answer. A token without text has the offset of the
	// next one, and one that begins inside a character has the offset of that character.
	TextOffset []int `json:"text_offset"`
}

// NewCompletionLogprobs returns the log-probabilities of tokens in the format of completions, or
// nil if there are no tokens.
func NewCompletionLogprobs(tokens []generate.Token) *CompletionLogprobs {
	if len(tokens) == 0 {
		return nil
	}
	l := &CompletionLogprobs{}
	for _, t := range tokens {
		var logprob *float32
		var top map[string]float32
		if !t.First {
			logprob, top = new(finite(t.Logprob)), map[string]float32{}
		}
		for _, candidate := range t.Top {
			top[escaped(candidate.Bytes)] = finite(candidate.Logprob)
		}
		l.Tokens = append(l.Tokens, escaped(t.Bytes))
		l.TokenLogprobs = append(l.TokenLogprobs, logprob)
		l.TopLogprobs = append(l.TopLogprobs, top)
		l.TextOffset = append(l.TextOffset, t.Offset)
	}
	return l
}

// text returns the bytes of a token as valid UTF-8.
func text(b []byte) string { return string([]rune(string(b))) }

// escaped returns the bytes of a token if they are valid UTF-8. Otherwise it returns them in
// OpenAI's notation, with which different tokens stay different.
func escaped(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.WriteString("bytes:")
	for _, c := range b {
		if c >= ' ' && c <= '~' {
			s.WriteByte(c)
		} else {
			fmt.Fprintf(&s, `\x%02x`, c)
		}
	}
	return s.String()
}

// finite replaces numbers that JSON cannot represent by -9999, which OpenAI sends for very unlikely
// tokens.
func finite(logprob float32) float32 {
	if logprob >= -9999 { // false for NaN and -Inf
		return logprob
	}
	return -9999
}
