package server

// Vectors and scores: the answers of embedding models and rerankers. A request has many short
// texts. Each becomes a request of the engine, which computes as many of them in a pass as fit.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"headroom/engine"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// maxTextsAhead is how many texts of a request the engine has at once. Short ones fill two passes,
// so that the engine need not wait for the next ones, and others still find places.
const maxTextsAhead = 64

const (
	// maxVectorRequests is how many requests for vectors are answered or wait at once.
	maxVectorRequests = 256
	// placePoll is after what time a request asks for a place again that has none.
	placePoll = 5 * time.Millisecond
)

// The memory of the vectors of a request: as JSON, a number takes about 12 bytes, and 8 more before
// that.
const (
	maxVectorBytes = 256 << 20
	bytesPerNumber = 20
)

// WakeFor is Wake for a model that must be for a task other than to generate text. Another model is
// refused before it is loaded, as far as Models knows it.
func (r Resources) WakeFor(ctx context.Context, name string, task modelfile.Task) (Model, error) {
	if err := checkTaskOf(r.Models, name, task); err != nil {
		return Model{}, err
	}
	m, err := r.Wake(ctx, name)
	if err == nil {
		err = checkTask(m.ID, m.Engine.Info().Task, task)
	}
	return m, err
}

// checkTaskOf is checkTask for the model that a request names, which need not be loaded.
func checkTaskOf(models Models, name string, task modelfile.Task) error {
	m, ok := models.(TaskModels)
	if !ok {
		return nil
	}
	id, is, known := m.Task(name)
	if !known {
		return nil
	}
	return checkTask(id, is, task)
}

// TextOptions say how texts become tokens.
type TextOptions struct {
	Param     string // the parameter with the texts, for errors
	NoSpecial bool   // the tokenizer adds no special tokens
	// Truncate is the number of tokens to which longer texts are shortened; 0: they are refused,
	// -1: as many as the context has.
	Truncate int
}

// EncodeTexts returns the tokens of each text. Errors are Problems.
func EncodeTexts(ctx context.Context, m Model, texts []generate.Prompt, o TextOptions) ([][]int32,
	error) {
	longest := m.Engine.Info().ContextTokens
	limit := longest
	if o.Truncate > 0 {
		limit = min(limit, o.Truncate)
	}
	list := make([][]int32, len(texts))
	for i, text := range texts {
		param := fmt.Sprintf("%s[%d]", o.Param, i)
		if len(texts) == 1 {
			param = o.Param
		}
		tokens, err := encodeText(ctx, m, text, o, limit)
		var long *problem.Problem
		switch {
		case errors.As(err, &long) && long.Overflow != nil:
			return nil, problem.TooLong(*long.Overflow, param+" has more")
		case err != nil:
			return nil, err
		case len(tokens) == 0:
			return nil, generate.BadParam(param, "has no tokens, expected at least one")
		case len(tokens) > longest:
			return nil, problem.TooLong(problem.Overflow{Tokens: len(tokens), Context: longest},
				param+" has more")
		}
		list[i] = tokens
	}
	return list, nil
}

// encodeText returns the tokens of a text, shortened to limit if the options say so.
func encodeText(ctx context.Context, m Model, text generate.Prompt, o TextOptions,
	limit int) ([]int32, error) {
	q := generate.Request{Prompt: text.Text, PromptTokens: text.Tokens, NoSpecial: o.NoSpecial}
	bound := m.Engine.Info().ContextTokens
	if o.Truncate != 0 {
		bound = 0 // a text of any length is shortened
	}
	tokens, _, err := q.Encode(ctx, m.Engine, bound)
	if err != nil || o.Truncate == 0 || len(tokens) <= limit {
		return tokens, err
	}
	if text.Tokens != nil || o.NoSpecial {
		return tokens[:limit], nil
	}
	// What the tokenizer adds at the end stays there.
	q.NoSpecial = true
	plain, _, err := q.Encode(ctx, m.Engine, bound)
	if err != nil {
		return nil, err
	}
	return shortened(tokens, plain, limit), nil
}

// shortened returns the first limit tokens of a text, with what the tokenizer has added at its end.
// plain are the tokens without what it adds.
func shortened(tokens, plain []int32, limit int) []int32 {
	before := 0
	for before+len(plain) < len(tokens) && !slices.Equal(tokens[before:before+len(plain)], plain) {
		before++
	}
	after := tokens[min(before+len(plain), len(tokens)):]
	if keep := limit - len(after); keep > before {
		return slices.Concat(tokens[:keep], after)
	}
	return tokens[:limit]
}

// Embed returns the vector of each text, in order, and how many tokens the texts have. If the model
// is a reranker, a vector is the score of a text. The texts are lists of tokens. m is what WakeFor
// has returned. If dimensions is not 0, a vector has only its first dimensions. Errors are
// Problems, or the error of ctx.
func (r Resources) Embed(ctx context.Context, m Model, texts [][]int32,
	dimensions int) (vectors [][]float32, tokens int, err error) {
	info := m.Engine.Info()
	if need := len(texts) * max(info.Dimensions, 1); need > maxVectorBytes/bytesPerNumber {
		return nil, 0, problem.New(problem.TooLarge, "The vectors of the request are too large",
			fmt.Sprintf("%d texts with %d dimensions each have %d numbers, the limit is %d",
				len(texts), info.Dimensions, need, maxVectorBytes/bytesPerNumber),
			"Send fewer texts at once.")
	}
	e := &embedding{m: m, texts: texts, priority: r.priority, requests: r.vectorRequests,
		vectors: make([][]float32, len(texts))}
	defer e.requests.Add(-1)
	if n := e.requests.Add(1); n > maxVectorRequests {
		return nil, 0, problem.New(problem.Busy, "Too many requests for vectors are waiting",
			fmt.Sprintf("%d are waiting, the limit is %d", n-1, maxVectorRequests),
			"Try again later, or send more texts in each request.")
	}
	defer e.cancel()
	err = e.run(ctx)
	if r.record != nil {
		r.record.model, r.record.id = m.ID, e.id
		r.record.prompt.PromptTokens += e.usage.PromptTokens
		r.record.used.PromptTokens += e.usage.PromptDoneTokens
	}
	if r.count != nil {
		r.count(e.usage)
	}
	if err != nil {
		return nil, 0, err
	}
	if dimensions > 0 && dimensions < info.Dimensions {
		for i, v := range e.vectors {
			e.vectors[i] = engine.ShortenVector(v, dimensions, info.Normalized)
		}
	}
	return e.vectors, e.usage.PromptTokens, nil
}

// checkTask returns the error of the parameter model if the model is not for a task.
func checkTask(id string, is, task modelfile.Task) error {
	if is == task {
		return nil
	}
	what, use := "generates text", "/v1/chat/completions"
	switch is {
	case modelfile.Embed:
		what, use = "is an embedding model", "/v1/embeddings"
	case modelfile.Rerank:
		what, use = "is a reranker", "/v1/rerank"
	}
	wanted := "generates text"
	switch task {
	case modelfile.Embed:
		wanted = "computes vectors, such as Qwen3-Embedding"
	case modelfile.Rerank:
		wanted = "compares a query with documents, such as Qwen3-Reranker"
	}
	return &generate.ParamError{Param: "model", Problem: problem.New(problem.BadRequest,
		fmt.Sprintf("The model %q %s", id, what), "this address needs a model that "+wanted,
		"Use it at "+use+", or name another model.")}
}

// embedding computes the vectors of the texts of a request.
type embedding struct {
	m        Model
	id       string
	priority int
	requests *atomic.Int64 // requests for vectors at the server, this one included
	texts    [][]int32
	vectors  [][]float32
	running  []*engine.Stream // in the order of the texts, those before done are nil
	done     int
	usage    engine.Usage
}

func (e *embedding) run(ctx context.Context) error {
	e.id = generate.NewID("embd-")
	for e.done < len(e.texts) {
		if err := e.submit(ctx); err != nil {
			return err
		}
		if err := e.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// submit submits further texts, fewer if other requests want places, too. It returns when it has
// submitted one or more that are not done.
func (e *embedding) submit(ctx context.Context) error {
	for {
		ahead := max(1, maxTextsAhead/int(e.requests.Load()))
		if len(e.running) >= min(e.done+ahead, len(e.texts)) {
			return nil
		}
		stream, err := e.m.Engine.Submit(engine.Request{ID: generate.NewID(e.id + "-"),
			Prompt: e.texts[len(e.running)], Embed: true, Priority: e.priority,
			Background: guard.InBackground(ctx)})
		if err != nil {
			if problem.From(err).Code != problem.Busy {
				return err
			}
			if len(e.running) > e.done {
				return nil
			}
			select { // those of others are done soon
			case <-time.After(placePoll):
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		e.running = append(e.running, stream)
	}
}

// errNoVector is the error of an engine that ends a text without a vector.
var errNoVector = errors.New("the engine has sent no vector")

// next waits for the vector of the next text.
func (e *embedding) next(ctx context.Context) error {
	for {
		event, err := e.running[e.done].Next(ctx)
		if err != nil {
			return err
		}
		switch event.Type {
		case engine.Embedded:
			e.vectors[e.done] = event.Vector
		case engine.Done:
			e.running[e.done] = nil
			e.done++
			e.usage.PromptTokens += event.Usage.PromptTokens
			e.usage.PromptDoneTokens += event.Usage.PromptDoneTokens
			switch {
			case event.Finish == engine.FinishCancelled:
				return errCancelled
			case event.Err != nil:
				return event.Err
			case e.vectors[e.done-1] == nil:
				return problem.Wrap(problem.Internal, errNoVector,
					"The model computed no vector", "Please report it.")
			}
			return nil
		}
	}
}

// cancel cancels what still runs.
func (e *embedding) cancel() {
	for _, stream := range e.running {
		if stream != nil {
			stream.Cancel()
		}
	}
}
