package main

// Open WebUI's requests. It is too large to install for a test, so they are written down here, as
// the sources of its version 0.12.4 make them: routers/openai.py, routers/ollama.py,
// routers/tasks.py and utils/payload.py.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// exchange is a request and what its answer must have.
type exchange struct {
	path string // under the address of the server
	body string // "": a GET request
	want []string
}

const openWebUIVersion = "0.12.4"

// openWebUITools is a tool as its server of tools sends it.
const openWebUITools = `[{"type": "function", "function": {"name": "get_time", "description":
	"Get the local time in a city.", "parameters": {"type": "object", "properties": {"city":
	{"type": "string"}}, "required": ["city"]}}}]`

// openWebUI has its requests by what they do, in the words of the table.
var openWebUI = []struct {
	words     string
	exchanges []exchange
}{
	{"verifies a connection and lists models", []exchange{
		{"/v1/models", "", []string{`"id":"headroom-demo"`}},
	}},
	{"a streamed chat with its usage", []exchange{{"/v1/chat/completions", `{"stream": true,
		"model": "headroom-demo", "messages": [{"role": "system", "content": "Be brief."},
		{"role": "user", "content": "What is a KV cache?"}], "params": {}, "temperature": 0,
		"stream_options": {"include_usage": true}}`,
		[]string{`"content":" cache"`, `"prompt_tokens":`, "data: [DONE]"}}}},
	{"a chat with tools and their results", []exchange{
		{"/v1/chat/completions", `{"stream": true, "model": "headroom-demo", "messages": [{"role":
			"user", "content": "Tell me the time in Boston."}], "temperature": 0, "tools": ` +
			openWebUITools + `}`, []string{`"name":"get_time"`, `Boston`, `"tool_calls"`}},
		{"/v1/chat/completions", `{"stream": true, "model": "headroom-demo", "messages": [{"role":
			"user", "content": "Tell me the time in Boston."}, {"role": "assistant", "content": "",
			"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name":
			"get_time", "arguments": "{\"city\": \"Boston\"}"}}]}, {"role": "tool", "tool_call_id":
			"call_1", "content": "{\"time\": \"01:54\"}"}], "temperature": 0, "tools": ` +
			openWebUITools + `}`, []string{"Boston"}},
	}},
	{"titles and tags", []exchange{{"/v1/chat/completions", `{"model": "headroom-demo",
		"messages": [{"role": "user", "content":
		"### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.
		\n### Output:\nJSON format: { \"title\": \"your concise title here\" }"}],
		"stream": false, "max_tokens": 64}`, []string{`"finish_reason"`}}}},
	{"lists models as of Ollama", []exchange{
		{"/api/version", "", []string{`"version"`}},
		{"/api/tags", "", []string{`"headroom-demo:latest"`}},
		{"/api/ps", "", []string{`"headroom-demo:latest"`}},
		{"/api/show", `{"model": "headroom-demo:latest"}`, []string{`"capabilities"`}},
	}},
	{"a chat as with Ollama", []exchange{
		{"/api/chat", `{"model": "headroom-demo:latest", "messages": [{"role": "user", "content":
			"What is a KV cache?"}], "stream": true, "options": {"temperature": 0, "num_ctx": 2048},
			"keep_alive": "5m"}`, []string{`"done":true`, `"eval_count"`}},
		{"/api/chat", `{"model": "headroom-demo:latest", "messages": [{"role": "user", "content":
			"Tell me the time in Boston."}, {"role": "assistant", "content": "", "tool_calls":
			[{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": {"city":
			"Boston"}}}]}, {"role": "tool", "content": "{\"time\": \"01:54\"}", "tool_call_id":
			"call_1"}], "stream": true, "options": {"temperature": 0}, "tools": ` +
			openWebUITools + `}`, []string{`"done":true`, "Boston"}},
	}},
}

// runOpenWebUI sends the requests.
func runOpenWebUI(ctx context.Context, s *session) (did []string, err error) {
	mark := s.bench.sdks.log.mark()
	for _, part := range openWebUI {
		for _, e := range part.exchanges {
			if err := e.send(ctx, s.bench.sdks.url); err != nil {
				return nil, fmt.Errorf("%s: %w", part.words, err)
			}
		}
		did = append(did, part.words)
	}
	return did, checkLog(s.bench.sdks.log.requests(mark), did)
}

// send sends the request and checks the answer.
func (e exchange) send(ctx context.Context, url string) error {
	method := http.MethodGet
	if e.body != "" {
		method = http.MethodPost
	}
	// The line breaks in the bodies above are for readers.
	body := strings.NewReplacer("\n", "", "\t", "").Replace(e.body)
	request, err := http.NewRequestWithContext(ctx, method, url+e.path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"Content-Type": "application/json",
		"Authorization": "Bearer any", "User-Agent": "Python/3.11 aiohttp/3.13.2",
		"Accept-Encoding": "gzip, deflate", "X-OpenWebUI-User-Name": "Ada%20L",
		"X-OpenWebUI-User-Role": "admin", "X-OpenWebUI-Chat-Id": "c0ffee"} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	for _, want := range e.want {
		if response.StatusCode != http.StatusOK || !bytes.Contains(data, []byte(want)) {
			return fmt.Errorf("%s %s: status %d, expected %s in %s", method, e.path,
				response.StatusCode, want, data)
		}
	}
	return nil
}
