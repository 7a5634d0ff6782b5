package openai

import (
	"encoding/json"
	"math"
	"testing"

	"headroom/engine/generate"
	"headroom/engine/server"
)

func marshal(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestResponseJSON checks the JSON of every response object.
func TestResponseJSON(t *testing.T) {
	head := Head{ID: "id-1", Created: 1700000000, Model: "m"}
	tokens := []generate.Token{{Bytes: []byte("Hé"), Logprob: -0.5,
		Top: []generate.Token{{Bytes: []byte("Hé"), Logprob: -0.5},
			{Bytes: []byte{0xc3}, Logprob: float32(math.Inf(-1))}}},
		{Bytes: []byte("!"), Logprob: -1, Offset: 2}}
	const start = `{"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[`
	cases := []struct {
		name string
		v    any
		want string
	}{
		{"role", NewChatRole(head, 0),
			start +
				`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`},
		{"content", NewChatText(head, ChatText{Content: "a"}),
			start + `{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null}]}`},
		{"reasoning", NewChatText(head, ChatText{Reasoning: "r"}),
			start +
				`{"index":0,"delta":{"reasoning_content":"r","reasoning":"r"},"logprobs":null,"finish_reason":null}]}`},
		{"finish", NewChatFinish(head, 2, "stop"),
			start + `{"index":2,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`},
		{"usage", NewChatUsage(head, NewUsage(5, 2, 3, 1)),
			start +
				`],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}}`},
		{"whole", NewChat(head, nil, NewChatChoice(ChatText{Content: "c"}, "length")),
			`{"id":"id-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"c"},"logprobs":null,"finish_reason":"length"}]}`},
		{"whole and empty", NewChat(head, nil, NewChatChoice(ChatText{}, "stop")),
			`{"id":"id-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":""},"logprobs":null,"finish_reason":"stop"}]}`},
		{"call", NewChatText(head,
			ChatText{ToolCalls: []ToolCall{NewToolCall(1, "call_1", "f", `{"a": "<b>"}`)}}),
			start +
				`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": \"\u003cb\u003e\"}"}}]},"logprobs":null,"finish_reason":null}]}`},
		{"whole call", NewChat(head, nil, NewChatChoice(
			ChatText{ToolCalls: []ToolCall{NewToolCall(0, "call_1", "f", "{}")}}, "tool_calls")),
			`{"id":"id-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}]}`},
		{"whole call after text",
			NewChat(head, nil, NewChatChoice(ChatText{Content: "c",
				ToolCalls: []ToolCall{NewToolCall(0, "call_1", "f", "{}")}}, "tool_calls")),
			`{"id":"id-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"c","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}]}`},
		{"completion", NewCompletion(head, nil, NewCompletionChoice(0, "t", "", nil)),
			`{"id":"id-1","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"t","logprobs":null,"finish_reason":null}]}`},
		{"logprobs", NewChatLogprobs(tokens),
			`{"content":[{"token":"Hé","logprob":-0.5,"bytes":[72,195,169],"top_logprobs":[{"token":"Hé","logprob":-0.5,"bytes":[72,195,169]},{"token":"�","logprob":-9999,"bytes":[195]}]},{"token":"!","logprob":-1,"bytes":[33],"top_logprobs":[]}]}`},
		{"completion logprobs", NewCompletionLogprobs(tokens),
			`{"tokens":["Hé","!"],"token_logprobs":[-0.5,-1],"top_logprobs":[{"Hé":-0.5,"bytes:\\xc3":-9999},{}],"text_offset":[0,2]}`},
		{"models", NewModelList([]Model{
			NewModel(server.ModelInfo{ID: "a/b", State: server.Loaded, ContextTokens: 4096}, 7),
			NewModel(server.ModelInfo{ID: "c", State: server.Unloaded}, 7)}),
			`{"object":"list","data":[{"id":"a/b","object":"model","created":7,"owned_by":"headroom","root":"a/b","max_model_len":4096,"context_length":4096,"meta":{"n_ctx":4096},"state":"loaded","modalities":["text"],"type":"model","display_name":"a/b","created_at":"1970-01-01T00:00:07Z","lifecycle":"active","max_input_tokens":4096},` +
				`{"id":"c","object":"model","created":7,"owned_by":"headroom","root":"c","state":"unloaded","modalities":["text"],"type":"model","display_name":"c","created_at":"1970-01-01T00:00:07Z","lifecycle":"active"}],"has_more":false,"first_id":"a/b","last_id":"c"}`},
		{"alias", NewModel(server.ModelInfo{ID: "a/b", State: server.Loading}, 7).As("gpt"),
			`{"id":"gpt","object":"model","created":7,"owned_by":"headroom","root":"a/b","state":"loading","modalities":["text"],"type":"model","display_name":"gpt","created_at":"1970-01-01T00:00:07Z","lifecycle":"active"}`},
		{"no models", NewModelList(nil),
			`{"object":"list","data":[],"has_more":false,"first_id":null,"last_id":null}`},
	}
	for _, c := range cases {
		if got := marshal(t, c.v); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}
