package generate

import "time"

// Head identifies an answer.
type Head struct {
	ID      string
	Model   string
	Created time.Time
}

// Delta is the addition of one step to an answer.
type Delta struct {
	Content   string
	Reasoning string
	ToolCalls []ToolCall // each complete
	Tokens    []Token    // of Content; nil unless Params.Logprobs is set
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
	Bytes   []byte // possibly a part of a character
	Logprob float32
	Top     []Token // the most likely candidates, most likely first; their Top is nil
}

// FinishReason is the reason why an answer ended.
type FinishReason string

// The finish reasons, with OpenAI's names.
const (
	FinishStop      FinishReason = "stop"       // an end token or a stop string
	FinishLength    FinishReason = "length"     // the token limit or the end of the context
	FinishToolCalls FinishReason = "tool_calls" // an end token after tool calls
)

// Usage counts the tokens of a request and has the engine's own times.
type Usage struct {
	PromptTokens     int
	CachedTokens     int // of the prompt, from the prefix cache
	CompletionTokens int
	ReasoningTokens  int // of the completion

	FirstToken            time.Duration // from the request's arrival to its first token
	DecodeTokensPerSecond float64       // after the first token; 0 without a second
}
