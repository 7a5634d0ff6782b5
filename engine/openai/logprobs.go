package openai

import "headroom/engine/generate"

// ChatLogprobs are the log-probabilities of the tokens of content, in the form of chat completions.
type ChatLogprobs struct {
	Content []ChatLogprob `json:"content"`
}

// ChatLogprob is one token and its candidates.
type ChatLogprob struct {
	TopLogprob
	TopLogprobs []TopLogprob `json:"top_logprobs"`
}

// TopLogprob is one candidate. Token is its text, with U+FFFD for the bytes of an incomplete
// character. Bytes are exact.
type TopLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// NewChatLogprobs returns the tokens in the form of chat completions, nil for none.
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
	bytes := make([]int, len(t.Bytes)) // []byte would be written as base64
	for i, b := range t.Bytes {
		bytes[i] = int(b)
	}
	return TopLogprob{Token: text(t.Bytes), Logprob: finite(t.Logprob), Bytes: bytes}
}

// CompletionLogprobs are the log-probabilities in the form of completions: parallel lists.
type CompletionLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float32            `json:"token_logprobs"`
	TopLogprobs   []map[string]float32 `json:"top_logprobs"`
	// TextOffset counts characters from the start of the answer.
	TextOffset []int `json:"text_offset"`
}

// NewCompletionLogprobs returns the tokens in the form of completions, nil for none. offset is the
// position of the first token's text in the answer, in characters. The second result is the
// position after the last one.
func NewCompletionLogprobs(tokens []generate.Token, offset int) (*CompletionLogprobs, int) {
	if len(tokens) == 0 {
		return nil, offset
	}
	l := &CompletionLogprobs{}
	for _, t := range tokens {
		top := map[string]float32{}
		for _, candidate := range t.Top {
			top[text(candidate.Bytes)] = finite(candidate.Logprob)
		}
		l.Tokens = append(l.Tokens, text(t.Bytes))
		l.TokenLogprobs = append(l.TokenLogprobs, finite(t.Logprob))
		l.TopLogprobs = append(l.TopLogprobs, top)
		l.TextOffset = append(l.TextOffset, offset)
		for _, b := range t.Bytes {
			if b&0xC0 != 0x80 {
				// not a continuation byte: a character split across tokens counts once
				offset++
			}
		}
	}
	return l, offset
}

// text returns the bytes of a token as valid UTF-8.
func text(b []byte) string { return string([]rune(string(b))) }

// finite replaces numbers that JSON cannot represent. OpenAI also sends -9999 for "nearly
// impossible".
func finite(logprob float32) float32 {
	if logprob >= -9999 { // false for NaN and -Inf
		return logprob
	}
	return -9999
}
