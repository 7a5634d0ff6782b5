package server_test

// The exactness rule through HTTP and the chat template, with tool calls and reasoning in the
// conversation: an answer has the same bits without a cache, from memory, from disk after a restart
// and in a batch.

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

// agentMessage is a message that the client of a conversation adds.
type agentMessage struct {
	message   string // JSON
	reasoning string // replaces the reasoning of the answer before the message
	think     bool   // the model must think until its tokens run out
}

// agentMessages is a conversation that has a tool call with reasoning before it, the call's result,
// and reasoning that the model generated. %s is the number of the conversation.
var agentMessages = []agentMessage{
	{message: `{"role":"user","content":"%s Tell me the time in Boston."}`},
	{message: `{"role":"tool","tool_call_id":"a","content":"15:04 in Boston"}`,
		reasoning: "They ask for the time. I call the tool."},
	{message: `{"role":"user","content":"What is 76 - 27?"}`, think: true},
	{message: `{"role":"user","content":"Tell me the time in Paris."}`},
	{message: `{"role":"tool","tool_call_id":"b","content":"21:04 in Paris"}`,
		reasoning: "Now Paris.\n\nThe same tool helps."},
	{message: `{"role":"user","content":"What is a KV cache?"}`},
}

const agentTools = `[{"type":"function","function":{"name":"get_time","description":"Get the ` +
	`current time","parameters":{"type":"object","properties":{"city":{"type":"string"}},` +
	`"required":["city"]}}}]`

// agentAnswer is what a client receives for one request. Everything but the usage must be equal
// however the prompt is computed.
type agentAnswer struct {
	exact             string // the message, the finish reason and all log-probabilities
	message           map[string]any
	reasoning, calls  bool
	prompt, cached    int
	tokens, logprobs  int
	renderedReasoning bool // the prompt has reasoning
}

// askAgent sends the messages and returns the answer.
func askAgent(t *testing.T, url string, e *engine.Engine, messages []json.RawMessage,
	think bool) (a agentAnswer) {
	t.Helper()
	body := map[string]any{"messages": messages, "tools": json.RawMessage(agentTools),
		"logprobs": true, "top_logprobs": 3, "max_tokens": 40}
	if think {
		thinkEnd := e.Tokenizer().Encode("</think>", tokenizer.EncodeOptions{})[0]
		body["logit_bias"] = map[string]int{fmt.Sprint(thinkEnd): -100, "2086": -100, "2084": -100}
		body["max_tokens"] = 12
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	status, _, text := post(t, url+"/v1/chat/completions", string(data))
	var reply struct {
		Choices []struct {
			Message  map[string]any
			Finish   string `json:"finish_reason"`
			Logprobs struct {
				Content []json.RawMessage
			}
		}
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
			Details    struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil || len(reply.Choices) != 1 {
		t.Errorf("status %d, %v: %s", status, err, text)
		return a
	}
	choice := reply.Choices[0]
	calls, _ := choice.Message["tool_calls"].([]any)
	for i, call := range calls { // calls have random IDs
		call.(map[string]any)["id"] = fmt.Sprint("call", i)
	}
	exact, _ := json.Marshal([]any{choice.Message, choice.Finish, choice.Logprobs.Content})
	var parsed []chat.Message
	data, _ = json.Marshal(messages)
	if err := json.Unmarshal(data, &parsed); err != nil {
		t.Fatal(err)
	}
	prompt, err := e.Template().Render(t.Context(),
		chat.Input{Messages: parsed, AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	return agentAnswer{exact: string(exact), message: choice.Message,
		reasoning: choice.Message["reasoning_content"] != nil, calls: len(calls) > 0,
		prompt: reply.Usage.Prompt, cached: reply.Usage.Details.Cached,
		tokens: reply.Usage.Completion, logprobs: len(choice.Logprobs.Content),
		renderedReasoning: strings.Contains(prompt, "They ask") ||
			strings.Contains(prompt, "Now Paris")}
}

// runAgent runs conversation number n. The server for each request comes from serve.
func runAgent(t *testing.T, n int,
	serve func(turn int) (url string, e *engine.Engine)) (all []agentAnswer) {
	t.Helper()
	system := fmt.Sprintf("Be brief. %s", strings.Repeat("Use the tool for the time. ", 40))
	messages := []json.RawMessage{marshalled(t, map[string]any{"role": "system",
		"content": system})}
	for turn, m := range agentMessages {
		if len(all) > 0 {
			answer := all[len(all)-1].message
			if m.reasoning != "" {
				answer["reasoning_content"] = m.reasoning
			}
			messages = append(messages, marshalled(t, answer))
		}
		text := m.message
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, fmt.Sprintf("Question %d.", n))
		}
		messages = append(messages, json.RawMessage(text))
		url, e := serve(turn)
		all = append(all, askAgent(t, url, e, messages, m.think))
	}
	return all
}

func marshalled(t *testing.T, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// serveDemo serves the bundled model. stop closes the server and the engine.
func serveDemo(t *testing.T, o engine.Options) (url string, e *engine.Engine, stop func()) {
	t.Helper()
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	e, err = engine.Open(t.Context(), engine.Source{FS: files}, o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(server.New(server.Options{Models: &fakeModels{engine: e},
		Dialects: dialects, Log: slog.New(slog.DiscardHandler)}))
	return s.URL, e, func() {
		s.Close()
		_ = e.Close()
	}
}

// TestSameBitsWithToolsAndReasoning runs an agent's conversation without a cache, with one in
// memory, with a restart before every turn, and four conversations at once. In the long form it
// does so in further cache formats.
func TestSameBitsWithToolsAndReasoning(t *testing.T) {
	if testing.Short() {
		t.Skip("it computes a lot")
	}
	formats := []engine.Options{{}}
	if os.Getenv("HEADROOM_LONG") != "" {
		formats = append(formats, engine.Options{KVFormat: "bf16"},
			engine.Options{KVFormat: "q4_0"}, engine.Options{KVBits: "2"},
			engine.Options{StateFormat: "int8"},
			engine.Options{KVStartTokens: 512}, engine.Options{MaxKVTokens: 256})
	}
	for i, o := range formats {
		t.Run(fmt.Sprintf("%s%s%s %d %d", o.KVFormat, o.KVBits, o.StateFormat, o.KVStartTokens,
			o.MaxKVTokens), func(t *testing.T) { testAgent(t, o, i == 0) })
	}
}

// testAgent tests one cache format. With typical set, the answers must have reasoning and calls.
func testAgent(t *testing.T, o engine.Options, typical bool) {
	o.ContextTokens, o.MaxSequences = 2048, 4
	cold := o
	cold.NoPrefixCache = true
	url, e, stop := serveDemo(t, cold)
	var want [4][]agentAnswer
	for n := range want {
		want[n] = runAgent(t, n, func(int) (string, *engine.Engine) { return url, e })
	}
	stop()
	var reasoned, called, rendered int
	for _, a := range want[0] {
		if a.cached != 0 || a.tokens != a.logprobs {
			t.Errorf("without a cache %d cached tokens; log-probabilities of %d of %d tokens",
				a.cached, a.logprobs, a.tokens)
		}
		for i, b := range []bool{a.reasoning, a.calls, a.renderedReasoning} {
			if b {
				*[]*int{&reasoned, &called, &rendered}[i]++
			}
		}
	}
	if typical && (reasoned == 0 || called == 0 || rendered < 2) {
		t.Errorf("%d answers with reasoning, %d with tool calls, %d prompts with reasoning; "+
			"expected some of each: %+v", reasoned, called, rendered, want[0])
	}
	compare := func(how string, n int, got []agentAnswer, cached bool) {
		t.Helper()
		for turn := range got {
			if got[turn].exact != want[n][turn].exact {
				t.Errorf("%s, conversation %d, turn %d:\ngot  %s\ncold %s", how, n, turn,
					got[turn].exact, want[n][turn].exact)
			}
			if cached && turn > 0 && got[turn].cached == 0 {
				t.Errorf("%s, turn %d: none of %d prompt tokens was cached", how, turn,
					got[turn].prompt)
			}
		}
	}

	url, e, stop = serveDemo(t, o)
	compare("from memory", 0,
		runAgent(t, 0, func(int) (string, *engine.Engine) { return url, e }), true)
	var together [4][]agentAnswer
	var all sync.WaitGroup
	for n := range together {
		all.Go(func() {
			together[n] = runAgent(t, n, func(int) (string, *engine.Engine) { return url, e })
		})
	}
	all.Wait()
	for n, got := range together {
		compare("batched", n, got, false) // others may have evicted its states
	}
	stop()

	dir, stored := t.TempDir(), o
	compare("after a restart", 0, runAgent(t, 0, func(turn int) (string, *engine.Engine) {
		if turn > 0 {
			stop()
			stored.BlockStore.Close()
		}
		var err error
		stored.BlockStore, err = engine.OpenBlockStore(dir,
			engine.BlockStoreOptions{MinFreeBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		url, e, stop = serveDemo(t, stored)
		return url, e
	}), true)
	stop()
	stored.BlockStore.Close()
}
