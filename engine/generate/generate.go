// Package generate describes one generation independently of any API: the request (Request, Params)
// and the answer (Delta, Answer, Usage).
//
// Dialects of engine/server translate their JSON into a Request and render Deltas and Answers. The
// command line uses the same Request, so that both give the same answer to the same parameters.
package generate

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// Request is a client's request for one generation. Exactly one of Messages, Prompt and
// PromptTokens is the prompt; an empty Prompt with the other two nil is an empty text.
type Request struct {
	Params

	Model  string // "" means the loaded model
	Stream bool   // send the answer as it is generated

	// Messages are a conversation for the model's chat template.
	Messages []chat.Message
	// Tools are the functions that the model may call, each as OpenAI's JSON object of a tool. The
	// chat template reads all of its keys.
	Tools []json.RawMessage
	// TemplateKwargs are variables for the chat template: a JSON object, or nil.
	TemplateKwargs json.RawMessage

	Prompt       string // plain text to continue, without a chat template
	PromptTokens []int32
}

// Model is the part of a loaded model that turns a Request into tokens.
type Model interface {
	Tokenizer() *tokenizer.Tokenizer
	Template() *chat.Template // nil if the model has none
}

// Encode returns the tokens of the prompt, and the splitter that separates reasoning and tool calls
// from the content of the answer. The splitter is nil when the prompt is not a conversation; all
// text is then content. Errors are Problems.
func (r *Request) Encode(m Model) (prompt []int32, split *chat.Splitter, err error) {
	switch {
	case r.PromptTokens != nil:
		return r.PromptTokens, nil, nil
	case r.Messages == nil:
		options := tokenizer.EncodeOptions{AddSpecial: true}
		return m.Tokenizer().Encode(r.Prompt, options), nil, nil
	}
	text, err := r.render(m.Template())
	if err != nil {
		return nil, nil, err
	}
	split = chat.NewSplitter(chat.StartsInReasoning(text), m.Template().Tools(r.Tools))
	return m.Tokenizer().Encode(text, tokenizer.EncodeOptions{}), split, nil
}

// render applies the chat template to the conversation.
func (r *Request) render(template *chat.Template) (string, error) {
	if template == nil {
		return "", problem.New(problem.NoTemplate, "This model has no chat template", "",
			"Send plain text to /v1/completions, or put a chat_template.jinja into the model's "+
				"folder.")
	}
	kwargs, err := r.templateKwargs()
	if err != nil {
		return "", err
	}
	text, err := template.Render(chat.Input{AddGenerationPrompt: true, Messages: r.Messages,
		Tools: r.Tools, Kwargs: kwargs})
	var failed *chat.TemplateError
	switch {
	case errors.As(err, &failed) && failed.Raised:
		return "", problem.Wrap(problem.TemplateFailed, err,
			"The model's chat template refuses these messages", "")
	case failed != nil:
		return "", problem.Wrap(problem.TemplateFailed, err,
			"The model's chat template failed on these messages", "")
	case err != nil:
		return "", problem.Wrap(problem.BadRequest, err, "The messages cannot be rendered", "")
	}
	return text, nil
}

func (r *Request) templateKwargs() (map[string]any, error) {
	if r.TemplateKwargs == nil {
		return nil, nil
	}
	members, err := objectMembers(r.TemplateKwargs)
	if err != nil {
		return nil, problem.Wrap(problem.BadRequest, err, "chat_template_kwargs cannot be read", "")
	}
	kwargs := make(map[string]any, len(members))
	for name, value := range members {
		kwargs[name] = value
	}
	return kwargs, nil
}

// ParamError reports a parameter that is not valid. Param is its JSON path ("messages[2].role"),
// empty when the body as a whole is at fault.
type ParamError struct {
	Param   string
	Problem *problem.Problem
}

func (e *ParamError) Error() string { return e.Problem.Error() }

// Unwrap returns the Problem, so that problem.From finds it.
func (e *ParamError) Unwrap() error { return e.Problem }

// BadParam returns the error of one parameter, a bad request: "temperature: must be between 0 and
// 2, got 7".
func BadParam(param, format string, args ...any) *ParamError {
	return &ParamError{Param: param,
		Problem: problem.New(problem.BadRequest, param+": "+fmt.Sprintf(format, args...), "", "")}
}

// NewID returns a random identifier with that prefix.
func NewID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return prefix + hex.EncodeToString(b[:])
}
