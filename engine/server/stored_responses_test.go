package server_test

// Responses that are stored: how clients go on with them, read, cancel and delete them.

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"headroom/app/keys"
	"headroom/engine"
	"headroom/engine/responses"
	"headroom/engine/server"
)

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

// TestStoredResponsesOfKeys: a program that stores much pushes out nobody else's responses.
func TestStoredResponsesOfKeys(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.say("So\n</think>\n\nYes")
		s.done(engine.FinishStop, nil)
	})
	url, store, _ := withKeys(t, e, server.Options{Dialects: []server.Dialect{responses.New()}})
	url += responsesPath
	person, program := addKey(t, store, "person", keys.Limits{}), addKey(t, store, "program",
		keys.Limits{})
	create := func(key, query string) (id string) {
		status, _, text := post(t, url, `{"input":[{"type":"web_search_call","query":"`+query+
			`"},{"role":"user","content":"hi"}]}`, "X-Api-Key", key)
		<-e.streams
		<-e.requests
		var created struct{ ID string }
		if err := json.Unmarshal([]byte(text), &created); err != nil || status != 200 {
			t.Fatal(status, text, err)
		}
		return created.ID
	}
	theirs, large := create(person, ""), strings.Repeat("x", 3_000_000)
	first := create(program, large)
	for range 25 {
		create(program, large)
	}
	for id, want := range map[string]int{theirs: 200, first: 404} {
		if status, _, text := do(t, "GET", url+"/"+id, "", "X-Api-Key", person); status != want {
			t.Errorf("%d %s, expected %d", status, text, want)
		}
	}
}
