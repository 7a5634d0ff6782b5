package main

// OpenAI's SDK for Go. It is a program of this repository's module, so it needs no installation.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

const (
	demoModel    = "headroom-demo"
	demoQuestion = "What is a KV cache?"
)

// openAIGo runs the checks of OpenAI's SDK for Go.
func openAIGo(ctx context.Context, s *session) (did []string, err error) {
	mark := s.bench.sdks.log.mark()
	client := openai.NewClient(option.WithBaseURL(s.bench.sdks.url+"/v1/"),
		option.WithAPIKey("any"), option.WithMaxRetries(0))
	for _, check := range []struct {
		words string
		run   func(context.Context, openai.Client) error
	}{
		{"lists models", goModels},
		{"chat, whole and streamed", goChat},
		{"tool round trip in chat", goTools},
		{"responses, whole and streamed", goResponses},
		{fromCache, goCache},
		{"understands errors", goErrors},
	} {
		if err := check.run(ctx, client); err != nil {
			return nil, fmt.Errorf("%s: %w", check.words, err)
		}
		did = append(did, check.words)
	}
	return did, checkLog(s.bench.sdks.log.requests(mark), did)
}

func goModels(ctx context.Context, client openai.Client) error {
	found := false
	models := client.Models.ListAutoPaging(ctx)
	for models.Next() {
		found = found || models.Current().ID == demoModel
	}
	if err := models.Err(); err != nil {
		return err
	}
	if !found {
		return errors.New(demoModel + " is not listed")
	}
	_, err := client.Models.Get(ctx, demoModel)
	return err
}

// ask returns a greedy request for a chat completion.
func ask(messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: demoModel, Messages: messages,
		Temperature: openai.Float(0)}
}

func goChat(ctx context.Context, client openai.Client) error {
	q := ask(openai.UserMessage(demoQuestion))
	whole, err := client.Chat.Completions.New(ctx, q)
	if err != nil {
		return err
	}
	var streamed openai.ChatCompletionAccumulator
	stream := client.Chat.Completions.NewStreaming(ctx, q)
	for stream.Next() {
		streamed.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return same(whole.Choices[0].Message.Content, streamed.Choices[0].Message.Content)
}

// same returns an error unless both texts are the same and not empty.
func same(a, b string) error {
	if a == "" || a != b {
		return fmt.Errorf("got %q and %q", a, b)
	}
	return nil
}

func goTools(ctx context.Context, client openai.Client) error {
	q := ask(openai.UserMessage("Tell me the time in Boston."))
	q.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(
		openai.FunctionDefinitionParam{Name: "get_time",
			Description: openai.String("Get the local time in a city."),
			Parameters: openai.FunctionParameters{"type": "object", "required": []string{"city"},
				"properties": map[string]any{"city": map[string]any{"type": "string"}}}})}
	first, err := client.Chat.Completions.New(ctx, q)
	if err != nil {
		return err
	}
	message := first.Choices[0].Message
	if len(message.ToolCalls) != 1 ||
		message.ToolCalls[0].Function.Arguments != `{"city": "Boston"}` {
		return fmt.Errorf("no call of get_time: %s", message.RawJSON())
	}
	q.Messages = append(q.Messages, message.ToParam(),
		openai.ToolMessage(`{"time": "01:54"}`, message.ToolCalls[0].ID))
	last, err := client.Chat.Completions.New(ctx, q)
	if err != nil {
		return err
	}
	return same(last.Choices[0].Message.Content, "It is 01:54 in Boston.")
}

func goResponses(ctx context.Context, client openai.Client) error {
	q := responses.ResponseNewParams{Model: demoModel, Temperature: openai.Float(0),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(demoQuestion)}}
	whole, err := client.Responses.New(ctx, q)
	if err != nil {
		return err
	}
	var streamed string
	stream := client.Responses.NewStreaming(ctx, q)
	for stream.Next() {
		if e := stream.Current(); e.Type == "response.completed" {
			streamed = e.Response.OutputText()
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return same(whole.OutputText(), streamed)
}

func goCache(ctx context.Context, client openai.Client) error {
	q := ask(openai.SystemMessage(strings.Repeat("A file has a test. ", 300)),
		openai.UserMessage(demoQuestion))
	first, err := client.Chat.Completions.New(ctx, q)
	if err != nil {
		return err
	}
	q.Messages = append(q.Messages, first.Choices[0].Message.ToParam(),
		openai.UserMessage("How long is it?"))
	last, err := client.Chat.Completions.New(ctx, q)
	if err != nil {
		return err
	}
	u := last.Usage
	if u.PromptTokens <= longPrompt ||
		float64(u.PromptTokensDetails.CachedTokens) < leastCached*float64(u.PromptTokens) {
		return fmt.Errorf("%d of %d tokens were cached", u.PromptTokensDetails.CachedTokens,
			u.PromptTokens)
	}
	return nil
}

func goErrors(ctx context.Context, client openai.Client) error {
	q := ask(openai.UserMessage("hi"))
	q.Model = "gpt-4"
	_, err := client.Chat.Completions.New(ctx, q)
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != 404 || refused.Code != "model_not_found" {
		return fmt.Errorf("an unknown model: %w", err)
	}
	return nil
}
