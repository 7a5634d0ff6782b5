package responses

// The objects that OpenAI's API returns.

import "encoding/json"

// The states of responses and items.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// Response is a whole answer. In the first events of a stream it has no output yet.
type Response struct {
	ID          string      `json:"id"`
	Object      string      `json:"object"`     // "response"
	CreatedAt   int64       `json:"created_at"` // unix seconds
	CompletedAt *int64      `json:"completed_at"`
	Status      string      `json:"status"`
	Background  bool        `json:"background"`
	Error       *Failure    `json:"error"`
	Incomplete  *Incomplete `json:"incomplete_details"`
	Model       string      `json:"model"`
	Output      []any       `json:"output"` // of *Reasoning, *Message, *Call and *CustomCall
	Store       bool        `json:"store"`
	Usage       *Usage      `json:"usage"`
	Echo
}

// Echo is what a response repeats of its request.
type Echo struct {
	Instructions       *string           `json:"instructions"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	Metadata           map[string]string `json:"metadata"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Reasoning          ReasoningEcho     `json:"reasoning"`
	Temperature        *float64          `json:"temperature"`
	Text               TextEcho          `json:"text"`
	ToolChoice         any               `json:"tool_choice"`
	Tools              []json.RawMessage `json:"tools"`
	TopP               *float64          `json:"top_p"`
	Truncation         string            `json:"truncation"`
}

// ReasoningEcho repeats the field reasoning.
type ReasoningEcho struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// TextEcho repeats the field text.
type TextEcho struct {
	Format json.RawMessage `json:"format"`
}

// echoBytes returns about how much memory the request's part of a response takes.
func (e *Echo) echoBytes() int {
	n := len(e.Text.Format)
	for _, tool := range e.Tools {
		n += len(tool)
	}
	if e.Instructions != nil {
		n += len(*e.Instructions)
	}
	for name, value := range e.Metadata {
		n += len(name) + len(value)
	}
	return n
}

// Failure says why a response has failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Incomplete says why a response is incomplete.
type Incomplete struct {
	Reason string `json:"reason"` // "max_output_tokens"
}

// Usage counts the tokens of a request.
type Usage struct {
	InputTokens         int           `json:"input_tokens"`
	InputTokensDetails  InputDetails  `json:"input_tokens_details"`
	OutputTokens        int           `json:"output_tokens"`
	OutputTokensDetails OutputDetails `json:"output_tokens_details"`
	TotalTokens         int           `json:"total_tokens"`
}

// InputDetails has the number of prompt tokens that came from the prefix cache.
type InputDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// OutputDetails has the number of generated tokens that are reasoning.
type OutputDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// Part is a part of an item: "output_text", "reasoning_text" or "summary_text". The other fields
// are those of the first.
type Part struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations,omitzero"`
	Logprobs    []any  `json:"logprobs,omitzero"`
}

// Reasoning is an item with the reasoning of an answer, as its summary or as its content.
type Reasoning struct {
	ID               string  `json:"id"`
	Type             string  `json:"type"` // "reasoning"
	Status           string  `json:"status"`
	Summary          []Part  `json:"summary"`
	Content          []Part  `json:"content,omitzero"`
	EncryptedContent *string `json:"encrypted_content,omitempty"`
}

// Message is an item with the text of an answer.
type Message struct {
	ID      string `json:"id"`
	Type    string `json:"type"` // "message"
	Status  string `json:"status"`
	Role    string `json:"role"` // "assistant"
	Content []Part `json:"content"`
}

// Call is an item with the call of a function.
type Call struct {
	ID        string `json:"id"`
	Type      string `json:"type"` // "function_call"
	Status    string `json:"status"`
	CallID    string `json:"call_id"` // the client repeats it with the output
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // a JSON object
}

// CustomCall is an item with the call of a custom tool.
type CustomCall struct {
	ID     string `json:"id"`
	Type   string `json:"type"` // "custom_tool_call"
	Status string `json:"status"`
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Input  string `json:"input"`
}

// event is an event of a stream. Its type, which is also the name of the event, says which fields
// are set.
type event struct {
	Type         string    `json:"type"`
	Sequence     int       `json:"sequence_number"` // from 0
	Response     *Response `json:"response,omitempty"`
	OutputIndex  *int      `json:"output_index,omitempty"`
	ItemID       string    `json:"item_id,omitempty"`
	Item         any       `json:"item,omitempty"`
	ContentIndex *int      `json:"content_index,omitempty"`
	SummaryIndex *int      `json:"summary_index,omitempty"`
	Part         *Part     `json:"part,omitempty"`
	Name         string    `json:"name,omitempty"`
	Delta        *string   `json:"delta,omitempty"`
	Text         *string   `json:"text,omitempty"`
	Arguments    *string   `json:"arguments,omitempty"`
	Input        *string   `json:"input,omitempty"`
	Logprobs     []any     `json:"logprobs,omitzero"`
}

// TokenCount is the response of /v1/responses/input_tokens.
type TokenCount struct {
	Object      string `json:"object"` // "response.input_tokens"
	InputTokens int    `json:"input_tokens"`
}

// ItemList is the response of /v1/responses/ID/input_items.
type ItemList struct {
	Object  string            `json:"object"` // "list"
	Data    []json.RawMessage `json:"data"`
	FirstID *string           `json:"first_id"` // null: there are no items
	LastID  *string           `json:"last_id"`
	HasMore bool              `json:"has_more"`
}

// Deleted is the response to a DELETE.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "response"
	Deleted bool   `json:"deleted"`
}
