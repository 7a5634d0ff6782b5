package server_test

// OpenAI's responses through the server.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

const responsesPath = "/v1/responses"

// responsesBody returns a request for a response with further parameters, each after a comma.
func responsesBody(params ...string) string {
	return `{"input":"hi"` + strings.Join(params, "") + `}`
}

const (
	responsesStream = `,"stream":true`
	summary         = `,"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"]`
	flatTool        = `,"tools":[{"type":"function","name":"set_timer","parameters":{"type":"object",` +
		`"properties":{"minutes":{"type":"integer"}}}},{"type":"web_search"}]`
	customTool = `,"tools":[{"type":"custom","name":"patch","description":"Patches."}]`
	customCall = "<tool_call>\n<function=patch>\n<parameter=input>\n*** Begin\n+\"a\"\n" +
		"</parameter>\n</function>\n</tool_call>"
)

// TestResponsesTranscripts compares HTTP responses with testdata/NAME.txt, byte for byte.
func TestResponsesTranscripts(t *testing.T) {
	say := func(finish engine.FinishReason, text string) func(*fakeStream) {
		return func(s *fakeStream) {
			s.say(text)
			s.done(finish, nil)
		}
	}
	const noThink = "\n</think>\n\n"
	for _, c := range []struct {
		name, body string
		script     func(*fakeStream)
	}{
		{"responses_stream", responsesBody(responsesStream, `,"instructions":"Be brief."`),
			func(s *fakeStream) {
				s.prefill(4, 4)
				s.prefill(10, 4)
				s.say(noThink + "The cache\nkeeps")
				s.done(engine.FinishStop, nil)
			}},
		{"responses_stream_reasoning", responsesBody(responsesStream),
			say(engine.FinishStop, "It asks.\n</think>\n\nYes <b>")},
		{"responses_stream_summary", responsesBody(responsesStream, summary),
			say(engine.FinishStop, "It asks.\n</think>\n\nYes")},
		{"responses_stream_reasoning_unclosed", responsesBody(responsesStream, summary),
			say(engine.FinishLength, "It asks </thi")},
		{"responses_stream_tools", responsesBody(responsesStream, flatTool),
			say(engine.FinishStop, "Two.\n</think>\n\nYes:\n\n"+timerCall+"\n"+timerCall)},
		{"responses_stream_one_tool",
			responsesBody(responsesStream, flatTool, `,"parallel_tool_calls":false`),
			say(engine.FinishStop, noThink+timerCall+"\n"+timerCall)},
		{"responses_stream_no_tools", responsesBody(responsesStream, flatTool,
			`,"tool_choice":"none"`), say(engine.FinishStop, noThink+"No. "+timerCall)},
		{"responses_stream_custom", responsesBody(responsesStream, customTool),
			say(engine.FinishStop, noThink+customCall)},
		{"responses_stream_blank", responsesBody(responsesStream, flatTool),
			say(engine.FinishStop, "So\n</think>\n\n \n"+timerCall)},
		{"responses_stream_cut_off", responsesBody(responsesStream),
			say(engine.FinishLength, noThink+"a")},
		{"responses_stream_error_first", responsesBody(responsesStream), func(s *fakeStream) {
			s.done(engine.FinishError, errors.New("the file is gone"))
		}},
		{"responses_stream_error_late", responsesBody(responsesStream, `,"store":false`),
			func(s *fakeStream) {
				s.say(noThink + "a")
				s.done(engine.FinishError,
					problem.New(problem.LowResources, "The engine has no memory", "", ""))
			}},
		{"responses_stream_cancelled", responsesBody(responsesStream), func(s *fakeStream) {
			s.say(noThink + "a")
			s.done(engine.FinishCancelled, nil)
		}},
		{"responses_whole", responsesBody(`,"metadata":{"a":"b"},"temperature":0.5`),
			func(s *fakeStream) {
				s.prefill(10, 4)
				s.say("Hm.\n</think>\n\nYes, \"é\"")
				s.done(engine.FinishStop, nil)
			}},
		{"responses_whole_tools", responsesBody(flatTool, summary),
			say(engine.FinishStop, "Hm.\n</think>\n\n"+timerCall)},
		{"responses_whole_custom", responsesBody(customTool),
			say(engine.FinishStop, noThink+customCall)},
		{"responses_whole_nothing", responsesBody(), say(engine.FinishStop, noThink)},
		{"responses_whole_cut_off", responsesBody(`,"max_output_tokens":1`),
			say(engine.FinishLength, noThink+"a")},
		{"responses_whole_empty_reasoning", responsesBody(`,"max_output_tokens":1`, summary),
			say(engine.FinishLength, "\n")},
		{"responses_stream_empty_reasoning", responsesBody(responsesStream),
			say(engine.FinishLength, "\n")},
		{"responses_whole_no_text", responsesBody(flatTool, `,"max_output_tokens":1`),
			say(engine.FinishLength, noThink+timerCall[:20])},
		{"responses_whole_error", responsesBody(), func(s *fakeStream) {
			s.say("half an answer")
			s.done(engine.FinishError, errors.New("the file is gone"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, newFakeEngine(c.script), server.Options{})
			compareTranscript(t, c.name, s.URL+responsesPath, c.body)
		})
	}
}

// TestResponsesErrors: statuses and bodies in OpenAI's form.
func TestResponsesErrors(t *testing.T) {
	refuses := func(code problem.Code) func(*fakeEngine) {
		return func(e *fakeEngine) { e.refusal = problem.New(code, "No", "", "") }
	}
	for _, c := range []struct {
		name, method, path, body string
		change                   func(*fakeEngine)
		status                   int
		want                     string
	}{
		{"no input", "POST", responsesPath, `{}`, nil, 400, `"input: is missing"`},
		{"unknown model", "POST", responsesPath, responsesBody(`,"model":"x"`), nil, 404,
			`"code":"model_not_found"`},
		{"too long", "POST", responsesPath, responsesBody(), func(e *fakeEngine) {
			e.refusal = problem.TooLong(problem.Overflow{Tokens: 40013, Context: 32768}, "")
		}, 400, `"code":"context_length_exceeded"`},
		{"queue full", "POST", responsesPath, responsesBody(responsesStream),
			refuses(problem.Busy), 429, `"type":"rate_limit_error"`},
		{"without v1", "POST", "/responses", responsesBody(`,"temperature":-1`), nil, 400,
			`"param":"temperature"`},
		{"unknown response", "GET", responsesPath + "/resp_1", "", nil, 404,
			`"message":"There is no response resp_1: `},
		{"delete an unknown response", "DELETE", responsesPath + "/resp_1", "", nil, 404,
			`"There is no response`},
		{"cancel an unknown response", "POST", responsesPath + "/resp_1/cancel", "", nil, 404,
			`"There is no response`},
		{"items of an unknown response", "GET", responsesPath + "/resp_1/input_items", "", nil,
			404, `"There is no response`},
		{"after an unknown response", "POST", responsesPath,
			responsesBody(`,"previous_response_id":"resp_1"`), nil, 400,
			`"param":"previous_response_id"`},
		{"count", "POST", responsesPath + "/input_tokens", `{"input":[]}`, nil, 400,
			`"param":"input"`},
		{"no such method", "PUT", responsesPath, "", nil, 405, `"error":{"message"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
			if c.change != nil {
				c.change(e)
			}
			s := start(t, e, server.Options{})
			status, _, text := do(t, c.method, s.URL+c.path, c.body)
			if status != c.status || !strings.HasPrefix(text, `{"error":{"message":`) ||
				!strings.Contains(text, c.want) {
				t.Errorf("got %d %s, want %d with %s", status, text, c.status, c.want)
			}
		})
	}
}

// object is a JSON object.
type object = map[string]any

// ask sends a request and returns the response with its status.
func ask(t *testing.T, method, url, body string, headers ...string) (status int, response object) {
	t.Helper()
	status, _, text := do(t, method, url, body, headers...)
	if err := json.Unmarshal([]byte(text), &response); err != nil {
		t.Fatalf("%s %s: %d %s", method, url, status, text)
	}
	return status, response
}

// TestResponsesPing: while nothing is sent, an event comes every 5 s, also in a tool call.
func TestResponsesPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(nil)
		s := server.New(server.Options{Models: &fakeModels{engine: e}, Dialects: dialects,
			Log: slog.New(slog.DiscardHandler)})
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://localhost"+responsesPath, strings.NewReader(responsesBody(responsesStream,
				flatTool)))
		pings := func() int { return strings.Count(w.Body.String(), "event: keepalive\ndata: {") }
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
		stream.say("\n</think>\n\n<tool_call>\n<function=set_timer>\n<parameter=minutes>\n")
		for range 12 {
			stream.say("5")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := pings(); n != 4 {
			t.Errorf("%d pings after a tool call, expected 4:\n%s", n, w.Body)
		}
		stream.done(engine.FinishStop, nil)
		<-answered
		c := &responsesClient{}
		if err := c.read(w.Body.String()); err != nil || strings.Contains(w.Body.String(), "\n:") {
			t.Errorf("%v:\n%s", err, w.Body)
		}
	})
}

// responsesClient builds a response from the events of a stream, as OpenAI's clients do. It refuses
// events that are out of order.
type responsesClient struct {
	next     int      // number of the next event
	output   []object // the items of output_item.done
	open     object   // the item that has been added and not completed; nil: none
	part     object   // of the open item; nil: none
	text     string   // of the deltas of the part, or of the arguments or the input
	response object   // of the last event
}

func (c *responsesClient) read(text string) error {
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
		var e object
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		if e["type"] != name || e["sequence_number"] != float64(c.next) || c.response != nil {
			return fmt.Errorf("the event %s is out of order: %s", name, data)
		}
		if err := c.add(name, e); err != nil {
			return fmt.Errorf("%w: %s", err, data)
		}
		c.next++
	}
	if c.response == nil {
		return errors.New("the stream has no end")
	}
	var output []object
	for _, item := range c.response["output"].([]any) {
		output = append(output, item.(object))
	}
	if !reflect.DeepEqual(output, c.output) {
		return fmt.Errorf("the response has the items %v, the events %v", output, c.output)
	}
	return nil
}

func (c *responsesClient) add(name string, e object) error {
	if index, ok := e["output_index"]; ok {
		last := len(c.output)
		if index != float64(last) || c.open != nil && e["item_id"] != nil &&
			e["item_id"] != c.open["id"] {
			return errors.New("the event is about another item")
		}
	}
	switch kind := strings.TrimPrefix(name, "response."); kind {
	case "keepalive":
	case "created", "in_progress":
		if c.next > 1 || e["response"].(object)["status"] != "in_progress" {
			return errors.New("the response has begun")
		}
	case "completed", "incomplete", "failed":
		c.response = e["response"].(object)
		if c.open != nil && kind != "failed" || c.response["status"] != kind {
			return errors.New("an item is open, or the status is another one")
		}
	case "output_item.added":
		if c.open != nil {
			return errors.New("the item before is open")
		}
		c.open, c.text = e["item"].(object), ""
	case "output_item.done":
		if c.open == nil || c.part != nil || c.open["id"] != e["item"].(object)["id"] {
			return errors.New("no such item is open")
		}
		c.output, c.open = append(c.output, e["item"].(object)), nil
	case "content_part.added", "reasoning_summary_part.added":
		c.part, c.text = e["part"].(object), ""
	case "content_part.done", "reasoning_summary_part.done":
		if c.part == nil || e["part"].(object)["text"] != c.text {
			return fmt.Errorf("the deltas of the part are %q", c.text)
		}
		c.part = nil
	default:
		if delta, ok := e["delta"].(string); ok {
			c.text += delta
			break
		}
		for _, field := range []string{"text", "arguments", "input"} {
			if whole, ok := e[field]; ok && whole != c.text {
				return fmt.Errorf("the deltas are %q", c.text)
			}
		}
	}
	return nil
}

// TestResponsesAgent runs an agent's loop with the bundled model: question, call, result, answer,
// next question. Nothing is stored, so each request has the whole conversation, as Codex sends it.
// The streamed answers must equal the whole ones. From the second request on, at least 95 % of the
// prompt must come from the cache.
func TestResponsesAgent(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{ContextTokens: 4096, MaxSequences: 2})
	defer stop()
	request := func(input []any, stream bool) object {
		t.Helper()
		data, err := json.Marshal(object{"store": false, "stream": stream, "input": input,
			"max_output_tokens": 60, "reasoning": object{"summary": "auto"},
			"include":      []string{"reasoning.encrypted_content"},
			"instructions": "Be brief. " + strings.Repeat("Use the tool for the time. ", 400),
			"tools": json.RawMessage(`[{"type":"function","name":"get_time","description":` +
				`"Get the current time","parameters":{"type":"object","properties":{"city":` +
				`{"type":"string"}},"required":["city"]}},{"type":"web_search"}]`)})
		if err != nil {
			t.Fatal(err)
		}
		if !stream {
			_, response := ask(t, "POST", url+responsesPath, string(data))
			return response
		}
		_, _, text := post(t, url+responsesPath, string(data))
		c := &responsesClient{}
		if err := c.read(text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return c.response
	}
	input := []any{object{"role": "user", "content": "Tell me the time in Boston."}}
	called := false
	for turn := range 4 {
		whole, streamed := request(input, false), request(input, true)
		for _, response := range []object{whole, streamed} { // the IDs are random
			for _, item := range response["output"].([]any) {
				item.(object)["id"] = "id"
				if item.(object)["call_id"] != nil {
					item.(object)["call_id"] = "call_1"
				}
			}
		}
		if !reflect.DeepEqual(whole["output"], streamed["output"]) ||
			whole["status"] != streamed["status"] {
			t.Errorf("turn %d:\nwhole    %v\nstreamed %v", turn, whole, streamed)
		}
		usage := whole["usage"].(object)
		prompt := usage["input_tokens"].(float64)
		cached := usage["input_tokens_details"].(object)["cached_tokens"].(float64)
		t.Logf("turn %d: %v of %v tokens cached, %v", turn, cached, prompt, whole["output"])
		if turn > 0 && cached < 0.95*prompt {
			t.Errorf("turn %d: only %v of %v tokens were cached", turn, cached, prompt)
		}
		next := any(object{"role": "user", "content": "What is a KV cache?"})
		for _, item := range whole["output"].([]any) {
			if input = append(input, item); item.(object)["type"] == "function_call" {
				called = true
				next = object{"type": "function_call_output", "call_id": "call_1",
					"output": []any{object{"type": "input_text", "text": "15:04"}}}
			}
		}
		input = append(input, next)
	}
	if !called {
		t.Error("the model has called no tool")
	}
}

// TestResponsesClient sends typical requests with OpenAI's official client: whole and streamed
// responses, one that continues another, items, counts, deletion and cancellation.
func TestResponsesClient(t *testing.T) {
	client, ctx := newClient(t), t.Context()
	question := responses.ResponseNewParams{Model: "demo",
		Instructions: openai.String("Be brief."),
		Input: responses.ResponseNewParamsInputUnion{
			OfString: openai.String("What is a KV cache?")}}
	whole, err := client.Responses.New(ctx, question)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Status != "completed" || whole.OutputText() == "" || whole.Usage.InputTokens < 10 {
		t.Errorf("response %s", whole.RawJSON())
	}
	stream, text := client.Responses.NewStreaming(ctx, question), ""
	for stream.Next() {
		if e := stream.Current(); e.Type == "response.output_text.delta" {
			text += e.Delta
		} else if e.Type == "response.completed" && e.Response.OutputText() != text {
			t.Errorf("the deltas are %q, the response %q", text, e.Response.OutputText())
		}
	}
	if err := stream.Err(); err != nil || text != whole.OutputText() {
		t.Errorf("streamed %q, %v; whole %q", text, err, whole.OutputText())
	}
	next, err := client.Responses.New(ctx, responses.ResponseNewParams{Model: "demo",
		PreviousResponseID: openai.String(whole.ID),
		Input:              responses.ResponseNewParamsInputUnion{OfString: openai.String("Why?")}})
	if err != nil || next.PreviousResponseID != whole.ID {
		t.Fatalf("%+v, %v", next, err)
	}
	items, err := client.Responses.InputItems.List(ctx, next.ID,
		responses.InputItemListParams{Order: "asc"})
	if err != nil || len(items.Data) != 3 || items.Data[2].Content.OfInputItemContentList[0].Text !=
		"Why?" {
		t.Errorf("items %+v, %v", items, err)
	}
	count, err := client.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{
		Instructions: openai.String("Be brief."),
		Input: responses.InputTokenCountParamsInputUnion{
			OfString: openai.String("What is a KV cache?")}})
	if err != nil || count.InputTokens != whole.Usage.InputTokens {
		t.Errorf("counted %+v, %v; the prompt had %d", count, err, whole.Usage.InputTokens)
	}
	if got, err := client.Responses.Get(ctx, next.ID, responses.ResponseGetParams{}); err != nil ||
		got.OutputText() != next.OutputText() {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := client.Responses.Delete(ctx, next.ID); err != nil {
		t.Error(err)
	}
	var refused *openai.Error
	_, err = client.Responses.Get(ctx, next.ID, responses.ResponseGetParams{})
	if !errors.As(err, &refused) || refused.StatusCode != 404 {
		t.Errorf("after the deletion: %v", err)
	}
	_, err = client.Responses.Cancel(ctx, whole.ID)
	if !errors.As(err, &refused) || refused.StatusCode != 400 {
		t.Errorf("cancelling a complete response: %v", err)
	}
}

// TestWaitingResponse: a stream that waits for its model and then fails has its events, and the
// response is stored as failed.
func TestWaitingResponse(t *testing.T) {
	m := &slowModels{ready: make(chan struct{}), fakeModels: fakeModels{
		err: problem.New(problem.DoesNotFit, "It does not fit", "", "")}}
	s := start(t, nil, server.Options{Models: m, KeepAlive: time.Millisecond})
	lines, _ := open(t, s.URL+responsesPath, responsesBody(responsesStream))
	waitFor(t, lines, ": waiting for the model")
	close(m.ready)
	waitFor(t, lines, "event: response.created")
	waitFor(t, lines, "event: response.failed")
	lines.Scan()
	_, id, _ := strings.Cut(lines.Text(), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	if !strings.Contains(lines.Text(), `"code":"server_error","message":"It does not fit"`) {
		t.Errorf("the last event is %s", lines.Text())
	}
	for lines.Scan() { // until the handler has returned
	}
	if _, got := ask(t, "GET", s.URL+responsesPath+"/"+id, ""); got["status"] != "failed" {
		t.Errorf("stored: %v", got)
	}
}
