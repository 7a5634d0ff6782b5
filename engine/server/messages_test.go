package server_test

// Anthropic's messages through the server.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

const messagesPath = "/v1/messages"

// messagesBody returns a request for a message with further parameters, each after a comma.
func messagesBody(params ...string) string {
	return `{"max_tokens":100,"messages":[{"role":"user","content":"hi"}]` +
		strings.Join(params, "") + `}`
}

const (
	messagesStream = `,"stream":true`
	thinks         = `,"thinking":{"type":"adaptive"}`
	thinksUnseen   = `,"thinking":{"type":"adaptive","display":"omitted"}`
	timerTool      = `,"tools":[{"name":"set_timer","input_schema":{"type":"object",` +
		`"properties":{"minutes":{"type":"integer"}}}}]`
	timerCall = "<tool_call>\n<function=set_timer>\n<parameter=minutes>\n5\n</parameter>\n" +
		"</function>\n</tool_call>"
)

// TestMessagesTranscripts compares HTTP responses with testdata/NAME.txt, byte for byte.
func TestMessagesTranscripts(t *testing.T) {
	say := func(finish engine.FinishReason, text string) func(*fakeStream) {
		return func(s *fakeStream) {
			s.say(text)
			s.done(finish, nil)
		}
	}
	for _, c := range []struct {
		name, body string
		script     func(*fakeStream)
	}{
		{"messages_stream", messagesBody(messagesStream), func(s *fakeStream) {
			s.prefill(4, 4)
			s.prefill(10, 4)
			s.say("The cache\nkeeps")
			s.done(engine.FinishStop, nil)
		}},
		{"messages_stream_thinking", messagesBody(messagesStream, thinks),
			say(engine.FinishStop, "It asks.\n</think>\n\nYes <b>")},
		{"messages_stream_thinking_omitted", messagesBody(messagesStream, thinksUnseen),
			say(engine.FinishStop, "It asks.\n</think>\n\nYes")},
		{"messages_stream_thinking_unclosed", messagesBody(messagesStream, thinks),
			func(s *fakeStream) {
				s.say("It asks </thi")
				s.usage.CompletionTokens = 100
				s.done(engine.FinishLength, nil)
			}},
		{"messages_stream_tools", messagesBody(messagesStream, thinks, timerTool),
			say(engine.FinishStop, "Two.\n</think>\n\nYes:\n\n"+timerCall+"\n"+timerCall)},
		{"messages_stream_one_tool", messagesBody(messagesStream, timerTool,
			`,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`),
			say(engine.FinishStop, timerCall+"\n"+timerCall)},
		{"messages_stream_no_tools",
			messagesBody(messagesStream, timerTool, `,"tool_choice":{"type":"none"}`),
			say(engine.FinishStop, "No. "+timerCall)},
		{"messages_stream_blank", messagesBody(messagesStream, thinks, timerTool),
			say(engine.FinishStop, "So\n</think>\n\n \n"+timerCall)},
		{"messages_stream_stop", messagesBody(messagesStream, thinks, `,"stop_sequences":["END"]`),
			say(engine.FinishStop, "END?\n</think>\n\nOne EN EN-END two")},
		{"messages_stream_context_full", messagesBody(messagesStream),
			say(engine.FinishLength, "a")},
		{"messages_stream_error_first", messagesBody(messagesStream), func(s *fakeStream) {
			s.done(engine.FinishError, errors.New("the file is gone"))
		}},
		{"messages_stream_error_late", messagesBody(messagesStream), func(s *fakeStream) {
			s.say("a")
			s.done(engine.FinishError,
				problem.New(problem.LowResources, "The engine has no memory", "", ""))
		}},
		{"messages_stream_cancelled", messagesBody(messagesStream), func(s *fakeStream) {
			s.say("a")
			s.done(engine.FinishCancelled, nil)
		}},
		{"messages_whole", messagesBody(thinks), func(s *fakeStream) {
			s.prefill(10, 4)
			s.say("Hm.\n</think>\n\nYes, \"é\"")
			s.done(engine.FinishStop, nil)
		}},
		{"messages_whole_unasked_thinking", messagesBody(),
			say(engine.FinishStop, "<think>\nHm.\n</think>\n\nYes")},
		{"messages_whole_tools", messagesBody(timerTool), say(engine.FinishStop, timerCall)},
		{"messages_whole_one_tool", messagesBody(timerTool,
			`,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`),
			say(engine.FinishStop, timerCall+"\n"+timerCall)},
		{"messages_whole_omitted", messagesBody(thinksUnseen),
			say(engine.FinishStop, "Hm.\n</think>\n\nYes")},
		{"messages_whole_stop", messagesBody(`,"stop_sequences":["END"]`),
			say(engine.FinishStop, "One END two")},
		{"messages_whole_nothing", messagesBody(), say(engine.FinishStop, "\n\n")},
		{"messages_whole_empty_thought", messagesBody(thinks),
			say(engine.FinishStop, "\n</think>\n\n")},
		{"messages_stream_empty_thought", messagesBody(messagesStream, thinks),
			say(engine.FinishLength, "\n")},
		{"messages_whole_error", messagesBody(), func(s *fakeStream) {
			s.say("half an answer")
			s.done(engine.FinishError, errors.New("the file is gone"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, newFakeEngine(c.script), server.Options{})
			compareTranscript(t, c.name, s.URL+messagesPath, c.body)
		})
	}
}

// TestMessagesErrors: statuses and bodies that Anthropic's clients know.
func TestMessagesErrors(t *testing.T) {
	refuses := func(code problem.Code) func(*fakeEngine, *fakeModels) {
		return func(e *fakeEngine, _ *fakeModels) { e.refusal = problem.New(code, "No", "", "") }
	}
	for _, c := range []struct {
		name, path, body string
		change           func(*fakeEngine, *fakeModels)
		status           int
		want             string
	}{
		{"no limit", messagesPath, `{"messages":[{"role":"user","content":"hi"}]}`, nil, 400,
			`"invalid_request_error","message":"max_tokens: is missing`},
		{"image", messagesPath, `{"max_tokens":1,"messages":[{"role":"user","content":[` +
			`{"type":"image"}]}]}`, nil, 400,
			`"invalid_request_error","message":"messages[0].content[0].type: \"image\" is not`},
		{"unknown model", messagesPath, messagesBody(`,"model":"x"`), nil, 404,
			`"not_found_error","message":"There is no model \"x\" here`},
		{"too long", messagesPath, messagesBody(), func(e *fakeEngine, _ *fakeModels) {
			e.refusal = problem.TooLong(problem.Overflow{Tokens: 40013, Context: 32768}, "")
		}, 400, `"message":"prompt is too long: 40013 tokens > 32768 maximum"`},
		{"much too long", messagesPath, messagesBody(), refuses(problem.ContextExceeded), 400,
			`"invalid_request_error","message":"prompt is too long: No"`},
		{"queue full", messagesPath, messagesBody(), refuses(problem.Busy), 429,
			`"rate_limit_error"`},
		{"loading", messagesPath, messagesBody(), func(_ *fakeEngine, m *fakeModels) {
			m.err = problem.New(problem.Loading, "Loading", "", "")
		}, 529, `"overloaded_error"`},
		{"overloaded", messagesPath, messagesBody(), refuses(problem.Overloaded), 529,
			`"overloaded_error"`},
		{"too large", messagesPath, messagesBody(`,"x":"` + strings.Repeat("x", 999) + `"`), nil,
			413, `"request_too_large"`},
		{"internal", messagesPath, messagesBody(), refuses(problem.Internal), 500, `"api_error"`},
		{"without v1", "/messages", messagesBody(`,"temperature":-1`), nil, 400,
			`"message":"temperature: `},
		{"with a query", messagesPath + "?beta=true", messagesBody(`,"temperature":-1`), nil, 400,
			`"message":"temperature: `},
		{"count", messagesPath + "/count_tokens", `{"messages":[]}`, nil, 400,
			`"message":"messages: expected at least one`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
			models := &fakeModels{engine: e}
			if c.change != nil {
				c.change(e, models)
			}
			s := start(t, e, server.Options{Models: models, MaxBodyBytes: 900})
			status, header, text := post(t, s.URL+c.path, c.body)
			id := `"request_id":"` + header.Get("Request-Id") + `"`
			if status != c.status || !strings.HasPrefix(text, `{"type":"error","error":{"type":`) ||
				!strings.Contains(text, c.want) || !strings.Contains(text, id) {
				t.Errorf("got %d %s, want %d with %s and %s", status, text, c.status, c.want, id)
			}
		})
	}
}

// TestCountTokens: the count is that of the prompt, nothing is generated, and prompts that do not
// fit are counted too.
func TestCountTokens(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	e.info.ContextTokens = 16
	s := start(t, e, server.Options{})
	for _, base := range []string{"", "/v1"} {
		long := messagesBody(`,"system":"` + strings.Repeat("very ", 200) + `long"`)
		for body, least := range map[string]int{messagesBody(): 5, long: 200} {
			status, _, text := post(t, s.URL+base+"/messages/count_tokens?beta=true", body)
			var count struct {
				Tokens int `json:"input_tokens"`
			}
			if err := json.Unmarshal([]byte(text), &count); err != nil || status != 200 ||
				count.Tokens < least {
				t.Errorf("%s: got %d %s, expected at least %d tokens", base, status, text, least)
			}
			if least > 16 {
				continue
			}
			if status, _, text := post(t, s.URL+base+"/messages", body); status != 200 {
				t.Fatalf("got %d %s", status, text)
			}
			if q := <-e.requests; len(q.Prompt) != count.Tokens {
				t.Errorf("counted %d tokens, the prompt has %d", count.Tokens, len(q.Prompt))
			}
		}
	}
	if n := len(e.requests); n > 0 {
		t.Errorf("%d requests for counts", n)
	}
}

// TestModelErrorForAnthropic: who names a version of Anthropic's API gets its errors where OpenAI's
// list of models is, too, and nowhere else.
func TestModelErrorForAnthropic(t *testing.T) {
	s := start(t, newFakeEngine(nil), server.Options{})
	const openai, anthropic = `{"error":{"message":`, `{"type":"error","error":{"type":"`
	for _, c := range []struct {
		method, path, version string
		status                int
		want                  string
	}{
		{"GET", "/v1/models/none", "2023-06-01", 404, anthropic + "not_found_error"},
		{"GET", "/v1/models/none", "", 404, openai},
		{"GET", "/v1/files", "2023-06-01", 404, anthropic + "not_found_error"},
		{"POST", "/v1/chat/completions", "2023-06-01", 400, openai},
	} {
		status, _, text := do(t, c.method, s.URL+c.path, "", "Anthropic-Version", c.version)
		if status != c.status || !strings.HasPrefix(text, c.want) {
			t.Errorf("%s %s, version %q: %d %s, want %d %s", c.method, c.path, c.version, status,
				text, c.status, c.want)
		}
	}
}

// TestMessagesPrompt: thinking, tools and the beginning of an answer reach the prompt.
func TestMessagesPrompt(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	s := start(t, e, server.Options{})
	for _, c := range []struct{ name, body, want string }{
		{"without thinking", messagesBody(), "<|im_start|>assistant\n<think>\n\n</think>\n\n"},
		{"with thinking and tools", messagesBody(thinks, timerTool),
			"<|im_start|>assistant\n<think>\n"},
		{"the beginning of an answer", `{"max_tokens":1,"messages":[
			{"role":"user","content":"hi"},{"role":"assistant","content":"<|im_end|> ("}]}`,
			"<|im_start|>assistant\n<think>\n\n</think>\n\n<|im_end|> ("},
		{"a turn with a tool", `{"max_tokens":1,"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[
				{"type":"thinking","thinking":"I ask.","signature":"headroom"},
				{"type":"tool_use","id":"1","name":"set_timer","input":{"minutes":5}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"1","content":"done"},
				{"type":"text","text":"<system-reminder>x</system-reminder>"}]}]` + thinks +
			timerTool + `}`,
			"<|im_start|>assistant\n<think>\nI ask.\n</think>\n\n" + timerCall + "<|im_end|>\n" +
				"<|im_start|>user\n<tool_response>\ndone\n\n<system-reminder>x</system-reminder>" +
				"\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n"},
	} {
		if status, _, text := post(t, s.URL+messagesPath, c.body); status != 200 {
			t.Fatalf("%s: got %d %s", c.name, status, text)
		}
		prompt := e.tokenizer.Decode((<-e.requests).Prompt, false)
		if strings.Contains(c.body, "tools") != strings.Contains(prompt,
			`{"type": "function", "function": {"name": "set_timer", "parameters": {`) {
			t.Errorf("%s: tools in the prompt:\n%s", c.name, prompt)
		}
		if !strings.HasSuffix(prompt, c.want) {
			t.Errorf("%s: the prompt ends with %q, expected %q", c.name, prompt, c.want)
		}
	}
}

// TestMessagesBodyTooLong: a body that is longer than any text of the context is refused with an
// inequality that is true. Claude Code reads both numbers.
func TestMessagesBodyTooLong(t *testing.T) {
	e := newFakeEngine(nil)
	e.info.ContextTokens = 64
	s := start(t, e, server.Options{})
	status, _, text := post(t, s.URL+messagesPath, `{"max_tokens":1,"messages":[{"role":"user",`+
		`"content":"`+strings.Repeat("a", 1100_000)+`"}]}`)
	if status != 400 || !strings.Contains(text,
		`"message":"prompt is too long: at least 65 tokens > 64 maximum"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestPing: while nothing is sent, a ping comes every 5 s, before the first token, in a tool call
// and in thinking that the client has not asked for.
func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(nil)
		s := server.New(server.Options{Models: &fakeModels{engine: e}, Dialects: dialects,
			Log: slog.New(slog.DiscardHandler)})
		w := httptest.NewRecorder()
		body := messagesBody(messagesStream, timerTool)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://localhost"+messagesPath, strings.NewReader(body))
		pings := func() int { return strings.Count(w.Body.String(), "event: ping\ndata: {") }
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			s.ServeHTTP(w, r)
		}()
		stream := <-e.streams
		time.Sleep(11 * time.Second) // 1 s until the first event, then two pings
		synctest.Wait()
		if n := pings(); n != 2 {
			t.Errorf("%d pings before the first token, expected 2:\n%s", n, w.Body)
		}
		stream.say("<think>")
		for range 12 { // the client does not see it
			stream.say(" a")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := pings(); n != 4 {
			t.Errorf("%d pings after unseen thinking, expected 4:\n%s", n, w.Body)
		}
		stream.say("</think>Yes")
		stream.say("<tool_call>\n<function=set_timer>\n<parameter=minutes>\n")
		for range 12 {
			stream.say("5")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := pings(); n != 6 {
			t.Errorf("%d pings after a tool call, expected 6:\n%s", n, w.Body)
		}
		stream.done(engine.FinishStop, nil)
		<-answered
		if text := w.Body.String(); strings.Contains(text, "\n:") || strings.HasPrefix(text, ":") {
			t.Errorf("the stream has comments:\n%s", text)
		}
	})
}

// cutWriter is a client that disconnects after some bytes.
type cutWriter struct {
	header http.Header
	left   int
	leave  func()
}

func (w *cutWriter) Header() http.Header { return w.header }
func (w *cutWriter) WriteHeader(int)     {}
func (w *cutWriter) Write(data []byte) (int, error) {
	if w.left -= len(data); w.left < 0 {
		w.leave()
		return 0, errors.New("connection reset")
	}
	return len(data), nil
}

// TestCutStreams cuts the stream of each dialect after every byte. The engine's request must end,
// and the handler must return.
func TestCutStreams(t *testing.T) {
	for path, body := range map[string]string{
		messagesPath:           messagesBody(messagesStream, thinks, timerTool),
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"hi"}],"stream":true}`,
		"/v1/completions":      `{"prompt":"x","stream":true}`,
		responsesPath:          responsesBody(responsesStream, flatTool, summary),
	} {
		t.Run(path, func(t *testing.T) {
			e := newFakeEngine(func(s *fakeStream) {
				s.prefill(4, 2)
				s.say("So\n</think>\n\nYes\n\n" + timerCall)
				s.done(engine.FinishStop, nil)
			})
			s := server.New(server.Options{Models: &fakeModels{engine: e}, Dialects: dialects,
				Log: slog.New(slog.DiscardHandler)})
			complete := false
			for bytes := 0; !complete; bytes++ {
				ctx, leave := context.WithCancel(t.Context())
				w := &cutWriter{header: http.Header{}, left: bytes, leave: leave}
				s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost,
					"http://localhost"+path, strings.NewReader(body)))
				leave()
				<-e.requests
				stream := <-e.streams
				complete = w.left >= 0
				select {
				case <-stream.cancelled:
				default:
					if unread := stream.stream.Unread(); unread > 0 {
						t.Fatalf("after %d bytes the request is not cancelled, and %d of its "+
							"events are left", bytes, unread)
					}
				}
			}
		})
	}
}

// messagesClient builds a message from the events of a stream, as Anthropic's clients do. It
// refuses events that are out of order.
type messagesClient struct {
	message map[string]any
	blocks  []any
	open    bool
	ended   bool
	partial string
}

func (c *messagesClient) read(text string) error {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	name := ""
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = n
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		if e["type"] != name {
			return fmt.Errorf("the event %s has the type %v", name, e["type"])
		}
		if err := c.add(e); err != nil {
			return fmt.Errorf("%s: %w", data, err)
		}
	}
	if !c.ended {
		return errors.New("the stream has no end")
	}
	c.message["content"] = c.blocks
	return nil
}

func (c *messagesClient) add(e map[string]any) error {
	index, _ := e["index"].(float64)
	inOrder := c.message != nil && !c.ended
	switch e["type"] {
	case "ping":
		return nil
	case "message_start":
		inOrder = c.message == nil
		c.message = e["message"].(map[string]any)
	case "content_block_start":
		inOrder = inOrder && !c.open && int(index) == len(c.blocks)
		c.open, c.partial = true, ""
		c.blocks = append(c.blocks, e["content_block"])
	case "content_block_delta":
		if inOrder = inOrder && c.open && int(index) == len(c.blocks)-1; inOrder {
			c.addDelta(e["delta"].(map[string]any))
		}
	case "content_block_stop":
		inOrder = inOrder && c.open && int(index) == len(c.blocks)-1
		c.open = false
	case "message_delta":
		inOrder = inOrder && !c.open
		for key, value := range e["delta"].(map[string]any) {
			c.message[key] = value
		}
		c.message["usage"] = e["usage"]
	case "message_stop":
		c.ended = inOrder
	}
	if !inOrder {
		return errors.New("the event is out of order")
	}
	return nil
}

func (c *messagesClient) addDelta(delta map[string]any) {
	block := c.blocks[len(c.blocks)-1].(map[string]any)
	switch delta["type"] {
	case "text_delta":
		block["text"] = block["text"].(string) + delta["text"].(string)
	case "thinking_delta":
		block["thinking"] = block["thinking"].(string) + delta["thinking"].(string)
	case "signature_delta":
		block["signature"] = delta["signature"]
	case "input_json_delta":
		c.partial += delta["partial_json"].(string)
		var input map[string]any
		if json.Unmarshal([]byte(c.partial), &input) == nil {
			block["input"] = input
		}
	}
}

// TestMessagesAgent runs an agent's loop with the bundled model: question, call with thinking,
// result, answer, next question. The streamed answers must equal the whole ones. From the second
// request on, at least 95 % of the prompt must come from the cache.
func TestMessagesAgent(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{ContextTokens: 4096, MaxSequences: 2})
	defer stop()
	system, _ := json.Marshal([]any{
		map[string]any{"type": "text", "text": "x-anthropic-billing-header: cch=NONCE;"},
		map[string]any{"type": "text", "text": "Be brief. " +
			strings.Repeat("Use the tool for the time. ", 400),
			"cache_control": map[string]any{"type": "ephemeral"}},
	})
	ask := func(turn int, messages []any, stream bool) map[string]any {
		t.Helper()
		body := map[string]any{"max_tokens": 60, "stream": stream, "messages": messages,
			"system": json.RawMessage(strings.ReplaceAll(string(system), "NONCE",
				fmt.Sprint(turn, stream))),
			"thinking": map[string]any{"type": "enabled", "budget_tokens": 1024},
			"tools": json.RawMessage(`[{"name":"get_time","description":"Get the current time",` +
				`"input_schema":{"type":"object","properties":{"city":{"type":"string"}},` +
				`"required":["city"]}}]`)}
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, _, text := post(t, url+messagesPath, string(data))
		if status != 200 {
			t.Fatalf("turn %d: got %d %s", turn, status, text)
		}
		c := &messagesClient{message: map[string]any{}}
		if stream {
			c.message = nil
			err = c.read(text)
		} else {
			err = json.Unmarshal([]byte(text), &c.message)
		}
		if err != nil {
			t.Fatalf("turn %d: %v: %s", turn, err, text)
		}
		return c.message
	}
	messages := []any{map[string]any{"role": "user", "content": "Tell me the time in Boston."}}
	called := false
	for turn := range 4 {
		whole := ask(turn, messages, false)
		streamed := ask(turn, messages, true)
		for _, m := range []map[string]any{whole, streamed} { // calls have random IDs
			for _, block := range m["content"].([]any) {
				if _, ok := block.(map[string]any)["id"]; ok {
					block.(map[string]any)["id"] = "toolu_1"
				}
			}
		}
		wholeJSON, _ := json.Marshal(whole["content"])
		streamedJSON, _ := json.Marshal(streamed["content"])
		if string(wholeJSON) != string(streamedJSON) ||
			whole["stop_reason"] != streamed["stop_reason"] {
			t.Errorf("turn %d:\nwhole    %s %v\nstreamed %s %v", turn, wholeJSON,
				whole["stop_reason"], streamedJSON, streamed["stop_reason"])
		}
		usage := whole["usage"].(map[string]any)
		computed, cached := usage["input_tokens"].(float64),
			usage["cache_read_input_tokens"].(float64)
		t.Logf("turn %d: %v of %v tokens cached, %s", turn, cached, computed+cached, wholeJSON)
		if turn > 0 && cached < 0.95*(computed+cached) {
			t.Errorf("turn %d: only %v of %v tokens were cached", turn, cached, computed+cached)
		}
		messages = append(messages, map[string]any{"role": "assistant",
			"content": whole["content"]})
		next := []any{map[string]any{"type": "text", "text": "What is a KV cache?"}}
		if whole["stop_reason"] == "tool_use" {
			called = true
			next = []any{
				map[string]any{"type": "tool_result", "tool_use_id": "toolu_1", "content": "15:04"},
				map[string]any{"type": "text",
					"text": "<system-reminder>Be brief.</system-reminder>"},
			}
		}
		messages = append(messages, map[string]any{"role": "user", "content": next})
	}
	if !called {
		t.Error("the model has called no tool")
	}
}
