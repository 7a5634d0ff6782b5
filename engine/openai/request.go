package openai

// Request bodies, from JSON to checked values in three steps: the text, the types, the ranges. What
// is not supported and would change the answer is refused by name; fields that are unknown or
// harmless are ignored, since clients send many.

import (
	"encoding/json"
	"math"
)

// Params are the parameters that chat and text completions share. A nil pointer means that the
// request does not say.
type Params struct {
	Model string // "" means the model that runs

	Stream       bool
	IncludeUsage bool // stream_options.include_usage: a last chunk with the counts

	// of the answer; 0: what the context leaves. max_completion_tokens wins over max_tokens
	MaxTokens int
	Stop      []string // none empty

	Temperature       *float64 // [0, 2]
	TopP              *float64 // [0, 1]
	TopK              *int     // 0: off (-1 comes in as 0)
	MinP              *float64 // [0, 1]
	RepetitionPenalty *float64 // over 0; 1: off (0 comes in as 1, as mlx-lm means it)
	PresencePenalty   *float64 // [-2, 2]
	FrequencyPenalty  *float64 // [-2, 2]
	LogitBias         map[int32]float32
	Seed              *int64

	Logprobs    bool // of each token
	TopLogprobs int  // and of so many of the likeliest, at most MaxTopLogprobs
}

// ChatRequest is a POST to /v1/chat/completions.
type ChatRequest struct {
	Params
	Messages []Message // at least one
	// Tools are the functions that the model may call, each a whole entry of tools as it came. With
	// tool_choice "none" it is to call none and does not see them: they are nil.
	Tools []json.RawMessage
	// TemplateKwargs are chat_template_kwargs, variables for the chat template: a JSON object, or
	// nil.
	TemplateKwargs json.RawMessage
}

// CompletionRequest is a POST to /v1/completions. One of Prompt and PromptTokens is set.
type CompletionRequest struct {
	Params
	Prompt       string
	PromptTokens []int32
}

// Limits of what one request may ask for.
const (
	MaxTopLogprobs = 20
	maxStops       = 64
	maxStopBytes   = 4096
	maxLogitBias   = 65536
)

// wireParams is Params as it comes.
type wireParams struct {
	Model               string             `json:"model"`
	Stream              *bool              `json:"stream"`
	StreamOptions       *wireStreamOptions `json:"stream_options"`
	MaxTokens           *int               `json:"max_tokens"`
	MaxCompletionTokens *int               `json:"max_completion_tokens"`
	Stop                json.RawMessage    `json:"stop"`
	N                   *int               `json:"n"`
	Temperature         *float64           `json:"temperature"`
	TopP                *float64           `json:"top_p"`
	TopK                *int               `json:"top_k"`
	MinP                *float64           `json:"min_p"`
	RepetitionPenalty   *float64           `json:"repetition_penalty"`
	PresencePenalty     *float64           `json:"presence_penalty"`
	FrequencyPenalty    *float64           `json:"frequency_penalty"`
	LogitBias           json.RawMessage    `json:"logit_bias"`
	Seed                *int64             `json:"seed"`
}

type wireStreamOptions struct {
	IncludeUsage *bool `json:"include_usage"`
}

type wireChat struct {
	wireParams
	Messages           []json.RawMessage `json:"messages"`
	Logprobs           *bool             `json:"logprobs"`
	TopLogprobs        *int              `json:"top_logprobs"`
	ChatTemplateKwargs json.RawMessage   `json:"chat_template_kwargs"`
	Tools              []json.RawMessage `json:"tools"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Functions          []json.RawMessage `json:"functions"`
	ResponseFormat     *wireFormat       `json:"response_format"`
}

type wireFormat struct {
	Type string `json:"type"`
}

type wireCompletion struct {
	wireParams
	Prompt   json.RawMessage `json:"prompt"`
	Logprobs *int            `json:"logprobs"`
	Echo     *bool           `json:"echo"`
	BestOf   *int            `json:"best_of"`
	Suffix   *string         `json:"suffix"`
}

// ParseChat reads the body of a chat completion. The error is an *Error.
func ParseChat(body []byte) (*ChatRequest, error) {
	if err := checkText(body); err != nil {
		return nil, err
	}
	var w wireChat
	if err := decode(body, &w, ""); err != nil {
		return nil, err
	}
	r := &ChatRequest{}
	err := first(
		func() error { return r.Params.read(&w.wireParams) },
		func() error { return r.readLogprobs(&w) },
		func() error { return refuseUnsupported(&w) },
		func() (err error) { r.Messages, err = parseMessages(w.Messages); return },
		func() (err error) { r.Tools, err = parseTools(w.Tools, w.ToolChoice); return },
		func() (err error) {
			r.TemplateKwargs, err = object("chat_template_kwargs", w.ChatTemplateKwargs)
			return
		},
	)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ParseCompletion reads the body of a text completion. The error is an *Error.
func ParseCompletion(body []byte) (*CompletionRequest, error) {
	if err := checkText(body); err != nil {
		return nil, err
	}
	var w wireCompletion
	if err := decode(body, &w, ""); err != nil {
		return nil, err
	}
	r := &CompletionRequest{}
	err := first(
		func() error { return r.Params.read(&w.wireParams) },
		func() error { return r.readExtras(&w) },
		func() (err error) { r.Prompt, r.PromptTokens, err = parsePrompt(w.Prompt); return },
	)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// first runs the steps up to the first that fails.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Params) read(w *wireParams) error {
	p.Model = w.Model
	p.Stream = w.Stream != nil && *w.Stream
	if w.StreamOptions != nil && w.StreamOptions.IncludeUsage != nil {
		p.IncludeUsage = *w.StreamOptions.IncludeUsage
	}
	p.Temperature, p.TopP, p.MinP = w.Temperature, w.TopP, w.MinP
	p.PresencePenalty, p.FrequencyPenalty, p.Seed = w.PresencePenalty, w.FrequencyPenalty, w.Seed
	return first(
		func() error { return within("temperature", w.Temperature, 0, 2) },
		func() error { return within("top_p", w.TopP, 0, 1) },
		func() error { return within("min_p", w.MinP, 0, 1) },
		func() error { return within("presence_penalty", w.PresencePenalty, -2, 2) },
		func() error { return within("frequency_penalty", w.FrequencyPenalty, -2, 2) },
		func() error { return p.readTopK(w.TopK) },
		func() error { return p.readRepetition(w.RepetitionPenalty) },
		func() error { return p.readMaxTokens(w) },
		func() error { return onlyOne("n", w.N) },
		func() (err error) { p.Stop, err = parseStop(w.Stop); return },
		func() (err error) { p.LogitBias, err = parseLogitBias(w.LogitBias); return },
	)
}

func (p *Params) readTopK(k *int) error {
	if k == nil {
		return nil
	}
	if *k < -1 {
		return badParam("top_k", "must be at least 1, or 0 or -1 for off, got %d", *k)
	}
	p.TopK = new(max(*k, 0))
	return nil
}

func (p *Params) readRepetition(penalty *float64) error {
	if penalty == nil {
		return nil
	}
	if *penalty < 0 || *penalty > 100 {
		return badParam("repetition_penalty", "must be over 0 and at most 100 (1 is off), got %v",
			*penalty)
	}
	p.RepetitionPenalty = penalty
	if *penalty == 0 {
		p.RepetitionPenalty = new(1.0)
	}
	return nil
}

// readMaxTokens takes -1 for "no limit" too, as llama.cpp's and LM Studio's clients send it.
func (p *Params) readMaxTokens(w *wireParams) error {
	name, limit := "max_tokens", w.MaxTokens
	if w.MaxCompletionTokens != nil {
		name, limit = "max_completion_tokens", w.MaxCompletionTokens
	}
	switch {
	case limit == nil || *limit == -1:
		return nil
	case *limit < 1:
		return badParam(name,
			"must be at least 1, got %d. Leave it out for all that the context holds", *limit)
	}
	p.MaxTokens = *limit
	return nil
}

func (r *ChatRequest) readLogprobs(w *wireChat) error {
	r.Logprobs = w.Logprobs != nil && *w.Logprobs
	if w.TopLogprobs == nil || *w.TopLogprobs == 0 {
		return nil
	}
	switch n := *w.TopLogprobs; {
	case n < 0 || n > MaxTopLogprobs:
		return badParam("top_logprobs", "must be between 0 and %d, got %d", MaxTopLogprobs, n)
	case !r.Logprobs:
		return badParam("top_logprobs", "needs logprobs to be true")
	default:
		r.TopLogprobs = n
	}
	return nil
}

func (r *CompletionRequest) readExtras(w *wireCompletion) error {
	if w.Logprobs != nil {
		if n := *w.Logprobs; n < 0 || n > MaxTopLogprobs {
			return badParam("logprobs", "must be between 0 and %d, got %d", MaxTopLogprobs, n)
		}
		r.Logprobs, r.TopLogprobs = true, *w.Logprobs
	}
	switch {
	case w.Echo != nil && *w.Echo:
		return badParam("echo", "is not supported: the answer never repeats the prompt")
	case w.Suffix != nil && *w.Suffix != "":
		return badParam("suffix", "is not supported: text is continued, not filled in")
	}
	return onlyOne("best_of", w.BestOf)
}

// refuseUnsupported names what would change the answer's form and is not there, so that a client
// learns it at once and not from an answer that ignores it.
func refuseUnsupported(w *wireChat) error {
	switch {
	case len(w.Functions) > 0:
		return badParam("functions", "is the older form and not supported. Send tools")
	case w.ResponseFormat != nil && w.ResponseFormat.Type != "text" && w.ResponseFormat.Type != "":
		return badParam("response_format", "%q is not supported by this version, only \"text\"",
			w.ResponseFormat.Type)
	}
	return nil
}

func within(name string, v *float64, low, high float64) error {
	if v != nil && (math.IsNaN(*v) || *v < low || *v > high) {
		return badParam(name, "must be between %g and %g, got %v", low, high, *v)
	}
	return nil
}

func onlyOne(name string, n *int) error {
	if n != nil && *n != 1 {
		return badParam(name,
			"must be 1, got %d: a request has one answer. Send it again for another", *n)
	}
	return nil
}
