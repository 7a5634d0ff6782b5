package ollama

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/structured"
)

// chatBody returns a request to /api/chat with further parameters, each after a comma.
func chatBody(params ...string) string {
	return `{"messages":[{"role":"user","content":"hi"}]` + strings.Join(params, "") + `}`
}

// generateBody returns a request to /api/generate.
func generateBody(params ...string) string {
	return `{"prompt":"hi"` + strings.Join(params, "") + `}`
}

// TestParams: what a request becomes, apart from its messages. Both routes read the same.
func TestParams(t *testing.T) {
	thinks := func(on string) json.RawMessage {
		return json.RawMessage(`{"enable_thinking":` + on + `}`)
	}
	for params, change := range map[string]func(r *Request){
		``:                          func(r *Request) {},
		`,"stream":true,"model":""`: func(r *Request) {},
		`,"stream":false`:           func(r *Request) { r.Stream = false },
		`,"model":"a/b:latest"`:     func(r *Request) { r.Model = "a/b:latest" },
		`,"think":null,"x":1`:       func(r *Request) {},
		`,"think":true`:             func(r *Request) { r.TemplateKwargs = thinks("true") },
		`,"think":false`:            func(r *Request) { r.TemplateKwargs = thinks("false") },
		`,"think":"low"`:            func(r *Request) { r.Effort = "low" },
		`,"speculation":"lookup"`:   func(r *Request) { r.Speculate = "lookup" },
		`,"cache":"none"`:           func(r *Request) { r.Cache = generate.CacheNone },
		`,"logprobs":true,"top_logprobs":2`: func(r *Request) {
			r.Logprobs, r.TopLogprobs = true, 2
		},
		`,"keep_alive":null`:     func(r *Request) {},
		`,"keep_alive":0`:        func(r *Request) { r.KeepAlive = new(time.Duration(0)) },
		`,"keep_alive":"0"`:      func(r *Request) { r.KeepAlive = new(time.Duration(0)) },
		`,"keep_alive":1.5`:      func(r *Request) { r.KeepAlive = new(1500 * time.Millisecond) },
		`,"keep_alive":"1h5m"`:   func(r *Request) { r.KeepAlive = new(65 * time.Minute) },
		`,"keep_alive":-1`:       func(r *Request) { r.KeepAlive = new(time.Duration(-1)) },
		`,"keep_alive":"-1m"`:    func(r *Request) { r.KeepAlive = new(time.Duration(-1)) },
		`,"keep_alive":"-1"`:     func(r *Request) { r.KeepAlive = new(time.Duration(-1)) },
		`,"keep_alive":1e300`:    func(r *Request) { r.KeepAlive = new(time.Duration(-1)) },
		`,"keep_alive":"99999h"`: func(r *Request) { r.KeepAlive = new(99999 * time.Hour) },
		`,"options":null`:        func(r *Request) {},
		`,"options":{"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1}`: func(r *Request) {
			r.Temperature, r.TopP, r.TopK, r.MinP = new(0.5), new(0.9), new(40), new(0.1)
		},
		`,"options":{"top_k":-1,"repeat_penalty":0}`: func(r *Request) {
			r.TopK, r.RepetitionPenalty = new(0), new(1.0)
		},
		`,"options":{"repeat_penalty":1.1,"presence_penalty":1,"frequency_penalty":-1}`: func(
			r *Request) {
			r.RepetitionPenalty, r.PresencePenalty, r.FrequencyPenalty = new(1.1), new(1.0),
				new(-1.0)
		},
		`,"options":{"repeat_last_n":7}`:  func(r *Request) { r.PenaltyTokens = 7 },
		`,"options":{"repeat_last_n":-1}`: func(r *Request) { r.PenaltyTokens = 131072 },
		`,"options":{"repeat_last_n":0,"repeat_penalty":2}`: func(r *Request) {
			r.RepetitionPenalty, r.PresencePenalty, r.FrequencyPenalty = new(1.0), new(0.0),
				new(0.0)
		},
		`,"options":{"seed":5}`:                    func(r *Request) { r.Seed = new(int64(5)) },
		`,"options":{"seed":-1}`:                   func(r *Request) {},
		`,"options":{"seed":18446744073709551614}`: func(r *Request) { r.Seed = new(int64(-2)) },
		`,"options":{"num_predict":9.0}`:           func(r *Request) { r.MaxTokens = 9 },
		`,"options":{"num_predict":0}`:             func(r *Request) {},
		`,"options":{"num_predict":-1}`:            func(r *Request) {},
		`,"options":{"num_predict":-2}`:            func(r *Request) {},
		`,"options":{"stop":["a","","b"]}`:         func(r *Request) { r.Stop = []string{"a", "b"} },
		`,"options":{"stop":"a"}`:                  func(r *Request) { r.Stop = []string{"a"} },
		`,"options":{"num_ctx":5,"num_gpu":0}`:     func(r *Request) {},
		`,"options":{"temprature":null}`:           func(r *Request) {},
		`,"tool_choice":"auto"`:                    func(r *Request) {},
	} {
		want := &Request{Request: generate.Request{Stream: true,
			Messages: []chat.Message{{Role: "user", Content: "hi"}}}}
		want.PenaltyTokens = 64
		change(want)
		for _, parse := range []func() (*Request, error){
			func() (*Request, error) { return ParseChat([]byte(chatBody(params))) },
			func() (*Request, error) { return ParseGenerate([]byte(generateBody(params))) },
		} {
			if got, err := parse(); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v, want %+v", params, got, err, want)
			}
		}
	}
}

// TestChat: messages and tools.
func TestChat(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"f","parameters":{"type":"object",` +
		`"properties":{"z":{},"a":{}}}}}`
	const strict = `{"type":"function","function":{"name":"f","strict":true}}`
	for _, c := range []struct {
		name, body string
		change     func(r *Request)
	}{
		{"no messages", `{"model":"m"}`, func(r *Request) { r.Model, r.Load = "m", true }},
		{"empty messages", `{"messages":[],"keep_alive":0}`, func(r *Request) {
			r.Load, r.KeepAlive = true, new(time.Duration(0))
		}},
		{"roles", `{"messages":[{"role":"System","content":"s"},{"role":"USER","content":null},
			{"role":"user","content":"u","images":[]}]}`, func(r *Request) {
			r.Messages = []chat.Message{{Role: "system", Content: "s"}, {Role: "user"},
				{Role: "user", Content: "u"}}
		}},
		{"the beginning of an answer", `{"messages":[{"role":"assistant","content":"So"}]}`,
			func(r *Request) {
				r.Messages = []chat.Message{{Role: "assistant", Content: "So"}}
				r.Continue = true
			}},
		{"tools", `{"messages":[{"role":"user","content":"u"}],"tools":[` + tool + `]}`,
			func(r *Request) {
				r.Messages = []chat.Message{{Role: "user", Content: "u"}}
				r.Tools = []json.RawMessage{json.RawMessage(tool)}
			}},
		{"a strict function", `{"messages":[{"role":"user","content":"u"}],"tools":[` + strict + `]}`,
			func(r *Request) {
				r.Messages = []chat.Message{{Role: "user", Content: "u"}}
				r.Tools = []json.RawMessage{json.RawMessage(strict)}
				r.Calls = &structured.Output{Kind: structured.Calls, OneBlock: true,
					Tools: []json.RawMessage{json.RawMessage(
						`{"function":{"name":"f","strict":true}}`)}}
			}},
		{"calls without IDs", `{"messages":[
			{"role":"assistant","content":"c","thinking":"t","tool_calls":[
				{"function":{"name":"f","arguments":{"z":1,"a":"b"}}},
				{"function":{"name":"g"}},{"function":{"name":"f","arguments":"{"}}]},
			{"role":"tool","tool_name":"g","content":"1"},
			{"role":"tool","content":"2"},
			{"role":"tool","tool_name":"h","content":"3"},
			{"role":"tool","tool_name":"f","content":"5"},
			{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},
			{"role":"tool","tool_name":"f","content":"4"}]}`, func(r *Request) {
			r.Messages = []chat.Message{
				{Role: "assistant", Content: "c", ReasoningContent: "t", ToolCalls: json.RawMessage(
					`[{"id":"call_1","type":"function","function":` +
						`{"name":"f","arguments":{"z":1,"a":"b"}}},` +
						`{"id":"call_2","type":"function","function":{"name":"g","arguments":{}}},` +
						`{"id":"call_3","type":"function","function":` +
						`{"name":"f","arguments":"{"}}]`)},
				{Role: "tool", Content: "1", ToolCallID: "call_2", Name: "g"},
				{Role: "tool", Content: "2", ToolCallID: "call_1", Name: "f"},
				{Role: "tool", Content: "3", Name: "h"},
				{Role: "tool", Content: "5", ToolCallID: "call_3", Name: "f"},
				{Role: "assistant", ToolCalls: json.RawMessage(
					`[{"id":"call_4","type":"function","function":{"name":"f","arguments":{}}}]`)},
				{Role: "tool", Content: "4", ToolCallID: "call_4", Name: "f"},
			}
		}},
		{"an image of a tool", `{"messages":[{"role":"tool","content":"1","images":["aGk="]}]}`,
			func(r *Request) {
				r.Messages = []chat.Message{{Role: "tool",
					Content: "1\n[image left out: the model reads text only]"}}
			}},
		{"calls with IDs", `{"messages":[{"role":"assistant","content":"","tool_calls":[
			{"id":"x","function":{"index":0,"name":"f","arguments":{}}},
			{"id":"y","function":{"index":1,"name":"f","arguments":{}}}]},
			{"role":"tool","tool_call_id":"y","content":"1"},
			{"role":"tool","tool_call_id":"z","tool_name":"f","content":"2"}]}`,
			func(r *Request) {
				r.Messages = []chat.Message{{Role: "assistant", ToolCalls: json.RawMessage(
					`[{"id":"x","type":"function","function":{"name":"f","arguments":{}}},` +
						`{"id":"y","type":"function","function":{"name":"f","arguments":{}}}]`)},
					{Role: "tool", Content: "1", ToolCallID: "y", Name: "f"},
					{Role: "tool", Content: "2", ToolCallID: "z", Name: "f"}}
			}},
	} {
		want := &Request{Request: generate.Request{Stream: true}}
		want.PenaltyTokens = 64
		c.change(want)
		if got, err := ParseChat([]byte(c.body)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, want)
		}
	}
}

// TestGenerate: what a prompt becomes.
func TestGenerate(t *testing.T) {
	for body, change := range map[string]func(r *Request){
		`{}`:                         func(r *Request) { r.Load = true },
		`{"prompt":"","system":"s"}`: func(r *Request) { r.Load = true },
		`{"raw":true}`:               func(r *Request) { r.Load = true },
		`{"prompt":"p","raw":true}`:  func(r *Request) { r.Prompt = "p" },
		`{"prompt":"p","suffix":"s"}`: func(r *Request) {
			r.Prompt, r.Suffix = "p", "s"
		},
		`{"suffix":"s"}`: func(r *Request) { r.Suffix = "s" },
		`{"prompt":"p","system":"s"}`: func(r *Request) {
			r.Messages = []chat.Message{{Role: "system", Content: "s"},
				{Role: "user", Content: "p"}}
		},
	} {
		want := &Request{Request: generate.Request{Stream: true}}
		want.PenaltyTokens = 64
		change(want)
		if got, err := ParseGenerate([]byte(body)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", body, got, err, want)
		}
	}
}

// TestErrors: errors name the parameter as the client has sent it, and say what is wrong.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ body, param, message string }{
		{``, "", "The body is empty"},
		{`[]`, "", "The body must be a JSON object, got an array"},
		{chatBody(`,"think":1`), "think", "expected a boolean or an effort, got a number"},
		{chatBody(`,"think":"much"`), "think", "must be true, false or one of none, "},
		{chatBody(`,"keep_alive":"soon"`), "keep_alive", `"5m", got "soon"`},
		{chatBody(`,"keep_alive":"nan"`), "keep_alive", `"5m", got "nan"`},
		{chatBody(`,"keep_alive":{}`), "keep_alive", `"5m", got {}`},
		{chatBody(`,"top_logprobs":1`), "top_logprobs", "needs logprobs"},
		{chatBody(`,"logprobs":true,"top_logprobs":21`), "top_logprobs", "between 0 and 20"},
		{chatBody(`,"cache":"x"`), "cache", `expected "disk"`},
		{chatBody(`,"options":[]`), "options", "expected an object, got an array"},
		{chatBody(`,"options":{"temperature":3}`), "options.temperature",
			"must be between 0 and 2, got 3"},
		{chatBody(`,"options":{"temperature":"x"}`), "options.temperature",
			"expected a number, got a string"},
		{chatBody(`,"options":{"repeat_penalty":-1}`), "options.repeat_penalty", "must be over 0"},
		{chatBody(`,"options":{"repeat_last_n":-2}`), "options.repeat_last_n",
			"must be between -1 and 131072, got -2"},
		{chatBody(`,"options":{"temprature":0}`), "options.temprature",
			"is not an option. The most similar ones are temperature, "},
		{generateBody(`,"options":{"Temperature":0}`), "options.Temperature", "is not an option"},
		{chatBody(`,"options":{"tool_choice":"auto"}`), "options.tool_choice", "is not an option"},
		{chatBody(`,"options":{"seed":1,"` + strings.Repeat("x", 99) + `":1}`),
			"options." + strings.Repeat("x", 40) + "…", "is not an option"},
		{chatBody(`,"tool_choice":"required"`), "tool_choice",
			"is not supported. Ollama's API has none"},
		{chatBody(`,"options":{"seed":1.5}`), "options.seed", "expected an integer, got 1.5"},
		{chatBody(`,"options":{"seed":"a"}`), "options.seed", "expected an integer, got a string"},
		{chatBody(`,"options":{"stop":5}`), "options.stop", "expected an array, got a number"},
		{chatBody(`,"options":{"stop":[5]}`), "options.stop[0]",
			"expected a string, got a number"},
		{chatBody(`,"options":{"num_predict":1.5}`), "options.num_predict", "expected an integer"},
		{chatBody(`,"model":"` + strings.Repeat("m", 1025) + `"`), "model", "at most 1024 bytes"},
		{`{"messages":[{"content":"x"}]}`, "messages[0].role", "is missing"},
		{`{"messages":[{"role":"user","content":[]}]}`, "messages[0].content",
			"expected a string, got an array"},
		{`{"messages":[{"role":"user","images":["aGk="]}]}`, "messages[0].images",
			"is not supported: the model reads text only"},
		{`{"messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]}`,
			"messages[0].tool_calls[0].function.name", "is missing"},
		{chatBody(`,"tools":[null]`), "tools[0]", "expected an object, got null"},
		{chatBody(`,"tools":[{}]`), "tools[0].function", "is missing"},
		{chatBody(`,"tools":[{"function":{}}]`), "tools[0].function.name", "is missing"},
		{chatBody(`,"tools":[{"function":{"name":"f","strict":1}}]`),
			"tools[0].function.strict", "expected a boolean, got a number"},
		{chatBody(`,"tools":[{"type":"x"}]`), "tools[0].type", `"x" is not supported`},
		{chatBody(`,"tools":[{"function":{"name":"f","parameters":[]}}]`),
			"tools[0].function.parameters", "expected an object, got an array"},
	} {
		_, err := ParseChat([]byte(c.body))
		checkError(t, c.body, err, c.param, c.message)
	}
	_, err := ParseGenerate([]byte(`{"prompt":"p","system":"s","raw":true}`))
	checkError(t, "raw", err, "system", "cannot be sent together with raw")
	_, err = ParseGenerate([]byte(`{"prompt":"p","system":"s","suffix":"x"}`))
	checkError(t, "suffix", err, "system", "cannot be sent together with suffix")
}

// checkError checks that err is an *Error about a parameter, with a message.
func checkError(t *testing.T, name string, err error, param, message string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Param != param || !strings.Contains(e.Error(), message) ||
		!strings.HasPrefix(e.Error(), param) {
		t.Errorf("%s: got %v, want an error about %q with %q", name, err, param, message)
	}
}

// FuzzParse: no body ends the process, and what is accepted can be used.
func FuzzParse(f *testing.F) {
	f.Add([]byte(chatBody(`,"tools":[{"function":{"name":"f"}}],"think":"low","keep_alive":"5m"`)))
	f.Add([]byte(generateBody(`,"system":"s","options":{"stop":["a"],"seed":1e3,"mirostat":0}`)))
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",
		"arguments":{"a":[1]}}}]},{"role":"tool","tool_name":"f","content":"x"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (*Request, error){ParseChat, ParseGenerate} {
			r, err := parse(body)
			if e := new(*Error); err != nil {
				if !errors.As(err, e) {
					t.Errorf("%q: the error is a %T", body, err)
				}
				continue
			}
			if r.Load != (r.Messages == nil && r.Prompt == "") {
				t.Errorf("%q: loads: %v, messages: %v", body, r.Load, r.Messages)
			}
			if r.KeepAlive != nil && (*r.KeepAlive < -1 || *r.KeepAlive > longest) ||
				r.PenaltyTokens < 1 || r.MaxTokens < 0 || r.MaxTokens > math.MaxInt {
				t.Errorf("%q: %+v", body, r)
			}
			for _, m := range r.Messages {
				if m.Role == "" || m.ToolCalls != nil && !json.Valid(m.ToolCalls) {
					t.Errorf("%q: %+v", body, m)
				}
			}
		}
	})
}
