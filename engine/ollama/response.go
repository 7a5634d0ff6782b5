package ollama

// The objects that Ollama's API returns.

import (
	"encoding/json"
	"time"
)

// Answer is a whole answer or one line of a streamed one. A chat has a Message, and /api/generate
// a Response.
type Answer struct {
	Model     string    `json:"model"` // as the request names it
	CreatedAt time.Time `json:"created_at"`
	Message   *Message  `json:"message,omitempty"`
	Response  *string   `json:"response,omitempty"`
	Thinking  string    `json:"thinking,omitempty"` // with Response
	Done      bool      `json:"done"`
	// DoneReason says why the answer is done: "stop", "length", "load" or "unload".
	DoneReason string    `json:"done_reason,omitempty"`
	Logprobs   []Logprob `json:"logprobs,omitempty"`
	*Figures             // nil unless an answer is done
}

// Message is an answer of the assistant, or a part of it.
type Message struct {
	Role      string     `json:"role"` // "assistant"
	Content   string     `json:"content"`
	Thinking  string     `json:"thinking,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall is a call of a function.
type ToolCall struct {
	ID       string       `json:"id"`
	Function FunctionCall `json:"function"`
}

// FunctionCall is the name of a function and its arguments, a JSON object.
type FunctionCall struct {
	Index     int             `json:"index"` // number of the call in the answer, from 0
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Figures are the tokens and the times of an answer. The durations are in nanoseconds.
type Figures struct {
	TotalDuration time.Duration `json:"total_duration"` // from the request to the end
	// LoadDuration is from the request to the encoded prompt: the model was loaded by then.
	LoadDuration       time.Duration `json:"load_duration"`
	PromptEvalCount    int           `json:"prompt_eval_count"` // all tokens of the prompt
	PromptEvalDuration time.Duration `json:"prompt_eval_duration"`
	EvalCount          int           `json:"eval_count"`
	// EvalDuration is such that EvalCount in this time is the speed after the first token.
	EvalDuration time.Duration `json:"eval_duration"`
}

// TokenLogprob is a token with its log-probability. Bytes are those of its text.
type TokenLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes,omitempty"`
}

// Logprob is a generated token, and the most likely tokens in its place.
type Logprob struct {
	TokenLogprob
	TopLogprobs []TokenLogprob `json:"top_logprobs,omitempty"`
}

// ErrorBody is the body of an error response, and the last line of a stream that fails.
type ErrorBody struct {
	Error string `json:"error"`
}

// ModelList is the response of GET /api/tags and GET /api/ps.
type ModelList struct {
	Models []Model `json:"models"`
}

// Model is an entry of GET /api/tags or, with the last four fields, of GET /api/ps.
type Model struct {
	Name       string     `json:"name"`
	Model      string     `json:"model"` // the same
	ModifiedAt *time.Time `json:"modified_at,omitempty"`
	Size       int64      `json:"size"` // in bytes: of the files, or of the memory
	// Digest changes with the files of the model. It is no checksum of them.
	Digest  string  `json:"digest"`
	Details Details `json:"details"`

	// ExpiresAt is when the model is unloaded if no request comes.
	ExpiresAt     *time.Time `json:"expires_at,omitempty"`
	SizeVRAM      *int64     `json:"size_vram,omitempty"` // the part of Size that a GPU uses
	ContextLength int        `json:"context_length,omitempty"`
}

// Details describe a model.
type Details struct {
	ParentModel       string   `json:"parent_model"` // ""
	Format            string   `json:"format"`       // "safetensors"
	Family            string   `json:"family"`       // the architecture
	Families          []string `json:"families"`
	ParameterSize     string   `json:"parameter_size"` // "8.2B"
	QuantizationLevel string   `json:"quantization_level"`
}

// Show is the response of POST /api/show.
type Show struct {
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Details      Details        `json:"details"`
	ModelInfo    map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	ModifiedAt   time.Time      `json:"modified_at"`
}
