package openai

// Token is one token with its probability, as the server knows it.
type Token struct {
	Bytes   []byte // its bytes, which may be a part of a character
	Logprob float32
	Top     []Token // likeliest first, without Top of their own
}

// ChatLogprobs are the probabilities of the tokens of content, in the chat form.
type ChatLogprobs struct {
	Content []ChatLogprob `json:"content"`
}

// ChatLogprob is one token.
type ChatLogprob struct {
	TopLogprob
	TopLogprobs []TopLogprob `json:"top_logprobs"`
}

// TopLogprob is one candidate. Token is its text, with U+FFFD where its bytes are a part of a
// character; Bytes are exact.
type TopLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// NewChatLogprobs makes the chat form, nil of no tokens.
func NewChatLogprobs(tokens []Token) *ChatLogprobs {
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

func topLogprob(t Token) TopLogprob {
	bytes := make([]int, len(t.Bytes)) // []byte would be written as base64
	for i, b := range t.Bytes {
		bytes[i] = int(b)
	}
	return TopLogprob{Token: text(t.Bytes), Logprob: finite(t.Logprob), Bytes: bytes}
}

// CompletionLogprobs are the probabilities in the older form of /v1/completions: parallel lists.
type CompletionLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float32            `json:"token_logprobs"`
	TopLogprobs   []map[string]float32 `json:"top_logprobs"`
	// in characters, from the start of the answer
	TextOffset []int `json:"text_offset"`
}

// NewCompletionLogprobs makes the older form, nil of no tokens. offset is the place of the first
// token's text in the answer, in characters; the second result is that of the next token.
func NewCompletionLogprobs(tokens []Token, offset int) (*CompletionLogprobs, int) {
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
				// not the continuation of a character: those cut across tokens count once
				offset++
			}
		}
	}
	return l, offset
}

// text makes a token's bytes a text that JSON can carry.
func text(b []byte) string { return string([]rune(string(b))) }

// finite keeps numbers in what JSON can say: OpenAI too writes -9999 for "practically impossible".
func finite(logprob float32) float32 {
	if logprob >= -9999 { // false for NaN and -Inf
		return logprob
	}
	return -9999
}
