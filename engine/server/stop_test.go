package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

// chatAnswer is an answer of chat completions, whole or joined from its chunks.
type chatAnswer struct {
	Content, Reasoning, Finish string
	Calls                      int
	Tokens                     int // of the answer
	Logprobs                   int
}

// chatChunk is a whole answer or a chunk of one.
type chatChunk struct {
	Choices []struct {
		Message, Delta struct {
			Content   string
			Reasoning string
			Calls     []struct{} `json:"tool_calls"`
		}
		Finish   *string `json:"finish_reason"`
		Logprobs *struct{ Content []struct{} }
	}
	Usage *struct {
		Completion int `json:"completion_tokens"`
	}
}

// add adds a chunk.
func (a *chatAnswer) add(t *testing.T, data string) {
	t.Helper()
	var c chatChunk
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	for _, choice := range c.Choices {
		a.Content += choice.Message.Content + choice.Delta.Content
		a.Reasoning += choice.Message.Reasoning + choice.Delta.Reasoning
		a.Calls += len(choice.Message.Calls) + len(choice.Delta.Calls)
		if choice.Finish != nil {
			a.Finish += *choice.Finish
		}
		if choice.Logprobs != nil {
			a.Logprobs += len(choice.Logprobs.Content)
		}
	}
	if c.Usage != nil {
		a.Tokens = c.Usage.Completion
	}
}

// askChat sends the members of a chat request, whole and streamed, and checks that both answers are
// equal.
func askChat(t *testing.T, url, members string) (whole chatAnswer) {
	t.Helper()
	status, _, text := post(t, url+"/v1/chat/completions", "{"+members+"}")
	if status != 200 {
		t.Fatalf("%s: status %d: %s", members, status, text)
	}
	whole.add(t, text)
	_, _, events := post(t, url+"/v1/chat/completions",
		"{"+members+`,"stream":true,"stream_options":{"include_usage":true}}`)
	var streamed chatAnswer
	for _, line := range strings.Split(events, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
			streamed.add(t, data)
		}
	}
	if !strings.HasSuffix(events, "data: [DONE]\n\n") {
		t.Errorf("%s: the stream has no end: %s", members, events)
	}
	if streamed != whole {
		t.Errorf("%s:\nstreamed %+v\nwhole    %+v", members, streamed, whole)
	}
	return whole
}

// TestStopTexts checks that stop texts are looked for in the content of a chat alone, from its
// first visible character on, and never in reasoning or in tool calls. The answer has the tokens up
// to the one that completes the stop text. If there are tools, white space may belong to a call
// that follows, so a stop text that ends with it is found with the next token.
func TestStopTexts(t *testing.T) {
	const (
		noThink = `,"chat_template_kwargs":{"enable_thinking":false}`
		tools   = `,"tools":[{"type":"function","function":{"name":"f","parameters":` +
			`{"type":"object","properties":{"a":{"type":"string"}}}}}]`
		call = "<tool_call>\n<function=f>\n<parameter=a>\nx. y\n</parameter>\n</function>\n" +
			"</tool_call>"
	)
	for _, c := range []struct {
		name    string
		request string
		stop    string
		text    string // of the model, up to the end of the stop text
		rest    string // of the model, after it
		want    chatAnswer
	}{
		{"a line", "", `"\n"`, "Hm.\nSo.\n</think>\n\nYes.\n", "No.",
			chatAnswer{Content: "Yes.", Reasoning: "Hm.\nSo.", Finish: "stop"}},
		{"a paragraph", "", `"\n\n"`, "Hm.\n\nSo.\n</think>\n\nYes.\nNo.\n\n", "So",
			chatAnswer{Content: "Yes.\nNo.", Reasoning: "Hm.\n\nSo.", Finish: "stop"}},
		{"text of the reasoning", "", `["Hm", "12", "<", "</think>"]`, "Hm. 12 < 13\n</think>\n\nA",
			"",
			chatAnswer{Content: "A", Reasoning: "Hm. 12 < 13", Finish: "length"}},
		{"unclosed reasoning", "", `"."`, "Hm. So.", "",
			chatAnswer{Reasoning: "Hm. So.", Finish: "length"}},
		{"white space before the first character", noThink, `["\n", " "]`, "\n \n Yes ", "No",
			chatAnswer{Content: "\n \n Yes", Finish: "stop"}},
		{"a line, with tools", noThink + tools, `"\n"`, "Yes.\n", "No.",
			chatAnswer{Content: "Yes.", Finish: "stop"}},
		{"only white space", noThink, `"\n"`, "\n\n", "",
			chatAnswer{Content: "\n\n", Finish: "length"}},
		{"at the beginning", noThink, `"Yes"`, "\nYes", " No",
			chatAnswer{Content: "\n", Finish: "stop"}},
		{"not there", noThink, `"END"`, "Yes EN", "",
			chatAnswer{Content: "Yes EN", Finish: "length"}},
		{"a call", tools, `["\n", ".", "="]`, "Hm.\n</think>\n\n" + call, "",
			chatAnswer{Reasoning: "Hm.", Calls: 1, Finish: "tool_calls"}},
		{"text before a call", noThink + tools, `["=", "ok!"]`, "ok" + call + "!", "",
			chatAnswer{Content: "ok!", Calls: 1, Finish: "length"}},
		{"text after a call", noThink + tools, `"."`, "ok" + call + "\nand.", " so",
			chatAnswer{Content: "okand", Calls: 1, Finish: "tool_calls"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(func(s *fakeStream) {
				s.say(c.text)
				s.say(c.rest)
				s.done(engine.FinishLength, nil)
			})
			s := start(t, e, server.Options{})
			got := askChat(t, s.URL, `"logprobs":true,"messages":[{"role":"user","content":"hi"}],`+
				`"stop":`+c.stop+c.request)
			c.want.Tokens = len(e.tokenizer.Encode(c.text, tokenizer.EncodeOptions{}))
			if strings.Contains(c.request, tools) && c.want.Finish == "stop" &&
				strings.TrimRight(c.text, " \n") != c.text {
				c.want.Tokens++
			}
			c.want.Logprobs = c.want.Tokens
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if q := <-e.requests; len(q.Stop) > 0 {
				t.Errorf("the engine looks for %q", q.Stop)
			}
			if stream := <-e.streams; c.want.Finish != "length" && c.rest != "" {
				waitClosed(t, stream.cancelled, "stopping the request")
				if stream.ended != engine.FinishStop {
					t.Errorf("the request ended as %s", stream.ended)
				}
			}
		})
	}
}

// TestStopTextsOfCompletions checks that the engine looks for the stop texts of a plain prompt,
// from the first token on.
func TestStopTextsOfCompletions(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{ContextTokens: 256, MaxSequences: 2})
	defer stop()
	_, _, text := post(t, url+"/v1/completions", `{"prompt":"The KV cache","max_tokens":20,
		"temperature":0}`)
	var whole several
	if err := json.Unmarshal([]byte(text), &whole); err != nil || len(whole.Choices) != 1 {
		t.Fatal(text)
	}
	want, mark := whole.Choices[0].Text[:1], whole.Choices[0].Text[1:3]
	_, _, text = post(t, url+"/v1/completions", fmt.Sprintf(`{"prompt":"The KV cache",
		"max_tokens":20,"temperature":0,"stop":%q}`, mark))
	if err := json.Unmarshal([]byte(text), &whole); err != nil || whole.Choices[0].Text != want ||
		*whole.Choices[0].Finish != "stop" {
		t.Errorf("with the stop text %q: %s", mark, text)
	}
}

// TestStopEndsTheEngine checks that a stop text of a chat ends the request in the engine, as
// complete, and that the next request finds its prompt in the cache.
func TestStopEndsTheEngine(t *testing.T) {
	url, e, stop := serveDemo(t, engine.Options{ContextTokens: 2048, MaxSequences: 2})
	defer stop()
	question := func(more string) string {
		return `"messages":[{"role":"user","content":"What is a KV cache?"}],"temperature":0` + more
	}
	all := askChat(t, url, question(""))
	word := strings.Fields(all.Content)[2]
	want, _, _ := strings.Cut(all.Content, word)
	got := askChat(t, url, question(fmt.Sprintf(`,"stop":[%q]`, word)))
	if got.Content != want || got.Finish != "stop" || got.Reasoning != all.Reasoning ||
		got.Tokens >= all.Tokens {
		t.Errorf("with the stop text %q: %+v, without %+v", word, got, all)
	}
	finished := e.Recent()
	if last := finished[len(finished)-1]; string(last.Finish) != "stop" {
		t.Errorf("the engine says that the request has ended as %q", last.Finish)
	}
}
