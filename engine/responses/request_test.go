package responses

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/structured"
)

// withParams adds parameters to the smallest valid request.
func withParams(params string) string {
	if params != "" {
		params = "," + params
	}
	return `{"input":"hi"` + params + `}`
}

// withInput returns a request with these items.
func withInput(items string) string { return `{"input":[` + items + `]}` }

func parsed(t *testing.T, body string) *Request {
	t.Helper()
	r, err := Parse([]byte(body), nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// checkError checks that an error is about a parameter, and that its text has part.
func checkError(t *testing.T, err error, param, part string) {
	t.Helper()
	var bad *Error
	if !errors.As(err, &bad) {
		t.Errorf("got %v, want an error about %s", err, param)
		return
	}
	if bad.Param != param || !strings.Contains(bad.Error(), part) ||
		problem.From(err).Code != problem.BadRequest {
		t.Errorf("got %q about %q, want %q about %q", bad, bad.Param, part, param)
	}
}

// TestParams: what a request becomes, apart from its messages and its echo.
func TestParams(t *testing.T) {
	const wireTool = `{"type":"function","name":"f","description":"does \"f\"","strict":true,` +
		`"parameters":{"type":"object","properties":{"z":{},"a":{}}}}`
	tool := json.RawMessage(`{"type":"function","function":{"name":"f",` +
		`"description":"does \"f\"","parameters":{"type":"object","properties":{"z":{},"a":{}}}}}`)
	strict := &structured.Output{Kind: structured.Calls, OneBlock: true, Tools: []json.RawMessage{
		json.RawMessage(`{"function":{"name":"f","parameters":{"type":"object",` +
			`"properties":{"z":{},"a":{}}},"strict":true}}`)}}
	custom := func(description string) json.RawMessage {
		return json.RawMessage(`{"type":"function","function":{"name":"g"` + description +
			`,"parameters":` + string(customParameters) + `}}`)
	}
	for _, c := range []struct {
		name, params string
		change       func(r *Request)
	}{
		{"minimal", ``, func(r *Request) {}},
		{"nulls are absent", `"instructions":null,"temperature":null,"reasoning":null,"tools":null,` +
			`"tool_choice":null,"stream":null,"store":null,"include":null,"text":null,"seed":null,` +
			`"metadata":null,"previous_response_id":null,"truncation":null`, func(r *Request) {}},
		{"accepted without effect", `"user":"u","service_tier":"auto","prompt_cache_key":"k",` +
			`"client_metadata":{"a":"b"},"max_tool_calls":1,"nobody":{"knows":[1]},` +
			`"include":["file_search_call.results"],"text":{"verbosity":"low"},` +
			`"truncation":"auto","metadata":{"a":"b"}`, func(r *Request) {}},
		{"model and stream", `"model":"demo","stream":true`, func(r *Request) {
			r.Model, r.Stream = "demo", true
		}},
		{"sampling", `"temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.5,"seed":-1,` +
			`"repetition_penalty":1.5,"presence_penalty":1,"frequency_penalty":2,"stop":"END"`,
			func(r *Request) {
				r.Temperature, r.TopP, r.TopK, r.MinP = new(0.5), new(0.25), new(7), new(0.5)
				r.RepetitionPenalty, r.PresencePenalty = new(1.5), new(1.0)
				r.FrequencyPenalty, r.Seed, r.Stop = new(2.0), new(int64(-1)), []string{"END"}
			}},
		{"samplers", `"repetition_context_size":9,"xtc_probability":0.5,"dry_multiplier":2`,
			func(r *Request) {
				r.PenaltyTokens, r.XTC.Probability, r.DRY.Multiplier = 9, 0.5, 2
			}},
		{"a limit", `"max_output_tokens":9`, func(r *Request) { r.MaxTokens = 9 }},
		{"no limit", `"max_output_tokens":-1`, func(r *Request) {}},
		{"not stored", `"store":false`, func(r *Request) {
			r.Store, r.Cache = false, generate.CacheMemory
		}},
		{"cache overrides store", `"store":false,"cache":"disk"`, func(r *Request) {
			r.Store = false
		}},
		{"speculation", `"speculation":"off"`, func(r *Request) { r.Speculate = "off" }},
		{"cache", `"cache":"none"`, func(r *Request) { r.Cache = generate.CacheNone }},
		{"encrypted reasoning", `"include":["reasoning.encrypted_content"]`, func(r *Request) {
			r.Encrypted = true
		}},
		{"text", `"text":{"format":{"type":"text"}}`, func(r *Request) {}},
		{"an effort", `"reasoning":{"effort":"low","summary":null}`, func(r *Request) {
			r.Effort = "low"
		}},
		{"a summary", `"reasoning":{"summary":"auto"}`, func(r *Request) { r.Summary = true }},
		{"a summary by its old name", `"reasoning":{"generate_summary":"concise"}`,
			func(r *Request) { r.Summary = true }},
		{"no summary", `"reasoning":{"summary":"none"}`, func(r *Request) {}},
		{"template variables", `"chat_template_kwargs":{"a":1}`, func(r *Request) {
			r.TemplateKwargs = json.RawMessage(`{"a":1}`)
		}},
		{"a function", `"tools":[` + wireTool + `],"tool_choice":"auto"`, func(r *Request) {
			r.Tools, r.Calls = []json.RawMessage{tool}, strict
		}},
		{"other tools are left out", `"tools":[{"type":"web_search","external_web_access":true},` +
			`{"type":"namespace","name":"n","tools":[` + wireTool + `]},{"type":"local_shell"},` +
			`{"type":"image_generation"},{"type":"new"},` + wireTool + `]`, func(r *Request) {
			r.Tools, r.Calls = []json.RawMessage{tool}, strict
		}},
		{"only other tools", `"tools":[{"type":"web_search"}]`, func(r *Request) {}},
		{"a custom tool", `"tools":[{"type":"custom","name":"g","format":{"type":"text"}}]`,
			func(r *Request) {
				r.Tools, r.Custom = []json.RawMessage{custom("")}, map[string]bool{"g": true}
			}},
		{"a custom tool with a grammar", `"tools":[{"type":"custom","name":"g",` +
			`"description":"Patches.","format":{"type":"grammar","syntax":"lark",` +
			`"definition":"start: \"x\""}}]`, func(r *Request) {
			r.Custom = map[string]bool{"g": true}
			r.Tools = []json.RawMessage{custom(`,"description":"Patches.\n\nThe input must match ` +
				`this lark grammar:\nstart: \"x\""`)}
		}},
		{"no calls keeps the tools in the prompt",
			`"tools":[` + wireTool + `],"tool_choice":{"type":"none"}`, func(r *Request) {
				r.Tools, r.NoCalls = []json.RawMessage{tool}, true
			}},
		{"one call", `"parallel_tool_calls":false`, func(r *Request) { r.OneCall = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parsed(t, withParams(c.params))
			want := &Request{Store: true}
			want.Messages = []chat.Message{{Role: "user", Content: "hi"}}
			c.change(want)
			got.Echo, got.input = Echo{}, nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestItems: what instructions and input become.
func TestItems(t *testing.T) {
	type messages = []chat.Message
	user := chat.Message{Role: "user", Content: "hi"}
	const (
		hi   = `{"role":"user","content":"hi"}`
		call = `{"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":"{\"a\":1}"}`
	)
	calls := func(list ...string) json.RawMessage {
		return json.RawMessage("[" + strings.Join(list, ",") + "]")
	}
	const callJSON = `{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}`
	for _, c := range []struct {
		name, body string
		want       messages
	}{
		{"a text", `{"input":"h\u0069"}`, messages{user}},
		{"instructions", `{"instructions":"be brief","input":"hi"}`,
			messages{{Role: "system", Content: "be brief"}, user}},
		{"roles and parts", withInput(`{"type":"message","role":"developer","content":[` +
			`{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},` +
			`{"role":"system","content":"c"},` + hi + `,` + hi),
			messages{{Role: "system", Content: "a\nb"}, {Role: "system", Content: "c"}, user,
				user}},
		{"an answer of another model", withInput(hi + `,{"type":"message","role":"assistant",` +
			`"content":[{"type":"output_text","text":"A","annotations":[]},` +
			`{"type":"refusal","refusal":"No."},{"type":"new"}]},` + hi),
			messages{user, {Role: "assistant", Content: "A\nNo."}, user}},
		{"one answer is one message", withInput(hi + `,{"type":"reasoning","id":"rs_1",` +
			`"summary":[{"type":"summary_text","text":"So"}]},` +
			`{"role":"assistant","content":"I look."},` + call + `,` +
			`{"type":"function_call_output","call_id":"1","output":"2"}`),
			messages{user, {Role: "assistant", ReasoningContent: "So", Content: "I look.",
				ToolCalls: calls(callJSON)},
				{Role: "tool", Content: "2", ToolCallID: "1", Name: "f"}}},
		{"two answers are two messages", withInput(hi + `,{"role":"assistant","content":"A"},` +
			`{"type":"reasoning","content":[{"type":"reasoning_text","text":"B"}],"summary":[]},` +
			`{"role":"assistant","content":"C"},{"role":"assistant","content":"D"}`),
			messages{user, {Role: "assistant", Content: "A"},
				{Role: "assistant", ReasoningContent: "B", Content: "C"},
				{Role: "assistant", Content: "D"}}},
		{"text after a call", withInput(call + `,{"role":"assistant","content":"A"}`),
			messages{{Role: "assistant", Content: "A", ToolCalls: calls(callJSON)}}},
		{"several calls", withInput(call + `,` + strings.ReplaceAll(call, `"1"`, `"2"`) +
			`,{"type":"function_call_output","call_id":"2","output":[]}` +
			`,{"type":"function_call_output","call_id":"1","output":null}`),
			messages{{Role: "assistant", ToolCalls: calls(callJSON,
				strings.ReplaceAll(callJSON, `"1"`, `"2"`))},
				{Role: "tool", ToolCallID: "2", Name: "f"},
				{Role: "tool", ToolCallID: "1", Name: "f"}}},
		{"an output with parts", withInput(call + `,{"type":"function_call_output",` +
			`"call_id":"1","output":[{"type":"input_text","text":"a"},{"type":"input_image",` +
			`"image_url":"data:x"},{"type":"input_text","text":"b"}]}`),
			messages{{Role: "assistant", ToolCalls: calls(callJSON)}, {Role: "tool", Name: "f",
				Content:    "a\nb\n[input_image left out: the model reads text only]",
				ToolCallID: "1"}}},
		{"a custom tool", withInput(`{"type":"custom_tool_call","call_id":"1","name":"p",` +
			`"input":"a\n\"b\""},{"type":"custom_tool_call_output","call_id":"1","output":"ok"}`),
			messages{{Role: "assistant", ToolCalls: calls(`{"id":"1","type":"function",` +
				`"function":{"name":"p","arguments":"{\"input\":\"a\\n\\\"b\\\"\"}"}}`)},
				{Role: "tool", Content: "ok", ToolCallID: "1", Name: "p"}}},
		{"sealed reasoning", withInput(`{"type":"reasoning","summary":[{"type":"summary_text",` +
			`"text":"short"}],"encrypted_content":"` + seal("long \"é\"") + `"},` + hi),
			messages{{Role: "assistant", ReasoningContent: `long "é"`}, user}},
		{"a summary", withInput(hi + `,{"type":"compaction","encrypted_content":"` +
			seal("We met.") + `"},{"type":"compaction","encrypted_content":"gAAAA"}`),
			messages{user, {Role: "user", Content: summaryMark + "We met."}}},
		{"reasoning of OpenAI's", withInput(`{"type":"reasoning","summary":[],` +
			`"encrypted_content":"gAAAA"},` + hi), messages{user}},
		{"tools of OpenAI's servers are left out", withInput(`{"type":"web_search_call",` +
			`"id":"ws_1","action":{"type":"search"}},{"type":"image_generation_call",` +
			`"result":"x"},{"type":"local_shell_call_output","output":5},{"type":"new"},` + hi),
			messages{user}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := messages(parsed(t, c.body).Messages); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// TestErrors: each error names the parameter, and says what was expected.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ body, param, want string }{
		{``, "", "The body is empty"},
		{`[]`, "", "must be a JSON object, got an array"},
		{` null`, "", "must be a JSON object, got null"},
		{`{}`, "input", "is missing"},
		{`{"input":[]}`, "input", "is missing"},
		{`{"input":5}`, "input", "expected a string or an array of items, got a number"},
		{withInput(`5`), "input[0]", "expected an object, got a number"},
		{withInput(`null`), "input[0]", "expected an object, got null"},
		{withInput(`{}`), "input[0].type", "is missing"},
		{withInput(`{"type":5}`), "input[0].type", "expected a string, got a number"},
		{withInput(`{"type":"message"}`), "input[0].role", "is missing"},
		{withInput(`{"role":"tool"}`), "input[0].role", `got "tool"`},
		{withInput(`{"role":"user","content":5}`), "input[0].content",
			"expected a string or an array of parts, got a number"},
		{withInput(`{"role":"user","content":[null]}`), "input[0].content[0]", "got null"},
		{withInput(`{"role":"user","content":[{}]}`), "input[0].content[0].type", "is missing"},
		{withInput(`{"role":"user","content":[{"type":"input_text"}]}`),
			"input[0].content[0].text", "is missing"},
		{withInput(`{"role":"user","content":[{"type":"input_image"}]}`),
			"input[0].content[0].type", `"input_image" is not supported: the model reads text`},
		{withInput(`{"type":"function_call","call_id":"1"}`), "input[0].name", "is missing"},
		{withInput(`{"type":"function_call","name":"f","arguments":{}}`), "input[0].arguments",
			"expected a string, got an object"},
		{withInput(`{"type":"function_call_output","output":{}}`), "input[0].output",
			"got an object"},
		{withInput(`{"type":"compaction_trigger"}`), "input[0].type", "is not supported"},
		{withInput(`{"type":"item_reference","id":"rs_1"}`), "input[0].id",
			`no item "rs_1" is stored`},
		{withInput(`{"id":"rs_1"}`), "input[0].id", `no item "rs_1" is stored`},
		{withParams(`"previous_response_id":"resp_1"`), "previous_response_id",
			"nothing is stored"},
		{withParams(`"model":"` + strings.Repeat("x", 1025) + `"`), "model", "at most 1024 bytes"},
		{withParams(`"max_output_tokens":0`), "max_output_tokens", "must be at least 1"},
		{withParams(`"temperature":3`), "temperature", "between 0 and 2"},
		{withParams(`"seed":"x"`), "seed", "expected an integer"},
		{withParams(`"speculation":"x"`), "speculation", `"draft" or "dflash", got "x"`},
		{withParams(`"cache":"x"`), "cache", `expected "disk"`},
		{withParams(`"truncation":"x"`), "truncation", `must be "auto" or "disabled"`},
		{withParams(`"include":["message.output_text.logprobs"]`), "include", "not supported"},
		{withParams(`"text":{"format":{"type":"json_schema","name":"n"}}`), "text.format.schema",
			`is missing`},
		{withParams(`"text":{"format":{}}`), "text.format.type", "is missing"},
		{withParams(`"guided_json":{"type":"object"}`), "guided_json", "Send text.format"},
		{withParams(`"tool_choice":{"type":"function"}`), "tool_choice.name", "is missing"},
		{withParams(`"text":{"format":{"type":"xml"}}`), "text.format.type", `got "xml"`},
		{withParams(`"reasoning":{"effort":"x"}`), "reasoning.effort", "must be one of none"},
		{withParams(`"reasoning":{"summary":"x"}`), "reasoning.summary", `must be "auto"`},
		{withParams(`"metadata":{"a":1}`), "metadata", "expected strings, got a number"},
		{withParams(`"metadata":{"a":"` + strings.Repeat("é", 513) + `"}`), "metadata",
			"at most 64 characters"},
		{withParams(`"metadata":[]`), "metadata", "expected an object, got an array"},
		{withParams(`"tools":[null]`), "tools[0]", "got null"},
		{withParams(`"tools":[{}]`), "tools[0].type", "is missing"},
		{withParams(`"tools":[{"type":"function","function":{"name":"f"}}]`), "tools[0].name",
			"is missing"},
		{withParams(`"tools":[{"type":"function","name":"f","parameters":[]}]`),
			"tools[0].parameters", "expected an object, got an array"},
		{withParams(`"tool_choice":"required"`), "tool_choice",
			`a call is required, but there are no functions in tools`},
		{withParams(`"tool_choice":{"type":"function","name":"f"}`), "tool_choice",
			`it names a function that is not in tools: ["f"]`},
		{withParams(`"tool_choice":"maybe"`), "tool_choice", `got "maybe"`},
		{withParams(`"tool_choice":[]`), "tool_choice", "expected an object"},
	} {
		_, err := Parse([]byte(c.body), nil)
		checkError(t, err, c.param, c.want)
	}
}

// TestCustomInput: the input of a custom tool from what a model calls its function with.
func TestCustomInput(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"input":"a\nb"}`:          "a\nb",
		`{"patch":"a"}`:             "a",
		`{"input":"a","other":"b"}`: "a",
		`{"a":"b","c":"d"}`:         `{"a":"b","c":"d"}`,
		`{"input":5}`:               `{"input":5}`,
		`{"input":null}`:            `{"input":null}`,
		`{}`:                        `{}`,
		`text`:                      `text`,
		argumentsOf("\x00\"é\n"):    "\x00\"é\n",
	} {
		if got := inputOf(arguments); got != want {
			t.Errorf("%s: got %q, want %q", arguments, got, want)
		}
	}
}

// FuzzParse: no body makes the parser fail in another way than by an error about the body. What it
// accepts can be stored and replayed, and is then the same conversation.
func FuzzParse(f *testing.F) {
	for _, body := range []string{
		withParams(""),
		withParams(`"tools":[{"type":"custom","name":"g"}],"metadata":{"a":"b"},` +
			`"reasoning":{"effort":"low"},"tool_choice":{"type":"none"}`),
		withInput(`{"role":"user","content":[{"type":"input_text","text":"a"}]},` +
			`{"type":"reasoning","summary":[],"encrypted_content":"headroom:YQ=="},` +
			`{"type":"function_call","name":"f","call_id":"1","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"1","output":[{"type":"input_image"}]},` +
			`{"type":"custom_tool_call","name":"g","input":"x"}`),
		withInput(`{"id":"msg_1"}`), `{"input":[`, "\xff", "null",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		store := NewStore()
		r, err := Parse(body, store)
		if err != nil {
			var bad *Error
			if !errors.As(err, &bad) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		r.Cache = generate.CacheDisk
		r.Store = true
		store.begin("resp_1", "", r)
		store.put(Response{ID: "resp_1", Status: statusCompleted})
		again, err := Parse([]byte(`{"previous_response_id":"resp_1"}`), store)
		messages := r.Messages
		if r.Echo.Instructions != nil && *r.Echo.Instructions != "" {
			messages = messages[1:]
		}
		switch {
		case len(messages) == 0:
		case err != nil:
			t.Fatalf("%s: replayed: %v", body, err)
		case !reflect.DeepEqual(again.Messages, messages):
			t.Fatalf("%s: replayed as %+v, expected %+v", body, again.Messages, messages)
		}
	})
}
