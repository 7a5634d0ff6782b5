package openai

// Parsing of request bodies. The parser checks the encoding, then the types, then the ranges. For
// an unsupported parameter that would change the answer, it returns an error that names the
// parameter. It ignores unknown fields and unsupported parameters that are harmless.

import (
	"encoding/json"
	"slices"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/generate"
)

// Params are the parameters that chat completions and completions share.
type Params struct {
	generate.Params
	Model        string // "" means the loaded model
	Stream       bool
	Cache        generate.Caching // of the field cache, or of store, which is false: CacheMemory
	IncludeUsage bool             // stream_options.include_usage: a last chunk has the token counts
}

// ChatRequest is a POST to /v1/chat/completions.
type ChatRequest struct {
	Params
	Messages []Message // at least one
	// Tools are the functions that the prompt offers, each as the JSON of an entry of tools.
	Tools []json.RawMessage
	// NoCalls is true for a tool_choice of "none": the model may not call the tools, which stay in
	// the prompt, so that the cached prefix stays too.
	NoCalls bool
	// TemplateKwargs is the JSON object chat_template_kwargs: variables for the chat template. It
	// may be nil.
	TemplateKwargs json.RawMessage
	Effort         string // reasoning_effort, or reasoning.effort; "" if not sent
}

// CompletionRequest is a POST to /v1/completions.
type CompletionRequest struct {
	Params
	Prompts []generate.Prompt // at least one; each has a choice
}

// Limits of one request.
const (
	MaxTopLogprobs = 20
	maxStops       = 64
	maxStopBytes   = 4096
	maxLogitBias   = 65536
	maxMessages    = 16384
	maxTools       = 1024
	maxNameBytes   = 1024 // of a model or a function
	maxPrompts     = 2048 // of a completion; OpenAI's limit
)

// wireParams is the JSON form of Params.
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
	Store               *bool              `json:"store"`
	Cache               *string            `json:"cache"`
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
	ReasoningEffort    *string           `json:"reasoning_effort"`
	Reasoning          *wireReasoning    `json:"reasoning"`
	EnableThinking     *bool             `json:"enable_thinking"`
	Think              json.RawMessage   `json:"think"`
	Functions          []json.RawMessage `json:"functions"`
	ResponseFormat     *wireFormat       `json:"response_format"`
}

// wireReasoning is how OpenRouter's clients send the effort.
type wireReasoning struct {
	Effort  *string `json:"effort"`
	Enabled *bool   `json:"enabled"`
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

// ParseChat parses the body of a request for a chat completion. The error is an *Error.
func ParseChat(body []byte) (*ChatRequest, error) {
	if err := check(body); err != nil {
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
		func() (err error) { r.Tools, r.NoCalls, err = parseTools(w.Tools, w.ToolChoice); return },
		func() (err error) {
			r.TemplateKwargs, err = object("chat_template_kwargs", w.ChatTemplateKwargs)
			return
		},
		func() error { return r.readEffort(&w) },
	)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ParseCompletion parses the body of a request for a text completion. The error is an *Error.
func ParseCompletion(body []byte) (*CompletionRequest, error) {
	if err := check(body); err != nil {
		return nil, err
	}
	var w wireCompletion
	if err := decode(body, &w, ""); err != nil {
		return nil, err
	}
	r := &CompletionRequest{}
	err := first(
		func() error { return r.readNoAnswer(&w) },
		func() error { return r.Params.read(&w.wireParams) },
		func() error { return r.readExtras(&w) },
		func() (err error) { r.Prompts, err = parsePrompts(w.Prompt); return },
	)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// first runs the steps in order and returns the first error.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Params) read(w *wireParams) error {
	if len(w.Model) > maxNameBytes {
		return badParam("model", "at most %d bytes, got %d", maxNameBytes, len(w.Model))
	}
	p.Model = w.Model
	p.Stream = w.Stream != nil && *w.Stream
	if w.StreamOptions != nil && w.StreamOptions.IncludeUsage != nil {
		p.IncludeUsage = *w.StreamOptions.IncludeUsage
	}
	p.Temperature, p.TopP, p.TopK, p.MinP = w.Temperature, w.TopP, w.TopK, w.MinP
	p.RepetitionPenalty, p.PresencePenalty = w.RepetitionPenalty, w.PresencePenalty
	p.FrequencyPenalty, p.Seed = w.FrequencyPenalty, w.Seed
	return first(
		p.Normalize,
		func() error { return p.readCaching(w) },
		func() error { return p.readMaxTokens(w) },
		func() error { return onlyOne("n", w.N) },
		func() (err error) { p.Stop, err = parseStop(w.Stop); return },
		func() (err error) { p.LogitBias, err = parseLogitBias(w.LogitBias); return },
	)
}

// readCaching reads cache, which is Headroom's, or else store, which is OpenAI's.
func (p *Params) readCaching(w *wireParams) (err error) {
	switch {
	case w.Cache != nil:
		p.Cache, err = generate.ParseCaching("cache", *w.Cache)
	case w.Store != nil && !*w.Store:
		p.Cache = generate.CacheMemory
	}
	return err
}

// readMaxTokens reads max_completion_tokens, or else max_tokens.
func (p *Params) readMaxTokens(w *wireParams) (err error) {
	switch {
	case w.MaxCompletionTokens != nil:
		p.MaxTokens, err = generate.TokenLimit("max_completion_tokens", *w.MaxCompletionTokens)
	case w.MaxTokens != nil:
		p.MaxTokens, err = generate.TokenLimit("max_tokens", *w.MaxTokens)
	}
	return err
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

// readNoAnswer reads a max_tokens of 0, which only a completion may have: the client wants the
// prompt's log-probabilities, or its keys and values in the cache.
func (r *CompletionRequest) readNoAnswer(w *wireCompletion) error {
	for _, limit := range []**int{&w.MaxCompletionTokens, &w.MaxTokens} {
		if *limit != nil {
			r.NoAnswer = **limit == 0
			if r.NoAnswer {
				w.MaxCompletionTokens, w.MaxTokens = nil, nil
			}
			break
		}
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
	r.Echo = w.Echo != nil && *w.Echo
	switch {
	case w.Suffix != nil && *w.Suffix != "":
		return badParam("suffix", "is not supported: text cannot be inserted before a suffix")
	}
	return onlyOne("best_of", w.BestOf)
}

// readEffort reads how much the model shall think: reasoning_effort, which is OpenAI's, or else
// reasoning, or else think, which is Ollama's, or else enable_thinking.
func (r *ChatRequest) readEffort(w *wireChat) error {
	name, effort := "reasoning_effort", w.ReasoningEffort
	enabled := w.EnableThinking
	var think *bool
	var word *string
	switch {
	case isNull(w.Think):
	case json.Unmarshal(w.Think, &think) == nil:
		enabled = think
	case json.Unmarshal(w.Think, &word) != nil:
		return badParam("think", "expected a boolean or an effort, got %s", kind(w.Think))
	}
	if w.Reasoning != nil {
		if effort == nil {
			name, effort = "reasoning.effort", w.Reasoning.Effort
		}
		if w.Reasoning.Enabled != nil {
			enabled = w.Reasoning.Enabled
		}
	}
	if effort == nil && word != nil {
		name, effort = "think", word
	}
	switch {
	case effort != nil && !slices.Contains(chat.Efforts, *effort):
		return badParam(name, "must be one of %s, got %q", strings.Join(chat.Efforts, ", "),
			*effort)
	case effort != nil:
		r.Effort = *effort
	}
	if enabled != nil {
		r.TemplateKwargs = generate.WithDefault(r.TemplateKwargs, "enable_thinking", *enabled)
	}
	return nil
}

// refuseUnsupported returns an error for unsupported parameters that would change the form of the
// answer. If they were ignored, a client would notice only when it reads the answer.
func refuseUnsupported(w *wireChat) error {
	switch {
	case len(w.Functions) > 0:
		return badParam("functions", "is deprecated and not supported. Send tools")
	case w.ResponseFormat != nil && w.ResponseFormat.Type != "text" && w.ResponseFormat.Type != "":
		return badParam("response_format", "%q is not supported, only \"text\"",
			w.ResponseFormat.Type)
	}
	return nil
}

func onlyOne(name string, n *int) error {
	if n != nil && *n != 1 {
		return badParam(name,
			"must be 1, got %d: a request has one answer. Send it again for another one", *n)
	}
	return nil
}
