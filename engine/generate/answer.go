package generate

import (
	"time"

	"headroom/engine/draft"
)

// Head identifies an answer.
type Head struct {
	ID      string
	Model   string
	Created time.Time
	// Fingerprint changes with whatever may change the answer to the same request.
	Fingerprint string
	Cache       Caching // of the request
}

// Delta is a part of an answer: the text or the tool calls that one step adds.
type Delta struct {
	Content   string
	Reasoning string
	ToolCalls []ToolCall // each of them is complete
	// Tokens are the tokens generated since the previous delta: those of the text, the reasoning
	// and the tool calls, and those without text. It is nil unless Params.Logprobs is set.
	Tokens []Token
	// Accepted says that the token that completes the text was a draft that the model accepted.
	Accepted bool
	// Logprobs are those of Read.Tokens. A read has nothing else.
	Logprobs []float32
}

// Empty reports whether the delta adds no text, no tool call and no token.
func (d *Delta) Empty() bool {
	return d.Content == "" && d.Reasoning == "" && len(d.ToolCalls) == 0 && len(d.Tokens) == 0
}

// Answer is a complete answer: all its deltas joined, the finish reason and the usage.
type Answer struct {
	Delta
	Finish   FinishReason
	StopText string // the stop text that ended a chat's answer; "": none did
	Usage    Usage
}

// ToolCall is a function call that the model requests.
type ToolCall struct {
	Index     int    // number of the call in the answer, from 0
	ID        string // random; later messages refer to the call by it. APIs may add a prefix
	Name      string
	Arguments string // a JSON object
}

// Token is one token with its log-probability.
type Token struct {
	Bytes   []byte // its text; may be an incomplete character
	Logprob float32
	First   bool    // the first token of an echoed prompt, which has no log-probability
	Offset  int     // of its text in the answer, in characters; 0 in an answer to a conversation
	Top     []Token // the most likely tokens at this position, most likely first; their Top is nil
}

// FinishReason tells why an answer ended.
type FinishReason string

// The finish reasons, with OpenAI's values.
const (
	FinishStop      FinishReason = "stop"       // an end token or a stop text
	FinishLength    FinishReason = "length"     // the token limit or the end of the context
	FinishToolCalls FinishReason = "tool_calls" // tool calls, and nothing was cut off after them
)

// Usage counts the tokens of a request and has the times that the engine measured.
type Usage struct {
	PromptTokens     int
	CachedTokens     int // prompt tokens that came from the prefix cache
	CompletionTokens int
	ReasoningTokens  int // completion tokens that are reasoning
	// DraftTokens were proposed and verified; AcceptedTokens of them are completion tokens.
	DraftTokens, AcceptedTokens int
	Drafts                      draft.Ways // these by the way in which they were drafted

	FirstToken            time.Duration // from the request's arrival to its first token
	DecodeTokensPerSecond float64       // speed after the first token; 0 if there is only one
	Speedup               float64       // by drafts; see engine.Timing.Speedup
}
