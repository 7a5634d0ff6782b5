package anthropic

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
)

// withParams adds parameters to the smallest valid request.
func withParams(params string) string {
	if params != "" {
		params = "," + params
	}
	return `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}]` + params + `}`
}

// withMessages returns a request with these messages, and a text in system unless it is "".
func withMessages(system, messages string) string {
	if system != "" {
		system = `"system":` + system + `,`
	}
	return `{"max_tokens":9,` + system + `"messages":[` + messages + `]}`
}

// TestParams: what a request becomes, apart from its messages.
func TestParams(t *testing.T) {
	tool := json.RawMessage(`{"type":"function","function":{"name":"f",` +
		`"description":"does \"f\"","parameters":{"type":"object","properties":{"z":{},"a":{}}}}}`)
	const wireTool = `{"name":"f","description":"does \"f\"",` +
		`"cache_control":{"type":"ephemeral"},` +
		`"input_schema":{"type":"object","properties":{"z":{},"a":{}}}}`
	type off = Request // the defaults
	base := func(change func(r *Request)) *Request {
		r := &off{maxTokens: 9}
		r.MaxTokens, r.Effort = 9, "none"
		r.Messages = []chat.Message{{Role: "user", Content: "hi"}}
		if change != nil {
			change(r)
		}
		return r
	}
	thinking := func(effort string) *Request {
		return base(func(r *Request) {
			r.Thinking, r.Effort = true, effort
			r.TemplateKwargs = json.RawMessage(`{"enable_thinking":true}`)
		})
	}
	for _, c := range []struct {
		name, params string
		want         *Request
	}{
		{"minimal", ``, base(nil)},
		{"accepted without effect", `"metadata":{"user_id":"u"},"service_tier":"auto",` +
			`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},` +
			`"cache_control":{"type":"ephemeral","ttl":"1h"},"container":"c","mcp_servers":[],` +
			`"inference_geo":"eu","betas":["a"],"speed":"fast","nobody":{"knows":[1]},` +
			`"diagnostics":{"previous_message_id":null},"thread":null`, base(nil)},
		{"nulls are absent", `"system":null,"stop_sequences":null,"temperature":null,` +
			`"thinking":null,"output_config":null,"tools":null,"tool_choice":null,"stream":null`,
			base(nil)},
		{"model and stream", `"model":"demo","stream":true`, base(func(r *Request) {
			r.Model, r.Stream = "demo", true
		})},
		{"sampling", `"temperature":0.5,"top_p":0.25,"top_k":7`, base(func(r *Request) {
			r.Temperature, r.TopP, r.TopK = new(0.5), new(0.25), new(7)
		})},
		{"stop sequences", `"stop_sequences":["END","","\n\n"]`, base(func(r *Request) {
			r.Stop = []string{"END", "\n\n"}
		})},
		{"speculation", `"speculation":"mtp"`, base(func(r *Request) { r.Speculate = "mtp" })},
		{"cache", `"cache":"none"`, base(func(r *Request) { r.Cache = generate.CacheNone })},
		{"thinking disabled", `"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`,
			base(nil)},
		{"thinking adaptive", `"thinking":{"type":"adaptive","display":"summarized"}`,
			thinking("")},
		{"thinking adaptive with an effort",
			`"thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"}`,
			thinking("xhigh")},
		{"a small budget", `"thinking":{"type":"enabled","budget_tokens":1024}`, thinking("low")},
		{"a budget", `"thinking":{"type":"enabled","budget_tokens":8000}`, thinking("medium")},
		{"a large budget", `"thinking":{"type":"enabled","budget_tokens":31999}`,
			thinking("high")},
		{"an effort wins over a budget",
			`"thinking":{"type":"enabled","budget_tokens":31999},"output_config":{"effort":"low"}`,
			thinking("low")},
		{"omitted thinking", `"thinking":{"type":"adaptive","display":"omitted"}`,
			func() *Request { r := thinking(""); r.OmitText = true; return r }()},
		{"tools", `"tools":[` + wireTool + `],"tool_choice":{"type":"auto"}`,
			base(func(r *Request) { r.Tools = []json.RawMessage{tool} })},
		{"a tool of the type custom", `"tools":[{"type":"custom","name":"g"}]`,
			base(func(r *Request) {
				r.Tools = []json.RawMessage{
					json.RawMessage(`{"type":"function","function":{"name":"g"}}`)}
			})},
		{"tools of Anthropic's servers are left out",
			`"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5},` +
				wireTool + `]`,
			base(func(r *Request) { r.Tools = []json.RawMessage{tool} })},
		{"no calls keeps the tools in the prompt",
			`"tools":[` + wireTool + `],"tool_choice":{"type":"none"}`,
			base(func(r *Request) { r.Tools, r.NoCalls = []json.RawMessage{tool}, true })},
		{"one call",
			`"tools":[` + wireTool + `],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`,
			base(func(r *Request) { r.Tools, r.OneCall = []json.RawMessage{tool}, true })},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(withParams(c.params)))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
	r, err := Parse([]byte(`{"max_tokens":0,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil || !r.NoAnswer || r.MaxTokens != 0 {
		t.Errorf("max_tokens 0: %+v, %v; expected a request without an answer", r, err)
	}
	r, err = ParseCount([]byte(`{"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil || r.Stream || len(r.Messages) != 1 {
		t.Errorf("count: %+v, %v; expected no max_tokens to be needed, and no stream", r, err)
	}
}

// TestMessages: what system and messages become.
func TestMessages(t *testing.T) {
	type messages = []chat.Message
	user := chat.Message{Role: "user", Content: "hi"}
	const hi = `{"role":"user","content":"hi"}`
	call := func(text string) json.RawMessage { return json.RawMessage(text) }
	for _, c := range []struct {
		name, body string
		want       messages
		goesOn     bool // the answer continues the last message
	}{
		{"text", withMessages("", hi), messages{user}, false},
		{"system text", withMessages(`"be brief"`, hi),
			messages{{Role: "system", Content: "be brief"}, user}, false},
		{"system blocks, one of which changes in every request",
			withMessages(`[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=1f;"},
				{"type":"text","text":"You are.","cache_control":{"type":"ephemeral"}},
				{"type":"text","text":"\nBe brief."},{"type":"text","text":"Now."}]`, hi),
			messages{{Role: "system", Content: "You are.\n\nBe brief.\n\nNow."}, user}, false},
		{"only the billing header",
			withMessages(`[{"type":"text","text":"x-anthropic-billing-header: a"}]`, hi),
			messages{user}, false},
		{"a system message in place",
			withMessages("", hi+`,{"role":"system","content":[{"type":"text","text":"now"}]}`),
			messages{user, {Role: "system", Content: "now"}}, false},
		{"a system block in place", withMessages("", `{"role":"user","content":[
			{"type":"text","text":"hi"},
			{"type":"mid_conv_system","content":[{"type":"text","text":"now"}]}]}`),
			messages{user, {Role: "system", Content: "now"}}, false},
		{"messages of one role are one message", withMessages("", `
			{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},
			{"role":"assistant","content":"c"},{"role":"assistant","content":[]},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},
			{"role":"user","content":[]},{"role":"user","content":"d"}`),
			messages{{Role: "user", Content: "a\n\nb"},
				{Role: "assistant", Content: "c", ToolCalls: call(
					`[{"id":"t1","type":"function","function":{"name":"f","arguments":{}}}]`)},
				{Role: "user", Content: "d"}}, false},
		{"a turn with a tool", withMessages("", `{"role":"user","content":"time?"},
			{"role":"assistant","content":[
				{"type":"thinking","thinking":"I ask.","signature":"headroom"},
				{"type":"redacted_thinking","data":"x"},
				{"type":"text","text":"Let me look."},
				{"type":"tool_use","id":"t1","name":"get_time","input":{"z":1.0,"a":"<b>"}},
				{"type":"tool_use","id":"t2","name":"get_date","input":null,"caller":{"type":"direct"}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"12:00"}]},
				{"type":"tool_result","tool_use_id":"t2","content":"no","is_error":true},
				{"type":"text","text":"<system-reminder>Be brief.</system-reminder>"},
				{"type":"text","text":"And?"}]}`),
			messages{{Role: "user", Content: "time?"},
				{Role: "assistant", Content: "Let me look.", ReasoningContent: "I ask.",
					ToolCalls: call(`[{"id":"t1","type":"function","function":` +
						`{"name":"get_time","arguments":{"z":1.0,"a":"<b>"}}},` +
						`{"id":"t2","type":"function","function":` +
						`{"name":"get_date","arguments":{}}}]`)},
				{Role: "tool", ToolCallID: "t1", Name: "get_time", Content: "12:00"},
				{Role: "tool", ToolCallID: "t2", Name: "get_date",
					Content: "Error: no\n\n<system-reminder>Be brief.</system-reminder>"},
				{Role: "user", Content: "And?"}}, false},
		{"results in many forms", withMessages("", `{"role":"user","content":[
			{"type":"tool_result","tool_use_id":"1"},
			{"type":"tool_result","tool_use_id":"2","content":[
				{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","data":"x"}}]},
			{"type":"tool_result","tool_use_id":"3","content":"an error","is_error":true},
			{"type":"tool_result","tool_use_id":"4","content":[
				{"type":"search_result","source":"u","title":"T","content":[{"type":"text","text":"s"}]},
				{"type":"tool_reference","tool_name":"f"}]}]}`),
			messages{{Role: "tool", ToolCallID: "1"},
				{Role: "tool", ToolCallID: "2",
					Content: "a\n\n[image left out: the model reads text only]"},
				{Role: "tool", ToolCallID: "3", Content: "an error"},
				{Role: "tool", ToolCallID: "4", Content: "T\n\ns\n\nThe tool f is available."}},
			false},
		{"documents of text", withMessages("", `{"role":"user","content":[
			{"type":"document","title":"A","source":{"type":"text","media_type":"text/plain","data":"a"}},
			{"type":"document","source":{"type":"content","content":[{"type":"text","text":"b"}]}}]}`),
			messages{{Role: "user", Content: "A\n\na\n\nb"}}, false},
		{"calls of tools that Anthropic's servers run", withMessages("", hi+`,
			{"role":"assistant","content":[
				{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},
				{"type":"web_search_tool_result","tool_use_id":"s","content":[]},
				{"type":"text","text":"Found.","citations":[]}]},`+hi),
			messages{user, {Role: "assistant", Content: "Found."}, user}, false},
		{"omitted thinking comes back", withMessages("", hi+`,
			{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"`+
			sign("So <é>")+`"},{"type":"thinking","thinking":"","signature":"headroom:%%"},
			{"type":"thinking","thinking":"","signature":"another's"},
			{"type":"text","text":"a"}]},`+hi),
			messages{user, {Role: "assistant", Content: "a", ReasoningContent: "So <é>"}, user},
			false},
		{"the beginning of an answer",
			withMessages("", hi+`,{"role":"assistant","content":"It is ("}`),
			messages{user, {Role: "assistant", Content: "It is ("}}, true},
		{"a call at the end is no beginning", withMessages("", hi+`,
			{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]}`),
			messages{user, {Role: "assistant", ToolCalls: call(
				`[{"id":"1","type":"function","function":{"name":"f","arguments":{}}}]`)}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Parse([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r.Messages, c.want) || r.Continue != c.goesOn {
				t.Errorf("continue %v\ngot  %+v\nwant %+v", r.Continue, r.Messages, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tools := func(tools string) string { return withParams(`"tools":` + tools) }
	for _, c := range []struct{ name, body, param, message string }{
		{"empty", ``, "", "The body is empty"},
		{"an array", `[]`, "", "must be a JSON object, got an array"},
		{"null", `null`, "", "must be a JSON object, got null"},
		{"twice", `{"model":"a","model":"b"}`, "", "twice in one object"},
		{"max_tokens missing", `{"messages":[{"role":"user","content":"hi"}]}`, "max_tokens",
			"is missing"},
		{"max_tokens", `{"max_tokens":-2,"messages":[]}`, "max_tokens", "must be at least 1"},
		{"messages missing", `{"max_tokens":1}`, "messages", "expected at least one message"},
		{"messages without content", withMessages("", `{"role":"user","content":[]}`),
			"messages", "are empty"},
		{"message text", withMessages("", `"hi"`), "messages[0]",
			"expected an object, got a string"},
		{"message null", withMessages("", `null`), "messages[0].role", "is missing"},
		{"role", withMessages("", `{"role":"tool","content":"x"}`), "messages[0].role",
			`expected "user" or "assistant", got "tool"`},
		{"content", withMessages("", `{"role":"user","content":7}`), "messages[0].content",
			"expected a string or an array of blocks, got a number"},
		{"block null", withMessages("", `{"role":"user","content":[null]}`),
			"messages[0].content[0]", "expected an object, got null"},
		{"block without a type", withMessages("", `{"role":"user","content":[{"text":"x"}]}`),
			"messages[0].content[0].type", "is missing"},
		{"text missing", withMessages("", `{"role":"user","content":[{"type":"text"}]}`),
			"messages[0].content[0].text", "is missing"},
		{"image", withMessages("", `{"role":"user","content":[{"type":"text","text":"what?"},
			{"type":"image","source":{"type":"url","url":"u"}}]}`),
			"messages[0].content[1].type",
			`"image" is not supported: the model reads text only`},
		{"file", withMessages("", `{"role":"user","content":[{"type":"document",
			"source":{"type":"base64","media_type":"application/pdf","data":"x"}}]}`),
			"messages[0].content[0].type", `"document" is not supported`},
		{"system image", withMessages(`[{"type":"image"}]`, `{"role":"user","content":"hi"}`),
			"system[0].type", `"image" is not supported, only "text"`},
		{"call without a name", withMessages("",
			`{"role":"assistant","content":[{"type":"tool_use","id":"1"}]}`),
			"messages[0].content[0].name", "is missing"},
		{"result", withMessages("",
			`{"role":"user","content":[{"type":"tool_result","content":{}}]}`),
			"messages[0].content[0].content", "expected a string or an array of blocks"},
		{"temperature", withParams(`"temperature":3`), "temperature",
			"must be between 0 and 2, got 3"},
		{"stop", withParams(`"stop":"a"`), "stop", "is not supported. Send stop_sequences"},
		{"n", withParams(`"n":2`), "n", "is not supported. /v1/chat/completions has it"},
		{"top_k", withParams(`"top_k":"x"`), "top_k", "expected an integer, got a string"},
		{"stops", withParams(`"stop_sequences":[` + strings.Repeat(`"a",`, maxStops) + `"a"]`),
			"stop_sequences", "at most 64 stop texts, got 65"},
		{"long stop", withParams(`"stop_sequences":["` + strings.Repeat("x", maxStopBytes+1) +
			`"]`), "stop_sequences[0]", "at most 4096 bytes"},
		{"stop text", withParams(`"stop_sequences":"END"`), "stop_sequences",
			"expected an array, got a string"},
		{"thinking", withParams(`"thinking":{"type":"sometimes"}`), "thinking.type",
			`must be "enabled", "adaptive", "between_tools" or "disabled", got "sometimes"`},
		{"effort", withParams(`"output_config":{"effort":"much"}`), "output_config.effort",
			"must be one of none, minimal, low"},
		{"format", withParams(`"output_config":{"format":{"type":"text"}}`),
			"output_config.format.type", `must be "json_schema", got "text"`},
		{"no type of a format", withParams(`"output_format":{}`), "output_format.type", `is missing`},
		{"form of another API", withParams(`"response_format":{"type":"json_object"}`),
			"response_format", `Send output_config.format`},
		{"no name", withParams(`"tool_choice":{"type":"tool"}`), "tool_choice.name", `is missing`},
		{"old format", withParams(`"output_format":{"type":"json_schema"}`),
			"output_format.schema", `is missing`},
		{"speculation", withParams(`"speculation":"on"`), "speculation", `"draft" or "dflash", got "on"`},
		{"cache", withParams(`"cache":"tape"`), "cache", `expected "disk"`},
		{"long model", withParams(`"model":"` + strings.Repeat("m", 1025) + `"`), "model",
			"at most 1024 bytes"},
		{"tool null", tools(`[null]`), "tools[0]", "expected an object, got null"},
		{"tool without a name", tools(`[{"input_schema":{}}]`), "tools[0].name", "is missing"},
		{"long tool", tools(`[{"name":"` + strings.Repeat("f", 1025) + `"}]`), "tools[0].name",
			"at most 1024 bytes"},
		{"schema", tools(`[{"name":"f","input_schema":[]}]`), "tools[0].input_schema",
			"expected an object, got an array"},
		{"only tools of Anthropic's servers",
			tools(`[{"type":"web_search_20250305","name":"web_search"}]`), "tools",
			`tools[0] has the type "web_search_20250305", which Headroom does not have`},
		{"any tool", withParams(`"tool_choice":{"type":"any"}`), "tool_choice",
			`a call is required, but there are no functions in tools`},
		{"one tool", withParams(`"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"g"}`),
			"tool_choice", `it names a function that is not in tools: ["g"]`},
		{"tool choice", withParams(`"tool_choice":{"type":"some"}`), "tool_choice.type",
			`must be "auto", "any", "tool" or "none", got "some"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.body))
			checkError(t, err, c.param, c.message)
		})
	}
}

// checkError checks that err is an *Error for the parameter, contains the message and is a bad
// request.
func checkError(t *testing.T, err error, param, message string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if e.Param != param || !strings.Contains(e.Error(), message) {
		t.Errorf("got param %q, %q; want param %q, %q", e.Param, e.Error(), param, message)
	}
	if code := problem.From(err).Code; code != problem.BadRequest {
		t.Errorf("code %q, want %q", code, problem.BadRequest)
	}
}

// FuzzParse: no body ends the process, and what is accepted can be rendered.
func FuzzParse(f *testing.F) {
	f.Add([]byte(withParams(`"tools":[{"name":"f","input_schema":{}}],"thinking":{"type":"adaptive"}`)))
	f.Add([]byte(withMessages(`[{"type":"text","text":"s"}]`, `{"role":"user","content":[
		{"type":"tool_result","tool_use_id":"a","content":[{"type":"image"}],"is_error":true}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},
			{"type":"tool_use","id":"a","name":"n","input":{"a":[1]}},{"type":"text","text":"t"}]}`)))
	f.Add([]byte(withMessages("", `{"role":"user","content":[{"type":"document","source":
		{"type":"content","content":"x"}},{"type":"mid_conv_system","content":[]}]}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Parse(body)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		if len(r.Messages) == 0 {
			t.Error("no messages")
		}
		for i, m := range r.Messages {
			switch {
			case m.Role == "assistant" && m.ToolCalls != nil:
				var calls []struct {
					Function struct {
						Name      string
						Arguments json.RawMessage
					}
				}
				if err := json.Unmarshal(m.ToolCalls, &calls); err != nil || len(calls) == 0 {
					t.Errorf("%s: %v", m.ToolCalls, err)
				}
			case m.Role != "user" && m.Role != "assistant" && m.Role != "system" &&
				m.Role != "tool":
				t.Errorf("role %q", m.Role)
			case i > 0 && m.Role != "tool" && m.Role == r.Messages[i-1].Role:
				t.Errorf("two messages of the role %s follow one another", m.Role)
			}
		}
		for _, tool := range r.Tools {
			if !json.Valid(tool) {
				t.Errorf("%s", tool)
			}
		}
	})
}
