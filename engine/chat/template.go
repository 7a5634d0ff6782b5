package chat

// This file renders the chat template of a model with the same variables as transformers. The
// prompt must have the format that the model was trained on. So a missing template, or one that
// raises an exception, is an error. Only a template that ignores tools gets them in another way
// (fallback.go).

import (
	"context"
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

// ErrNoTemplate is the error of a chat request to a model without a chat template.
// There is no default template: a guessed format would silently degrade the
// model's answers.
var ErrNoTemplate = errors.New(
	"this model has no chat template (chat_template.jinja, or chat_template in " +
		"tokenizer_config.json): send plain text to /v1/completions, or add a template to the " +
		"model's folder")

// TemplateError is the error of a chat template that is invalid or cannot render its input. If
// Raised is set, the template called raise_exception, and Message is meant for the client. In
// either case the server answers with status 400.
type TemplateError = jinja.Error

// Template is a parsed chat template. It is safe for concurrent use.
type Template struct {
	jinja     *jinja.Template
	channels  *channelFormat    // nil if the template has none; if set, the next two are unused
	reasoning reasoningFormat   // the tags of reasoning
	effort    *effortFormat     // nil if the template knows no effort
	switches  []thinkingSwitch  // the variables that turn reasoning on and off
	thinking  bool              // the template reads reasoning_content as thinking
	reasons   bool              // the template knows reasoning
	tools     *toolFormat       // nil if the template has no known tool call format
	shortIDs  bool              // IDs of tool calls must have 9 characters
	special   map[string]string // variables for special tokens, such as bos_token
	toolUse   *Template         // renders requests with tools; nil: this template does
	fallback  *fallback         // for tools, if the template ignores them; else nil
	calls     *jinja.Template   // writes calls, if the template drops them; else nil
	callIDs   bool              // the template writes the IDs of calls
	toolsKey  bool              // the template reads tools from a message; see callroles.go
	probe     *probe            // of the habits that arrange.go needs
}

// ParseTemplate parses a chat template. The error of an empty source is
// ErrNoTemplate; every other error is a *TemplateError.
func ParseTemplate(source string) (*Template, error) {
	if source == "" {
		return nil, ErrNoTemplate
	}
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, err
	}
	parsed := &Template{jinja: t, channels: channelsOf(source), reasoning: reasoningOf(source),
		tools: toolFormatOf(source), shortIDs: shortIDsMark.MatchString(source),
		callIDs: callIDMark.MatchString(source), toolsKey: toolsKeyMark.MatchString(source),
		probe: &probe{}}
	parsed.reasons = parsed.channels != nil || strings.Contains(source, parsed.reasoning.mark)
	parsed.readEffort(source)
	parsed.findFallback(source)
	return parsed, nil
}

// WithSpecialTokens returns a copy of the template with variables for special
// tokens, such as bos_token and eos_token.
func (t *Template) WithSpecialTokens(tokens map[string]string) *Template {
	with := *t
	with.special, with.probe = maps.Clone(tokens), &probe{}
	if t.toolUse != nil {
		with.toolUse = t.toolUse.WithSpecialTokens(tokens)
	}
	return &with
}

// WithToolUse returns a copy of the template that leaves requests with tools to another template.
// Some models have two: default and tool_use.
func (t *Template) WithToolUse(toolUse *Template) *Template {
	with := *t
	with.toolUse = toolUse
	return &with
}

// Reasons reports whether the template knows reasoning, so that the model may think.
func (t *Template) Reasons() bool { return t.reasons }

// of returns the template for a request that offers tools or not.
func (t *Template) of(tools bool) *Template {
	if tools && t.toolUse != nil {
		return t.toolUse
	}
	return t
}

// Input holds the variables of a template.
type Input struct {
	Messages            []Message
	Tools               []json.RawMessage // as in the request; if empty, the variable is none
	AddGenerationPrompt bool              // end the prompt with the opening of an answer

	// ContinueFinal ends the prompt after the content of the last message, which the answer
	// continues. AddGenerationPrompt does not apply then.
	ContinueFinal bool

	// After leaves out the beginning of the prompt, which has been computed elsewhere. It does not
	// go together with ContinueFinal.
	After Place

	// Kwargs are additional variables: chat_template_kwargs of the request, such as
	// enable_thinking. Values have the types that encoding/json decodes to, or are json.RawMessage,
	// whose key order is kept. A float64 without a fraction becomes an integer, since encoding/json
	// decodes 5 to a float64. Kwargs override special tokens.
	Kwargs map[string]any

	// Hide is applied to every string in Messages and Tools. It hides special tokens in them, as
	// tokenizer.Shield does. nil: strings stay.
	Hide func(string) string

	// Now is the time of strftime_now; zero means the current time.
	Now time.Time
}

// reserved lists the variables that Kwargs must not override.
var reserved = []string{"messages", "tools", "documents", "add_generation_prompt"}

// Render returns the prompt. The same input always gives the same bytes. It stops soon after ctx
// ends, and at the bounds of package jinja. The error is a *TemplateError if rendering failed;
// otherwise it wraps that of ctx, or names the part of the input that is malformed. Unless ctx has
// ended, the client has to change the request. If the template fails on the messages as they are,
// results get the names of their functions. If that does not help, arguments of tool calls that are
// no object are wrapped into one, and then arguments are JSON text.
func (t *Template) Render(ctx context.Context, in Input) (string, error) {
	return t.of(len(in.Tools) > 0).render(ctx, in)
}

func (t *Template) render(ctx context.Context, in Input) (string, error) {
	vars := jinja.NewDict()
	messages := jinja.NewList()
	for i, m := range in.Messages {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		v, err := m.value(t.jinja.LoopsOverContent())
		if err != nil {
			return "", fmt.Errorf("messages[%d]: %w", i, err)
		}
		t.setThinking(v)
		messages.Items = append(messages.Items, in.hidden(v))
	}
	if t.shortIDs {
		shortenIDs(messages)
	}
	if t.tools != nil && t.tools.nameIDs {
		nameIDs(messages, !t.callIDs)
	}
	if in.ContinueFinal {
		if err := markEnd(messages); err != nil {
			return "", err
		}
	}
	if err := in.After.mark(messages); err != nil {
		return "", err
	}
	now := in.Now
	if now.IsZero() {
		now = time.Now()
	}
	var tools *jinja.List
	if len(in.Tools) > 0 {
		tools = jinja.NewList()
		for i, raw := range in.Tools {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			v, err := jinja.FromJSON(raw)
			if err != nil {
				return "", fmt.Errorf("tools[%d]: %w", i, err)
			}
			tools.Items = append(tools.Items, in.hidden(v))
		}
	}
	messages.Items, tools = t.inRoles(messages.Items, tools)
	if t.fallback != nil {
		var err error
		if messages.Items, err = t.fallback.withTools(ctx, messages.Items, tools, now); err != nil {
			return "", err
		}
		tools = nil
	}
	if t.calls != nil {
		var err error
		if messages.Items, err = withCalls(ctx, messages.Items, t.calls, now); err != nil {
			return "", err
		}
	}
	if err := t.setTools(ctx, vars, tools, now); err != nil {
		return "", err
	}
	vars.Set("messages", messages)
	vars.Set("documents", nil)
	vars.Set("add_generation_prompt", in.AddGenerationPrompt && !in.ContinueFinal)
	for name, text := range t.special { // a model names them, so they replace no other variable
		if !slices.Contains(reserved, name) {
			vars.Set(name, valid(text))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Kwargs)) {
		if slices.Contains(reserved, name) {
			return "", fmt.Errorf("chat_template_kwargs: '%s' is reserved", name)
		}
		v, err := kwargValue(in.Kwargs[name])
		if err != nil {
			return "", fmt.Errorf("chat_template_kwargs: %s: %w", name, err)
		}
		vars.Set(name, v)
	}
	prompt, err := t.jinja.Render(ctx, vars, now)
	for _, change := range []func(*jinja.List) bool{nameResults, wrapArguments, argumentsAsText} {
		refused := new(TemplateError)
		if !errors.As(err, &refused) || ctx.Err() != nil || !change(messages) {
			continue
		}
		if changed, again := t.jinja.Render(ctx, vars, now); again == nil {
			prompt, err = changed, nil
			break
		}
	}
	switch {
	case err == nil && in.ContinueFinal:
		return cutAtEnd(prompt)
	case err == nil && in.After != Beginning:
		return cutBefore(prompt)
	}
	return prompt, err
}

// hidden returns a value with Hide applied to its strings.
func (in *Input) hidden(v any) any {
	if in.Hide == nil {
		return v
	}
	return jinja.MapStrings(v, in.Hide)
}

// kwargValue converts a decoded JSON value. The keys of a Go map are sorted, so
// that their order is always the same.
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
