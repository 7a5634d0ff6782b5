package server

// Chat completions: everything that must be right before tokens are spent, from body to prompt.
// What follows is shared with completions.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"headroom/engine/chat"
	"headroom/engine/openai"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

func (s *Server) handleChat(w http.ResponseWriter, r *http.Request) {
	body, err := s.readBody(w, r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	q, err := openai.ParseChat(body)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	m, err := s.models.Wake(r.Context(), q.Model)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	q.Default(s.defaults(m.ID))
	text, err := RenderChat(m.Engine.Template(), q)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	head := newHead("chatcmpl-", m.ID)
	s.serve(w, r, job{
		model:  m,
		params: q.Params,
		head:   head,
		prompt: m.Engine.Tokenizer().Encode(text, tokenizer.EncodeOptions{}),
		form:   &chatForm{head: head},
		split:  chat.NewSplitter(chat.StartsInReasoning(text), m.Engine.Template().Tools(q.Tools)),
	})
}

// RenderChat makes the prompt of a conversation. Errors are Problems.
func RenderChat(template *chat.Template, q *openai.ChatRequest) (string, error) {
	if template == nil {
		return "", problem.New(problem.NoTemplate, "This model has no chat template", "",
			"Send plain text to /v1/completions, or put a chat_template.jinja into the model's "+
				"folder.")
	}
	in := chat.Input{AddGenerationPrompt: true, Tools: q.Tools,
		Messages: make([]chat.Message, len(q.Messages))}
	for i, m := range q.Messages {
		if err := json.Unmarshal(m.Raw, &in.Messages[i]); err != nil {
			return "", problem.Wrap(problem.BadRequest, err,
				fmt.Sprintf("messages[%d] cannot be read", i), "")
		}
		in.Messages[i].Role = m.Role
	}
	var err error
	if in.Kwargs, err = TemplateKwargs(q); err != nil {
		return "", err
	}
	text, err := template.Render(in)
	var refused *chat.TemplateError
	switch {
	case errors.As(err, &refused) && refused.Raised:
		return "", problem.Wrap(problem.TemplateFailed, err,
			"The model's chat template refuses these messages", "")
	case refused != nil:
		return "", problem.Wrap(problem.TemplateFailed, err,
			"The model's chat template failed on these messages", "")
	case err != nil:
		return "", problem.Wrap(problem.BadRequest, err, "The messages cannot be rendered", "")
	}
	return text, nil
}

// TemplateKwargs are the request's variables for the chat template; nil: none. Errors are Problems.
func TemplateKwargs(q *openai.ChatRequest) (map[string]any, error) {
	if q.TemplateKwargs == nil {
		return nil, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(q.TemplateKwargs, &members); err != nil {
		return nil, problem.Wrap(problem.BadRequest, err, "chat_template_kwargs cannot be read", "")
	}
	kwargs := make(map[string]any, len(members))
	for name, value := range members {
		kwargs[name] = value
	}
	return kwargs, nil
}
