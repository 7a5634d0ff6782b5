package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/server"
)

// TestSeveralAnswers checks that each answer to one prompt is the one that its seed gives alone,
// whole and streamed, in chats and completions, and that the prompt counts once.
func TestSeveralAnswers(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{ContextTokens: 512, MaxSequences: 4})
	defer stop()
	const n = 3
	type reply struct {
		Choices []struct {
			Index   int
			Text    string
			Message struct{ Content, Reasoning string }
			Delta   struct{ Role, Content, Reasoning string }
			Finish  *string `json:"finish_reason"`
		}
		Usage *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	read := func(text string) (r reply) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &r); err != nil ||
			len(r.Choices) == 0 && r.Usage == nil {
			t.Fatalf("%v: %s", err, text)
		}
		return r
	}
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"zq 7 xw"}],` +
			`"max_tokens":12,"temperature":2,"chat_template_kwargs":{"enable_thinking":false}`},
		{"/v1/completions", `"prompt":"zq 7 xw","max_tokens":8,"temperature":2`},
	} {
		var alone [n]string
		prompt, completion := 0, 0
		for i := range n {
			_, _, text := post(t, url+c.path, fmt.Sprintf(`{%s,"seed":%d}`, c.body, 7+i))
			one := read(text)
			alone[i] = one.Choices[0].Text + one.Choices[0].Message.Content
			prompt = one.Usage.Prompt
			completion += one.Usage.Completion
		}
		if alone[0] == alone[1] {
			t.Errorf("%s: two seeds give %q", c.path, alone[0])
		}
		_, _, text := post(t, url+c.path, fmt.Sprintf(`{%s,"seed":7,"n":%d}`, c.body, n))
		all := read(text)
		if len(all.Choices) != n || all.Usage.Prompt != prompt ||
			all.Usage.Completion != completion {
			t.Errorf("%s: %s", c.path, text)
		}
		for i, choice := range all.Choices {
			if got := choice.Text + choice.Message.Content; choice.Index != i || got != alone[i] {
				t.Errorf("%s: choice %d is %q, alone %q", c.path, i, got, alone[i])
			}
		}
		_, _, events := post(t, url+c.path, fmt.Sprintf(`{%s,"seed":7,"n":%d,"stream":true,`+
			`"stream_options":{"include_usage":true}}`, c.body, n))
		var streamed, roles, finished [n]string
		for _, line := range strings.Split(events, "\n") {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok || data == "[DONE]" {
				continue
			}
			chunk := read(data)
			for _, choice := range chunk.Choices {
				streamed[choice.Index] += choice.Text + choice.Delta.Content
				roles[choice.Index] += choice.Delta.Role
				if choice.Finish != nil {
					finished[choice.Index] += *choice.Finish
				}
			}
			if chunk.Usage != nil && (chunk.Usage.Prompt != prompt ||
				chunk.Usage.Completion != completion) {
				t.Errorf("%s: the usage is %s", c.path, data)
			}
		}
		if streamed != alone {
			t.Errorf("%s: streamed %q, alone %q", c.path, streamed, alone)
		}
		for i := range n {
			if finished[i] == "" || strings.Contains(c.path, "chat") && roles[i] != "assistant" {
				t.Errorf("%s: choice %d has the role %q and ends with %q", c.path, i, roles[i],
					finished[i])
			}
		}
	}
}

// TestSeeds checks the seeds of several answers to several prompts, and that there are none without
// one.
func TestSeeds(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.say("a"); s.done(engine.FinishStop, nil) })
	s := start(t, e, server.Options{})
	post(t, s.URL+"/v1/completions", `{"prompt":[[1],[2]],"n":2,"seed":-1}`)
	for i, want := range []uint64{1<<64 - 1, 0, 1<<64 - 1, 0} {
		q := <-e.requests
		if q.Sampling.Seed == nil || *q.Sampling.Seed != want || q.Prompt[0] != int32(1+i/2) {
			t.Errorf("request %d: %+v", i, q)
		}
	}
	post(t, s.URL+"/v1/completions", `{"prompt":"a","n":2,"ignore_eos":true}`)
	for range 2 {
		if q := <-e.requests; q.Sampling.Seed != nil || !q.IgnoreEOS {
			t.Errorf("%+v", q)
		}
	}
}

// TestOneCall checks that parallel_tool_calls false ends an answer with its first call, and the
// request, too.
func TestOneCall(t *testing.T) {
	const call = "<tool_call>\n<function=f>\n</function>\n</tool_call>"
	for parallel, calls := range map[string]int{`true`: 2, `false`: 1} {
		e := newFakeEngine(func(s *fakeStream) {
			s.say("Both.\n</think>\n\nNow:" + call + "\n" + call + "\nDone.")
			s.done(engine.FinishStop, nil)
		})
		s := start(t, e, server.Options{})
		got := askChat(t, s.URL, `"messages":[{"role":"user","content":"hi"}],"tools":[{"type":`+
			`"function","function":{"name":"f"}}],"parallel_tool_calls":`+parallel)
		if got.Calls != calls || got.Finish != "tool_calls" ||
			got.Content != map[int]string{1: "Now:", 2: "Now:Done."}[calls] {
			t.Errorf("parallel_tool_calls %s: %+v", parallel, got)
		}
		if stream := <-e.streams; calls == 1 {
			waitClosed(t, stream.cancelled, "stopping the request")
		}
	}
}

// TestHiddenReasoning checks that a client can leave out the reasoning. Its tokens still count.
func TestHiddenReasoning(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.say("Why not.\n</think>\n\nYes.")
		s.done(engine.FinishStop, nil)
	})
	s := start(t, e, server.Options{})
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	shown, hidden := askChat(t, s.URL, hi), askChat(t, s.URL, hi+`,"include_reasoning":false`)
	if hidden.Reasoning != "" || shown.Reasoning == "" || hidden.Content != "Yes." ||
		hidden.Tokens != shown.Tokens {
		t.Errorf("shown %+v, hidden %+v", shown, hidden)
	}
}

// TestContinuedMessage checks that the prompt ends inside a last message that is to be continued,
// that the answer is what follows, and that stop texts apply from its first character on. Otherwise
// a new turn begins.
func TestContinuedMessage(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.say("\n cache\nis")
		s.done(engine.FinishStop, nil)
	})
	s := start(t, e, server.Options{})
	for _, c := range []struct{ last, more, end, content string }{
		{`{"role":"assistant","content":"The "}`, `,"continue_final_message":true,` +
			`"add_generation_prompt":false`, "\n\n</think>\n\nThe ", "\n cache\nis"},
		{`{"role":"assistant","content":"The ","prefix":true}`, `,"stop":"\n"`,
			"\n\n</think>\n\nThe ", ""},
		{`{"role":"assistant","content":"The "}`, "", "The <|im_end|>\n<|im_start|>assistant\n" +
			"<think>\n", ""},
		{`{"role":"assistant","content":"","prefix":true}`, "", "hi<|im_end|>\n" +
			"<|im_start|>assistant\n<think>\n", ""},
	} {
		got := askChat(t, s.URL, `"messages":[{"role":"user","content":"hi"},`+c.last+`]`+c.more)
		prompt := e.tokenizer.Decode((<-e.requests).Prompt, false)
		<-e.requests
		<-e.streams
		<-e.streams
		if !strings.HasSuffix(prompt, c.end) || got.Content != c.content {
			t.Errorf("%s%s: the prompt is %q, the answer %+v", c.last, c.more, prompt, got)
		}
	}
}

// TestConversationsOfAgents checks that conversations are accepted which a client replays, with the
// demo model's template, which refuses them as they are.
func TestConversationsOfAgents(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.say("a"); s.done(engine.FinishStop, nil) })
	s := start(t, e, server.Options{})
	for _, c := range []struct{ messages, want string }{
		{`[{"role":"system","content":"A"},{"role":"developer","content":"B"},
			{"role":"user","content":"C"}]`, "system\nA\n\nB<|im_end|>\n<|im_start|>user\nC<"},
		{`[{"role":"user","content":"A"},{"role":"system","content":"B"},
			{"role":"assistant","content":"C"},{"role":"user","content":"D"}]`,
			"user\nA<|im_end|>\n<|im_start|>user\nB<"},
		{`[{"role":"user","content":"A"},{"role":"assistant","content":null,"tool_calls":[
			{"id":"c","type":"function","function":{"name":"f","arguments":"{bad"}}]},
			{"role":"tool","tool_call_id":"c","content":"no"}]`, "{bad"},
		{`[{"role":"user","content":"A"},{"role":"assistant","content":[
			{"type":"thinking","thinking":"T"},{"type":"output_text","text":"B"}]},
			{"role":"user","content":[{"type":"input_text","text":"C"}]}]`, "user\nC<"},
	} {
		status, _, text := post(t, s.URL+"/v1/chat/completions", `{"messages":`+c.messages+`}`)
		if status != 200 {
			t.Errorf("%s: %d %s", c.messages, status, text)
			continue
		}
		if prompt := e.tokenizer.Decode((<-e.requests).Prompt, false); !strings.Contains(prompt,
			c.want) {
			t.Errorf("%s: the prompt is %q", c.messages, prompt)
		}
	}
}

// TestBrokenArguments: in each dialect, a conversation goes on after a call whose arguments are no
// JSON, such as one that a limit on tokens has cut off. The prompt has them as they were sent.
func TestBrokenArguments(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.say("a"); s.done(engine.FinishStop, nil) })
	s := start(t, e, server.Options{})
	const bad = `"{\"city\": \"Par"`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"A"},{"role":"assistant",
			"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f",
			"arguments":` + bad + `}}]},{"role":"tool","tool_call_id":"c","content":"no"}]}`,
		messagesPath: `{"max_tokens":9,"messages":[{"role":"user","content":"A"},
			{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":` + bad +
			`}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c",
			"content":"no"}]}]}`,
		responsesPath: `{"input":[{"role":"user","content":"A"},{"type":"function_call",
			"call_id":"c","name":"f","arguments":` + bad + `},{"type":"function_call_output",
			"call_id":"c","output":"no"}]}`,
		"/api/chat": `{"model":"demo","stream":false,"messages":[{"role":"user","content":"A"},
			{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f",
			"arguments":` + bad + `}}]},{"role":"tool","content":"no","tool_name":"f"}]}`,
	} {
		status, _, text := post(t, s.URL+path, body)
		if status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
			continue
		}
		prompt := e.tokenizer.Decode((<-e.requests).Prompt, false)
		<-e.streams
		if !strings.Contains(prompt, "<function=f>") || !strings.Contains(prompt,
			`{"city": "Par`) {
			t.Errorf("%s: the prompt is %q", path, prompt)
		}
	}
}
