// Package generate describes one generation independently of any API: the request (Request, Params)
// and the answer (Delta, Answer, Usage).
//
// Dialects of engine/server parse their JSON into a Request, and render Deltas and Answers. The
// commands use the same Request, so that the same parameters give the same answer everywhere.
package generate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// Request is a client's request for one generation. The prompt is PromptTokens if that is not nil,
// else Messages if that is not nil, else Prompt, which may be empty.
type Request struct {
	Params

	Model  string // "" means the loaded model
	Stream bool   // send the answer while it is generated
	Cache  Caching

	// Messages are a conversation for the model's chat template.
	Messages []chat.Message
	// Continue continues the last message, which is an assistant's, instead of beginning a new one.
	// The answer has only what follows its text.
	Continue bool
	// NoGenerationPrompt leaves out what opens an answer after the last message.
	NoGenerationPrompt bool
	// Tools are the functions that the model may call, each as a JSON object in OpenAI's format.
	// All keys are passed to the chat template.
	Tools []json.RawMessage
	// NoCalls drops the calls of the model, although the prompt offers tools.
	NoCalls bool
	// TemplateKwargs is a JSON object with variables for the chat template, or nil.
	TemplateKwargs json.RawMessage
	// Effort is how much the model shall think: one of chat.Efforts, or "" for the template's
	// default. TemplateKwargs take precedence.
	Effort string

	Prompt string // plain text to continue, without a chat template
	// Suffix is a text that follows the answer to Prompt; "": none.
	Suffix string
	// After are tokens that precede the prompt, which then begins at AfterPlace of Messages.
	// Without Messages, Prompt follows them as it is.
	After        []int32
	AfterPlace   chat.Place
	NoSpecial    bool // leave out the tokens that the tokenizer adds to a plain prompt
	PromptTokens []int32
}

// Prompt is a plain prompt: its tokens if they are not nil, else its text.
type Prompt struct {
	Text   string
	Tokens []int32
}

// Model is the part of a loaded model that converts a Request to tokens.
type Model interface {
	Tokenizer() *tokenizer.Tokenizer
	Template() *chat.Template // nil if the model has none
}

// Encode returns the tokens of the prompt, and a Splitter that separates reasoning and tool calls
// from the content of the answer. If the prompt is not a conversation, the Splitter is nil, and all
// text of the answer is content. Special tokens in messages and tools stay text.
//
// contextTokens is the size of the model's context; 0: unknown. Encode stops counting when the
// prompt is a quarter longer than the context, and soon after ctx ends. Errors are Problems.
func (r *Request) Encode(ctx context.Context, m Model, contextTokens int) (prompt []int32,
	split *chat.Splitter, err error) {
	prompt, splits, err := r.EncodeAnswers(ctx, m, contextTokens, 1)
	if splits != nil {
		split = splits[0]
	}
	return prompt, split, err
}

// EncodeAnswers is like Encode, for n answers to the prompt. It returns a Splitter for each, or
// nil.
func (r *Request) EncodeAnswers(ctx context.Context, m Model, contextTokens, n int) (prompt []int32,
	splits []*chat.Splitter, err error) {
	options := tokenizer.EncodeOptions{Limit: contextTokens + contextTokens/4}
	text := r.Prompt
	switch {
	case r.PromptTokens != nil:
		return r.PromptTokens, nil, nil
	case r.Messages == nil:
		options.AddSpecial = !r.NoSpecial && r.After == nil
		if r.Suffix != "" {
			if text, options.Shield, err = r.infill(m.Tokenizer()); err != nil {
				return nil, nil, err
			}
		}
	default:
		leave, err := m.Tokenizer().Admit(ctx, r.messageBytes())
		if err != nil {
			return nil, nil, EncodeProblem(ctx, err, 0, 0)
		}
		defer leave()
		options.Admitted = true
		text, options.Shield, err = r.renderAsText(ctx, m)
		if err == nil {
			err = r.openOutput(m, text)
		}
		if err != nil {
			return nil, nil, err
		}
		for range n {
			split := m.Template().NewSplitter(text, r.Tools)
			if r.NoCalls {
				split.RefuseCalls()
			}
			if o := r.Output; o != nil && o.Kind.OfContent() {
				split.HasForm(chat.Opening{Open: o.Before.Open, Calls: o.Before.Calls})
			}
			splits = append(splits, split)
		}
	}
	prompt, err = m.Tokenizer().EncodeContext(ctx, text, options)
	if err != nil {
		return nil, nil, EncodeProblem(ctx, err, options.Limit, contextTokens)
	}
	return r.follow(m, prompt), splits, nil
}

// follow returns the tokens of After with those of the prompt. A special token at the end of After
// with which the prompt begins, such as that of the end of an answer, is not repeated.
func (r *Request) follow(m Model, prompt []int32) []int32 {
	if r.After == nil {
		return prompt
	}
	if n := len(r.After); r.AfterPlace == chat.AfterEarlier && len(prompt) > 0 &&
		prompt[0] == r.After[n-1] && m.Tokenizer().IsSpecial(prompt[0]) {
		prompt = prompt[1:]
	}
	return slices.Concat(r.After, prompt)
}

// EncodePrediction returns the tokens of p.Prediction, at most contextTokens of them.
func (p *Params) EncodePrediction(ctx context.Context, m Model, contextTokens int) ([]int32,
	error) {
	if p.Prediction == "" {
		return nil, nil
	}
	shield := m.Tokenizer().NewShield() // its control tokens are text, as those of an answer are
	tokens, err := m.Tokenizer().EncodeContext(ctx, shield.Hide(p.Prediction),
		tokenizer.EncodeOptions{Shield: shield})
	if err != nil {
		return nil, EncodeProblem(ctx, err, 0, contextTokens)
	}
	return tokens[:min(len(tokens), contextTokens)], nil
}

// Text returns the prompt of a conversation as text. Errors are Problems.
func (r *Request) Text(ctx context.Context, m Model) (string, error) {
	text, shield, err := r.renderAsText(ctx, m)
	return shield.Reveal(text), err
}

// messageBytes returns the size of the conversation, in memory and not as JSON.
func (r *Request) messageBytes() (n int) {
	for i := range r.Messages {
		m := &r.Messages[i]
		n += len(m.Content) + len(m.Parts) + len(m.ReasoningContent) + len(m.ToolCalls)
	}
	for _, tool := range r.Tools {
		n += len(tool)
	}
	return n
}

// EncodeProblem returns the Problem of an error of the tokenizer.
func EncodeProblem(ctx context.Context, err error, counted, contextTokens int) error {
	switch {
	case ctx.Err() != nil:
		return problem.Wrap(problem.Cancelled, err, "The request was cancelled", "")
	case errors.Is(err, tokenizer.ErrTooLong):
		return problem.TooLong(problem.Overflow{Tokens: counted, Context: contextTokens,
			AtLeast: true}, "")
	}
	return problem.Wrap(problem.BadRequest, err, "The model's tokenizer cannot encode this prompt",
		"Shorten the prompt. If short prompts fail too, download the model again.")
}

// renderAsText renders the conversation such that its text can be no special token, and returns the
// Shield that has hidden what could be one.
//
// A Shield sees only whole special tokens in a message. A template that removes a word or changes
// the case of letters may join one from the rest. Then the prompt has other special tokens than one
// whose messages have no beginning of any, and the latter is taken.
func (r *Request) renderAsText(ctx context.Context, m Model) (string, *tokenizer.Shield, error) {
	shield := m.Tokenizer().NewShield()
	if err := r.checkRoles(shield); err != nil {
		return "", nil, err
	}
	text, err := r.render(ctx, m.Template(), shield)
	if err != nil || !shield.MayJoin() {
		return text, shield, err
	}
	strict := m.Tokenizer().NewShield()
	strict.HideStrictly()
	other, err := r.render(ctx, m.Template(), strict)
	if err == nil && slices.Equal(shield.Specials(text), strict.Specials(other)) {
		return text, shield, nil
	}
	return other, strict, err
}

// roles are those of OpenAI's API. Many templates write them into control tokens, as in <|user|>.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

// checkRoles refuses other roles that may become control tokens, as "end" would in <|end|>.
func (r *Request) checkRoles(s *tokenizer.Shield) error {
	for i := range r.Messages {
		if role := r.Messages[i].Role; !slices.Contains(roles, role) && s.InSpecial(role) {
			return BadParam(fmt.Sprintf("messages[%d].role", i), "it is a part of a control token "+
				"of the model, expected one of %s", strings.Join(roles, ", "))
		}
	}
	return nil
}

// render applies the chat template to the conversation.
func (r *Request) render(ctx context.Context, template *chat.Template,
	shield *tokenizer.Shield) (string, error) {
	if template == nil {
		return "", problem.New(problem.NoTemplate, "This model has no chat template", "",
			"Send plain text to /v1/completions, or add a chat_template.jinja to the model's "+
				"folder.")
	}
	kwargs, err := r.templateKwargs(template)
	if err != nil {
		return "", err
	}
	messages, unfinished := r.Messages, r.Continue
	if n := len(messages) - 1; unfinished && messages[n].Blank() {
		messages, unfinished = messages[:n], false // the answer is the whole message
	}
	if messages, err = template.Arrange(ctx, messages, len(r.Tools) > 0); err != nil {
		return "", problem.Wrap(problem.Cancelled, err, "The request was cancelled", "")
	}
	text, err := template.Render(ctx, chat.Input{AddGenerationPrompt: !r.NoGenerationPrompt,
		ContinueFinal: unfinished, After: r.AfterPlace, Messages: messages, Tools: r.Tools,
		Kwargs: kwargs, Hide: shield.Hide})
	var failed *chat.TemplateError
	if errors.As(err, &failed) {
		failed.Message = shield.Reveal(failed.Message) // it may quote a message
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", problem.Wrap(problem.Cancelled, err, "The request was cancelled", "")
	case failed != nil && failed.Raised:
		return "", problem.Wrap(problem.TemplateFailed, err,
			"The model's chat template rejected these messages", "")
	case failed != nil:
		return "", problem.Wrap(problem.TemplateFailed, err,
			"The model's chat template failed on these messages", "")
	case err != nil:
		return "", problem.Wrap(problem.BadRequest, err, "The messages cannot be rendered", "")
	}
	return text, nil
}

func (r *Request) templateKwargs(template *chat.Template) (map[string]any, error) {
	members, err := objectMembers(r.TemplateKwargs)
	if err != nil {
		return nil, problem.Wrap(problem.BadRequest, err,
			"chat_template_kwargs is not a JSON object", "")
	}
	var thinking *bool
	for _, name := range chat.ThinkingVariables {
		if thinking == nil && json.Unmarshal(members[name], &thinking) != nil {
			thinking = nil // not a boolean: only for the template
		}
	}
	kwargs := template.EffortVariables(r.Effort, thinking, len(r.Tools) > 0)
	for name, value := range members {
		kwargs[name] = value
	}
	return kwargs, nil
}

// ParamError is the error of an invalid parameter. Param is its JSON path, for example
// "messages[2].role". It is empty if the whole body is invalid.
type ParamError struct {
	Param   string
	Problem *problem.Problem
	// Unsupported means that the API has the parameter or its value, and Headroom has not.
	Unsupported bool
}

func (e *ParamError) Error() string { return e.Problem.Error() }

// Unwrap returns the Problem, so that problem.From finds it.
func (e *ParamError) Unwrap() error { return e.Problem }

// BadParam returns a ParamError with the code bad_request and a message such as "temperature: must
// be between 0 and 2, got 7".
func BadParam(param, format string, args ...any) *ParamError {
	return &ParamError{Param: param,
		Problem: problem.New(problem.BadRequest, param+": "+fmt.Sprintf(format, args...), "", "")}
}

// Unsupported returns a ParamError about a parameter, or a value of one, that the API has and
// Headroom has not.
func Unsupported(param, format string, args ...any) *ParamError {
	err := BadParam(param, format, args...)
	err.Unsupported = true
	return err
}

// NewID returns a random ID with the given prefix.
func NewID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return prefix + hex.EncodeToString(b[:])
}
