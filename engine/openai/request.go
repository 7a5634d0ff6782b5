package openai

// Parsing of request bodies. The parser checks the encoding, then the fields (fields.go), the types
// and the ranges.

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
	"headroom/engine/server"
)

// Params are the parameters that chat completions and completions share.
type Params struct {
	generate.Params
	Model        string // "" means the loaded model
	Stream       bool
	Cache        generate.Caching // of the field cache, or of store, which is false: CacheMemory
	IncludeUsage bool             // stream_options.include_usage: a last chunk has the token counts
	// IncludeDrafts is stream_options.include_drafts, which the app's window sends: a chunk of a
	// chat says whether its text was an accepted draft.
	IncludeDrafts bool
	N             int // answers for each prompt, at least 1
	// Predicted says that there is a prediction, even one without text.
	Predicted bool
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
	// Continue continues the last message, which is an assistant's without tool calls.
	Continue           bool
	NoGenerationPrompt bool // add_generation_prompt is false
	OneCall            bool // parallel_tool_calls is false
	HideReasoning      bool // include_reasoning is false, or reasoning.exclude is true
}

// CompletionRequest is a POST to /v1/completions.
type CompletionRequest struct {
	Params
	Prompts []generate.Prompt // at least one; each has a choice
	Suffix  string            // follows each answer; "": none
}

// Limits of one request.
const (
	maxStops     = 64
	maxStopBytes = 4096
	maxLogitBias = 65536
	maxNameBytes = jsonbody.MaxNameBytes // of a model or a function
	maxPrompts   = 2048                  // of a completion, times n; OpenAI's limit
	maxN         = 128                   // OpenAI's limit
)

// wireParams is the JSON form of Params.
type wireParams struct {
	Model               string             `json:"model"`
	Adapters            string             `json:"adapters"`
	Stream              *bool              `json:"stream"`
	StreamOptions       *wireStreamOptions `json:"stream_options"`
	MaxTokens           *int               `json:"max_tokens"`
	MaxCompletionTokens *int               `json:"max_completion_tokens"`
	NPredict            *int               `json:"n_predict"`
	Stop                json.RawMessage    `json:"stop"`
	N                   *int               `json:"n"`
	Temperature         *float64           `json:"temperature"`
	TopP                *float64           `json:"top_p"`
	TopK                *int               `json:"top_k"`
	MinP                *float64           `json:"min_p"`
	RepetitionPenalty   *float64           `json:"repetition_penalty"`
	RepeatPenalty       *float64           `json:"repeat_penalty"`
	PresencePenalty     *float64           `json:"presence_penalty"`
	FrequencyPenalty    *float64           `json:"frequency_penalty"`
	LogitBias           json.RawMessage    `json:"logit_bias"`
	Seed                json.RawMessage    `json:"seed"`
	IgnoreEOS           *bool              `json:"ignore_eos"`
	Priority            *int               `json:"priority"`
	Store               *bool              `json:"store"`
	Cache               *string            `json:"cache"`
	Speculation         *string            `json:"speculation"`
	generate.Samplers
	wireOutput
}

type wireStreamOptions struct {
	IncludeUsage  *bool `json:"include_usage"`
	IncludeDrafts *bool `json:"include_drafts"`
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
	ParallelToolCalls  *bool             `json:"parallel_tool_calls"`
	IncludeReasoning   *bool             `json:"include_reasoning"`
	Prediction         json.RawMessage   `json:"prediction"`

	ContinueFinalMessage *bool `json:"continue_final_message"`
	AddGenerationPrompt  *bool `json:"add_generation_prompt"`
}

// wireReasoning is how OpenRouter's clients send the effort.
type wireReasoning struct {
	Effort  *string `json:"effort"`
	Enabled *bool   `json:"enabled"`
	Exclude *bool   `json:"exclude"`
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
	if err := first(
		func() error { return check(body) },
		func() error { return chatFields.Refuse(body) },
	); err != nil {
		return nil, err
	}
	var w wireChat
	if err := decode(body, &w, ""); err != nil {
		return nil, err
	}
	r := &ChatRequest{}
	err := first(
		func() error { return r.Params.read(&w.wireParams) },
		func() error { return r.SetLogprobs(w.Logprobs, w.TopLogprobs) },
		func() (err error) { r.Messages, err = parseMessages(w.Messages); return },
		func() error { return r.readContinue(&w) },
		func() error { return r.readPrediction(w.Prediction) },
		func() error { return r.readTools(&w) },
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
	if err := first(
		func() error { return check(body) },
		func() error { return completionFields.Refuse(body) },
	); err != nil {
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
		func() (err error) { r.Prompts, err = parsePrompts("prompt", w.Prompt); return },
		func() error { return r.readSuffix(w.Suffix) },
		func() error {
			if n := len(r.Prompts); n*r.N > maxPrompts {
				return badParam("n", "at most %d answers in all, got %d for each of %d prompts",
					maxPrompts, r.N, n)
			}
			return nil
		},
	)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// readSuffix reads the text that follows the answer.
func (r *CompletionRequest) readSuffix(suffix *string) error {
	if suffix == nil || *suffix == "" {
		return nil
	}
	if r.Echo {
		return badParam("suffix", "cannot be sent together with echo")
	}
	for _, p := range r.Prompts {
		if p.Tokens != nil {
			return badParam("suffix", "expected a prompt that is text, not token ids")
		}
	}
	r.Suffix = *suffix
	return nil
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
	if w.Adapters != "" {
		if len(w.Adapters) > maxNameBytes {
			return badParam("adapters", "at most %d bytes, got %d", maxNameBytes, len(w.Adapters))
		}
		p.Model += server.AdapterSign + w.Adapters
	}
	p.Stream = w.Stream != nil && *w.Stream
	if o := w.StreamOptions; o != nil {
		p.IncludeUsage = o.IncludeUsage != nil && *o.IncludeUsage
		p.IncludeDrafts = o.IncludeDrafts != nil && *o.IncludeDrafts
	}
	p.Temperature, p.TopP, p.TopK, p.MinP = w.Temperature, w.TopP, w.TopK, w.MinP
	p.RepetitionPenalty = cmp.Or(w.RepetitionPenalty, w.RepeatPenalty)
	p.PresencePenalty, p.FrequencyPenalty = w.PresencePenalty, w.FrequencyPenalty
	p.IgnoreEOS = w.IgnoreEOS != nil && *w.IgnoreEOS
	return first(
		p.Normalize,
		func() (err error) { p.Seed, err = ParseSeed(w.Seed); return },
		func() error { return p.readCaching(w) },
		func() error { return p.readMaxTokens(w) },
		func() error { return p.SetSamplers(&w.Samplers) },
		func() error { return p.readN(w.N) },
		func() error { return p.readPriority(w.Priority) },
		func() error { return p.ReadSpeculation(w.Speculation) },
		func() (err error) { p.Stop, err = ParseStop(w.Stop); return },
		func() (err error) { p.LogitBias, err = parseLogitBias(w.LogitBias); return },
		func() error { return p.readOutput(&w.wireOutput) },
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

// readPriority reads vLLM's priority, of which the smallest runs first.
func (p *Params) readPriority(n *int) error {
	if n == nil {
		return nil
	}
	const most = generate.MaxPriority
	if *n < -most || *n > most {
		return badParam("priority", "must be between %d and %d, got %d", -most, most, *n)
	}
	p.Priority = -*n
	return nil
}

// wirePrediction is a text that the answer may repeat.
type wirePrediction struct {
	Type    string          `json:"type"`
	Content json.RawMessage `json:"content"`
}

// readPrediction reads prediction. Its parts are joined as they are.
func (p *Params) readPrediction(raw json.RawMessage) error {
	if isNull(raw) {
		return nil
	}
	var w wirePrediction
	if err := fill(raw, &w, "prediction"); err != nil {
		return err
	}
	if w.Type != "content" {
		return badParam("prediction.type", `expected "content", got %.80q`, w.Type)
	}
	p.Predicted = true
	var parts []struct{ Text string }
	switch {
	case isNull(w.Content):
		return badParam("prediction.content", "is missing")
	case kind(w.Content) == "a string":
		return json.Unmarshal(w.Content, &p.Prediction)
	}
	if err := checkContent(w.Content, "prediction.content"); err != nil {
		return err
	}
	if err := json.Unmarshal(w.Content, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		p.Prediction += part.Text
	}
	return nil
}

// readN reads how many answers a prompt has.
func (p *Params) readN(n *int) error {
	p.N = 1
	if n == nil {
		return nil
	}
	if *n < 1 || *n > maxN {
		return badParam("n", "must be between 1 and %d, got %d", maxN, *n)
	}
	p.N = *n
	return nil
}

// readMaxTokens reads max_completion_tokens, or else max_tokens, or else llama.cpp's n_predict.
func (p *Params) readMaxTokens(w *wireParams) (err error) {
	switch {
	case w.MaxCompletionTokens != nil:
		p.MaxTokens, err = generate.TokenLimit("max_completion_tokens", *w.MaxCompletionTokens)
	case w.MaxTokens != nil:
		p.MaxTokens, err = generate.TokenLimit("max_tokens", *w.MaxTokens)
	case w.NPredict != nil:
		p.MaxTokens, err = generate.TokenLimit("n_predict", *w.NPredict)
	}
	return err
}

// readNoAnswer reads a max_tokens of 0, which only a completion may have: the client wants the
// prompt's log-probabilities, or its keys and values in the cache.
func (r *CompletionRequest) readNoAnswer(w *wireCompletion) error {
	for _, limit := range []**int{&w.MaxCompletionTokens, &w.MaxTokens, &w.NPredict} {
		if *limit != nil {
			r.NoAnswer = **limit == 0
			if r.NoAnswer {
				w.MaxCompletionTokens, w.MaxTokens, w.NPredict = nil, nil, nil
			}
			break
		}
	}
	return nil
}

func (r *CompletionRequest) readExtras(w *wireCompletion) error {
	if w.Logprobs != nil {
		if n := *w.Logprobs; n < 0 || n > generate.MaxTopLogprobs {
			return badParam("logprobs", "must be between 0 and %d, got %d",
				generate.MaxTopLogprobs, n)
		}
		r.Logprobs, r.TopLogprobs = true, *w.Logprobs
	}
	r.Echo = w.Echo != nil && *w.Echo
	if w.BestOf != nil && *w.BestOf != r.N {
		return unsupported("best_of", "must be n, which is %d, got %d: all answers are returned",
			r.N, *w.BestOf)
	}
	return nil
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

// readContinue reads whether the last message is to be continued: continue_final_message, which is
// vLLM's, or the message's key prefix, which is DeepSeek's and Mistral's. With
// add_generation_prompt false, a last message of the assistant is continued, too.
func (r *ChatRequest) readContinue(w *wireChat) error {
	on := func(b *bool) bool { return b != nil && *b }
	r.HideReasoning = w.IncludeReasoning != nil && !*w.IncludeReasoning ||
		w.Reasoning != nil && on(w.Reasoning.Exclude)
	r.NoGenerationPrompt = w.AddGenerationPrompt != nil && !*w.AddGenerationPrompt
	last := &r.Messages[len(r.Messages)-1]
	open := last.Role == "assistant" && !last.HasCalls
	param := "continue_final_message"
	if last.Prefix {
		param = "messages[" + strconv.Itoa(len(r.Messages)-1) + "].prefix"
	}
	switch asked := on(w.ContinueFinalMessage) || last.Prefix; {
	case asked && !open:
		return badParam(param, "only a last message of the assistant without tool calls can be "+
			"continued")
	case asked && on(w.AddGenerationPrompt):
		return badParam(param, "cannot be true together with add_generation_prompt")
	case asked, open && r.NoGenerationPrompt:
		r.Continue = true
	}
	return nil
}
