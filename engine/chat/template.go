package chat

// A model's chat template with the variables that transformers would give it. The prompt must equal
// the one the model was trained on, so a template that is missing or refuses is an error and
// nothing is made up.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"headroom/engine/chat/jinja"
)

// ErrNoTemplate is what a model without a chat template answers to a chat
// request. There is no default template: a guessed format would degrade the
// model's answers without a sign.
var ErrNoTemplate = errors.New(
	"this model has no chat template (chat_template.jinja, or chat_template in " +
		"tokenizer_config.json): send plain text to /v1/completions, or add a template to the " +
		"model's folder")

// TemplateError is a chat template that is invalid or that refuses its input.
// If Raised is set, the template itself called raise_exception and Message is
// meant for the client; the server answers both kinds with status 400.
type TemplateError = jinja.Error

// Template is a parsed chat template; safe for use by many goroutines.
type Template struct {
	jinja   *jinja.Template
	format  toolFormat        // nil: none that is known here
	special map[string]string // variables of the model, such as bos_token
}

// ParseTemplate reads a chat template. An empty source is ErrNoTemplate; every
// other error is a *TemplateError.
func ParseTemplate(source string) (*Template, error) {
	if source == "" {
		return nil, ErrNoTemplate
	}
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{jinja: t, format: formatOf(source)}, nil
}

// WithSpecialTokens returns the template with the texts of special tokens, by the
// names that templates know them under: bos_token, eos_token.
func (t *Template) WithSpecialTokens(tokens map[string]string) *Template {
	with := *t
	with.special = maps.Clone(tokens)
	return &with
}

// Input is what a template is rendered with.
type Input struct {
	Messages            []Message
	Tools               []json.RawMessage // as in the request; none: tools is none
	AddGenerationPrompt bool              // end with the opening of the assistant's turn

	// Kwargs are further variables: chat_template_kwargs of the request
	// (enable_thinking). Values are what encoding/json decodes to, or
	// json.RawMessage, whose key order is kept. A whole float64 counts as an
	// integer, since JSON's 5 decodes to it. They win over special tokens.
	Kwargs map[string]any

	// Now is what strftime_now tells; zero means the current time.
	Now time.Time
}

// reserved are the variables that Kwargs may not replace.
var reserved = []string{"messages", "tools", "documents", "add_generation_prompt"}

// Render returns the prompt. The same input always gives the same bytes. An
// error is a *TemplateError if the template refused or failed, else it tells
// which part of the input is malformed; both are the client's to correct.
func (t *Template) Render(in Input) (string, error) {
	vars := jinja.NewDict()
	messages := jinja.NewList()
	for i, m := range in.Messages {
		v, err := m.value(t.jinja.LoopsOverContent())
		if err != nil {
			return "", fmt.Errorf("messages[%d]: %w", i, err)
		}
		messages.Items = append(messages.Items, v)
	}
	vars.Set("messages", messages)
	vars.Set("tools", nil)
	if len(in.Tools) > 0 {
		tools := jinja.NewList()
		for i, raw := range in.Tools {
			v, err := jinja.FromJSON(raw)
			if err != nil {
				return "", fmt.Errorf("tools[%d]: %w", i, err)
			}
			tools.Items = append(tools.Items, v)
		}
		vars.Set("tools", tools)
	}
	vars.Set("documents", nil)
	vars.Set("add_generation_prompt", in.AddGenerationPrompt)
	for name, text := range t.special {
		vars.Set(name, valid(text))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Kwargs)) {
		if slices.Contains(reserved, name) {
			return "", fmt.Errorf("chat_template_kwargs: '%s' is set by the request itself", name)
		}
		v, err := kwargValue(in.Kwargs[name])
		if err != nil {
			return "", fmt.Errorf("chat_template_kwargs: %s: %w", name, err)
		}
		vars.Set(name, v)
	}
	now := in.Now
	if now.IsZero() {
		now = time.Now()
	}
	return t.jinja.Render(vars, now)
}

// kwargValue converts a decoded JSON value; the keys of a Go map come sorted,
// so that the order is at least the same each time.
func kwargValue(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64:
		return v, nil
	case string:
		return strings.ToValidUTF8(v, "\uFFFD"), nil
	case int:
		return int64(v), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
		return v, nil
	case json.RawMessage:
		return jinja.FromJSON(v)
	}
	data, err := json.Marshal(v) // maps, slices, json.Number: sorted keys
	if err != nil {
		return nil, err
	}
	return jinja.FromJSON(data)
}
