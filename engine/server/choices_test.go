package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// several is a completion with several choices, whole or joined from its chunks.
type several struct {
	Choices []struct {
		Index    int
		Text     string
		Finish   *string `json:"finish_reason"`
		Logprobs *struct {
			Tokens     []string
			TextOffset []int `json:"text_offset"`
		}
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
}

// joinSeveral joins the chunks of a stream. Chunks of a choice must come in one piece, and in the
// order of the choices.
func joinSeveral(t *testing.T, events string) (all several) {
	t.Helper()
	for _, line := range strings.Split(events, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk several
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if chunk.Usage != nil {
			all.Usage = chunk.Usage
		}
		for _, c := range chunk.Choices {
			n := len(all.Choices)
			switch {
			case c.Index == n && (n == 0 || all.Choices[n-1].Finish != nil):
				all.Choices = append(all.Choices, c)
				continue
			case c.Index != n-1 || all.Choices[n-1].Finish != nil:
				t.Fatalf("a chunk of choice %d after %d choices: %s", c.Index, n, events)
			}
			to := &all.Choices[n-1]
			to.Text, to.Finish = to.Text+c.Text, c.Finish
			if c.Logprobs != nil {
				to.Logprobs.Tokens = append(to.Logprobs.Tokens, c.Logprobs.Tokens...)
				to.Logprobs.TextOffset = append(to.Logprobs.TextOffset, c.Logprobs.TextOffset...)
			}
		}
	}
	if !strings.HasSuffix(events, "data: [DONE]\n\n") {
		t.Fatalf("the stream has no end: %s", events)
	}
	return all
}

// TestSeveralPrompts checks that each prompt of a completion has the answer that it has alone, with
// its number, whole and streamed, and that the usage is that of all. More prompts are sent than
// the engine computes at once.
func TestSeveralPrompts(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{ContextTokens: 256, MaxSequences: 2})
	defer stop()
	var prompts []string
	for i := range 11 {
		prompts = append(prompts, fmt.Sprintf("%q", fmt.Sprintf("Number %d of the cache", i)))
	}
	prompts[3] = "[5,6,7]"
	for _, options := range []string{`"max_tokens":6`, `"max_tokens":3,"echo":true,"logprobs":1`,
		`"max_tokens":0,"echo":true,"logprobs":1`} {
		ask := func(prompt string) (all several) {
			t.Helper()
			body := fmt.Sprintf(`{"temperature":0,%s,"prompt":%s`, options, prompt)
			status, _, got := post(t, url+"/v1/completions", body+"}")
			if err := json.Unmarshal([]byte(got), &all); err != nil || status != 200 {
				t.Fatalf("%s: status %d, %v: %s", body, status, err, got)
			}
			_, _, events := post(t, url+"/v1/completions",
				body+`,"stream":true,"stream_options":{"include_usage":true}}`)
			whole, _ := json.Marshal(all)
			streamed, _ := json.Marshal(joinSeveral(t, events))
			if string(whole) != string(streamed) {
				t.Errorf("%s:\nstreamed %s\nwhole    %s", body, streamed, whole)
			}
			return all
		}
		all := ask("[" + strings.Join(prompts, ",") + "]")
		if len(all.Choices) != len(prompts) {
			t.Fatalf("%d choices, expected %d", len(all.Choices), len(prompts))
		}
		prompt, completion := 0, 0
		for i, p := range prompts {
			alone := ask(p)
			prompt += alone.Usage.Prompt
			completion += alone.Usage.Completion
			if all.Choices[i].Index != i {
				t.Errorf("choice %d has the index %d", i, all.Choices[i].Index)
			}
			alone.Choices[0].Index = i
			got, _ := json.Marshal(all.Choices[i])
			if want, _ := json.Marshal(alone.Choices[0]); string(got) != string(want) {
				t.Errorf("%s, prompt %s:\ngot   %s\nalone %s", options, p, got, want)
			}
		}
		if u := all.Usage; u.Prompt != prompt || u.Completion != completion ||
			u.Total != prompt+completion {
			t.Errorf("%s: usage %+v, expected %d and %d tokens", options, *u, prompt, completion)
		}
	}
}

// TestSeveralPromptsTooLarge: the error of a body with many prompts is about the body, since each
// prompt may fit.
func TestSeveralPromptsTooLarge(t *testing.T) {
	e := newFakeEngine(nil)
	e.info.ContextTokens = 64
	s := start(t, e, server.Options{})
	prompts := strings.Repeat(`"`+strings.Repeat("a", 1000)+`",`, 1100)
	status, _, text := post(t, s.URL+"/v1/completions", `{"prompt":[`+prompts+`"a"]}`)
	if status != 400 || !strings.Contains(text, "the request's body is too large") ||
		!strings.Contains(text, "fewer prompts") {
		t.Errorf("%d %s", status, text)
	}
}

// TestSeveralPromptsFail checks that the error of one answer is that of the response, and that the
// requests of the answers after it are cancelled.
func TestSeveralPromptsFail(t *testing.T) {
	for _, stream := range []bool{false, true} {
		begun := 0
		e := newFakeEngine(func(s *fakeStream) {
			begun++
			s.token(1, "a")
			switch begun {
			case 1:
				s.done("stop", nil)
			case 2:
				s.done("error", errors.New("no memory"))
			}
		})
		s := start(t, e, server.Options{})
		status, _, text := post(t, s.URL+"/v1/completions",
			fmt.Sprintf(`{"prompt":["a","b","c","d"],"stream":%t}`, stream))
		if want := map[bool]int{false: http.StatusInternalServerError, true: 200}[stream]; status !=
			want || !strings.Contains(text, "no memory") || strings.Contains(text, "[DONE]") {
			t.Errorf("stream %t: status %d, %s", stream, status, text)
		}
		if stream && strings.Count(text, `"finish_reason":"stop"`) != 1 {
			t.Errorf("the first answer is not complete: %s", text)
		}
		for i := range 4 {
			stream := <-e.streams
			if i >= 2 {
				waitClosed(t, stream.cancelled, "cancelling an answer after the error")
				continue
			}
			select {
			case <-stream.cancelled:
				t.Errorf("request %d was cancelled, although it had ended", i)
			default:
			}
		}
	}
}

// TestSeveralPromptsWait checks that answers after the first wait for a place in the engine, where
// the first is refused.
func TestSeveralPromptsWait(t *testing.T) {
	busy := problem.New(problem.Busy, "Too many requests are waiting", "", "")
	submitted := 0
	e := newFakeEngine(func(s *fakeStream) {
		s.token(1, "a")
		s.done("stop", nil)
	})
	e.place = func() error {
		if submitted++; submitted == 2 || submitted == 3 {
			return busy
		}
		return nil
	}
	s := start(t, e, server.Options{})
	const body = `{"prompt":["a","b","c"]}`
	status, _, text := post(t, s.URL+"/v1/completions", body)
	if status != 200 || strings.Count(text, `"text":"a"`) != 3 || submitted != 5 {
		t.Errorf("status %d after %d submissions: %s", status, submitted, text)
	}

	// A place that is missing for a moment does not change the order.
	for len(e.requests) > 0 {
		<-e.requests
	}
	submitted = 1
	e.place = func() error {
		if submitted++; submitted == 3 {
			return busy
		}
		return nil
	}
	post(t, s.URL+"/v1/completions", `{"prompt":[[1],[2],[3],[4]]}`)
	for want := range 4 {
		if q := <-e.requests; q.Prompt[0] != int32(want+1) {
			t.Errorf("request %d has the prompt %v", want, q.Prompt)
		}
	}
	e.place = func() error { return busy }
	if status, _, text = post(t, s.URL+"/v1/completions", body); status != 429 {
		t.Errorf("status %d: %s", status, text)
	}
}

// TestSeveralPromptsAhead checks how many answers are computed at once, and that those which are
// ready before their turn are not taken for those of a slow client.
func TestSeveralPromptsAhead(t *testing.T) {
	e := newFakeEngine(nil)
	s := start(t, e, server.Options{})
	prompts := strings.TrimSuffix(strings.Repeat(`"a",`, 10), ",")
	driven := make(chan struct{})
	go func() {
		defer close(driven)
		var streams []*fakeStream
		for range 8 {
			streams = append(streams, <-e.streams)
		}
		for range 3000 {
			streams[1].token(1, "b")
		}
		for _, stream := range streams[1:] {
			stream.done("stop", nil)
		}
		if len(e.requests) != 8 {
			t.Errorf("%d requests are submitted while the first runs, expected 8",
				len(e.requests))
		}
		streams[0].done("stop", nil)
		for range 2 {
			(<-e.streams).done("stop", nil)
		}
	}()
	_, _, text := post(t, s.URL+"/v1/completions", `{"stream":true,"prompt":[`+prompts+`]}`)
	<-driven
	if n := strings.Count(text, `"text":"b"`); n != 3000 || !strings.Contains(text, "[DONE]") {
		t.Errorf("%d tokens of the second answer: %.300s", n, text)
	}
}
