package anthropic

// The objects that Anthropic's API returns.

import "encoding/json"

// Message is a whole answer. In the first event of a stream it has no content yet.
type Message struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"` // "message"
	Role         string  `json:"role"` // "assistant"
	Model        string  `json:"model"`
	Content      []Block `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        Usage   `json:"usage"`
}

// Block is a content block of an answer: thinking, text or a call of a tool. Its other fields are
// nil.
type Block struct {
	Type      string          `json:"type"` // "thinking", "text" or "tool_use"
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	Text      *string         `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"` // a JSON object
}

// Usage counts the tokens of a request. The prompt has the sum of the first three.
type Usage struct {
	InputTokens         int            `json:"input_tokens"` // computed for this request
	CacheCreationTokens int            `json:"cache_creation_input_tokens"`
	CacheReadTokens     int            `json:"cache_read_input_tokens"`
	OutputTokens        int            `json:"output_tokens"`
	OutputTokensDetails *OutputDetails `json:"output_tokens_details,omitempty"`
}

// OutputDetails has the number of generated tokens that are thinking.
type OutputDetails struct {
	ThinkingTokens int `json:"thinking_tokens"`
}

// TokenCount is the response of /v1/messages/count_tokens.
type TokenCount struct {
	InputTokens int `json:"input_tokens"`
}

// The events of a stream. Their Type is also the name of the event.
type (
	messageStart struct {
		Type    string  `json:"type"`
		Message Message `json:"message"`
	}
	blockStart struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block Block  `json:"content_block"`
	}
	blockDelta struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Delta delta  `json:"delta"`
	}
	blockStop struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	messageDelta struct {
		Type  string `json:"type"`
		Delta ending `json:"delta"`
		Usage Usage  `json:"usage"`
	}
	plain struct { // message_stop and ping
		Type string `json:"type"`
	}
)

// delta is what an event adds to a block. Type says which of the fields is set.
type delta struct {
	Type        string  `json:"type"`
	Text        *string `json:"text,omitempty"`
	Thinking    *string `json:"thinking,omitempty"`
	Signature   *string `json:"signature,omitempty"`
	PartialJSON *string `json:"partial_json,omitempty"`
}

// ending says why an answer has ended.
type ending struct {
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
}

// ErrorBody is the body of an error response, and the last event of a stream that fails.
type ErrorBody struct {
	Type      string      `json:"type"` // "error"
	Error     ErrorDetail `json:"error"`
	RequestID string      `json:"request_id,omitempty"`
}

// ErrorDetail is Anthropic's error object. Message says what happened, why, and what to do.
type ErrorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}
