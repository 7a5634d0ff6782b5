package server_test

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"headroom/engine/server"
	"headroom/engine/structured"
)

// TestToolsReachTheTemplate checks that the prompt contains the tools, earlier calls and their
// results unchanged, and that other template variables apply. With tool_choice "none" the prompt
// is the same, so that the cached prefix is of use.
func TestToolsReachTheTemplate(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	s := start(t, e, server.Options{})
	body := func(choice string) string {
		return `{"messages":[{"role":"user","content":"Time?"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_time","arguments":"{\"z\": 1, \"city\": \"Rome\"}"}}]},
			{"role":"tool","tool_call_id":"call_1","content":"12:00"}],
			"tools":[{"type":"function","function":{"strict":true,"name":"get_time","parameters":{"b":1,"a":2}}}],"tool_choice":"` + choice + `",
			"chat_template_kwargs":{"enable_thinking":false}}`
	}
	for _, choice := range []string{"auto", "none", "required"} {
		if status, _, text := post(t, s.URL+"/v1/chat/completions", body(choice)); status != 200 {
			t.Fatalf("%s: got %d %s, expected 200", choice, status, text)
		}
		request := <-e.requests
		if forced := request.Output != nil && request.Output.Kind == structured.Calls &&
			len(request.Output.Tools) == 1; forced != (choice == "required") {
			t.Errorf("%s: the form of the answer is %+v", choice, request.Output)
		}
		prompt := e.tokenizer.Decode(request.Prompt, false)
		for _, want := range []string{
			`{"type": "function", "function": {"strict": true, "name": "get_time", "parameters": {"b": 1, "a": 2}}}`,
			"<tool_call>\n<function=get_time>\n<parameter=z>\n1\n</parameter>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call><|im_end|>",
			"<tool_response>\n12:00\n</tool_response>", "<think>\n\n</think>\n\n",
		} {
			if !strings.Contains(prompt, want) {
				t.Errorf("%s: the prompt lacks %q:\n%s", choice, want, prompt)
			}
		}
	}
}

// getTime is a tool that the bundled model has been trained to call.
var getTime = openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name:        "get_time",
	Description: openai.String("Get the local time in a city."),
	Parameters: openai.FunctionParameters{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
		"required": []string{"city"},
	},
})

// TestOpenAIClientTools completes a tool call with the official client and the bundled model:
// question, call, result, answer. The streamed call must equal the call in the whole answer.
func TestOpenAIClientTools(t *testing.T) {
	client, ctx := newClient(t), t.Context()
	q := openai.ChatCompletionNewParams{
		Model: "demo",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(
			"Tell me the time in Boston.")},
		Tools:    []openai.ChatCompletionToolUnionParam{getTime},
		Logprobs: openai.Bool(true),
	}
	answer, err := client.Chat.Completions.New(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	asked := answer.Choices[0]
	if asked.FinishReason != "tool_calls" || asked.Message.Content != "" ||
		len(asked.Message.ToolCalls) != 1 ||
		len(asked.Logprobs.Content) != int(answer.Usage.CompletionTokens) {
		t.Fatalf("got %s, expected one tool call, no content and the logprobs of every token",
			answer.RawJSON())
	}
	call := asked.Message.ToolCalls[0].AsFunction()
	if call.Function.Name != "get_time" || call.Function.Arguments != `{"city": "Boston"}` ||
		!strings.HasPrefix(call.ID, "call_") {
		t.Errorf("the call is %+v, expected get_time for Boston", call)
	}

	stream := client.Chat.Completions.NewStreaming(ctx, q)
	var all openai.ChatCompletionAccumulator
	finished := 0
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			t.Fatalf("the client cannot add the chunk %s", stream.Current().RawJSON())
		}
		if c, ok := all.JustFinishedToolCall(); ok {
			finished++
			if c.Name != call.Function.Name || c.Arguments != call.Function.Arguments {
				t.Errorf("streamed %+v, whole %+v", c, call.Function)
			}
		}
	}
	if stream.Err() != nil || finished != 1 || all.Choices[0].FinishReason != "tool_calls" ||
		all.Choices[0].Message.Content != "" {
		t.Errorf("streamed %d calls: %+v, %v", finished, all.Choices, stream.Err())
	}

	q.Messages = append(q.Messages, asked.Message.ToParam(),
		openai.ToolMessage(`{"time": "01:54"}`, call.ID))
	if answer, err = client.Chat.Completions.New(ctx, q); err != nil {
		t.Fatal(err)
	}
	if got := answer.Choices[0]; got.Message.Content != "It is 01:54 in Boston." ||
		got.FinishReason != "stop" || len(got.Message.ToolCalls) != 0 {
		t.Errorf("the answer is %s, expected \"It is 01:54 in Boston.\"", answer.RawJSON())
	}
}
