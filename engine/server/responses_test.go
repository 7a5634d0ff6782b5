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

// TestStoredResponses: a response can be read, continued, referred to and deleted, if it is stored.
func TestStoredResponses(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.say("So\n</think>\n\nYes")
		s.done(engine.FinishStop, nil)
	})
	s := start(t, e, server.Options{})
	url := s.URL + responsesPath
	prompt := func() string { return e.tokenizer.Decode((<-e.requests).Prompt, false) }

	_, first := ask(t, "POST", url, responsesBody(`,"instructions":"Be brief."`))
	id := first["id"].(string)
	prompt()
	if status, got := ask(t, "GET", url+"/"+id, ""); status != 200 ||
		!reflect.DeepEqual(got, first) {
		t.Errorf("got %d %v, expected %v", status, got, first)
	}
	_, second := ask(t, "POST", url, `{"previous_response_id":"`+id+
		`","input":[{"role":"user","content":"Why?"}]}`)
	const all = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n" +
		"<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n<think>\n"
	if got := prompt(); got != all {
		t.Errorf("the prompt of the second response is %q, expected %q", got, all)
	}
	message := first["output"].([]any)[1].(object)["id"].(string)
	if status, got := ask(t, "POST", url, `{"store":false,"input":[{"role":"user","content":"hi"},`+
		`{"type":"item_reference","id":"`+message+`"},{"role":"user","content":"Why?"}]}`); status !=
		200 || got["store"] != false {
		t.Errorf("a reference: got %d %v", status, got)
	} else if status, _ := ask(t, "GET", url+"/"+got["id"].(string), ""); status != 404 {
		t.Errorf("a response with store false: got %d, expected 404", status)
	}
	if got := prompt(); got != all {
		t.Errorf("the prompt with a reference is %q, expected %q", got, all)
	}
	list := url + "/" + second["id"].(string) + "/input_items"
	_, items := ask(t, "GET", list+"?order=asc&limit=2", "")
	data := items["data"].([]any)
	if len(data) != 2 || items["has_more"] != true ||
		data[0].(object)["role"] != "user" || data[1].(object)["type"] != "reasoning" {
		t.Errorf("input items: %v", items)
	}
	_, rest := ask(t, "GET", list+"?order=asc&after="+items["last_id"].(string), "")
	_, reversed := ask(t, "GET", list, "")
	data, backwards := rest["data"].([]any), reversed["data"].([]any)
	if len(data) != 2 || rest["has_more"] != false || data[0].(object)["id"] != message ||
		len(backwards) != 4 || !reflect.DeepEqual(backwards[0], data[1]) {
		t.Errorf("the rest: %v\nreversed: %v", rest, reversed)
	}
	if _, got := ask(t, "DELETE", url+"/"+id, ""); got["deleted"] != true {
		t.Errorf("deleted: %v", got)
	}
	for _, c := range []struct{ method, url, body string }{
		{"GET", url + "/" + id, ""},
		{"POST", url, responsesBody(`,"previous_response_id":"` + id + `"`)},
		{"POST", url, responsesBody(`,"previous_response_id":"` + second["id"].(string) + `"`)},
		{"POST", url, `{"input":[{"type":"item_reference","id":"` + message + `"}]}`},
	} {
		if status, got := ask(t, c.method, c.url, c.body); status != 404 && status != 400 {
			t.Errorf("%s %s %s after the deletion: got %d %v", c.method, c.url, c.body, status, got)
		}
	}
}

// TestResponsesReplay: however a client goes on with an answer, the next prompt begins with the
// prompt before and with what the model has written, so that all of it is found in the cache.
func TestResponsesReplay(t *testing.T) {
	e := newFakeEngine(nil)
	s := start(t, e, server.Options{})
	for _, c := range []struct{ name, params, call string }{
		{"reasoning", flatTool, timerCall},
		{"a summary", flatTool + summary, timerCall},
		{"sealed reasoning", flatTool + summary, timerCall},
		{"a previous response", flatTool + summary, timerCall},
		{"references", flatTool, timerCall},
		{"a custom tool", customTool, customCall},
	} {
		answer := "I ask.\n</think>\n\nI do.\n\n" + c.call
		e.script = func(s *fakeStream) {
			s.say(answer)
			s.done(engine.FinishStop, nil)
		}
		_, first := ask(t, "POST", s.URL+responsesPath,
			`{"input":[{"role":"user","content":"hi"}]`+c.params+`}`)
		input := []any{object{"role": "user", "content": "hi"}}
		previous := ""
		for _, item := range first["output"].([]any) {
			item := item.(object)
			switch {
			case item["type"] == "reasoning" && c.name == "a summary":
				delete(item, "encrypted_content")
			case item["type"] == "reasoning" && c.name == "sealed reasoning":
				item["summary"] = []any{}
			case c.name == "references":
				item = object{"type": "item_reference", "id": item["id"]}
			}
			input = append(input, item)
		}
		last := first["output"].([]any)[2].(object)
		output := object{"type": last["type"].(string) + "_output", "call_id": last["call_id"],
			"output": "done"}
		if c.name == "a previous response" {
			input, previous = nil, `,"previous_response_id":"`+first["id"].(string)+`"`
		}
		items, err := json.Marshal(append(input, output))
		if err != nil {
			t.Fatal(err)
		}
		if status, got := ask(t, "POST", s.URL+responsesPath,
			`{"input":`+string(items)+c.params+previous+`}`); status != 200 {
			t.Fatalf("%s: got %d %v", c.name, status, got)
		}
		before := e.tokenizer.Decode((<-e.requests).Prompt, false)
		after := e.tokenizer.Decode((<-e.requests).Prompt, false)
		want := before + answer + "<|im_end|>\n<|im_start|>user\n<tool_response>\ndone\n"
		if !strings.HasPrefix(after, want) {
			t.Errorf("%s: the prompt is\n%s\nexpected it to begin with\n%s", c.name, after, want)
		}
	}
}

// TestCompact: the user's messages stay, and a summary replaces the others. It is read again in a
// later request.
func TestCompact(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.say("So\n</think>\n\nYes")
		s.done(engine.FinishStop, nil)
	})
	s := start(t, e, server.Options{})
	url := s.URL + responsesPath
	_, first := ask(t, "POST", url, responsesBody())
	before := e.tokenizer.Decode((<-e.requests).Prompt, false)
	status, compact := ask(t, "POST", url+"/compact", `{"previous_response_id":"`+
		first["id"].(string)+`","input":[{"type":"function_call","call_id":"1","name":"f",`+
		`"arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"5"},`+
		`{"role":"user","content":"Why?"}]}`)
	if status != 200 || compact["object"] != "response.compaction" ||
		compact["usage"].(object)["output_tokens"] == 0.0 {
		t.Fatalf("got %d %v", status, compact)
	}
	prompt := e.tokenizer.Decode((<-e.requests).Prompt, false)
	question, _, _ := strings.Cut(before, "<|im_start|>assistant")
	if !strings.HasPrefix(prompt, question) || !strings.Contains(prompt, "Why?<|im_end|>\n"+
		"<|im_start|>user\nSummarize our conversation") {
		t.Errorf("the prompt is %q", prompt)
	}
	output, err := json.Marshal(compact["output"])
	if err != nil || len(compact["output"].([]any)) != 3 {
		t.Fatalf("output %s, %v", output, err)
	}
	if status, got := ask(t, "POST", url, `{"input":`+string(output)+`}`); status != 200 {
		t.Errorf("got %d %v", status, got)
	}
	const want = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n" +
		"<|im_start|>user\nThis is a summary of our conversation so far:\n\nYes<|im_end|>\n"
	if got := e.tokenizer.Decode((<-e.requests).Prompt, false); !strings.HasPrefix(got, want) {
		t.Errorf("the prompt with the summary is %q", got)
	}
	status, refused := ask(t, "POST", url+"/compact", responsesBody(responsesStream))
	if status != 400 || refused["error"].(object)["param"] != "stream" {
		t.Errorf("streamed: got %d %v", status, refused)
	}
}

// TestPrivateResponses: what is not to be cached at all is not stored, whoever says so.
func TestPrivateResponses(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.say("\n</think>\n\nYes")
		s.done(engine.FinishStop, nil)
	})
	s := start(t, e, server.Options{})
	for _, c := range []struct {
		params, header string
		stored         bool
	}{
		{"", "disk", true}, {"", "memory", true}, {"", "none", false},
		{`,"cache":"none"`, "", false}, {`,"cache":"none","store":true`, "", false},
		{`,"cache":"none"`, "memory", true}, {`,"store":false`, "disk", false},
	} {
		for _, params := range []string{c.params, c.params + responsesStream} {
			var headers []string
			if c.header != "" {
				headers = []string{"Headroom-Cache", c.header}
			}
			_, _, text := do(t, "POST", s.URL+responsesPath, responsesBody(params), headers...)
			<-e.requests
			_, text, _ = strings.Cut(text, `"id":"resp_`)
			id, text, _ := strings.Cut(text, `"`)
			status, _, _ := do(t, "GET", s.URL+responsesPath+"/resp_"+id, "")
			if (status == 200) != c.stored || c.stored != strings.Contains(text, `"store":true`) {
				t.Errorf("%s %s: got %d, expected a stored response: %t\n%s", params, c.header,
					status, c.stored, text)
			}
		}
	}
}

// TestCancelledResponse: another request ends a response that is being generated. Its client gets
// the end of the stream, and it stays as it is.
func TestCancelledResponse(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.say("\n</think>\n\nYes") })
	s := start(t, e, server.Options{})
	url := s.URL + responsesPath
	lines, leave := open(t, url, responsesBody(responsesStream))
	defer leave()
	stream := <-e.streams
	waitFor(t, lines, "event: response.created")
	lines.Scan()
	_, id, _ := strings.Cut(lines.Text(), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	waitFor(t, lines, `"delta":"es"`)
	if status, got := ask(t, "GET", url+"/"+id, ""); status != 200 ||
		got["status"] != "in_progress" {
		t.Errorf("before: got %d %v", status, got)
	}
	if status, got := ask(t, "POST", url, responsesBody(`,"previous_response_id":"`+id+
		`"`)); status != 400 {
		t.Errorf("a response after one that is not complete: got %d %v", status, got)
	}
	if status, got := ask(t, "POST", url+"/"+id+"/cancel", ""); status != 200 ||
		got["status"] != "cancelled" || got["id"] != id {
		t.Errorf("cancelled: got %d %v", status, got)
	}
	waitClosed(t, stream.cancelled, "the end of the engine's request")
	waitFor(t, lines, "event: response.failed")
	if lines.Scan(); !strings.Contains(lines.Text(), `"status":"cancelled"`) ||
		!strings.Contains(lines.Text(), `"text":"Yes"`) {
		t.Errorf("the last event is %s", lines.Text())
	}
	for lines.Scan() { // until the handler has returned
	}
	if status, got := ask(t, "GET", url+"/"+id, ""); status != 200 ||
		got["status"] != "cancelled" {
		t.Errorf("after: got %d %v", status, got)
	}
	if status, got := ask(t, "POST", url+"/"+id+"/cancel", ""); status != 400 {
		t.Errorf("cancelled twice: got %d %v", status, got)
	}
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
