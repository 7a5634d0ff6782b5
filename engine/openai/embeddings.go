package openai

// Vectors of texts. Sources: OpenAI's reference (embeddings), vLLM's
// entrypoints/pooling/embed/protocol.py and llama.cpp's tools/server/README.md for more fields.

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
	"headroom/engine/modelfile"
	"headroom/engine/server"
)

// EmbeddingRequest is a POST to /v1/embeddings.
type EmbeddingRequest struct {
	Model      string
	Param      string            // the field with the inputs, for errors: "input" or "content"
	Inputs     []generate.Prompt // at least one
	Base64     bool              // vectors are base64 of float32, not arrays of numbers
	Dimensions int               // the first dimensions of a vector; 0: all
	NoSpecial  bool              // the tokenizer adds no special tokens to a text
	// Truncate is the number of tokens to which longer inputs are shortened; 0: they are refused,
	// -1: as many as the context has.
	Truncate int
}

type wireEmbedding struct {
	Model            string          `json:"model"`
	Input            json.RawMessage `json:"input"`
	Content          json.RawMessage `json:"content"`
	EncodingFormat   *string         `json:"encoding_format"`
	Dimensions       *int            `json:"dimensions"`
	AddSpecialTokens *bool           `json:"add_special_tokens"`
	Truncate         *int            `json:"truncate_prompt_tokens"`
}

// embeddingFields says what becomes of each field of a request for vectors.
var embeddingFields = []jsonbody.Field{
	{Name: "add_special_tokens", Support: works},
	{Name: "content", Support: works, Note: "llama-server's name of `input`"},
	{Name: "dimensions", Support: works,
		Note: "the first dimensions of the vector, normalized again if the model normalizes"},
	{Name: "embd_normalize", Support: refused, Harmless: `2`},
	{Name: "embed_dtype", Support: refused, Harmless: `"float32"`},
	{Name: "encoding_format", Support: works, Note: "`float` or `base64`"},
	{Name: "endianness", Support: refused, Harmless: `"native" "little"`},
	{Name: "input", Support: works,
		Note: "a text, a list of token ids, or an array of up to 2048 of these"},
	{Name: "input_type", Support: refused, Instead: "Send the model's prompt as part of input"},
	{Name: "late_chunking", Support: refused, Harmless: `false`},
	{Name: "messages", Support: refused, Instead: "Send input"},
	{Name: "model", Support: works},
	{Name: "normalize", Support: refused, Harmless: `true`,
		Instead: "The files of the model say whether its vectors are normalized"},
	{Name: "request_id", Support: inert},
	{Name: "task", Support: refused, Instead: "Send the model's prompt as part of input"},
	{Name: "truncate_prompt_tokens", Support: works,
		Note: "longer inputs are shortened at their end; -1 stands for the context"},
	{Name: "use_activation", Support: refused, Harmless: `true`},
	{Name: "user", Support: inert},
}

var embeddingFieldsByName = jsonbody.ByName(embeddingFields)

// ParseEmbedding parses the body of a request to /v1/embeddings. The error is an *Error.
func ParseEmbedding(body []byte) (*EmbeddingRequest, error) {
	if err := check(body); err != nil {
		return nil, err
	}
	if err := embeddingFieldsByName.Refuse(body); err != nil {
		return nil, err
	}
	var w wireEmbedding
	if err := decode(body, &w, ""); err != nil {
		return nil, err
	}
	if len(w.Model) > maxNameBytes {
		return nil, badParam("model", "at most %d bytes, got %d", maxNameBytes, len(w.Model))
	}
	q := &EmbeddingRequest{Model: w.Model, Param: "input",
		NoSpecial: w.AddSpecialTokens != nil && !*w.AddSpecialTokens}
	input := w.Input
	if isNull(input) && !isNull(w.Content) {
		q.Param, input = "content", w.Content
	}
	var err error
	if q.Inputs, err = parsePrompts(q.Param, input); err != nil {
		return nil, err
	}
	if w.EncodingFormat != nil {
		if q.Base64 = *w.EncodingFormat == "base64"; !q.Base64 && *w.EncodingFormat != "float" {
			return nil, badParam("encoding_format", "must be float or base64, got %.80q",
				*w.EncodingFormat)
		}
	}
	if d := w.Dimensions; d != nil {
		if q.Dimensions = *d; *d < 1 {
			return nil, badParam("dimensions", "must be at least 1, got %d", *d)
		}
	}
	if n := w.Truncate; n != nil {
		if q.Truncate = *n; *n < -1 || *n == 0 {
			return nil, badParam("truncate_prompt_tokens", "must be at least 1, or -1, got %d", *n)
		}
	}
	return q, nil
}

// Embeddings is the answer of /v1/embeddings.
type Embeddings struct {
	Object string         `json:"object"` // "list"
	Data   []Embedding    `json:"data"`
	Model  string         `json:"model"`
	Usage  EmbeddingUsage `json:"usage"`
}

// Embedding is the vector of one input.
type Embedding struct {
	Object    string `json:"object"` // "embedding"
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or base64 of them in little-endian order
}

// EmbeddingUsage counts the tokens of all inputs.
type EmbeddingUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

func embeddings(ctx context.Context, body []byte, with server.Resources) (any, error) {
	q, err := ParseEmbedding(body)
	if err != nil {
		return nil, err
	}
	m, err := with.WakeFor(ctx, q.Model, modelfile.Embed)
	if err != nil {
		return nil, err
	}
	if most := m.Engine.Info().Dimensions; q.Dimensions > most {
		return nil, badParam("dimensions", "the model's vectors have %d, got %d", most,
			q.Dimensions)
	}
	texts, err := server.EncodeTexts(ctx, m, q.Inputs, server.TextOptions{Param: q.Param,
		NoSpecial: q.NoSpecial, Truncate: q.Truncate})
	if err != nil {
		return nil, err
	}
	vectors, tokens, err := with.Embed(ctx, m, texts, q.Dimensions)
	if err != nil {
		return nil, err
	}
	answer := Embeddings{Object: "list", Data: make([]Embedding, len(vectors)), Model: m.ID,
		Usage: EmbeddingUsage{tokens, tokens}}
	for i, v := range vectors {
		answer.Data[i] = Embedding{Object: "embedding", Index: i, Embedding: v}
		if q.Base64 {
			answer.Data[i].Embedding = base64Of(v)
		}
	}
	return answer, nil
}

// base64Of returns the elements of v as bytes in little-endian order, as base64.
func base64Of(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
