package openai

// Token counts and prompts without a generation, as llama-server and vLLM have them. Each of the
// two has its own names for the fields. Sources: llama.cpp's tools/server/README.md, and vLLM's
// entrypoints/serve/tokenize/protocol.py.

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

// wireTokenize is a request for the tokens of a text. With messages, it is that of a chat.
type wireTokenize struct {
	Model    string          `json:"model"`
	Messages json.RawMessage `json:"messages"`

	// vLLM's names.
	Prompt           *string `json:"prompt"`
	AddSpecialTokens *bool   `json:"add_special_tokens"` // true unless sent
	ReturnTokenStrs  *bool   `json:"return_token_strs"`

	// llama-server's names.
	Content      *string `json:"content"`
	AddSpecial   *bool   `json:"add_special"`   // false unless sent
	ParseSpecial *bool   `json:"parse_special"` // true unless sent
	WithPieces   *bool   `json:"with_pieces"`
}

// Tokens is the answer of /tokenize.
type Tokens struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len,omitempty"`
	Tokens      any      `json:"tokens"` // []int32, or []Piece
	TokenStrs   []string `json:"token_strs,omitempty"`
}

// Piece is a token with its text, or with its bytes if they are not valid UTF-8.
type Piece struct {
	ID    int32 `json:"id"`
	Piece any   `json:"piece"` // a string, or []int
}

func tokenize(ctx context.Context, body []byte, with server.Resources) (any, error) {
	if err := check(body); err != nil {
		return nil, err
	}
	var w wireTokenize
	if err := decode(body, &w, ""); err != nil {
		return nil, err
	}
	on := func(b *bool, unless bool) bool {
		if b == nil {
			return unless
		}
		return *b
	}
	var model server.Model
	var tokens []int32
	var err error
	switch {
	case w.Messages != nil:
		var r *generate.Request
		if r, model, err = conversation(ctx, body, with); err == nil {
			tokens, _, err = r.Encode(ctx, model.Engine, 0)
		}
	case w.Content != nil:
		model, tokens, err = encodeText(ctx, w.Model, *w.Content, on(w.AddSpecial, false),
			on(w.ParseSpecial, true), with)
	case w.Prompt != nil:
		model, tokens, err = encodeText(ctx, w.Model, *w.Prompt, on(w.AddSpecialTokens, true),
			true, with)
	default:
		err = badParam("prompt", "is missing; expected prompt, content or messages")
	}
	if err != nil {
		return nil, err
	}
	t := model.Engine.Tokenizer()
	answer := Tokens{Count: len(tokens), MaxModelLen: model.Engine.Info().ContextTokens,
		Tokens: append([]int32{}, tokens...)}
	if on(w.ReturnTokenStrs, false) {
		answer.TokenStrs = make([]string, len(tokens))
		for i, id := range tokens {
			answer.TokenStrs[i] = text(t.TokenBytes(id))
		}
	}
	if on(w.WithPieces, false) {
		pieces := make([]Piece, len(tokens))
		for i, id := range tokens {
			pieces[i] = newPiece(id, t.TokenBytes(id))
		}
		answer.Tokens = pieces
	}
	return answer, nil
}

func newPiece(id int32, text []byte) Piece {
	if utf8.Valid(text) {
		return Piece{ID: id, Piece: string(text)}
	}
	return Piece{ID: id, Piece: integers(text)}
}

// encodeText returns the tokens of a text. If parse is not set, special tokens in it stay text.
func encodeText(ctx context.Context, id, text string, add, parse bool,
	with server.Resources) (server.Model, []int32, error) {
	model, err := with.Wake(ctx, id)
	if err != nil {
		return server.Model{}, nil, err
	}
	if parse {
		r := generate.Request{Prompt: text, NoSpecial: !add}
		tokens, _, err := r.Encode(ctx, model.Engine, 0)
		return model, tokens, err
	}
	t := model.Engine.Tokenizer()
	options := tokenizer.EncodeOptions{AddSpecial: add, Shield: t.NewShield()}
	tokens, err := t.EncodeContext(ctx, options.Shield.Hide(text), options)
	if err != nil {
		err = problem.Wrap(problem.BadRequest, err, "The text cannot be encoded", "")
	}
	return model, tokens, err
}

// conversation returns the request of a chat, with the settings of its model.
func conversation(ctx context.Context, body []byte,
	with server.Resources) (*generate.Request, server.Model, error) {
	q, err := ParseChat(body)
	if err != nil {
		return nil, server.Model{}, err
	}
	r, err := q.request()
	if err != nil {
		return nil, server.Model{}, err
	}
	model, err := with.Wake(ctx, r.Model)
	if err != nil {
		return nil, server.Model{}, err
	}
	r.SetDefaults(with.Defaults(model.ID))
	return r, model, nil
}

// Text is the answer of /detokenize, under the names of both servers.
type Text struct {
	Content string `json:"content"` // llama-server's
	Prompt  string `json:"prompt"`  // vLLM's
}

type wireDetokenize struct {
	Model  string          `json:"model"`
	Tokens json.RawMessage `json:"tokens"`
}

func detokenize(ctx context.Context, body []byte, with server.Resources) (any, error) {
	var w wireDetokenize
	if err := check(body); err != nil {
		return nil, err
	}
	if err := decode(body, &w, ""); err != nil {
		return nil, err
	}
	if isNull(w.Tokens) || w.Tokens[0] != '[' {
		return nil, badParam("tokens", "expected an array of token ids, got %s", kind(w.Tokens))
	}
	n, _ := count(w.Tokens)
	tokens, bad := parseTokens("tokens", w.Tokens, n)
	if bad != nil {
		return nil, bad
	}
	model, err := with.Wake(ctx, w.Model)
	if err != nil {
		return nil, err
	}
	t := model.Engine.Tokenizer()
	for i, id := range tokens {
		if int(id) >= t.VocabSize() {
			return nil, badParam("tokens", "the model has no token %d, at position %d", id, i)
		}
	}
	text := t.Decode(tokens, false)
	return Text{Content: text, Prompt: text}, nil
}

func applyTemplate(ctx context.Context, body []byte, with server.Resources) (any, error) {
	r, model, err := conversation(ctx, body, with)
	if err != nil {
		return nil, err
	}
	prompt, err := r.Text(ctx, model.Engine)
	if err != nil {
		return nil, err
	}
	return struct {
		Prompt string `json:"prompt"`
	}{prompt}, nil
}
