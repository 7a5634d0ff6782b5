package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"headroom/engine"
)

const personSchema = `{"type":"object","properties":{"name":{"type":"string","maxLength":12},
	"age":{"type":"integer","minimum":1,"maximum":99}},"required":["name","age"],
	"additionalProperties":false}`

// checkPerson reports whether text has the form of personSchema.
func checkPerson(text string) bool {
	var p struct {
		Name *string
		Age  *int
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(&p) == nil && p.Name != nil && len([]rune(*p.Name)) <= 12 && p.Age != nil &&
		*p.Age >= 1 && *p.Age <= 99
}

// TestStructuredDialects demands a form in the words of every dialect.
func TestStructuredDialects(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{MaxSequences: 2})
	defer stop()
	const chat = `"messages":[{"role":"user","content":"Who?"}],"max_tokens":120`
	schema := strings.ReplaceAll(personSchema, "\n\t", "")
	quoted, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	isWord := func(words ...string) func(string) bool {
		return func(text string) bool { return slices.Contains(words, text) }
	}
	after := func(begun string) func(string) bool {
		return func(text string) bool { return checkPerson(begun + text) }
	}
	isObject := func(text string) bool {
		var o map[string]any
		return json.Unmarshal([]byte(text), &o) == nil
	}
	for _, c := range []struct {
		path, body string
		text       []any // where the text is in the answer
		is         func(string) bool
	}{
		{"/v1/chat/completions", `{` + chat + `,"response_format":{"type":"json_schema",` +
			`"json_schema":{"name":"p","strict":true,"schema":` + schema + `}}}`, chatText,
			checkPerson},
		{"/v1/chat/completions", `{` + chat + `,"response_format":{"type":"json_object"}}`,
			chatText, isObject},
		{"/v1/chat/completions", `{` + chat + `,"structured_outputs":{"json":` + schema + `}}`,
			chatText, checkPerson},
		{"/v1/chat/completions", `{` + chat + `,"guided_json":` + string(quoted) + `}`, chatText,
			checkPerson},
		{"/v1/chat/completions", `{` + chat + `,"guided_choice":["sun","rain"],"n":3}`, chatText,
			isWord("sun", "rain")},
		{"/v1/completions", `{"prompt":"It is","structured_outputs":{"choice":["sun","rain"]}}`,
			[]any{"choices", 0, "text"}, isWord("sun", "rain")},
		{"/v1/completions", `{"prompt":"It is","grammar":"root ::= (\"a\" | \"b\") \"c\""}`,
			[]any{"choices", 0, "text"}, isWord("ac", "bc")},
		{"/v1/completions", `{"prompt":"It is","guided_regex":"x{2}|y"}`,
			[]any{"choices", 0, "text"}, isWord("xx", "y")},
		{"/v1/responses", `{"input":"Who?","max_output_tokens":120,"text":{"format":{"type":` +
			`"json_schema","name":"p","schema":` + schema + `}}}`,
			[]any{"output", -1, "content", 0, "text"}, checkPerson},
		{"/v1/messages", `{` + chat + `,"output_config":{"format":{"type":"json_schema","schema":` +
			schema + `}}}`, []any{"content", -1, "text"}, checkPerson},
		{"/api/chat", `{"stream":false,"messages":[{"role":"user","content":"Who?"}],"format":` +
			schema + `}`, []any{"message", "content"}, checkPerson},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Who?"},` +
			`{"role":"assistant","content":"{\"name\":\"A","prefix":true}],"max_tokens":120,` +
			`"response_format":{"type":"json_schema","json_schema":{"schema":` + schema + `}}}`,
			chatText, after(`{"name":"A`)},
		{"/v1/messages", `{"messages":[{"role":"user","content":"Who?"},` +
			`{"role":"assistant","content":"{"}],"max_tokens":120,` +
			`"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
			[]any{"content", -1, "text"}, after(`{`)},
		{"/v1/chat/completions", `{` + chat + `,"regex":"^(sun|rain)$"}`, chatText,
			isWord("sun", "rain")},
		{"/api/generate", `{"stream":false,"prompt":"Who?","format":"json"}`, []any{"response"},
			isObject},
	} {
		status, _, answer := post(t, url+c.path, c.body)
		var v any
		if status != 200 || json.Unmarshal([]byte(answer), &v) != nil {
			t.Errorf("%s: %d %s", c.path, status, answer)
			continue
		}
		if text, ok := at(v, c.text).(string); !ok || !c.is(text) {
			t.Errorf("%s %.120s: got %q of %s", c.path, c.body, text, answer)
		}
	}
	status, _, answer := post(t, url+"/v1/messages", `{"messages":[{"role":"user","content":"Who?"},`+
		`{"role":"assistant","content":"Sure: {"}],"max_tokens":120,`+
		`"output_config":{"format":{"type":"json_schema","schema":`+schema+`}}}`)
	if status != 400 || !strings.Contains(answer, `does not have the form`) {
		t.Errorf("a prefix of another form: %d %s", status, answer)
	}
}

var chatText = []any{"choices", 0, "message", "content"}

// at returns a part of a JSON value; an index of -1 is the last one.
func at(v any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[step]
		case int:
			list, _ := v.([]any)
			if step < 0 {
				step += len(list)
			}
			if step < 0 || step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

// TestStrictCalls: a call that the model makes by itself fits the schema of a strict function. A
// schema that cannot be enforced is refused then.
func TestStrictCalls(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{MaxSequences: 2})
	defer stop()
	const question = `"messages":[{"role":"user","content":"Tell me the time in Boston."}]`
	// In /v1/chat/completions the prompt has the word strict, too.
	const city = `{"type":"object","properties":{"city":{"type":"string"%s}},"required":["city"]}`
	chatTool := func(schema, strict string) string {
		return `,"tools":[{"type":"function","function":{"name":"get_time",` +
			`"description":"Get the local time in a city.","parameters":` + schema + strict + `}}]}`
	}
	arguments := []any{"choices", 0, "message", "tool_calls", 0, "function", "arguments"}
	for _, c := range []struct {
		path, body string // with a place for the schema
		strict     func(schema, strict string) string
		arguments  []any
	}{
		{"/v1/chat/completions", `{` + question + `,"n":2`, chatTool, arguments},
		{"/v1/chat/completions", `{` + question + `,"response_format":{"type":"json_object"}`,
			chatTool, arguments},
		{"/v1/responses", `{"input":"Tell me the time in Boston."`,
			func(schema, strict string) string {
				return `,"tools":[{"type":"function","name":"get_time","description":` +
					`"Get the local time in a city.","parameters":` + schema + strict + `}]}`
			}, []any{"output", -1, "arguments"}},
		{"/v1/messages", `{"max_tokens":100,` + question, func(schema, strict string) string {
			return `,"tools":[{"name":"get_time","description":"Get the local time in a city.",` +
				`"input_schema":` + schema + strict + `}]}`
		}, []any{"content", -1, "input"}},
		{"/api/chat", `{"stream":false,` + question, chatTool,
			[]any{"message", "tool_calls", 0, "function", "arguments"}},
	} {
		called := func(more, strict string) string {
			schema := fmt.Sprintf(city, more)
			status, _, answer := post(t, url+c.path, c.body+c.strict(schema, strict))
			var v any
			if json.Unmarshal([]byte(answer), &v) != nil || status != 200 {
				return answer
			}
			text, ok := at(v, c.arguments).(string)
			if !ok {
				data, _ := json.Marshal(at(v, c.arguments))
				text = string(data)
			}
			return strings.ReplaceAll(text, " ", "")
		}
		const strict, only = `,"strict":true`, `,"enum":["Rome","Oslo"]`
		if got := called("", ""); got != `{"city":"Boston"}` {
			t.Errorf("%s: free, got %s", c.path, got)
		}
		if got := called("", strict); got != `{"city":"Boston"}` {
			t.Errorf("%s: strict, got %s", c.path, got)
		}
		if got := called(only, strict); got != `{"city":"Rome"}` && got != `{"city":"Oslo"}` {
			t.Errorf("%s: strict with an enum, got %s", c.path, got)
		}
		if got := called(`,"format":"regex"`, strict); !strings.Contains(got,
			"tools: the calls of a strict function cannot be enforced") {
			t.Errorf("%s: a format that cannot be enforced, got %s", c.path, got)
		}
	}
}

// TestRequiredCalls requires calls in the words of every dialect, also where the model would not
// call.
func TestRequiredCalls(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{MaxSequences: 2})
	defer stop()
	const parameters = `{"type":"object","properties":{"city":{"enum":["Rome","Oslo"]},` +
		`"days":{"type":"integer","minimum":1,"maximum":7}},"required":["city","days"]}`
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":` + parameters +
		`}},{"type":"function","function":{"name":"g","parameters":` + parameters + `}}]`
	const chat = `"messages":[{"role":"user","content":"Say hello."}],"max_tokens":150`
	const call = "tool_calls"
	for _, c := range []struct {
		path, body      string
		name, arguments []any
	}{
		{"/v1/chat/completions", `{` + chat + `,` + tools + `,"tool_choice":"required",` +
			`"parallel_tool_calls":false}`,
			[]any{"choices", 0, "message", call, 0, "function", "name"},
			[]any{"choices", 0, "message", call, 0, "function", "arguments"}},
		{"/v1/chat/completions", `{` + chat + `,` + tools +
			`,"tool_choice":{"type":"function","function":{"name":"g"}}}`,
			[]any{"choices", 0, "message", call, 0, "function", "name"},
			[]any{"choices", 0, "message", call, 0, "function", "arguments"}},
		{"/v1/chat/completions", `{` + chat + `,` + tools + `,"tool_choice":"required",` +
			`"response_format":{"type":"json_object"}}`,
			[]any{"choices", 0, "message", call, 0, "function", "name"},
			[]any{"choices", 0, "message", call, 0, "function", "arguments"}},
		{"/v1/responses", `{"input":"Say hello.","max_output_tokens":150,"tools":[{"type":` +
			`"function","name":"g","parameters":` + parameters + `}],"tool_choice":{"type":"function",` +
			`"name":"g"}}`, []any{"output", -1, "name"}, []any{"output", -1, "arguments"}},
		{"/v1/messages", `{` + chat + `,"tools":[{"name":"g","input_schema":` + parameters +
			`}],"tool_choice":{"type":"tool","name":"g"}}`, []any{"content", -1, "name"},
			[]any{"content", -1, "input"}},
	} {
		status, _, answer := post(t, url+c.path, c.body)
		var v any
		if status != 200 || json.Unmarshal([]byte(answer), &v) != nil {
			t.Errorf("%s: %d %s", c.path, status, answer)
			continue
		}
		arguments := at(v, c.arguments)
		if text, ok := arguments.(string); ok {
			arguments = nil
			_ = json.Unmarshal([]byte(text), &arguments)
		}
		city, _ := at(arguments, []any{"city"}).(string)
		days, _ := at(arguments, []any{"days"}).(float64)
		name := at(v, c.name)
		if name != "g" && !(name == "f" && strings.Contains(c.body, "required\",")) ||
			city != "Rome" && city != "Oslo" || days < 1 || days > 7 {
			t.Errorf("%s: called %v with %v in %s", c.path, name, arguments, answer)
		}
	}
}

// TestOpenAIClientStructured uses OpenAI's client: a schema in a stream, and a required call.
func TestOpenAIClientStructured(t *testing.T) {
	client, ctx := newClient(t), t.Context()
	var schema any
	if err := json.Unmarshal([]byte(personSchema), &schema); err != nil {
		t.Fatal(err)
	}
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model:     "demo",
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Who?")},
		MaxTokens: param.NewOpt(int64(100)),
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{
			OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
				JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "person",
					Schema: schema, Strict: param.NewOpt(true)}}}})
	text := ""
	for stream.Next() {
		if chunk := stream.Current(); len(chunk.Choices) > 0 {
			text += chunk.Choices[0].Delta.Content
		}
	}
	if err := stream.Err(); err != nil || !checkPerson(text) {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestTooComplexForm demands a form that can be compiled, and whose first tokens cannot be found.
// The request is at fault, and not the server.
func TestTooComplexForm(t *testing.T) {
	url, _, stop := serveDemo(t, engine.Options{MaxSequences: 2})
	defer stop()
	const factors = `[{"multipleOf":997},{"multipleOf":991},{"multipleOf":983}]`
	status, _, answer := post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user",`+
		`"content":"?"}],"structured_outputs":{"json":{"type":"integer","allOf":`+factors+`}}}`)
	if status != 400 || !strings.Contains(answer, "too complex") {
		t.Errorf("%d %s, expected 400 and that it is too complex", status, answer)
	}
}
