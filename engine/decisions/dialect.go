package decisions

import (
	"headroom/engine/generate"
	"headroom/engine/openai"
	"headroom/engine/server"
)

// Dialect serves OpenAI's decisions and System One.
type Dialect struct{}

// Routes returns the routes of the dialect.
func (Dialect) Routes() []server.Route {
	return []server.Route{
		{Pattern: "POST /v1/decisions", Alias: "POST /decisions",
			Summary: "OpenAI's decisions: probabilities in place of text.", Body: openAISchema,
			Whole: true,
			Parse: func(body []byte) (*server.Call, error) {
				return newCall(Parse, body, openAI)
			}},
		{Pattern: "POST /v1/systemone", Alias: "POST /systemone",
			Summary: "System One's decisions.", Body: systemOneSchema, Whole: true,
			Parse: func(body []byte) (*server.Call, error) {
				return newCall(ParseSystemOne, body, systemOne)
			}},
	}
}

// newCall returns the call of a body. render makes the document of its answer.
func newCall(parse func([]byte) (*Request, error), body []byte,
	render document) (*server.Call, error) {
	r, err := parse(body)
	if err != nil {
		return nil, err
	}
	d := &decision{questions: r.Questions}
	return &server.Call{ID: generate.NewID("dec_"), Request: r.Request, Reads: d.reads,
		Renderer: func(h generate.Head) server.Renderer {
			d.model = h.Model
			return &renderer{d, render}
		}}, nil
}

// Error renders err as {"error": {...}}, as OpenAI's other routes do.
func (Dialect) Error(err error) server.Event { return server.Event{Data: openai.NewErrorBody(err)} }
