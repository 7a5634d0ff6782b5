package decisions

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
)

// withParams adds parameters to the smallest valid request for decisions.
func withParams(params string) string {
	if params != "" {
		params = "," + params
	}
	return `{"input":"hi","questions":[{"type":"predicate","instructions":"Is it?"}]` + params + `}`
}

// withNamed is withParams for System One.
func withNamed(params string) string {
	if params != "" {
		params = "," + params
	}
	return `{"state":"hi","questions":{"a":{"type":"noul","instructions":"Is it?"}}` + params + `}`
}

func withInput(input string) string {
	return `{"questions":[{"type":"predicate","instructions":"Is it?"}],"input":` + input + `}`
}

func withQuestions(questions string) string {
	return `{"input":"hi","questions":` + questions + `}`
}

func withNamedQuestions(questions string) string {
	return `{"state":"hi","questions":` + questions + `}`
}

// checkError checks that an error is about a parameter, and that its text has part.
func checkError(t *testing.T, name string, err error, param, part string) {
	t.Helper()
	var bad *Error
	if !errors.As(err, &bad) {
		t.Errorf("%s: got %v, want an error about %s", name, err, param)
		return
	}
	if bad.Param != param || !strings.Contains(bad.Error(), part) ||
		problem.From(err).Code != problem.BadRequest {
		t.Errorf("%s: got %q about %q, want %q about %q", name, bad, bad.Param, part, param)
	}
}

// TestParams: what a request becomes, apart from its state and its questions.
func TestParams(t *testing.T) {
	for _, c := range []struct {
		name, params string
		change       func(r *Request)
	}{
		{"minimal", ``, func(*Request) {}},
		{"nulls are absent", `"model":null,"cache":null,"chat_template_kwargs":null,"stream":null`,
			func(*Request) {}},
		{"unknown fields", `"nobody":{"knows":[1]}`, func(*Request) {}},
		{"a model", `"model":"demo"`, func(r *Request) { r.Model = "demo" }},
		{"a cache", `"cache":"memory"`, func(r *Request) { r.Cache = generate.CacheMemory }},
		{"template variables", `"chat_template_kwargs":{"a":1}`, func(r *Request) {
			r.TemplateKwargs = json.RawMessage(`{"a":1}`)
		}},
	} {
		want := &Request{Request: generate.Request{Effort: "none",
			Messages: []chat.Message{{Role: "user", Content: "hi"}}},
			Questions: []Question{{Instructions: "Is it?", Options: yesOrNo("", "")}}}
		c.change(want)
		if got, err := Parse([]byte(withParams(c.params))); err != nil ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.name, got, err, want)
		}
		want.Questions[0].Name = new("a")
		if got, err := ParseSystemOne([]byte(withNamed(c.params))); err != nil ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.name, got, err, want)
		}
	}
}

// TestInput: the messages of inputs.
func TestInput(t *testing.T) {
	user := func(text string) chat.Message { return chat.Message{Role: "user", Content: text} }
	call := func(id, name, arguments string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"` + name +
			`","arguments":` + quote(arguments) + `}}`
	}
	for _, c := range []struct {
		name, input string
		want        []chat.Message
	}{
		{"a text", `"é\n"`, []chat.Message{user("é\n")}},
		{"roles", `[{"role":"developer","content":"a"},{"type":"message","role":"system",` +
			`"content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d",` +
			`"phase":"commentary"}]`, []chat.Message{{Role: "system", Content: "a"},
			{Role: "system", Content: "b"}, user("c"), {Role: "assistant", Content: "d"}}},
		{"parts", `[{"role":"user","content":[{"type":"input_text","text":"a",` +
			`"prompt_cache_breakpoint":{"mode":"explicit"}},{"type":"input_json","data":` +
			`{ "z" : [1, null], "a":"<é>" }},{"type":"input_json","data":[{ }]}]},` +
			`{"role":"assistant","content":[{"type":"output_text","text":"b"},{"type":"refusal",` +
			`"refusal":"c"}]}]`, []chat.Message{user("a\n" + `{"z":[1,null],"a":"<é>"}` + "\n[{}]"),
			{Role: "assistant", Content: "b\nc"}}},
		{"calls", `[{"role":"user","content":"a"},{"role":"assistant","content":"b"},` +
			`{"type":"function_call","call_id":"1","name":"f","arguments":"{\"x\":1}","id":"fc"},` +
			`{"type":"custom_tool_call","call_id":"2","name":"g","input":"<\"y\">"},` +
			`{"type":"custom_tool_call_output","call_id":"2","output":[{"type":"input_text",` +
			`"text":"two"}]},{"type":"function_call_output","call_id":"1","output":"one"},` +
			`{"type":"function_call","call_id":"3","name":"f","arguments":""}]`,
			[]chat.Message{user("a"),
				{Role: "assistant", Content: "b", ToolCalls: json.RawMessage(
					`[` + call("1", "f", `{"x":1}`) + `,` + call("2", "g", `{"input":"<\"y\">"}`) + `]`)},
				{Role: "tool", Content: "two", ToolCallID: "2", Name: "g"},
				{Role: "tool", Content: "one", ToolCallID: "1", Name: "f"},
				{Role: "assistant", ToolCalls: json.RawMessage(`[` + call("3", "f", "") + `]`)}}},
	} {
		r, err := Parse([]byte(withInput(c.input)))
		if err != nil || !reflect.DeepEqual(r.Messages, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.name, r, err, c.want)
		}
	}
}

// TestStates: the message of a state of System One.
func TestStates(t *testing.T) {
	for state, want := range map[string]string{`"a \"b\""`: `a "b"`, `""`: ``,
		`{ "b": 1, "a": [ "<" ] }`: `{"b":1,"a":["<"]}`, `[ 1 ,2]`: `[1,2]`} {
		r, err := ParseSystemOne([]byte(
			`{"questions":{"a":{"type":"noul","instructions":"?"}},"state":` + state + `}`))
		if err != nil || !reflect.DeepEqual(r.Messages,
			[]chat.Message{{Role: "user", Content: want}}) {
			t.Errorf("%s: %+v, %v", state, r, err)
		}
	}
}

// TestQuestions: the questions of both APIs.
func TestQuestions(t *testing.T) {
	value := func(text string) json.RawMessage { return json.RawMessage(text) }
	for _, c := range []struct {
		name, questions string
		parse           func([]byte) (*Request, error)
		with            func(string) string
		want            []Question
	}{
		{"OpenAI's", `[{"type":"predicate","name":"p","instructions":[{"type":"input_text",` +
			`"text":"a"},{"type":"input_json","data":{"b":1}}]},{"type":"choice","name":null,` +
			`"instructions":"c","choices":[{"value":"true"},{"value":true,"description":"d"},` +
			`{"value": false ,"description":null}]},{"type":"score","instructions":"","levels":[` +
			`{"label":"l"},{"label":"l","description":"m"}]}]`, Parse, withQuestions, []Question{
			{Name: new("p"), Instructions: "a\n" + `{"b":1}`, Options: yesOrNo("", "")},
			{Kind: Choice, Instructions: "c", Options: []Option{{value(`"true"`), "true", ""},
				{value("true"), "true", "d"}, {value("false"), "false", ""}}},
			{Kind: Score, Options: []Option{{nil, "l", ""}, {nil, "l", "m"}}}}},
		{"System One's", `{"p":{"type":"noul","instructions":{"a": 1}},"<q>":{"type":"noul",` +
			`"criteria":{"false":"f","true":["t"]}},"r":{"type":"choice","instructions":null,` +
			`"criteria":{"z":null,"a":"d","b":{"e": 1}}},"s":{"type":"score","criteria":["l",` +
			`{"m": 1}]}}`, ParseSystemOne, withNamedQuestions, []Question{
			{Name: new("p"), Instructions: `{"a":1}`, Options: yesOrNo("", "")},
			{Name: new("<q>"), Options: yesOrNo(`["t"]`, "f")},
			{Name: new("r"), Kind: Choice, Options: []Option{{value(`"z"`), "z", ""},
				{value(`"a"`), "a", "d"}, {value(`"b"`), "b", `{"e":1}`}}},
			{Name: new("s"), Kind: Score, Options: []Option{{value(`"l"`), "l", ""},
				{value(`{"m": 1}`), `{"m":1}`, ""}}}}},
	} {
		body := []byte(c.with(c.questions))
		r, err := c.parse(body)
		clear(body) // nothing of it may be used after parsing
		if err != nil || !reflect.DeepEqual(r.Questions, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.name, r, err, c.want)
		}
	}
}

// many returns n copies of a text in which %d is their number, joined by commas.
func many(n int, text string) string {
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(text, "%d", fmt.Sprint(i)))
	}
	return strings.Join(list, ",")
}

func TestErrors(t *testing.T) {
	const one = `{"type":"predicate","instructions":"?"}`
	choice := func(choices string) string {
		return withQuestions(`[{"type":"choice","instructions":"?","choices":` + choices + `}]`)
	}
	item := func(item string) string { return withInput(`[{"role":"user","content":"a"},` + item + `]`) }
	for _, c := range []struct{ name, body, param, part string }{
		{"no object", `[]`, "", "must be a JSON object, got an array"},
		{"no JSON", `{`, "", "not valid JSON"},
		{"a model", withParams(`"model":1`), "model", "expected a string, got a number"},
		{"a long model", withParams(`"model":"` + strings.Repeat("a", 1025) + `"`), "model",
			"at most 1024 bytes"},
		{"a cache", withParams(`"cache":"x"`), "cache", `expected "disk"`},
		{"template variables", withParams(`"chat_template_kwargs":[]`), "chat_template_kwargs",
			"expected an object"},
		{"no input", `{"questions":[` + one + `]}`, "input", "is missing"},
		{"an empty input", withInput(`[]`), "input", "at least one item"},
		{"a number as input", withInput(`1`), "input", "expected a string or an array"},
		{"a null item", item(`null`), "input[1]", "expected an object, got null"},
		{"no type", item(`{}`), "input[1].type", "is missing"},
		{"another item", item(`{"type":"reasoning"}`), "input[1].type", `got "reasoning"`},
		{"another role", item(`{"role":"tool","content":"a"}`), "input[1].role", `got "tool"`},
		{"no content", item(`{"role":"user"}`), "input[1].content", "is missing"},
		{"a number as content", item(`{"role":"user","content":1}`), "input[1].content",
			"a string or an array of parts"},
		{"a null part", item(`{"role":"user","content":[null]}`), "input[1].content[0]", "got null"},
		{"a part without a type", item(`{"role":"user","content":[{"type":"input_text","text":"a"},` +
			`{"text":"a"}]}`), "input[1].content[1].type", "is missing"},
		{"an image", item(`{"role":"user","content":[{"type":"input_image"}]}`),
			"input[1].content[0].type", `"input_image" is not supported: the model reads text only`},
		{"a part without a text", item(`{"role":"user","content":[{"type":"input_text"}]}`),
			"input[1].content[0].text", "is missing"},
		{"a refusal without a text", item(`{"role":"user","content":[{"type":"refusal"}]}`),
			"input[1].content[0].refusal", "is missing"},
		{"no JSON in a part", item(`{"role":"user","content":[{"type":"input_json"}]}`),
			"input[1].content[0].data", "is missing"},
		{"a number as JSON", item(`{"role":"user","content":[{"type":"input_json","data":1}]}`),
			"input[1].content[0].data", "expected an object or an array, got a number"},
		{"a call without a name", item(`{"type":"function_call","call_id":"a","arguments":""}`),
			"input[1].name", "is missing"},
		{"a call without an ID", item(`{"type":"function_call","name":"a","arguments":""}`),
			"input[1].call_id", "is missing"},
		{"a call without arguments", item(`{"type":"function_call","name":"a","call_id":"b"}`),
			"input[1].arguments", "is missing"},
		{"a custom call without input", item(`{"type":"custom_tool_call","name":"a","call_id":"b"}`),
			"input[1].input", "is missing"},
		{"an output without a call", item(`{"type":"function_call_output","call_id":"b",` +
			`"output":"a"}`), "input[1].call_id", `no call before it has the ID "b"`},
		{"no output", item(`{"type":"function_call","name":"a","call_id":"b","arguments":""},` +
			`{"type":"function_call_output","call_id":"b"}`), "input[2].output", "is missing"},
		{"an image as output", item(`{"type":"function_call","name":"a","call_id":"b",` +
			`"arguments":""},{"type":"function_call_output","call_id":"b","output":[` +
			`{"type":"input_image"}]}`), "input[2].output[0].type", "not supported"},
		{"too many items", withInput(`[` + many(16385, `{"role":"user","content":"a"}`) + `]`),
			"input", "at most 16384 items"},

		{"no questions", `{"input":"a"}`, "questions", "is missing"},
		{"an object as questions", withQuestions(`{}`), "questions", "expected an array"},
		{"an empty list", withQuestions(`[]`), "questions", "at least one question"},
		{"401 questions", withQuestions(`[` + many(401, one) + `]`), "questions",
			"at most 400 questions"},
		{"a null question", withQuestions(`[null]`), "questions[0]", "got null"},
		{"a question without a type", withQuestions(`[` + one + `,{"instructions":"?"}]`),
			"questions[1].type", "is missing"},
		{"another type", withQuestions(`[{"type":"noul","instructions":"?"}]`),
			"questions[0].type", `got "noul"`},
		{"a name", withQuestions(`[{"type":"predicate","instructions":"?","name":1}]`),
			"questions[0].name", "expected a string"},
		{"no instructions", withQuestions(`[{"type":"predicate"}]`), "questions[0].instructions",
			"is missing"},
		{"an image in instructions", withQuestions(`[{"type":"predicate","instructions":[` +
			`{"type":"input_image"}]}]`), "questions[0].instructions[0].type", "not supported"},
		{"choices of a predicate", withQuestions(`[{"type":"predicate","instructions":"?",` +
			`"choices":[]}]`), "questions[0].choices", "only a question of the type choice"},
		{"levels of a choice", withQuestions(`[{"type":"choice","instructions":"?","levels":[],` +
			`"choices":[{"value":"a"},{"value":"b"}]}]`), "questions[0].levels",
			"only a question of the type score"},
		{"no choices", withQuestions(`[{"type":"choice","instructions":"?"}]`),
			"questions[0].choices", "expected 2 to 255 entries, got 0"},
		{"one choice", choice(`[{"value":"a"}]`), "questions[0].choices", "got 1"},
		{"256 choices", choice(`[` + many(256, `{"value":"%d"}`) + `]`), "questions[0].choices",
			"expected 2 to 255 entries, got 256"},
		{"no value", choice(`[{"value":"a"},{}]`), "questions[0].choices[1].value", "is missing"},
		{"a number", choice(`[{"value":1},{"value":2}]`), "questions[0].choices[0].value",
			"a string or a boolean, got a number"},
		{"a value twice", choice(`[{"value":"a"},{"value":"b"},{"value":"\u0061"}]`),
			"questions[0].choices[2].value", `"a" is there twice`},
		{"a boolean twice", choice(`[{"value":true},{"value":"true"},{"value":true}]`),
			"questions[0].choices[2].value", `true is there twice`},
		{"no levels", withQuestions(`[{"type":"score","instructions":"?"}]`),
			"questions[0].levels", "expected 2 to 255 entries, got 0"},
		{"no label", withQuestions(`[{"type":"score","instructions":"?","levels":[{"label":"a"},` +
			`{"description":"b"}]}]`), "questions[0].levels[1].label", "is missing"},
	} {
		_, err := Parse([]byte(c.body))
		checkError(t, c.name, err, c.param, c.part)
	}
	const named = `{"a":{"type":"noul","instructions":"?"}}`
	for _, c := range []struct{ name, body, param, part string }{
		{"no state", `{"questions":` + named + `}`, "state", "is missing"},
		{"a number as state", `{"state":1,"questions":` + named + `}`, "state",
			"expected a string, an object or an array, got a number"},
		{"no questions", `{"state":""}`, "questions", "is missing"},
		{"a list as questions", withNamedQuestions(`[]`), "questions", "expected an object"},
		{"an empty object", withNamedQuestions(`{}`), "questions", "at least one question"},
		{"a name twice", withNamedQuestions(`{"a":{},"a":{}}`), "", "twice"},
		{"401 questions", withNamedQuestions(`{` + many(401,
			`"%d":{"type":"noul","instructions":"?"}`) + `}`), "questions", "at most 400"},
		{"a null question", withNamedQuestions(`{"a":null}`), "questions.a", "got null"},
		{"no type", withNamedQuestions(`{"a":{}}`), "questions.a.type", "is missing"},
		{"another type", withNamedQuestions(`{"a":{"type":"predicate"}}`), "questions.a.type",
			`got "predicate"`},
		{"a box", withNamedQuestions(`{"a":{"type":"box"}}`), "questions.a.type",
			"is not supported"},
		{"nothing asked", withNamedQuestions(`{"a":{"type":"noul","criteria":{"true":null}}}`),
			"questions.a.instructions", "is missing, and so are the criteria"},
		{"instructions", withNamedQuestions(`{"a":{"type":"noul","instructions":1}}`),
			"questions.a.instructions", "got a number"},
		{"criteria of a noul", withNamedQuestions(`{"a":{"type":"noul","criteria":[]}}`),
			"questions.a.criteria", "expected an object"},
		{"true", withNamedQuestions(`{"a":{"type":"noul","criteria":{"true":true}}}`),
			"questions.a.criteria.true", "got a boolean"},
		{"false", withNamedQuestions(`{"a":{"type":"noul","criteria":{"false":1}}}`),
			"questions.a.criteria.false", "got a number"},
		{"no criteria", withNamedQuestions(`{"a":{"type":"choice"}}`), "questions.a.criteria",
			"is missing"},
		{"a list as criteria", withNamedQuestions(`{"a":{"type":"choice","criteria":[]}}`),
			"questions.a.criteria", "expected an object"},
		{"one option", withNamedQuestions(`{"a":{"type":"choice","criteria":{"b":null}}}`),
			"questions.a.criteria", "expected 2 to 255 entries, got 1"},
		{"256 options", withNamedQuestions(`{"a":{"type":"choice","criteria":{` +
			many(256, `"%d":null`) + `}}}`), "questions.a.criteria", "got 256"},
		{"a description", withNamedQuestions(`{"a":{"type":"choice","criteria":{"b":1}}}`),
			"questions.a.criteria.b", "got a number"},
		{"no rubric", withNamedQuestions(`{"a":{"type":"score"}}`), "questions.a.criteria",
			"is missing"},
		{"an object as a rubric", withNamedQuestions(`{"a":{"type":"score","criteria":{}}}`),
			"questions.a.criteria", "expected an array"},
		{"a null level", withNamedQuestions(`{"a":{"type":"score","criteria":["b",null]}}`),
			"questions.a.criteria[1]", "got null"},
		{"one level", withNamedQuestions(`{"a":{"type":"score","criteria":["b"]}}`),
			"questions.a.criteria", "got 1"},
	} {
		_, err := ParseSystemOne([]byte(c.body))
		checkError(t, c.name, err, c.param, c.part)
	}
}

// FuzzParse checks that any body is parsed or refused with an *Error, and that what is parsed has
// questions that can be asked and answered.
func FuzzParse(f *testing.F) {
	f.Add([]byte(withParams(`"cache":"none"`)))
	f.Add([]byte(withNamed(``)))
	f.Add([]byte(withInput(`[{"role":"user","content":[{"type":"input_json","data":[{}]}]},` +
		`{"type":"function_call","name":"a","call_id":"b","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"b","output":"c"}]`)))
	f.Add([]byte(withQuestions(`[{"type":"choice","instructions":"?","choices":[{"value":true},` +
		`{"value":"a","description":"b"}]},{"type":"score","instructions":[],"levels":[` +
		`{"label":"a"},{"label":""}]}]`)))
	f.Add([]byte(withNamedQuestions(`{"":{"type":"choice","criteria":{"a":null,"b":{}}},"b":{` +
		`"type":"score","criteria":["",[1]]}}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (*Request, error){Parse, ParseSystemOne} {
			r, err := parse(body)
			if err != nil {
				if bad := (*Error)(nil); !errors.As(err, &bad) {
					t.Fatalf("%v is no *Error", err)
				}
				continue
			}
			if len(r.Messages) == 0 || len(r.Questions) == 0 || len(r.Questions) > maxQuestions {
				t.Fatalf("%d messages, %d questions", len(r.Messages), len(r.Questions))
			}
			for _, q := range r.Questions {
				n := len(q.Options)
				if n < minOptions || n > maxOptions {
					t.Fatalf("%d options", n)
				}
				q.text(make([]string, n))
				for _, o := range q.Options {
					if o.Value != nil && !json.Valid(o.Value) {
						t.Fatalf("the value %q", o.Value)
					}
				}
			}
			for _, m := range r.Messages {
				if m.ToolCalls != nil && !json.Valid(m.ToolCalls) {
					t.Fatalf("the calls %q", m.ToolCalls)
				}
			}
		}
	})
}
