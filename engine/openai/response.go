package openai

// The objects that OpenAI's API returns, and their constructors.

import (
	"cmp"
	"time"

	"headroom/engine/draft"
	"headroom/engine/server"
)

// The values of the field "object".
const (
	objectChat       = "chat.completion"
	objectChatChunk  = "chat.completion.chunk"
	objectCompletion = "text_completion"
	objectModel      = "model"
	objectList       = "list"
)

// Usage counts the tokens of a request.
type Usage struct {
	PromptTokens            int               `json:"prompt_tokens"`
	CompletionTokens        int               `json:"completion_tokens"`
	TotalTokens             int               `json:"total_tokens"`
	PromptTokensDetails     PromptDetails     `json:"prompt_tokens_details"`
	CompletionTokensDetails CompletionDetails `json:"completion_tokens_details"`
	Timings                 *Timings          `json:"timings,omitempty"`
}

// Timings are times measured in the engine. OpenAI's usage does not have them, but other servers
// add them too. Clients cannot measure them, because the arrival times of chunks include the
// network.
type Timings struct {
	FirstTokenSeconds float64 `json:"first_token_seconds"`
	// DecodeTokensPerSecond is 0 if there was only one token.
	DecodeTokensPerSecond float64 `json:"decode_tokens_per_second"`
	// Speedup is how many times as fast as without drafts the answer was decoded, by estimate. It
	// is left out if there were no drafts.
	Speedup float64 `json:"gained,omitzero"`
	// Drafts are the tokens that were proposed, by the way in which they were drafted; without
	// ways that proposed none.
	Drafts draft.Ways `json:"drafts,omitzero"`
}

// PromptDetails has the number of prompt tokens that came from the prefix cache.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// CompletionDetails has the number of generated tokens that are reasoning, and what became of the
// tokens that were proposed, if there were any: those of the request's prediction, or all of them
// if it has none. Rejected ones are not completion tokens.
type CompletionDetails struct {
	ReasoningTokens          int  `json:"reasoning_tokens"`
	AcceptedPredictionTokens *int `json:"accepted_prediction_tokens,omitempty"`
	RejectedPredictionTokens *int `json:"rejected_prediction_tokens,omitempty"`
}

// NewUsage returns the token counts of a request.
func NewUsage(prompt, cached, completion, reasoning int) *Usage {
	return &Usage{
		PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion,
		PromptTokensDetails:     PromptDetails{cached},
		CompletionTokensDetails: CompletionDetails{ReasoningTokens: reasoning},
	}
}

// Head identifies an answer. All chunks of a stream have the same Head.
type Head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // unix seconds
	Model   string `json:"model"`
	// SystemFingerprint changes with whatever may change the answer to the same request.
	SystemFingerprint string `json:"system_fingerprint,omitempty"`
}

// Chat is a whole chat completion, or one chunk of a streamed one.
type Chat struct {
	Head
	Choices []ChatChoice `json:"choices"`
	Usage   *Usage       `json:"usage,omitempty"`
}

// ChatChoice has a Message in a whole answer, and a Delta in a chunk.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      *ChatMessage  `json:"message,omitempty"`
	Delta        *ChatDelta    `json:"delta,omitempty"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

// ChatMessage is the answer. Empty reasoning fields are omitted. Content is null if the answer has
// only tool calls.
type ChatMessage struct {
	Role             string     `json:"role"`
	Content          *string    `json:"content"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"` // equal to ReasoningContent
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
}

// ChatDelta is the part of the answer that a chunk adds. Empty fields are omitted.
type ChatDelta struct {
	Role             string     `json:"role,omitempty"`
	Content          *string    `json:"content,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"` // equal to ReasoningContent
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
	// AcceptedPrediction says that the text was an accepted draft; only if the request asks for it.
	AcceptedPrediction bool `json:"accepted_prediction,omitempty"`
}

// ChatText is the text of a whole answer or of one chunk. Empty fields are omitted from the JSON.
type ChatText struct {
	Index              int // of the choice
	Content, Reasoning string
	ToolCalls          []ToolCall    // each of them is complete
	Logprobs           *ChatLogprobs // may be nil
	Accepted           bool          // the text was an accepted draft; only in chunks
}

// NewChat returns a whole chat completion with its choices.
func NewChat(head Head, usage *Usage, choices ...ChatChoice) *Chat {
	head.Object = objectChat
	return &Chat{Head: head, Choices: choices, Usage: usage}
}

// NewChatChoice returns a choice of a whole chat completion.
func NewChatChoice(t ChatText, finish string) ChatChoice {
	message := &ChatMessage{Role: "assistant", ReasoningContent: t.Reasoning,
		Reasoning: t.Reasoning, ToolCalls: withoutIndex(t.ToolCalls)}
	if t.Content != "" || len(t.ToolCalls) == 0 {
		message.Content = &t.Content
	}
	return ChatChoice{Index: t.Index, Message: message, Logprobs: t.Logprobs,
		FinishReason: &finish}
}

// NewChatRole returns the first chunk of a choice in a stream. It has the role and an empty
// content, because some clients append to the content of the first chunk.
func NewChatRole(head Head, index int) *Chat {
	return chatChunk(head, ChatChoice{Index: index,
		Delta: &ChatDelta{Role: "assistant", Content: new("")}})
}

// NewChatText returns a chunk with text, reasoning or tool calls. Its content is empty if it has
// only log-probabilities.
func NewChatText(head Head, t ChatText) *Chat {
	delta := &ChatDelta{ReasoningContent: t.Reasoning, Reasoning: t.Reasoning,
		ToolCalls: t.ToolCalls, AcceptedPrediction: t.Accepted}
	if t.Content != "" || t.Reasoning == "" && len(t.ToolCalls) == 0 {
		delta.Content = &t.Content
	}
	return chatChunk(head, ChatChoice{Index: t.Index, Delta: delta, Logprobs: t.Logprobs})
}

// NewChatFinish returns the chunk with the finish reason of a choice.
func NewChatFinish(head Head, index int, finish string) *Chat {
	return chatChunk(head, ChatChoice{Index: index, Delta: &ChatDelta{}, FinishReason: &finish})
}

// NewChatUsage returns the last chunk, which has the usage and no choices.
func NewChatUsage(head Head, usage *Usage) *Chat {
	head.Object = objectChatChunk
	return &Chat{Head: head, Choices: []ChatChoice{}, Usage: usage}
}

func chatChunk(head Head, choice ChatChoice) *Chat {
	head.Object = objectChatChunk
	return &Chat{Head: head, Choices: []ChatChoice{choice}}
}

// Completion is a whole text completion, or one chunk of a streamed one. Both have the same form.
type Completion struct {
	Head
	Choices []CompletionChoice `json:"choices"`
	Usage   *Usage             `json:"usage,omitempty"`
}

// CompletionChoice has the text of a whole answer or of one chunk.
type CompletionChoice struct {
	Index        int                 `json:"index"`
	Text         string              `json:"text"`
	Logprobs     *CompletionLogprobs `json:"logprobs"`
	FinishReason *string             `json:"finish_reason"`
}

// NewCompletion returns a whole text completion or a chunk. usage may be nil.
func NewCompletion(head Head, usage *Usage, choices ...CompletionChoice) *Completion {
	head.Object = objectCompletion
	return &Completion{Head: head, Choices: choices, Usage: usage}
}

// NewCompletionChoice returns the choice with number index. An empty finish means that more chunks
// follow.
func NewCompletionChoice(index int, text, finish string,
	logprobs *CompletionLogprobs) CompletionChoice {
	choice := CompletionChoice{Index: index, Text: text, Logprobs: logprobs}
	if finish != "" {
		choice.FinishReason = &finish
	}
	return choice
}

// NewCompletionUsage returns the last chunk, which has the usage and no choices.
func NewCompletionUsage(head Head, usage *Usage) *Completion {
	head.Object = objectCompletion
	return &Completion{Head: head, Choices: []CompletionChoice{}, Usage: usage}
}

// Model is an entry of /v1/models. It has the fields of OpenAI's and of Anthropic's API.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // unix seconds
	OwnedBy string `json:"owned_by"`
	Root    string `json:"root"` // the ID of the model, of which ID may be an alias
	// Parent is the ID of the model of which this entry is an adapter, as in vLLM.
	Parent string `json:"parent,omitempty"`
	// The length of the context in tokens, under the names of vLLM, OpenRouter and llama-server; 0:
	// unknown.
	MaxModelLen   int        `json:"max_model_len,omitempty"`
	ContextLength int        `json:"context_length,omitempty"`
	Meta          *ModelMeta `json:"meta,omitempty"`
	// State is "loaded", "loading" or "unloaded". A request for an unloaded model loads it.
	State server.ModelState `json:"state,omitempty"`
	// Machines are the names of the other machines that have the model, and OnlyElsewhere says that
	// this one does not.
	Machines      []string `json:"machines,omitempty"`
	OnlyElsewhere bool     `json:"only_elsewhere,omitempty"`
	Modalities    []string `json:"modalities"` // of prompts and answers

	// The fields of Anthropic's list.
	Type           string `json:"type"` // "model"
	DisplayName    string `json:"display_name"`
	CreatedAt      string `json:"created_at"` // RFC 3339
	Lifecycle      string `json:"lifecycle"`  // "active"
	MaxInputTokens int    `json:"max_input_tokens,omitempty"`
}

// ModelMeta has what llama-server tells about a model.
type ModelMeta struct {
	ContextTokens int `json:"n_ctx"`
}

// NewModel returns an entry of /v1/models.
func NewModel(m server.ModelInfo, created int64) Model {
	model := Model{ID: m.ID, Object: objectModel, Created: created, OwnedBy: "headroom",
		Root: cmp.Or(m.Base, m.ID), Parent: m.Base, MaxModelLen: m.ContextTokens,
		ContextLength: m.ContextTokens, State: m.State, Machines: m.Machines,
		OnlyElsewhere: m.OnlyElsewhere,
		Modalities:    []string{"text"}, Type: objectModel, DisplayName: m.ID,
		CreatedAt: time.Unix(created, 0).UTC().Format(time.RFC3339), Lifecycle: "active",
		MaxInputTokens: m.ContextTokens}
	if m.ContextTokens > 0 {
		model.Meta = &ModelMeta{m.ContextTokens}
	}
	return model
}

// As returns the entry of the same model under another name.
func (m Model) As(name string) Model {
	m.ID, m.DisplayName = name, name
	return m
}

// ModelList is the response of /v1/models. It has all models, so there are no more pages.
type ModelList struct {
	Object  string  `json:"object"`
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"` // null: there are no models
	LastID  *string `json:"last_id"`
}

// NewModelList returns a ModelList. Without models, its JSON has an empty array and not null.
func NewModelList(models []Model) ModelList {
	list := ModelList{Object: objectList, Data: append([]Model{}, models...)}
	if n := len(models); n > 0 {
		list.FirstID, list.LastID = &models[0].ID, &models[n-1].ID
	}
	return list
}
