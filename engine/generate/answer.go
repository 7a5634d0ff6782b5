package generate

import "time"

// Head identifies an answer.
type Head struct {
	ID      string
	Model   string
	Created time.Time
}

// Delta is what a step adds to an answer.
type Delta struct {
	Content   string
	Reasoning string
	ToolCalls []ToolCall // each complete
	Tokens    []Token    // of Content; nil unless the request asks for log-probabilities
}

// Empty reports whether the delta adds no text and no tool call.
func (d *Delta) Empty() bool {
	return d.Content == "" && d.Reasoning == "" && len(d.ToolCalls) == 0
}

// Answer is a complete answer: the sum of its deltas, and how it ended.
type Answer struct {
	Delta
	Finish FinishReason
	Usage  Usage
}

// ToolCall is a call of a function that the model asks for.
type ToolCall struct {
	Index     int    // in the answer, from 0
	ID        string // refers to the call in later messages: random, without any API's prefix
	Name      string
	Arguments string // a JSON object
}

// Token is one token with its log-probability.
type Token struct {
	Bytes   []byte // may be only a part of a character
	Logprob float32
	Top     []Token // the most likely candidates, the first the likeliest; their Top is nil
}

// FinishReason says why an answer ended.
type FinishReason string

// The reasons for the end of an answer, in OpenAI's words.
const (
	FinishStop      FinishReason = "stop"       // the model ended it, or a stop text did
	FinishLength    FinishReason = "length"     // the limit of tokens, or the end of the context
	FinishToolCalls FinishReason = "tool_calls" // the model ended it with calls of functions
)

// Usage counts the tokens of a request and has the engine's own times.
type Usage struct {
	PromptTokens     int
	CachedTokens     int // of the prompt, not computed again
	CompletionTokens int
	ReasoningTokens  int // of the completion

	FirstToken            time.Duration // from the request's arrival to its first token
	DecodeTokensPerSecond float64       // after the first token; 0 when there was no second
}
