package rerank

import (
	"context"
	"fmt"
	"slices"

	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

// The prompt of Qwen3-Reranker, as in its model card. The parts are encoded apart.
const (
	qwen3Before = "<|im_start|>system\nJudge whether the Document meets the requirements based " +
		"on the Query and the Instruct provided. Note that the answer can only be \"yes\" or " +
		"\"no\".<|im_end|>\n<|im_start|>user\n"
	qwen3After       = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
	qwen3Pair        = "<Instruct>: %s\n<Query>: %s\n<Document>: %s"
	qwen3Instruction = "Given a web search query, retrieve relevant passages that answer the query"
)

// encode returns the tokens of the query with each document. Special tokens in the texts of the
// client stay text.
func (q *Request) encode(ctx context.Context, m server.Model) ([][]int32, error) {
	e := &encoder{ctx: ctx, tokenizer: m.Engine.Tokenizer(),
		context: m.Engine.Info().ContextTokens}
	pair := e.tokenizer.Pair()
	var list [][]int32
	switch {
	case m.Engine.Info().Architecture == "qwen3":
		list = e.prompts(q)
	case q.Instruction != "":
		return nil, generate.BadParam("instruction",
			"the model compares two texts, and takes no instruction")
	case pair == nil:
		return nil, problem.New(problem.ModelBroken,
			"The model's tokenizer cannot encode pairs of texts",
			"its post_processor in tokenizer.json has no pair",
			"Download or convert the model again.")
	default:
		list = e.pairs(q, pair)
	}
	if e.err != nil {
		return nil, e.err
	}
	for i, tokens := range list {
		if len(tokens) > e.context {
			return nil, problem.TooLong(problem.Overflow{Tokens: len(tokens), Context: e.context},
				fmt.Sprintf("the query with documents[%d] has more", i))
		}
	}
	return list, nil
}

// encoder encodes texts, until the first error.
type encoder struct {
	ctx       context.Context
	tokenizer *tokenizer.Tokenizer
	context   int // tokens
	err       error
}

// text returns the tokens of a text of the client.
func (e *encoder) text(text string) []int32 {
	shield := e.tokenizer.NewShield()
	return e.encode(shield.Hide(text), shield)
}

func (e *encoder) encode(text string, shield *tokenizer.Shield) []int32 {
	if e.err != nil {
		return nil
	}
	limit := e.context + e.context/4
	tokens, err := e.tokenizer.EncodeContext(e.ctx, text,
		tokenizer.EncodeOptions{Limit: limit, Shield: shield})
	if err != nil {
		e.err = generate.EncodeProblem(e.ctx, err, limit, e.context)
	}
	return tokens
}

// prompts returns the prompts for a language model.
func (e *encoder) prompts(q *Request) (list [][]int32) {
	instruction := q.Instruction
	if instruction == "" {
		instruction = qwen3Instruction
	}
	before, after := e.encode(qwen3Before, nil), e.encode(qwen3After, nil)
	for _, text := range q.Documents {
		list = append(list, slices.Concat(before,
			e.text(fmt.Sprintf(qwen3Pair, instruction, q.Query, text)), after))
	}
	return list
}

// pairs returns the pairs of the query with each document.
func (e *encoder) pairs(q *Request, p *tokenizer.Pair) (list [][]int32) {
	query := e.text(q.Query)
	for _, text := range q.Documents {
		list = append(list, slices.Concat(p.Before, query, p.Between, e.text(text), p.After))
	}
	return list
}
