package anthropic

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Request is a POST to /v1/messages.
type Request struct {
	generate.Request
	Thinking  bool // the answer has thinking blocks
	OmitText  bool // thinking blocks have only a signature, which holds their text
	NoCalls   bool // tool_choice none: the prompt has the tools, but the answer has no call
	OneCall   bool // tool_choice.disable_parallel_tool_use: the answer ends with its first call
	maxTokens int  // as sent: less means that the context ended the answer
}

// Limits of one request.
const (
	maxStops     = 64
	maxStopBytes = 4096
)

// wireRequest has the fields that work.
type wireRequest struct {
	Model         string            `json:"model"`
	MaxTokens     *int              `json:"max_tokens"`
	Messages      []wireMessage     `json:"messages"`
	System        json.RawMessage   `json:"system"`
	Stream        *bool             `json:"stream"`
	StopSequences []string          `json:"stop_sequences"`
	Temperature   *float64          `json:"temperature"`
	TopP          *float64          `json:"top_p"`
	TopK          *int              `json:"top_k"`
	Thinking      *wireThinking     `json:"thinking"`
	OutputConfig  *wireOutputConfig `json:"output_config"`
	Tools         []json.RawMessage `json:"tools"`
	ToolChoice    *wireToolChoice   `json:"tool_choice"`
	OutputFormat  json.RawMessage   `json:"output_format"`
	Cache         *string           `json:"cache"`       // Headroom's
	Speculation   *string           `json:"speculation"` // Headroom's
}

type wireThinking struct {
	Type         string  `json:"type"`
	BudgetTokens *int    `json:"budget_tokens"`
	Display      *string `json:"display"`
}

type wireOutputConfig struct {
	Effort *string         `json:"effort"`
	Format json.RawMessage `json:"format"`
}

type wireToolChoice struct {
	Type            string `json:"type"`
	Name            string `json:"name"`
	DisableParallel *bool  `json:"disable_parallel_tool_use"`
}

// Parse parses the body of a request for a message. The error is an *Error.
func Parse(body []byte) (*Request, error) {
	w, err := decodeRequest(body)
	if err != nil {
		return nil, err
	}
	if w.MaxTokens == nil {
		return nil, badParam("max_tokens", "is missing. It limits the tokens of the answer")
	}
	return w.request()
}

// ParseCount parses the body of a request for the number of tokens of a prompt. It needs no
// max_tokens. The error is an *Error.
func ParseCount(body []byte) (*Request, error) {
	w, err := decodeRequest(body)
	if err != nil {
		return nil, err
	}
	w.Stream, w.MaxTokens = nil, nil
	return w.request()
}

func decodeRequest(body []byte) (*wireRequest, error) {
	if err := jsonbody.Check(body); err != nil {
		return nil, err
	}
	w := &wireRequest{}
	if err := jsonbody.Decode(body, w, ""); err != nil {
		return nil, err
	}
	if err := fieldsByName.Refuse(body); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *wireRequest) request() (*Request, error) {
	r := &Request{}
	for _, read := range []func(*wireRequest) error{r.readParams, r.readCaching, r.readStops,
		r.readOutput, r.readThinking, r.readTools, r.readMessages} {
		if err := read(w); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Request) readParams(w *wireRequest) (err error) {
	if len(w.Model) > jsonbody.MaxNameBytes {
		return badParam("model", "at most %d bytes, got %d", jsonbody.MaxNameBytes, len(w.Model))
	}
	r.Model, r.Stream = w.Model, w.Stream != nil && *w.Stream
	r.Temperature, r.TopP, r.TopK = w.Temperature, w.TopP, w.TopK
	if w.MaxTokens != nil {
		// With 0, the client wants the prompt's keys and values in the cache.
		if r.NoAnswer = *w.MaxTokens == 0; !r.NoAnswer {
			r.MaxTokens, err = generate.TokenLimit("max_tokens", *w.MaxTokens)
			r.maxTokens = r.MaxTokens
		}
	}
	if err != nil {
		return err
	}
	return r.Normalize()
}

// readCaching reads the fields that are Headroom's: cache and speculation.
func (r *Request) readCaching(w *wireRequest) (err error) {
	if w.Cache != nil {
		if r.Cache, err = generate.ParseCaching("cache", *w.Cache); err != nil {
			return err
		}
	}
	return r.ReadSpeculation(w.Speculation)
}

func (r *Request) readStops(w *wireRequest) error {
	if len(w.StopSequences) > maxStops {
		return badParam("stop_sequences", "at most %d stop texts, got %d", maxStops,
			len(w.StopSequences))
	}
	for i, s := range w.StopSequences {
		if len(s) > maxStopBytes {
			return badParam("stop_sequences["+strconv.Itoa(i)+"]", "at most %d bytes, got %d",
				maxStopBytes, len(s))
		}
		if s != "" {
			r.Stop = append(r.Stop, s)
		}
	}
	return nil
}

// readFormat reads the form of the answer.
func (r *Request) readFormat(param string, raw json.RawMessage) error {
	if jsonbody.IsNull(raw) {
		return nil
	}
	var f struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	if err := jsonbody.Decode(raw, &f, param); err != nil {
		return err
	}
	if f.Type == "" {
		return badParam(param+".type", "is missing")
	}
	if f.Type != "json_schema" {
		return unsupported(param+".type", `must be "json_schema", got %.80q`, f.Type)
	}
	if jsonbody.IsNull(f.Schema) {
		return badParam(param+".schema", "is missing")
	}
	return r.SetSchema(param+".schema", f.Schema, true)
}

// readOutput reads output_config, and output_format, which came before it.
func (r *Request) readOutput(w *wireRequest) error {
	if err := r.readFormat("output_format", w.OutputFormat); err != nil {
		return err
	}
	if w.OutputConfig == nil {
		return nil
	}
	if err := r.readFormat("output_config.format", w.OutputConfig.Format); err != nil {
		return err
	}
	if w.OutputConfig.Effort == nil {
		return nil
	}
	r.Effort = *w.OutputConfig.Effort
	if !slices.Contains(chat.Efforts, r.Effort) {
		return badParam("output_config.effort", "must be one of %s, got %.80q",
			strings.Join(chat.Efforts, ", "), r.Effort)
	}
	return nil
}

// Budgets of thinking up to which a model thinks little, or moderately.
const (
	lowBudget    = 4096
	mediumBudget = 16384
)

// readThinking reads whether the model shall think. As in Anthropic's API, it does not unless it is
// asked to, so that the first block of an answer is text. A model that always thinks does so
// unseen.
func (r *Request) readThinking(w *wireRequest) error {
	kind := "disabled"
	if w.Thinking != nil {
		kind = w.Thinking.Type
	}
	switch kind {
	case "disabled":
		r.Effort = chat.Efforts[0]
		return nil
	case "enabled":
		if budget := w.Thinking.BudgetTokens; r.Effort == "" && budget != nil {
			r.Effort = effortOf(*budget)
		}
	case "adaptive", "between_tools":
	default:
		return badParam("thinking.type",
			`must be "enabled", "adaptive", "between_tools" or "disabled", got %.80q`, kind)
	}
	r.Thinking = true
	r.OmitText = w.Thinking.Display != nil && *w.Thinking.Display == "omitted"
	r.TemplateKwargs = generate.WithDefault(r.TemplateKwargs, "enable_thinking", true)
	return nil
}

func effortOf(budget int) string {
	switch {
	case budget <= lowBudget:
		return "low"
	case budget <= mediumBudget:
		return "medium"
	}
	return "high"
}
