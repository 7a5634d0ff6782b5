package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Dialect serves OpenAI's chat completions, completions, embeddings and models.
type Dialect struct{}

// Routes returns the routes of the dialect.
func (Dialect) Routes() []server.Route {
	return []server.Route{
		{Pattern: "POST /v1/chat/completions", Alias: "POST /chat/completions",
			Summary: "OpenAI's Chat Completions.", Body: chatSchema, Parse: parseChatCall},
		{Pattern: "POST /v1/completions", Alias: "POST /completions",
			Summary: "OpenAI's Completions.", Body: completionSchema, Parse: parseCompletionCall},
		{Pattern: "GET /v1/models", Alias: "GET /models",
			Summary: "The models that a request may name.", Document: listModels},
		{Pattern: "GET /v1/models/{id...}", Alias: "GET /models/{id...}", Summary: "One model.",
			Document: getModel},
		{Pattern: "POST /v1/embeddings", Alias: "POST /embeddings",
			Summary: "OpenAI's embeddings.", Body: embeddingSchema, Answer: embeddings},
		{Pattern: "POST /tokenize", Alias: "POST /v1/tokenize",
			Summary: "The tokens of a text or of a chat.", Body: tokenizeSchema,
			Answer: tokenize},
		{Pattern: "POST /detokenize", Alias: "POST /v1/detokenize", Summary: "The text of tokens.",
			Body: detokenizeSchema, Answer: detokenize},
		{Pattern: "POST /apply-template", Alias: "POST /v1/apply-template",
			Summary: "The prompt of a chat.", Body: chatSchema, Answer: applyTemplate},
	}
}

func parseChatCall(body []byte) (*server.Call, error) {
	q, err := ParseChat(body)
	if err != nil {
		return nil, err
	}
	r, err := q.request()
	if err != nil {
		return nil, err
	}
	return &server.Call{
		ID:      generate.NewID("chatcmpl-"),
		Request: *r,
		N:       q.N,
		OneCall: q.OneCall,
		Renderer: func(h generate.Head) server.Renderer {
			return &chatRenderer{head: newHead(h), includeUsage: q.IncludeUsage,
				includeDrafts: q.IncludeDrafts, hideReasoning: q.HideReasoning,
				predicted: q.Predicted}
		},
	}, nil
}

// request returns the request for a generation.
func (q *ChatRequest) request() (*generate.Request, error) {
	messages := make([]chat.Message, len(q.Messages))
	for i, m := range q.Messages {
		if err := json.Unmarshal(m.Raw, &messages[i]); err != nil {
			return nil, problem.Wrap(problem.BadRequest, err,
				fmt.Sprintf("messages[%d] is not valid", i), "")
		}
		if m.Role == "system" { // the developer's, too
			messages[i].Role = m.Role
		}
	}
	return &generate.Request{Params: q.Params.Params, Model: q.Model, Stream: q.Stream,
			Cache: q.Cache, Messages: messages, Tools: q.Tools, NoCalls: q.NoCalls,
			TemplateKwargs: q.TemplateKwargs, Effort: q.Effort, Continue: q.Continue,
			NoGenerationPrompt: q.NoGenerationPrompt},
		nil
}

func parseCompletionCall(body []byte) (*server.Call, error) {
	q, err := ParseCompletion(body)
	if err != nil {
		return nil, err
	}
	return &server.Call{
		ID: generate.NewID("cmpl-"),
		Request: generate.Request{Params: q.Params.Params, Model: q.Model, Stream: q.Stream,
			Cache: q.Cache, Prompt: q.Prompts[0].Text, PromptTokens: q.Prompts[0].Tokens,
			Suffix: q.Suffix},
		More: q.Prompts[1:],
		N:    q.N,
		Renderer: func(h generate.Head) server.Renderer {
			return &completionRenderer{head: newHead(h), includeUsage: q.IncludeUsage}
		},
	}, nil
}

// started is the "created" time of every model. The time of a model's folder would not tell when
// the model was created.
var started = time.Now().Unix()

// listModels answers GET /v1/models. A model has an entry for each of its aliases, too: clients let
// their users choose only what is in the list.
func listModels(_ *http.Request, models server.Models) (any, error) {
	var list []Model
	for _, m := range models.List() {
		one := NewModel(m, started)
		list = append(list, one)
		for _, alias := range m.Aliases {
			list = append(list, one.As(alias))
		}
	}
	return NewModelList(list), nil
}

func getModel(r *http.Request, models server.Models) (any, error) {
	name := r.PathValue("id")
	id, err := server.IDOf(models, name)
	if err != nil {
		return nil, err // it lists the available models
	}
	for _, m := range models.List() {
		if m.ID != id {
			continue
		}
		for _, alias := range m.Aliases {
			if strings.EqualFold(alias, name) {
				return NewModel(m, started).As(alias), nil
			}
		}
		return NewModel(m, started), nil
	}
	m, err := models.Acquire(name) // which says why it is not in the list
	if err != nil {
		return nil, err
	}
	return NewModel(server.ModelInfo{ID: m.ID, State: server.Loaded,
		ContextTokens: m.Engine.Info().ContextTokens}, started), nil
}

// Error renders err as {"error": {...}}.
func (Dialect) Error(err error) server.Event { return server.Event{Data: NewErrorBody(err)} }

// NewErrorBody renders err in OpenAI's format.
func NewErrorBody(err error) ErrorBody {
	p := problem.From(err)
	detail := ErrorDetail{Message: p.Error(), Type: errorType(p), Code: new(string(p.Code))}
	var atParam *Error
	if errors.As(err, &atParam) && atParam.Param != "" {
		detail.Param = &atParam.Param
	}
	switch { // the codes that clients look for are OpenAI's
	case p.Code == problem.ContextExceeded:
		detail.Code = new("context_length_exceeded")
	case atParam != nil && atParam.Unsupported:
		detail.Code = new("unsupported_parameter")
	case p.Code == problem.BadRequest:
		detail.Code = nil
	}
	return ErrorBody{Error: detail}
}

// errorType returns OpenAI's type of an error.
func errorType(p *problem.Problem) string {
	switch p.Code {
	case problem.Unauthorized:
		return "authentication_error"
	case problem.Forbidden:
		return "permission_error"
	case problem.Busy:
		return "rate_limit_error"
	case problem.Cancelled:
		return "cancelled"
	}
	if server.StatusOf(p) >= http.StatusInternalServerError {
		return "server_error"
	}
	return "invalid_request_error"
}
