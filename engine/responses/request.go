package responses

import (
	"encoding/json"
	"slices"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
	"headroom/engine/openai"
)

// Request is a POST to /v1/responses.
type Request struct {
	generate.Request
	OneCall   bool // parallel_tool_calls is false: the answer ends with its first call
	Store     bool
	Summary   bool            // reasoning is sent as its summary, and not as its text
	Encrypted bool            // items of reasoning have encrypted_content
	Custom    map[string]bool // names of the custom tools
	Previous  string          // previous_response_id; "": none
	Echo      Echo

	// input are the items of the body. They are a part of it.
	input []json.RawMessage
}

// wireRequest has the fields that work.
type wireRequest struct {
	Model              string            `json:"model"`
	Input              json.RawMessage   `json:"input"`
	Instructions       *string           `json:"instructions"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Store              *bool             `json:"store"`
	Stream             *bool             `json:"stream"`
	Include            []string          `json:"include"`
	Metadata           json.RawMessage   `json:"metadata"`
	Text               *wireText         `json:"text"`
	Reasoning          *wireReasoning    `json:"reasoning"`
	Tools              []json.RawMessage `json:"tools"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls"`
	Truncation         *string           `json:"truncation"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	Temperature        *float64          `json:"temperature"`
	TopP               *float64          `json:"top_p"`

	// Parameters that chat completions have, too.
	TopK               *int            `json:"top_k"`
	MinP               *float64        `json:"min_p"`
	RepetitionPenalty  *float64        `json:"repetition_penalty"`
	PresencePenalty    *float64        `json:"presence_penalty"`
	FrequencyPenalty   *float64        `json:"frequency_penalty"`
	Seed               json.RawMessage `json:"seed"`
	Stop               json.RawMessage `json:"stop"`
	ChatTemplateKwargs json.RawMessage `json:"chat_template_kwargs"`
	Cache              *string         `json:"cache"`       // Headroom's
	Speculation        *string         `json:"speculation"` // Headroom's
	generate.Samplers
}

type wireText struct {
	Format json.RawMessage `json:"format"`
}

type wireReasoning struct {
	Effort          *string `json:"effort"`
	Summary         *string `json:"summary"`
	GenerateSummary *string `json:"generate_summary"` // the old name of summary
}

// Parse parses the body of a request for a response. past has the responses that it may continue.
// The error is an *Error.
func Parse(body []byte, past *Store) (*Request, error) {
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
	r := &Request{}
	for _, read := range []func(*wireRequest) error{r.readParams, r.readValues, r.readCaching,
		r.readInclude, r.readText, r.readReasoning, r.readTools, r.readMetadata,
		func(w *wireRequest) error { return r.readInput(w, past) }} {
		if err := read(w); err != nil {
			return nil, err
		}
	}
	r.readEcho(w)
	return r, nil
}

func (r *Request) readParams(w *wireRequest) (err error) {
	if len(w.Model) > jsonbody.MaxNameBytes {
		return badParam("model", "at most %d bytes, got %d", jsonbody.MaxNameBytes, len(w.Model))
	}
	r.Model, r.Stream = w.Model, w.Stream != nil && *w.Stream
	r.Temperature, r.TopP, r.TopK, r.MinP = w.Temperature, w.TopP, w.TopK, w.MinP
	r.RepetitionPenalty, r.PresencePenalty = w.RepetitionPenalty, w.PresencePenalty
	r.FrequencyPenalty = w.FrequencyPenalty
	r.OneCall = w.ParallelToolCalls != nil && !*w.ParallelToolCalls
	if w.MaxOutputTokens != nil {
		r.MaxTokens, err = generate.TokenLimit("max_output_tokens", *w.MaxOutputTokens)
		if err != nil {
			return err
		}
	}
	if w.Truncation != nil && *w.Truncation != "auto" && *w.Truncation != "disabled" {
		return badParam("truncation", `must be "auto" or "disabled", got %.80q`, *w.Truncation)
	}
	if err := r.SetSamplers(&w.Samplers); err != nil {
		return err
	}
	return r.Normalize()
}

// readValues reads parameters that may have several types.
func (r *Request) readValues(w *wireRequest) (err error) {
	if r.Seed, err = openai.ParseSeed(w.Seed); err != nil {
		return err
	}
	if r.Stop, err = openai.ParseStop(w.Stop); err != nil {
		return err
	}
	r.TemplateKwargs, err = jsonbody.Object("chat_template_kwargs", w.ChatTemplateKwargs)
	return err
}

// readCaching reads cache, which is Headroom's, or else store. A response that is not to be cached
// at all is not stored either. It also reads speculation.
func (r *Request) readCaching(w *wireRequest) (err error) {
	r.Store = w.Store == nil || *w.Store
	switch {
	case w.Cache != nil:
		r.Cache, err = generate.ParseCaching("cache", *w.Cache)
	case !r.Store:
		r.Cache = generate.CacheMemory
	}
	if err != nil {
		return err
	}
	return r.ReadSpeculation(w.Speculation)
}

// includeLogprobs is the value of include that would add log-probabilities. The engine reports them
// for all tokens, and items have them for those of a text.
const includeLogprobs = "message.output_text.logprobs"

func (r *Request) readInclude(w *wireRequest) error {
	if slices.Contains(w.Include, includeLogprobs) {
		return unsupported("include", "%q is not supported. /v1/chat/completions has "+
			"log-probabilities", includeLogprobs)
	}
	r.Encrypted = slices.Contains(w.Include, "reasoning.encrypted_content")
	return nil
}

func (r *Request) readText(w *wireRequest) error {
	if w.Text == nil || jsonbody.IsNull(w.Text.Format) {
		return nil
	}
	var f struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
		Strict *bool           `json:"strict"`
	}
	if err := jsonbody.Decode(w.Text.Format, &f, "text.format"); err != nil {
		return err
	}
	switch f.Type {
	case "":
		return badParam("text.format.type", "is missing")
	case "text":
		return nil
	case "json_object":
		return r.SetJSONObject("text.format")
	case "json_schema":
		if jsonbody.IsNull(f.Schema) {
			return badParam("text.format.schema", "is missing")
		}
		return r.SetSchema("text.format.schema", f.Schema, f.Strict != nil && *f.Strict)
	}
	return unsupported("text.format.type", `must be "text", "json_object" or "json_schema", got `+
		"%.80q", f.Type)
}

func (r *Request) readReasoning(w *wireRequest) error {
	if w.Reasoning == nil {
		return nil
	}
	if effort := w.Reasoning.Effort; effort != nil {
		if !slices.Contains(chat.Efforts, *effort) {
			return badParam("reasoning.effort", "must be one of %s, got %.80q",
				strings.Join(chat.Efforts, ", "), *effort)
		}
		r.Effort = *effort
	}
	for name, summary := range map[string]*string{"summary": w.Reasoning.Summary,
		"generate_summary": w.Reasoning.GenerateSummary} {
		switch {
		case summary == nil || *summary == "none":
		case slices.Contains([]string{"auto", "concise", "detailed"}, *summary):
			r.Summary = true
		default:
			return badParam("reasoning."+name,
				`must be "auto", "concise" or "detailed", got %.80q`, *summary)
		}
	}
	return nil
}

// Limits of metadata, which are OpenAI's, in characters.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

func (r *Request) readMetadata(w *wireRequest) error {
	r.Echo.Metadata = map[string]string{}
	raw, err := jsonbody.Object("metadata", w.Metadata)
	if raw == nil || err != nil {
		return err
	}
	bad := jsonbody.Members(jsonbody.Trimmed(raw), func(name string, value []byte) *Error {
		var text string
		switch {
		case jsonbody.Kind(value) != "a string":
			return badParam("metadata", "expected strings, got %s as the value of %.80q",
				jsonbody.Kind(value), name)
		case json.Unmarshal(value, &text) != nil:
			return badParam("metadata", "the value of %.80q is not valid", name)
		case len(r.Echo.Metadata) == maxMetadata:
			return badParam("metadata", "at most %d entries", maxMetadata)
		case len([]rune(name)) > maxMetadataKey || len([]rune(text)) > maxMetadataValue:
			return badParam("metadata",
				"at most %d characters in a key and %d in a value, got more at %.80q",
				maxMetadataKey, maxMetadataValue, name)
		}
		r.Echo.Metadata[strings.Clone(name)] = text
		return nil
	})
	if bad != nil {
		return bad
	}
	return nil
}

// readEcho keeps what a response repeats of its request. The body does not outlive the parser.
func (r *Request) readEcho(w *wireRequest) {
	e := &r.Echo
	e.Instructions, e.PreviousResponseID = w.Instructions, w.PreviousResponseID
	e.MaxOutputTokens, e.Temperature, e.TopP = w.MaxOutputTokens, w.Temperature, w.TopP
	e.ParallelToolCalls = !r.OneCall
	e.ToolChoice, e.Truncation = "auto", "disabled"
	if !jsonbody.IsNull(w.ToolChoice) {
		e.ToolChoice = slices.Clone(w.ToolChoice)
	}
	if w.Truncation != nil {
		e.Truncation = *w.Truncation
	}
	e.Text.Format = json.RawMessage(`{"type":"text"}`)
	if w.Text != nil && !jsonbody.IsNull(w.Text.Format) {
		e.Text.Format = slices.Clone(w.Text.Format)
	}
	if w.Reasoning != nil {
		e.Reasoning = ReasoningEcho{w.Reasoning.Effort, w.Reasoning.Summary}
	}
	e.Tools = make([]json.RawMessage, len(w.Tools)) // not null
	for i, tool := range w.Tools {
		e.Tools[i] = slices.Clone(tool)
	}
}
