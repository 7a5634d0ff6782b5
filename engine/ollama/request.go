package ollama

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Request is a POST to /api/chat or /api/generate.
type Request struct {
	generate.Request
	// KeepAlive is how long the model stays loaded after the answer: 0 unloads it, a negative time
	// keeps it until somebody stops it, and nil is as long as the settings say.
	KeepAlive *time.Duration
	// Load says that there is nothing to answer: the model is loaded, or unloaded if KeepAlive is
	// 0.
	Load bool
}

// wireShared has the fields that work on both routes.
type wireShared struct {
	Model       string          `json:"model"`
	Stream      *bool           `json:"stream"`
	KeepAlive   json.RawMessage `json:"keep_alive"`
	Options     *wireOptions    `json:"options"`
	Think       json.RawMessage `json:"think"`
	Logprobs    *bool           `json:"logprobs"`
	TopLogprobs *int            `json:"top_logprobs"`
	Format      json.RawMessage `json:"format"`
	Cache       *string         `json:"cache"`       // Headroom's
	Speculation *string         `json:"speculation"` // Headroom's
}

type wireChat struct {
	wireShared
	Messages []wireMessage     `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
}

type wireGenerate struct {
	wireShared
	Prompt string `json:"prompt"`
	System string `json:"system"`
	Raw    *bool  `json:"raw"`
	Suffix string `json:"suffix"`
}

// ParseChat parses the body of a request to /api/chat. The error is an *Error.
func ParseChat(body []byte) (*Request, error) {
	var w wireChat
	r := &Request{}
	err := first(
		func() error { return decodeBody(body, &w, chatFields) },
		func() error { return r.readShared(&w.wireShared) },
		func() error { return r.readTools(w.Tools) },
		func() error { return r.readMessages(w.Messages) },
	)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ParseGenerate parses the body of a request to /api/generate. The prompt is the message of a user,
// or, if raw is true, the plain prompt. The error is an *Error.
func ParseGenerate(body []byte) (*Request, error) {
	var w wireGenerate
	r := &Request{}
	err := first(
		func() error { return decodeBody(body, &w, generateFields) },
		func() error { return r.readShared(&w.wireShared) },
		func() error { return r.readPrompt(&w) },
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

// decodeBody decodes a body that has no refused field.
func decodeBody(body []byte, v any, fields jsonbody.FieldsByName) error {
	return first(
		func() error { return jsonbody.Check(body) },
		func() error { return jsonbody.Decode(body, v, "") },
		func() error { return refuseFields(body, fields) },
	)
}

func (r *Request) readShared(w *wireShared) error {
	if len(w.Model) > jsonbody.MaxNameBytes {
		return badParam("model", "at most %d bytes, got %d", jsonbody.MaxNameBytes, len(w.Model))
	}
	r.Model, r.Stream = w.Model, w.Stream == nil || *w.Stream
	return first(
		func() (err error) { r.KeepAlive, err = parseKeepAlive(w.KeepAlive); return },
		func() error { return r.readOptions(w.Options) },
		func() error { return r.readThink(w.Think) },
		func() error { return r.SetLogprobs(w.Logprobs, w.TopLogprobs) },
		func() error { return r.readFormat(w.Format) },
		func() (err error) {
			if w.Cache != nil {
				r.Cache, err = generate.ParseCaching("cache", *w.Cache)
			}
			return err
		},
		func() error { return r.ReadSpeculation(w.Speculation) },
	)
}

// readFormat reads the form of the answer: "json", or a JSON Schema.
func (r *Request) readFormat(raw json.RawMessage) error {
	switch text := string(raw); {
	case jsonbody.IsNull(raw), text == `""`:
		return nil
	case text == `"json"`:
		return r.SetJSONObject("format")
	case jsonbody.Kind(raw) == "a string":
		return unsupported("format", `must be "json" or a JSON Schema, got %.80s`, text)
	}
	return r.SetSchema("format", raw, false)
}

// longest is the longest time that a model is kept loaded for. A longer one means until somebody
// stops it.
const longest = 100 * 365 * 24 * time.Hour

// parseKeepAlive parses a number of seconds or a text such as "5m".
func parseKeepAlive(raw json.RawMessage) (*time.Duration, error) {
	if jsonbody.IsNull(raw) {
		return nil, nil
	}
	text := string(raw)
	if jsonbody.Kind(raw) == "a string" {
		if err := jsonbody.Decode(raw, &text, "keep_alive"); err != nil {
			return nil, err
		}
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds == seconds {
		switch {
		case seconds < 0 || seconds > longest.Seconds():
			return new(time.Duration(-1)), nil
		default:
			return new(time.Duration(seconds * float64(time.Second))), nil
		}
	}
	after, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return nil, badParam("keep_alive", `expected seconds or a duration such as "5m", got %s`,
			jsonbody.Shorten(raw))
	case after < 0 || after > longest:
		after = -1
	}
	return &after, nil
}

// readThink reads whether the model shall think, or how much. Without think, that is up to the
// model.
func (r *Request) readThink(raw json.RawMessage) error {
	if jsonbody.IsNull(raw) {
		return nil
	}
	var think bool
	if json.Unmarshal(raw, &think) == nil {
		r.TemplateKwargs = generate.WithDefault(r.TemplateKwargs, "enable_thinking", think)
		return nil
	}
	if json.Unmarshal(raw, &r.Effort) != nil {
		return badParam("think", "expected a boolean or an effort, got %s", jsonbody.Kind(raw))
	}
	if !slices.Contains(chat.Efforts, r.Effort) {
		return badParam("think", "must be true, false or one of %s, got %.80q",
			strings.Join(chat.Efforts, ", "), r.Effort)
	}
	return nil
}

// readPrompt reads what a request to /api/generate asks.
func (r *Request) readPrompt(w *wireGenerate) error {
	raw := w.Raw != nil && *w.Raw
	switch {
	case raw && w.System != "":
		return badParam("system", "cannot be sent together with raw: the prompt is used as it is")
	case w.Suffix != "" && w.System != "":
		return badParam("system", "cannot be sent together with suffix: the prompt is used as it "+
			"is")
	case w.Suffix != "":
		r.Prompt, r.Suffix = w.Prompt, w.Suffix
	case w.Prompt == "":
		r.Load = true
	case raw:
		r.Prompt = w.Prompt
	default:
		if w.System != "" {
			r.Messages = append(r.Messages, chat.Message{Role: "system", Content: w.System})
		}
		r.Messages = append(r.Messages, chat.Message{Role: "user", Content: w.Prompt})
	}
	return nil
}
