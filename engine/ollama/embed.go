package ollama

// Vectors of texts: /api/embed, and /api/embeddings, which older clients use.

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"headroom/engine"
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
	"headroom/engine/modelfile"
	"headroom/engine/server"
)

// maxInputs is the most texts of a request.
const maxInputs = 2048

// EmbedRequest is a POST to /api/embed or /api/embeddings.
type EmbedRequest struct {
	Model      string
	Param      string // the field with the texts, for errors: "input" or "prompt"
	Inputs     []string
	Refuse     bool // a text that does not fit is refused, not shortened
	Dimensions int  // 0: all
}

type wireEmbed struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Truncate   *bool           `json:"truncate"`
	Dimensions *int            `json:"dimensions"`
}

type wireEmbeddings struct {
	Model  string  `json:"model"`
	Prompt *string `json:"prompt"`
}

const (
	keepNote    = "the settings decide how long a model stays loaded"
	optionsNote = "they change no vector"
)

// embedFields and embeddingsFields say what becomes of each field of the two routes.
var (
	embedFields = []jsonbody.Field{
		{Name: "dimensions", Support: works},
		{Name: "input", Support: works, Note: "a text or an array of up to 2048"},
		{Name: "keep_alive", Support: inert, Note: keepNote},
		{Name: "model", Support: works},
		{Name: "options", Support: inert, Note: optionsNote},
		{Name: "truncate", Support: works, Note: "`true` without it"},
	}
	embeddingsFields = []jsonbody.Field{
		{Name: "keep_alive", Support: inert, Note: keepNote},
		{Name: "model", Support: works},
		{Name: "options", Support: inert, Note: optionsNote},
		{Name: "prompt", Support: works},
	}

	embedFieldsByName      = jsonbody.ByName(embedFields)
	embeddingsFieldsByName = jsonbody.ByName(embeddingsFields)
)

// ParseEmbed parses the body of a request to /api/embed. The error is an *Error.
func ParseEmbed(body []byte) (*EmbedRequest, error) {
	var w wireEmbed
	if err := decodeBody(body, &w, embedFieldsByName); err != nil {
		return nil, err
	}
	q := &EmbedRequest{Param: "input", Refuse: w.Truncate != nil && !*w.Truncate}
	if d := w.Dimensions; d != nil && *d != 0 { // clients send 0 for all
		if q.Dimensions = *d; *d < 0 {
			return nil, badParam("dimensions", "must be at least 1, got %d", *d)
		}
	}
	switch jsonbody.Kind(w.Input) {
	case "nothing", "null":
		return nil, badParam("input", "is missing")
	case "a string":
		q.Inputs = []string{""}
		if err := jsonbody.Decode(w.Input, &q.Inputs[0], "input"); err != nil {
			return nil, err
		}
	case "an array":
		var texts []*string
		if err := jsonbody.Decode(w.Input, &texts, "input"); err != nil {
			return nil, err
		}
		q.Inputs = make([]string, len(texts))
		for i, text := range texts {
			if text == nil {
				return nil, badParam(fmt.Sprintf("input[%d]", i), "expected a string, got null")
			}
			q.Inputs[i] = *text
		}
	default:
		return nil, badParam("input", "expected a string or an array of strings, got %s",
			jsonbody.Kind(w.Input))
	}
	if n := len(q.Inputs); n > maxInputs {
		return nil, badParam("input", "at most %d texts, got %d", maxInputs, n)
	}
	return q, q.setModel(w.Model)
}

// ParseEmbeddings parses the body of a request to /api/embeddings. The error is an *Error.
func ParseEmbeddings(body []byte) (*EmbedRequest, error) {
	var w wireEmbeddings
	if err := decodeBody(body, &w, embeddingsFieldsByName); err != nil {
		return nil, err
	}
	if w.Prompt == nil {
		return nil, badParam("prompt", "is missing")
	}
	q := &EmbedRequest{Param: "prompt", Inputs: []string{*w.Prompt}}
	return q, q.setModel(w.Model)
}

func (q *EmbedRequest) setModel(name string) error {
	if len(name) > jsonbody.MaxNameBytes {
		return badParam("model", "at most %d bytes, got %d", jsonbody.MaxNameBytes, len(name))
	}
	q.Model = name
	return nil
}

// Embeddings is the answer of /api/embed. Times are in nanoseconds.
type Embeddings struct {
	Model           string      `json:"model"`
	Embeddings      [][]float32 `json:"embeddings"`
	TotalDuration   int64       `json:"total_duration"`
	LoadDuration    int64       `json:"load_duration"`
	PromptEvalCount int         `json:"prompt_eval_count"`
}

func embed(ctx context.Context, body []byte, with server.Resources) (any, error) {
	begun := time.Now()
	q, err := ParseEmbed(body)
	if err != nil {
		return nil, err
	}
	answer := Embeddings{Model: q.Model, Embeddings: [][]float32{}}
	loaded, err := q.vectors(ctx, with, &answer)
	if err != nil {
		return nil, err
	}
	for i, v := range answer.Embeddings { // as Ollama does, for every model
		answer.Embeddings[i] = engine.ShortenVector(v, len(v), true)
	}
	answer.LoadDuration = loaded.Sub(begun).Nanoseconds()
	answer.TotalDuration = time.Since(begun).Nanoseconds()
	return answer, nil
}

func embeddings(ctx context.Context, body []byte, with server.Resources) (any, error) {
	q, err := ParseEmbeddings(body)
	if err != nil {
		return nil, err
	}
	var all Embeddings
	if _, err = q.vectors(ctx, with, &all); err != nil {
		return nil, err
	}
	return struct {
		Embedding []float32 `json:"embedding"`
	}{all.Embeddings[0]}, nil
}

// vectors computes the vectors of the inputs. It returns when the model was loaded.
func (q *EmbedRequest) vectors(ctx context.Context, with server.Resources,
	answer *Embeddings) (loaded time.Time, err error) {
	m, err := with.WakeFor(ctx, q.Model, modelfile.Embed)
	if err != nil {
		return loaded, err
	}
	loaded = time.Now()
	if most := m.Engine.Info().Dimensions; q.Dimensions > most {
		return loaded, badParam("dimensions", "the model's vectors have %d, got %d", most,
			q.Dimensions)
	}
	if len(q.Inputs) == 0 { // the client wants the model loaded
		return loaded, nil
	}
	texts := make([]generate.Prompt, len(q.Inputs))
	for i, text := range q.Inputs {
		texts[i].Text = text
	}
	o := server.TextOptions{Param: q.Param, Truncate: -1}
	if q.Refuse {
		o.Truncate = 0
	}
	tokens, err := server.EncodeTexts(ctx, m, texts, o)
	if err != nil {
		return loaded, err
	}
	answer.Embeddings, answer.PromptEvalCount, err = with.Embed(ctx, m, tokens, q.Dimensions)
	return loaded, err
}
