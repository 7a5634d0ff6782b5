package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"headroom/engine"
	"headroom/engine/chat"
	wire "headroom/engine/openai"
)

// TestToolsReachTheTemplate: tools, earlier calls and their results are in the prompt as they came,
// next to other variables of the template; with tool_choice "none" the tools are not.
func TestToolsReachTheTemplate(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	s := start(t, e, Options{})
	body := func(choice string) string {
		return `{"messages":[{"role":"user","content":"Time?"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_time","arguments":"{\"z\": 1, \"city\": \"Rome\"}"}}]},
			{"role":"tool","tool_call_id":"call_1","content":"12:00"}],
			"tools":[{"type":"function","function":{"strict":true,"name":"get_time","parameters":{"b":1,"a":2}}}],"tool_choice":"` + choice + `",
			"chat_template_kwargs":{"enable_thinking":false}}`
	}
	for choice, tools := range map[string]bool{"auto": true, "none": false} {
		if status, _, text := post(t, s.URL+"/v1/chat/completions", body(choice)); status != 200 {
			t.Fatalf("%s: %d %s", choice, status, text)
		}
		prompt := e.tokenizer.Decode((<-e.requests).Prompt, false)
		if got := strings.Contains(prompt,
			`{"type": "function", "function": {"strict": true, "name": "get_time", "parameters": {"b": 1, "a": 2}}}`); got != tools {
			t.Errorf("%s: tools in the prompt: %v\n%s", choice, got, prompt)
		}
		for _, want := range []string{
			"<tool_call>\n<function=get_time>\n<parameter=z>\n1\n</parameter>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call><|im_end|>",
			"<tool_response>\n12:00\n</tool_response>", "<think>\n\n</think>\n\n",
		} {
			if !strings.Contains(prompt, want) {
				t.Errorf("%s: the prompt lacks %q:\n%s", choice, want, prompt)
			}
		}
	}
	if status, _, text := post(t, s.URL+"/v1/chat/completions", body("required")); status != 400 ||
		!strings.Contains(text, `"param":"tool_choice"`) {
		t.Errorf("required: %d %s", status, text)
	}
}

// TestLongCallKeepsTheConnection: tokens of a call that is not whole yet show nothing, so a comment
// goes out now and then.
func TestLongCallKeepsTheConnection(t *testing.T) {
	e := newFakeEngine(nil)
	out := &lifeSigns{}
	tools := e.template.Tools([]json.RawMessage{json.RawMessage(`{"function":{"name":"f"}}`)})
	a := &answer{out: out, tokenizer: e.tokenizer, keepAlive: time.Hour,
		split: chat.NewSplitter(false, tools)}
	for i, step := range []struct {
		text string
		ago  time.Duration // since the client last heard something
		want lifeSigns
	}{
		{"Hi", 2 * time.Hour, lifeSigns{texts: 1}},
		{"<tool_call>", time.Minute, lifeSigns{texts: 1}},
		{"\n<function=f>", 2 * time.Hour, lifeSigns{texts: 1, comments: 1}},
		{"\n", 0, lifeSigns{texts: 1, comments: 1}},
		{"</function></tool_call>", 2 * time.Hour, lifeSigns{texts: 2, comments: 1}},
	} {
		if step.ago > 0 {
			a.heard = time.Now().Add(-step.ago)
		}
		if err := a.token(engine.Event{Type: engine.Token, Text: step.text}); err != nil ||
			*out != step.want {
			t.Fatalf("after step %d: %+v, %v; want %+v", i, *out, err, step.want)
		}
	}
}

// lifeSigns is an output that counts what a client hears.
type lifeSigns struct{ texts, comments int }

func (o *lifeSigns) progress(done, total int) error { return nil }
func (o *lifeSigns) alive() error                   { o.comments++; return nil }
func (o *lifeSigns) text(part) error                { o.texts++; return nil }
func (o *lifeSigns) end(string, *wire.Usage) error  { return nil }
func (o *lifeSigns) fail(error) error               { return nil }

// getTime is a tool that the bundled model has learned to call.
var getTime = openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name:        "get_time",
	Description: openai.String("Get the local time in a city."),
	Parameters: openai.FunctionParameters{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
		"required": []string{"city"},
	},
})

// TestOpenAIClientTools goes the whole way with the official client and the bundled model:
// question, call, result, answer. The streamed call is the whole one.
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
		len(asked.Message.ToolCalls) != 1 || len(asked.Logprobs.Content) != 0 {
		t.Fatalf("got %s", answer.RawJSON())
	}
	call := asked.Message.ToolCalls[0].AsFunction()
	if call.Function.Name != "get_time" || call.Function.Arguments != `{"city": "Boston"}` ||
		!strings.HasPrefix(call.ID, "call_") {
		t.Errorf("the call is %+v", call)
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
		t.Errorf("the answer is %s", answer.RawJSON())
	}
}
