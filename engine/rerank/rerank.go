// Package rerank implements the API by which clients let a reranker order documents by how well
// they answer a query. Jina and Cohere have it, and so do vLLM and llama-server. Dialect is the
// entry point. Errors have OpenAI's form.
//
// A reranker is a language model that is asked about each document (prompt.go), or an encoder with
// a head for pairs of texts. Both give a number per document, which a sigmoid turns into a score
// from 0 to 1.
//
// Sources: https://jina.ai/reranker and https://docs.cohere.com/reference/rerank; vLLM,
// entrypoints/pooling/score; llama.cpp, tools/server/README.md.
package rerank

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
	"headroom/engine/modelfile"
	"headroom/engine/openai"
	"headroom/engine/server"
)

const summary = "Orders documents by a query."

// Dialect serves reranking.
type Dialect struct{}

// Routes returns the routes of the dialect.
func (Dialect) Routes() []server.Route {
	return []server.Route{
		{Pattern: "POST /v1/rerank", Alias: "POST /rerank", Summary: summary, Body: bodySchema,
			Answer: rerank},
		{Pattern: "POST /v1/reranking", Alias: "POST /reranking", Summary: summary,
			Body: bodySchema, Answer: rerank},
		{Pattern: "POST /v2/rerank", Summary: summary, Body: bodySchema, Answer: rerank},
	}
}

// Error renders err as {"error": {...}}.
func (Dialect) Error(err error) server.Event { return openai.Dialect{}.Error(err) }

// Error is the error of a request with an invalid parameter or body.
type Error = jsonbody.Error

// maxDocuments is the most documents of a request.
const maxDocuments = 2048

// Request is a POST to /v1/rerank.
type Request struct {
	Model     string
	Query     string
	Documents []string // at least one
	// Instruction tells a language model what a document must do to match; "": its default.
	Instruction string
	TopN        int  // how many results to return; 0: all
	HideTexts   bool // results do not repeat the documents
}

type wireRequest struct {
	Model           string            `json:"model"`
	Query           *string           `json:"query"`
	Documents       []json.RawMessage `json:"documents"`
	TopN            *int              `json:"top_n"`
	ReturnDocuments *bool             `json:"return_documents"`
	Instruction     *string           `json:"instruction"`
}

// fields says what becomes of each field of a request.
var fields = []jsonbody.Field{
	{Name: "documents", Support: jsonbody.Works,
		Note: "up to 2048 texts, or objects with a `text`"},
	{Name: "instruction", Support: jsonbody.Works,
		Note: "Headroom's: what a document must do to match, for a reranker that is a language " +
			"model; by default, that of its model card"},
	{Name: "max_chunks_per_doc", Support: jsonbody.Refused},
	{Name: "max_tokens_per_doc", Support: jsonbody.Refused,
		Instead: "Send shorter documents"},
	{Name: "mm_processor_kwargs", Support: jsonbody.Inert},
	{Name: "model", Support: jsonbody.Works},
	{Name: "priority", Support: jsonbody.Inert},
	{Name: "query", Support: jsonbody.Works},
	{Name: "rank_fields", Support: jsonbody.Refused, Harmless: `[] ["text"]`},
	{Name: "request_id", Support: jsonbody.Inert},
	{Name: "return_documents", Support: jsonbody.Works, Note: "`true` without it"},
	{Name: "texts", Support: jsonbody.Refused, Instead: "Send documents"},
	{Name: "top_n", Support: jsonbody.Works},
	{Name: "truncate_prompt_tokens", Support: jsonbody.Refused,
		Instead: "Send shorter documents"},
	{Name: "truncation", Support: jsonbody.Refused, Harmless: `false`,
		Instead: "Send shorter documents"},
	{Name: "use_activation", Support: jsonbody.Refused, Harmless: `true`},
	{Name: "user", Support: jsonbody.Inert},
}

var fieldsByName = jsonbody.ByName(fields)

// Parse parses the body of a request. The error is an *Error.
func Parse(body []byte) (*Request, error) {
	if err := jsonbody.Check(body); err != nil {
		return nil, err
	}
	if err := fieldsByName.Refuse(body); err != nil {
		return nil, err
	}
	var w wireRequest
	if err := jsonbody.Decode(body, &w, ""); err != nil {
		return nil, err
	}
	switch n := len(w.Documents); {
	case len(w.Model) > jsonbody.MaxNameBytes:
		return nil, generate.BadParam("model", "at most %d bytes, got %d", jsonbody.MaxNameBytes,
			len(w.Model))
	case w.Query == nil:
		return nil, generate.BadParam("query", "is missing")
	case n == 0:
		return nil, generate.BadParam("documents", "expected at least one")
	case n > maxDocuments:
		return nil, generate.BadParam("documents", "at most %d, got %d", maxDocuments, n)
	case w.TopN != nil && *w.TopN < 1:
		return nil, generate.BadParam("top_n", "must be at least 1, got %d", *w.TopN)
	}
	q := &Request{Model: w.Model, Query: *w.Query,
		HideTexts: w.ReturnDocuments != nil && !*w.ReturnDocuments}
	if w.TopN != nil {
		q.TopN = *w.TopN
	}
	if w.Instruction != nil {
		q.Instruction = *w.Instruction
	}
	for i, raw := range w.Documents {
		text, err := document(fmt.Sprintf("documents[%d]", i), raw)
		if err != nil {
			return nil, err
		}
		q.Documents = append(q.Documents, text)
	}
	return q, nil
}

// document returns the text of a document: a string, or the text of an object.
func document(param string, raw json.RawMessage) (string, error) {
	var text string
	switch jsonbody.Kind(raw) {
	case "a string":
		return text, jsonbody.Decode(raw, &text, param)
	case "an object":
		var w struct {
			Text *string `json:"text"`
		}
		if err := jsonbody.Decode(raw, &w, param); err != nil {
			return "", err
		}
		if w.Text != nil {
			return *w.Text, nil
		}
		return "", generate.BadParam(param+".text", "is missing")
	}
	return "", generate.BadParam(param, "expected a string or an object with a text, got %s",
		jsonbody.Kind(raw))
}

// Response is the answer: the best documents first.
type Response struct {
	ID      string                `json:"id"`
	Object  string                `json:"object"` // "list"
	Model   string                `json:"model"`
	Results []Result              `json:"results"`
	Usage   openai.EmbeddingUsage `json:"usage"`
}

// Result is the score of one document.
type Result struct {
	Index          int       `json:"index"` // in the documents of the request
	RelevanceScore float64   `json:"relevance_score"`
	Document       *Document `json:"document,omitempty"`
}

// Document is a document of the request.
type Document struct {
	Text string `json:"text"`
}

func rerank(ctx context.Context, body []byte, with server.Resources) (any, error) {
	q, err := Parse(body)
	if err != nil {
		return nil, err
	}
	m, err := with.WakeFor(ctx, q.Model, modelfile.Rerank)
	if err != nil {
		return nil, err
	}
	texts, err := q.encode(ctx, m)
	if err != nil {
		return nil, err
	}
	numbers, tokens, err := with.Embed(ctx, m, texts, 0)
	if err != nil {
		return nil, err
	}
	answer := Response{ID: generate.NewID("rerank-"), Object: "list", Model: m.ID,
		Results: make([]Result, len(numbers)), Usage: openai.EmbeddingUsage{PromptTokens: tokens,
			TotalTokens: tokens}}
	for i, v := range numbers {
		answer.Results[i] = Result{Index: i, RelevanceScore: score(v)}
		if !q.HideTexts {
			answer.Results[i].Document = &Document{q.Documents[i]}
		}
	}
	slices.SortStableFunc(answer.Results, func(a, b Result) int {
		return cmp.Compare(b.RelevanceScore, a.RelevanceScore)
	})
	if q.TopN > 0 {
		answer.Results = answer.Results[:min(q.TopN, len(answer.Results))]
	}
	return answer, nil
}

// score returns the score for what the model computes of a document: a number, or the logits of
// "yes" and "no".
func score(v []float32) float64 {
	x := float64(v[0])
	if len(v) == 2 {
		x -= float64(v[1])
	}
	return 1 / (1 + math.Exp(-x))
}
