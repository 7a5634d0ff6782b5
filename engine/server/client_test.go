package server_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/guard"
	"headroom/engine/server"
)

// newClient returns OpenAI's official Go client, connected to a server with the bundled model.
func newClient(t *testing.T) openai.Client {
	t.Helper()
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), engine.Source{FS: files},
		engine.Options{ContextTokens: 2048, MaxSequences: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := start(t, nil, server.Options{Models: &fakeModels{engine: e},
		Guard: &guard.Guard{APIKey: "k"}})
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("k"),
		option.WithMaxRetries(0))
}

// TestOpenAIClient sends typical requests with the official client. The whole answer and the
// streamed answer must be equal, because sampling is greedy by default.
func TestOpenAIClient(t *testing.T) {
	client, ctx := newClient(t), t.Context()
	question := openai.ChatCompletionNewParams{
		Model: "demo",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."),
			openai.UserMessage("What is a KV cache?")},
		Logprobs:    openai.Bool(true),
		TopLogprobs: openai.Int(2),
	}
	answer, err := client.Chat.Completions.New(ctx, question)
	if err != nil {
		t.Fatal(err)
	}
	whole := answer.Choices[0]
	if whole.Message.Content == "" || whole.FinishReason != "stop" ||
		string(whole.Message.Role) != "assistant" {
		t.Errorf("answer %+v, expected content, stop and the role assistant", whole)
	}
	if u := answer.Usage; u.PromptTokens < 10 || u.CompletionTokens < 2 ||
		u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage %+v, expected at least 10 and 2 tokens and their sum", u)
	}
	text := ""
	for _, token := range whole.Logprobs.Content {
		text += token.Token
		if token.Logprob > 0 || len(token.TopLogprobs) != 2 ||
			token.TopLogprobs[0].Token != token.Token {
			t.Errorf("token %+v: expected 2 candidates, the token itself as the first one", token)
		}
	}
	if !strings.HasSuffix(text, "</think>\n\n"+whole.Message.Content+"<|im_end|>") {
		t.Errorf("the tokens in logprobs form %q, the content is %q", text, whole.Message.Content)
	}
	if n := len(whole.Logprobs.Content); n != int(answer.Usage.CompletionTokens) {
		t.Errorf("%d tokens in logprobs, the usage counts %d", n, answer.Usage.CompletionTokens)
	}

	question.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, question)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			t.Fatalf("the client cannot add the chunk %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := all.Choices[0]; got.Message.Content != whole.Message.Content ||
		got.FinishReason != whole.FinishReason ||
		len(got.Logprobs.Content) != len(whole.Logprobs.Content) {
		t.Errorf("streamed %q (%s), whole %q (%s)", got.Message.Content, got.FinishReason,
			whole.Message.Content, whole.FinishReason)
	}
	if all.Usage.CompletionTokens != answer.Usage.CompletionTokens {
		t.Errorf("streamed usage %+v, whole %+v", all.Usage, answer.Usage)
	}
}

func TestOpenAIClientCompletions(t *testing.T) {
	client, ctx := newClient(t), t.Context()
	q := openai.CompletionNewParams{
		Model:     "demo",
		Prompt:    openai.CompletionNewParamsPromptUnion{OfString: openai.String("The KV cache")},
		MaxTokens: openai.Int(8),
		Logprobs:  openai.Int(1),
		Seed:      openai.Int(1),
	}
	answer, err := client.Completions.New(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	if c := answer.Choices[0]; c.Text == "" || c.FinishReason != "length" ||
		len(c.Logprobs.Tokens) != 8 || strings.Join(c.Logprobs.Tokens, "") != c.Text {
		t.Errorf("answer %+v, expected a text of 8 tokens and length", c)
	}
	stream, text := client.Completions.NewStreaming(ctx, q), ""
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			text += c.Text
		}
	}
	if stream.Err() != nil || text != answer.Choices[0].Text {
		t.Errorf("streamed %q, %v; whole %q", text, stream.Err(), answer.Choices[0].Text)
	}
}

func TestOpenAIClientModelsAndErrors(t *testing.T) {
	client, ctx := newClient(t), t.Context()
	list, err := client.Models.List(ctx)
	if err != nil || len(list.Data) != 1 || list.Data[0].ID != "demo" {
		t.Errorf("models %+v (%v), expected demo only", list, err)
	}
	if m, err := client.Models.Get(ctx, "demo"); err != nil || m.ID != "demo" {
		t.Errorf("model %+v (%v), expected demo", m, err)
	}
	_, err = client.Chat.Completions.New(ctx,
		openai.ChatCompletionNewParams{Model: "gpt-4",
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}})
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != 404 ||
		refused.Code != "model_not_found" || refused.Type != "invalid_request_error" {
		t.Errorf("unknown model: got %v, expected 404 with model_not_found", err)
	}
	_, err = client.Chat.Completions.New(ctx,
		openai.ChatCompletionNewParams{Model: "demo", Temperature: openai.Float(3),
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}})
	if !errors.As(err, &refused) || refused.StatusCode != 400 || refused.Param != "temperature" {
		t.Errorf("bad parameter: got %v, expected 400 about temperature", err)
	}
}

// TestRealEngineCancels checks that the real engine cancels a request when its client disconnects.
func TestRealEngineCancels(t *testing.T) {
	files, _ := fs.Sub(demo.Files, "model")
	e, err := engine.Open(t.Context(), engine.Source{FS: files},
		engine.Options{ContextTokens: 4096, MaxSequences: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := start(t, nil, server.Options{Models: &fakeModels{engine: e}})
	// The logit bias excludes the end tokens, so this answer does not end by itself.
	lines, leave := open(t, s.URL+"/v1/completions",
		`{"prompt":"Once","stream":true,"logit_bias":{"2086":-100,"2084":-100}}`)
	waitFor(t, lines, `"text":`)
	leave()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for stats := e.Stats(); stats.Running+stats.Waiting > 0; stats = e.Stats() {
		if ctx.Err() != nil {
			t.Fatalf("the request was not cancelled: %+v", stats)
		}
	}
}

// TestLeftAnswersCount: what was generated for a client that has left counts as what the engine
// says, also of those of several answers whose turn had not come.
func TestLeftAnswersCount(t *testing.T) {
	files, _ := fs.Sub(demo.Files, "model")
	e, err := engine.Open(t.Context(), engine.Source{FS: files},
		engine.Options{ContextTokens: 4096, MaxSequences: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := start(t, nil, server.Options{Models: &fakeModels{engine: e}})
	lines, leave := open(t, s.URL+"/v1/completions", `{"prompt":"Once","stream":true,"n":4,`+
		`"temperature":0,"logit_bias":{"2086":-100,"2084":-100}}`)
	waitFor(t, lines, `"text":`)
	leave()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var text string
	for ctx.Err() == nil {
		stats := e.Stats()
		_, _, text = do(t, http.MethodGet, s.URL+"/metrics", "")
		if stats.Running+stats.Waiting == 0 && strings.Contains(text, fmt.Sprintf(
			"\nheadroom_generation_tokens_total %d\n", stats.GeneratedTokens)) {
			return
		}
	}
	at := strings.Index(text, "\nheadroom_generation_tokens_total ")
	t.Errorf("the engine has generated %d tokens, /metrics has %.60s", e.Stats().GeneratedTokens,
		text[max(at, 0):])
}
