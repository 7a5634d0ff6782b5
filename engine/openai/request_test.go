package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/sample"
)

// chatBody adds parameters to the smallest valid chat request.
func chatBody(params string) string {
	if params != "" {
		params = "," + params
	}
	return `{"messages":[{"role":"user","content":"hi"}]` + params + `}`
}

// assistantLast is a chat whose last message is an assistant's with this content.
func assistantLast(content, params string) string {
	return `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":` + content +
		`}],` + params + `}`
}

func continuing(r *ChatRequest) any { return []bool{r.Continue, r.NoGenerationPrompt} }

func TestParseChat(t *testing.T) {
	cases := []struct {
		name string
		body string
		part func(r *ChatRequest) any // the part of the result to compare
		want any
	}{
		{"minimal", chatBody(``), func(r *ChatRequest) any { return *r },
			ChatRequest{Params: Params{N: 1}, Messages: []Message{{Role: "user",
				Raw: json.RawMessage(`{"role":"user","content":"hi"}`)}}}},
		{"unknown fields", chatBody(`"frobnicate":{"a":[1]},"user":"u"`),
			func(r *ChatRequest) any { return r.Model }, ""},
		{"all numbers",
			chatBody(
				`"temperature":0,"top_p":0.5,"top_k":40,"min_p":0.1,"repetition_penalty":1.1,"presence_penalty":-2,"frequency_penalty":2,"seed":-7`),
			func(r *ChatRequest) any {
				return []any{*r.Temperature, *r.TopP, *r.TopK, *r.MinP, *r.RepetitionPenalty,
					*r.PresencePenalty, *r.FrequencyPenalty, *r.Seed}
			}, []any{0.0, 0.5, 40, 0.1, 1.1, -2.0, 2.0, int64(-7)}},
		{"nulls are absent", chatBody(
			`"temperature":null,"stop":null,"seed":null,"n":null,"logit_bias":null,"stream_options":null,"max_tokens":null`),
			func(r *ChatRequest) any { return r.Params }, Params{N: 1}},
		{"integers as floats", chatBody(
			`"max_tokens":20.0,"top_k":4e1,"n":2.00,"seed":1.50e1`),
			func(r *ChatRequest) any { return []any{r.MaxTokens, *r.TopK, r.N, *r.Seed} },
			[]any{20, 40, 2, int64(15)}},
		{"a limit beyond integers", chatBody(`"max_tokens":1e30`),
			func(r *ChatRequest) any { return r.MaxTokens }, math.MaxInt},
		{"a seed beyond 63 bits", chatBody(`"seed":9223372036854775808`),
			func(r *ChatRequest) any { return *r.Seed }, int64(math.MinInt64)},
		{"a seed beyond 64 bits", chatBody(`"seed":18446744073709551623`),
			func(r *ChatRequest) any { return *r.Seed }, int64(7)},
		{"a negative seed beyond 64 bits", chatBody(`"seed":-18446744073709551623`),
			func(r *ChatRequest) any { return *r.Seed }, int64(-7)},
		{"a large seed as a float", chatBody(`"seed":1.8446744073709551616e19`),
			func(r *ChatRequest) any { return *r.Seed }, int64(0)},
		{"a prediction", chatBody(`"prediction":{"type":"content","content":"a\nb"}`),
			func(r *ChatRequest) any { return r.Prediction }, "a\nb"},
		{"a prediction in parts", chatBody(`"prediction":{"type":"content","content":[` +
			`{"type":"text","text":"a"},{"type":"text","text":"b"}]}`),
			func(r *ChatRequest) any { return r.Prediction }, "ab"},
		{"no prediction", chatBody(`"prediction":null`),
			func(r *ChatRequest) any { return r.Prediction }, ""},
		{"llama.cpp's names", chatBody(`"n_predict":5,"repeat_penalty":1.5,"ignore_eos":true`),
			func(r *ChatRequest) any {
				return []any{r.MaxTokens, *r.RepetitionPenalty, r.IgnoreEOS}
			}, []any{5, 1.5, true}},
		{"mlx-lm's names", chatBody(`"repetition_context_size":64,"presence_context_size":20,` +
			`"adapters":null,"draft_model":"","num_draft_tokens":3`),
			func(r *ChatRequest) any { return []int{r.PenaltyTokens, r.PresencePenaltyTokens} },
			[]int{64, 20}},
		{"XTC", chatBody(`"xtc_probability":0.5,"xtc_threshold":0.25`),
			func(r *ChatRequest) any { return r.XTC },
			sample.XTC{Probability: 0.5, Threshold: 0.25}},
		{"DRY", chatBody(`"dry_multiplier":0.5,"dry_base":2,"dry_allowed_length":3,` +
			`"dry_penalty_last_n":-1,"dry_sequence_breakers":["\n"]`),
			func(r *ChatRequest) any { return r.DRY },
			sample.DRY{Multiplier: 0.5, Base: 2, AllowedTokens: 3, Breakers: []string{"\n"}}},
		{"DRY that looks at no tokens", chatBody(`"dry_multiplier":0.5,"dry_penalty_last_n":0`),
			func(r *ChatRequest) any { return r.DRY }, sample.DRY{}},
		{"their own names win",
			chatBody(`"n_predict":5,"max_tokens":6,"repeat_penalty":1.5,"repetition_penalty":1.2`),
			func(r *ChatRequest) any { return []any{r.MaxTokens, *r.RepetitionPenalty} },
			[]any{6, 1.2}},
		{"tool_choice as an object", chatBody(
			`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"auto"}`),
			func(r *ChatRequest) any { return len(r.Tools) }, 1},
		{"one call", chatBody(`"parallel_tool_calls":false`),
			func(r *ChatRequest) any { return r.OneCall }, true},
		{"hidden reasoning", chatBody(`"include_reasoning":false`),
			func(r *ChatRequest) any { return r.HideReasoning }, true},
		{"excluded reasoning", chatBody(`"reasoning":{"exclude":true}`),
			func(r *ChatRequest) any { return r.HideReasoning }, true},
		{"continued", assistantLast(`"a"`,
			`"continue_final_message":true,"add_generation_prompt":false`), continuing, []bool{true, true}},
		{"continued without the other", assistantLast(`"a"`, `"continue_final_message":true`),
			continuing, []bool{true, false}},
		{"without a generation prompt", assistantLast(`"a"`, `"add_generation_prompt":false`),
			continuing, []bool{true, true}},
		{"prefix", assistantLast(`"a","prefix":true`, `"n":1`), continuing, []bool{true, false}},
		{"a new turn", assistantLast(`"a"`, `"n":1`), continuing, []bool{false, false}},
		{"no generation prompt after a user", chatBody(`"add_generation_prompt":false`),
			continuing, []bool{false, true}},
		{"replayed parts",
			`{"messages":[{"role":"assistant","content":[{"type":"output_text","text":"a"},
				{"type":"refusal","refusal":"b"},{"type":"thinking","thinking":"c"},
				{"type":"reasoning","summary":[]},{"type":"redacted_thinking","data":"x"}]},
				{"role":"user","content":[{"type":"input_text","text":"d"}]}]}`,
			func(r *ChatRequest) any { return len(r.Messages) }, 2},
		{"an image in the result of a tool",
			`{"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"1",
				"content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"u"}},
				{"type":"thinking","thinking":"c"}],"name":"f"}]}`,
			func(r *ChatRequest) any { return string(r.Messages[1].Raw) },
			`{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"b"},` +
				`{"text":"[image_url left out: the model reads text only]","type":"text"},` +
				`{"type":"thinking","thinking":"c"}],"name":"f"}`},
		{"a call with an empty name",
			`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":""}},
				{"type":"custom","custom":{"name":"f","input":"a"}}]}]}`,
			func(r *ChatRequest) any { return r.Messages[0].HasCalls }, true},
		{"max_completion_tokens wins", chatBody(`"max_tokens":5,"max_completion_tokens":7`),
			func(r *ChatRequest) any { return r.MaxTokens }, 7},
		{"max_tokens alone", chatBody(`"max_tokens":5`),
			func(r *ChatRequest) any { return r.MaxTokens }, 5},
		{"no limit", chatBody(`"max_tokens":-1`), func(r *ChatRequest) any { return r.MaxTokens },
			0},
		{"stop text", chatBody(`"stop":"END"`), func(r *ChatRequest) any { return r.Stop },
			[]string{"END"}},
		{"stop array", chatBody(`"stop":["a","","b"]`), func(r *ChatRequest) any { return r.Stop },
			[]string{"a", "b"}},
		{"top_k off", chatBody(`"top_k":-1`), func(r *ChatRequest) any { return *r.TopK }, 0},
		{"repetition off", chatBody(`"repetition_penalty":0`),
			func(r *ChatRequest) any { return *r.RepetitionPenalty }, 1.0},
		{"bias", chatBody(`"logit_bias":{"12":-100,"0":1.5}`),
			func(r *ChatRequest) any { return r.LogitBias }, map[int32]float32{12: -100, 0: 1.5}},
		{"stream", chatBody(`"stream":true,"stream_options":{"include_usage":true}`),
			func(r *ChatRequest) any { return []bool{r.Stream, r.IncludeUsage} },
			[]bool{true, true}},
		{"drafts", chatBody(`"stream":true,"stream_options":{"include_drafts":true}`),
			func(r *ChatRequest) any { return []bool{r.IncludeUsage, r.IncludeDrafts} },
			[]bool{false, true}},
		{"logprobs", chatBody(`"logprobs":true,"top_logprobs":3`),
			func(r *ChatRequest) any { return []any{r.Logprobs, r.TopLogprobs} }, []any{true, 3}},
		{"template variables", chatBody(`"chat_template_kwargs":{"enable_thinking":false}`),
			func(r *ChatRequest) any { return string(r.TemplateKwargs) },
			`{"enable_thinking":false}`},
		{"effort", chatBody(`"reasoning_effort":"high"`),
			func(r *ChatRequest) any { return r.Effort }, "high"},
		{"null effort", chatBody(`"reasoning_effort":null,"reasoning":null`),
			func(r *ChatRequest) any { return r.Effort }, ""},
		{"effort in reasoning", chatBody(`"reasoning":{"effort":"none"}`),
			func(r *ChatRequest) any { return r.Effort }, "none"},
		{"thinking on", chatBody(`"enable_thinking":true,"chat_template_kwargs":{"a":1}`),
			func(r *ChatRequest) any { return string(r.TemplateKwargs) },
			`{"a":1,"enable_thinking":true}`},
		{"think", chatBody(`"think":false,"enable_thinking":true`),
			func(r *ChatRequest) any { return string(r.TemplateKwargs) },
			`{"enable_thinking":false}`},
		{"an effort in think", chatBody(`"think":"low"`),
			func(r *ChatRequest) any { return r.Effort + string(r.TemplateKwargs) }, "low"},
		{"reasoning_effort before think", chatBody(`"think":"low","reasoning_effort":"high"`),
			func(r *ChatRequest) any { return r.Effort }, "high"},
		{"reasoning before think", chatBody(`"think":true,"reasoning":{"enabled":false}`),
			func(r *ChatRequest) any { return string(r.TemplateKwargs) },
			`{"enable_thinking":false}`},
		{"chat_template_kwargs take precedence", chatBody(
			`"reasoning":{"enabled":true},"chat_template_kwargs":{"enable_thinking":false}`),
			func(r *ChatRequest) any { return string(r.TemplateKwargs) },
			`{"enable_thinking":false}`},
		{"tools are unchanged", chatBody(
			`"tools":[ {"function":{"z":1,"name":"f"},"type":"function"} ],"tool_choice":"auto","parallel_tool_calls":true`),
			func(r *ChatRequest) any { return r.Tools },
			[]json.RawMessage{json.RawMessage(
				`{"function":{"z":1,"name":"f"},"type":"function"}`)}},
		{"tools without a choice",
			chatBody(
				`"tools":[{"type":"function","function":{"name":"f","parameters":null}}],"tool_choice":null`),
			func(r *ChatRequest) any { return len(r.Tools) }, 1},
		{"tool_choice none", chatBody(
			`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"`),
			func(r *ChatRequest) any { return []any{len(r.Tools), r.NoCalls} }, []any{1, true}},
		{"no tools", chatBody(`"tools":[],"tool_choice":"auto"`),
			func(r *ChatRequest) any { return r.Tools == nil }, true},
		{"parts are unchanged",
			`{"messages":[ {"role":"user","z":1,"content":[{"type":"text","text":"a"}]} ]}`,
			func(r *ChatRequest) any { return string(r.Messages[0].Raw) },
			`{"role":"user","z":1,"content":[{"type":"text","text":"a"}]}`},
		{"null content and a call",
			`{"messages":[{"role":"assistant","content":null,"name":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}]}`,
			func(r *ChatRequest) any { return r.Messages[0].Role }, "assistant"},
		{"developer", `{"messages":[{"role":"developer","content":"x"}]}`,
			func(r *ChatRequest) any { return r.Messages[0].Role }, "system"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseChat([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := c.part(r); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestParseChatRefuses(t *testing.T) {
	cases := []struct{ name, body, param, message string }{
		{"empty", " \n", "", "The body is empty"},
		{"cut", `{"messages":[`, "",
			"not valid JSON: unexpected end of JSON input, at line 1, column 13"},
		{"syntax", "{\n  \"model\": \"é\", x\n}", "",
			"invalid character 'x' looking for beginning of object key string, at line 2, column " +
				"17"},
		{"text after the object", `{} {}`, "",
			"invalid character '{' after top-level value, at line 1, column 4"},
		{"not UTF-8", "{\"model\":\"\xff\"}", "",
			"not valid UTF-8: byte 0xff at line 1, column 11"},
		{"an array", `[]`, "", "must be a JSON object, got an array"},
		{"wrong type", chatBody(`"temperature":"hot"`), "temperature",
			"expected a number, got a string"},
		{"fraction", chatBody(`"max_tokens":1.5`), "max_tokens",
			"expected an integer, got 1.5"},
		{"a seed with a fraction", chatBody(`"seed":1.5`), "seed", "expected an integer, got 1.5"},
		{"a seed of text", chatBody(`"seed":"1"`), "seed", "expected an integer, got a string"},
		{"a seed of too many digits", chatBody(`"seed":1e999999999`), "seed",
			"expected an integer, got 1e999999999"},
		{"an exponent beyond integers", chatBody(`"n":1e99999999999999999999`), "n",
			"expected an integer, got 1e9999"},
		{"a small fraction", chatBody(`"n":1e-300`), "n", "expected an integer, got 1e-300"},
		{"beyond floats", chatBody(`"temperature":1e999`), "temperature",
			"the number 1e999 is too large"},
		{"boolean", chatBody(`"stream":"yes"`), "stream", "expected a boolean, got a string"},
		{"nested", chatBody(`"stream_options":{"include_usage":1}`), "stream_options.include_usage",
			"expected a boolean, got a number"},
		{"messages missing", `{}`, "messages", "expected at least one message"},
		{"messages text", `{"messages":"hi"}`, "messages", "expected an array, got a string"},
		{"message text", `{"messages":["hi"]}`, "messages[0]", "expected an object, got a string"},
		{"message null", `{"messages":[null]}`, "messages[0]", "expected an object, got null"},
		{"role missing", `{"messages":[{"role":"user"},{"content":"x"}]}`, "messages[1].role",
			"is missing"},
		{"role type", `{"messages":[{"role":3}]}`, "messages[0].role",
			"expected a string, got a number"},
		{"content type", `{"messages":[{"role":"user","content":{"a":1}}]}`, "messages[0].content",
			"expected a string or an array of parts, got an object"},
		{"image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`,
			"messages[0].content[0].type", `"image_url" is not supported`},
		{"part without text", `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`,
			"messages[0].content[0].text", "is missing"},
		{"a result without a type", `{"messages":[{"role":"tool","content":[{"image_url":"u"}]}]}`,
			"messages[0].content[0].type", "is not supported"},
		{"a call without a function", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"}]}]}`,
			"messages[0].tool_calls[0].function.name", "is missing"},
		{"a call without a name", `{"messages":[{"role":"assistant","tool_calls":[` +
			`{"function":{"name":"f"}},{"function":{"arguments":"{}"}}]}]}`,
			"messages[0].tool_calls[1].function.name", "is missing"},
		{"a custom call without a name",
			`{"messages":[{"role":"assistant","tool_calls":[{"custom":{"input":"a"}}]}]}`,
			"messages[0].tool_calls[0].custom.name", "is missing"},
		{"calls", `{"messages":[{"role":"assistant","tool_calls":{}}]}`, "messages[0].tool_calls",
			"expected an array, got an object"},
		{"call name", `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":1}}]}]}`,
			"messages[0].tool_calls[0].function.name", "expected a string"},
		{"temperature", chatBody(`"temperature":2.5`), "temperature",
			"must be between 0 and 2, got 2.5"},
		{"a prediction of another type", chatBody(`"prediction":{"type":"file","content":"a"}`),
			"prediction.type", `expected "content", got "file"`},
		{"a prediction without content", chatBody(`"prediction":{"type":"content"}`),
			"prediction.content", "is missing"},
		{"a prediction that is a text", chatBody(`"prediction":"a"`), "prediction",
			"expected an object"},
		{"an image as prediction", chatBody(
			`"prediction":{"type":"content","content":[{"type":"image_url"}]}`),
			"prediction.content[0].type", "not supported"},
		{"top_p", chatBody(`"top_p":-0.1`), "top_p", "must be between 0 and 1, got -0.1"},
		{"top_k", chatBody(`"top_k":-2`), "top_k", "got -2"},
		{"repetition_context_size", chatBody(`"repetition_context_size":0`),
			"repetition_context_size", "must be between 1 and 1048576, got 0"},
		{"presence_context_size", chatBody(`"presence_context_size":-1`),
			"presence_context_size", "must be between 1 and 1048576, got -1"},
		{"xtc_threshold", chatBody(`"xtc_threshold":1.5`), "xtc_threshold",
			"must be between 0 and 1, got 1.5"},
		{"dry_base", chatBody(`"dry_base":0.5`), "dry_base", "must be between 1 and 100, got 0.5"},
		{"dry_penalty_last_n", chatBody(`"dry_penalty_last_n":-2`), "dry_penalty_last_n",
			"must be between -1 and 1048576, got -2"},
		{"breakers", chatBody(`"dry_sequence_breakers":["a",""]`), "dry_sequence_breakers",
			"expected texts of 1 to 256 bytes, got one of 0"},
		{"a breaker", chatBody(`"dry_sequence_breakers":"a"`), "dry_sequence_breakers",
			"expected an array"},
		{"min_p", chatBody(`"min_p":1.1`), "min_p", "must be between 0 and 1"},
		{"repetition", chatBody(`"repetition_penalty":-1`), "repetition_penalty", "must be over 0"},
		{"max_tokens", chatBody(`"max_tokens":0`), "max_tokens", "must be at least 1, got 0"},
		{"max_completion_tokens", chatBody(`"max_completion_tokens":-5`), "max_completion_tokens",
			"got -5"},
		{"n", chatBody(`"n":129`), "n", "must be between 1 and 128, got 129"},
		{"n of 0", chatBody(`"n":0`), "n", "must be between 1 and 128, got 0"},
		{"continuing a user", chatBody(`"continue_final_message":true`), "continue_final_message",
			"only a last message of the assistant"},
		{"continuing and a generation prompt",
			assistantLast(`"a"`, `"continue_final_message":true,"add_generation_prompt":true`),
			"continue_final_message", "together with add_generation_prompt"},
		{"a prefix with calls",
			assistantLast(`null,"prefix":true,"tool_calls":[{"id":"1","function":{"name":"f"}}]`,
				`"n":1`), "messages[1].prefix", "without tool calls"},
		{"a refusal without text",
			`{"messages":[{"role":"assistant","content":[{"type":"refusal"}]}]}`,
			"messages[0].content[0].refusal", "is missing"},
		{"stop", chatBody(`"stop":[1]`), "stop",
			"expected a string or an array of strings, got an array with a number"},
		{"stop long", chatBody(`"stop":["a","` + strings.Repeat("x", maxStopBytes+1) + `"]`),
			"stop[1]", "at most 4096 bytes"},
		{"stop many", chatBody(`"stop":[` + strings.Repeat(`"a",`, maxStops) + `"a"]`), "stop",
			"at most 64 stop texts, got 65"},
		{"bias key", chatBody(`"logit_bias":{"the":1}`), "logit_bias",
			`the key "the" is not a token id`},
		{"bias value", chatBody(`"logit_bias":{"3":"x"}`), "logit_bias.3",
			"expected a number, got a string"},
		{"bias range", chatBody(`"logit_bias":{"3":101}`), "logit_bias.3",
			"must be between -100 and 100, got 101"},
		{"bias beyond a float", chatBody(`"logit_bias":{"3":-1e400}`), "logit_bias.3",
			"must be between -100 and 100, got -1e400"},
		{"top_logprobs alone", chatBody(`"top_logprobs":3`), "top_logprobs", "needs logprobs"},
		{"top_logprobs", chatBody(`"logprobs":true,"top_logprobs":21`), "top_logprobs",
			"between 0 and 20"},
		{"template variables", chatBody(`"chat_template_kwargs":[1]`), "chat_template_kwargs",
			"expected an object, got an array"},
		{"think", chatBody(`"think":1`), "think", "expected a boolean or an effort, got a number"},
		{"an effort in think", chatBody(`"think":"hard"`), "think", "must be one of none, minimal"},
		{"tools", chatBody(`"tools":{}`), "tools", "expected an array, got an object"},
		{"tool", chatBody(`"tools":[{"type":"function","function":{"name":"f"}},null]`), "tools[1]",
			"expected an object, got null"},
		{"tool type", chatBody(`"tools":[{"type":"web_search"}]`), "tools[0].type",
			`"web_search" is not supported, only "function"`},
		{"tool without a function", chatBody(`"tools":[{"type":"function"}]`), "tools[0].function",
			"is missing"},
		{"tool without a name", chatBody(`"tools":[{"function":{}}],"tool_choice":"none"`),
			"tools[0].function.name", "is missing"},
		{"tool name", chatBody(`"tools":[{"function":{"name":[]}}]`), "tools[0].function.name",
			"expected a string, got an array"},
		{"tool schema", chatBody(`"tools":[{"function":{"name":"f","parameters":"x"}}]`),
			"tools[0].function.parameters", "expected an object, got a string"},
		{"strict", chatBody(`"tools":[{"function":{"name":"f","strict":"yes"}}]`),
			"tools[0].function.strict", "expected a boolean, got a string"},
		{"tool_choice required", chatBody(`"tool_choice":"required"`), "tool_choice",
			`a call is required, but there are no functions in tools`},
		{"tool_choice of an unknown function", chatBody(`"tools":[{"function":{"name":"g"}}],` +
			`"tool_choice":{"type":"function","function":{"name":"f"}}`),
			"tool_choice", `it names a function that is not in tools: ["f"]`},
		{"tool_choice without a function", chatBody(`"tool_choice":{"type":"function"}`),
			"tool_choice.function", `is missing`},
		{"tool_choice without a name", chatBody(`"tool_choice":{"function":{}}`),
			"tool_choice.function.name", `is missing`},
		{"allowed tools", chatBody(`"tools":[{"function":{"name":"f"}},{"function":{"name":"g"}}],` +
			`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` +
			`{"type":"function","function":{"name":"f"}}]}}`),
			"tool_choice", `a choice of functions is only supported with the mode "required"`},
		{"another tool_choice", chatBody(`"tools":[{"function":{"name":"f"}}],` +
			`"tool_choice":"maybe"`), "tool_choice", `must be "auto", "none", "required" or`},
		{"effort", chatBody(`"reasoning_effort":"much"`), "reasoning_effort",
			`must be one of none, minimal, low`},
		{"functions", chatBody(`"functions":[{"name":"f"}]`), "functions", "Send tools"},
		{"format", chatBody(`"response_format":{"type":"xml"}`), "response_format.type",
			`must be "text", "json_object" or "json_schema", got "xml"`},
		{"no type of a format", chatBody(`"response_format":{}`), "response_format.type",
			`is missing`},
		{"schema of another kind", chatBody(`"response_format":5`), "response_format",
			`expected an object, got a number`},
		{"form of Responses", chatBody(`"text":{"format":{"type":"json_schema"}}`), "text",
			`Send response_format`},
		{"form of Messages", chatBody(`"output_config":{"format":{"type":"json_schema"}}`),
			"output_config", `Send response_format`},
		{"form of Ollama", chatBody(`"format":"json"`), "format", `Send response_format`},
		{"no choices", chatBody(`"guided_choice":[]`), "guided_choice", `expected 1 to 10000 texts`},
		{"no structured output", chatBody(`"structured_outputs":{"jsno":{}}`),
			"structured_outputs", `expected one of json, regex, choice, grammar and json_object`},
		{"no additional properties",
			chatBody(`"structured_outputs":{"json":{},"disable_additional_properties":true}`),
			"structured_outputs.disable_additional_properties", `"additionalProperties": false`},
		{"no schema", chatBody(`"response_format":{"type":"json_schema"}`),
			"response_format.json_schema", `is missing`},
		{"schema without its name", chatBody(`"response_format":{"type":"json_schema",` +
			`"json_schema":{"type":"object","properties":{"a":{"type":"string"}}}}`),
			"response_format.json_schema.schema", `Put the schema into json_schema.schema`},
		{"schema", chatBody(`"response_format":{"type":"json_schema","json_schema":{"schema":` +
			`{"properties":{"a":{"uniqueItems":true,"type":"array"}}}}}`),
			"response_format.json_schema.schema", `"#/properties/a": "uniqueItems" cannot be`},
		{"two forms", chatBody(`"regex":"a","guided_choice":["b"]`), "guided_choice",
			`an answer can have one form, and regex demands another one`},
		{"a form twice in one field", chatBody(`"structured_outputs":{"json":{},"regex":"a"}`),
			"structured_outputs.regex", `and structured_outputs.json demands another one`},
		{"pattern", chatBody(`"regex":"(a"`), "regex", `pattern "(a"`},
		{"grammar", chatBody(`"grammar":"root ::= x"`), "grammar",
			`line 1, column 10: rule "x" is not defined`},
		{"structural tag", chatBody(`"structured_outputs":{"structural_tag":"a"}`),
			"structured_outputs.structural_tag", `is not supported`},
		{"nothing fits", chatBody(`"structured_outputs":{"json":{"type":"string","enum":[1]}}`),
			"structured_outputs.json", `no value is valid`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseChat([]byte(c.body))
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

func TestParseCompletion(t *testing.T) {
	type prompts = []generate.Prompt
	cases := []struct {
		prompt string
		want   prompts
	}{
		{`"a\u00e9"`, prompts{{Text: "aé"}}},
		{`["one"]`, prompts{{Text: "one"}}},
		{`[1, 2,3]`, prompts{{Tokens: []int32{1, 2, 3}}}},
		{`[[1,2]]`, prompts{{Tokens: []int32{1, 2}}}},
		{`["one", "", "two"]`, prompts{{Text: "one"}, {}, {Text: "two"}}},
		{`[[1], [2, 3]]`, prompts{{Tokens: []int32{1}}, {Tokens: []int32{2, 3}}}},
		{`["one", [2]]`, prompts{{Text: "one"}, {Tokens: []int32{2}}}},
	}
	for _, c := range cases {
		r, err := ParseCompletion([]byte(`{"prompt":` + c.prompt + `,"logprobs":2}`))
		if err != nil {
			t.Errorf("%s: %v", c.prompt, err)
			continue
		}
		if !reflect.DeepEqual(r.Prompts, c.want) || !r.Logprobs || r.TopLogprobs != 2 {
			t.Errorf("%s: got %+v", c.prompt, r)
		}
	}
}

func TestParseCompletionRefuses(t *testing.T) {
	cases := []struct{ body, param, message string }{
		{`{}`, "prompt", "is missing"},
		{`{"prompt":7}`, "prompt", "expected a string or an array of token ids, got a number"},
		{`{"prompt":[]}`, "prompt", "the array is empty"},
		{`{"prompt":["a"` + strings.Repeat(`,"b"`, maxPrompts) + `]}`, "prompt",
			"at most 2048 prompts, got 2049"},
		{`{"prompt":["a",null]}`, "prompt[1]",
			"expected a string or an array of token ids, got null"},
		{`{"prompt":["a",7]}`, "prompt[1]",
			"expected a string or an array of token ids, got a number"},
		{`{"prompt":[[1],[2,null]]}`, "prompt[1][1]", "expected a token id, got null"},
		{`{"prompt":[[]]}`, "prompt[0]",
			"expected a string or an array of token ids, got an array"},
		{`{"prompt":[[[1]]]}`, "prompt[0][0]", "expected a token id, got [1]"},
		{`{"prompt":[1,-2]}`, "prompt[1]", "expected a token id, got -2"},
		{`{"prompt":[1,99999999999]}`, "prompt[1]", "expected a token id, got 99999999999"},
		{`{"prompt":[{}]}`, "prompt[0]", "expected a token id, got {}"},
		{`{"prompt":"x","max_tokens":-2}`, "max_tokens", "must be at least 1, got -2"},
		{`{"prompt":"x","suffix":"y","echo":true}`, "suffix", "together with echo"},
		{`{"prompt":["x",[1]],"suffix":"y"}`, "suffix", ""},
		{`{"prompt":[1],"suffix":"y"}`, "suffix", "expected a prompt that is text"},
		{`{"prompt":"x","best_of":3}`, "best_of", "must be n, which is 1, got 3"},
		{`{"prompt":["x"` + strings.Repeat(`,"y"`, 1024) + `],"n":2}`, "n",
			"at most 2048 answers in all"},
		{`{"prompt":"x","logprobs":true}`, "logprobs",
			"expected an integer, got a boolean"},
		{`{"prompt":"x","logprobs":21}`, "logprobs", "between 0 and 20"},
	}
	for _, c := range cases {
		_, err := ParseCompletion([]byte(c.body))
		t.Run(fmt.Sprintf("%.80s", c.body),
			func(t *testing.T) { checkError(t, err, c.param, c.message) })
	}
}

func TestParseEcho(t *testing.T) {
	for body, want := range map[string]generate.Params{
		`"max_tokens":0`:               {NoAnswer: true},
		`"max_completion_tokens":0`:    {NoAnswer: true},
		`"echo":true,"max_tokens":1`:   {Echo: true, MaxTokens: 1},
		`"echo":false,"max_tokens":-1`: {},
		`"echo":true,"logprobs":0`:     {Echo: true, Logprobs: true},
		`"echo":true,"max_tokens":0,"logprobs":3`: {Echo: true, NoAnswer: true, Logprobs: true,
			TopLogprobs: 3},
	} {
		r, err := ParseCompletion([]byte(`{"prompt":[1],` + body + `}`))
		if err != nil || !reflect.DeepEqual(r.Params.Params, want) {
			t.Errorf("%s: %+v, %v, expected %+v", body, r, err, want)
		}
	}
	if _, err := ParseChat([]byte(chatBody(`"max_tokens":0`))); err == nil {
		t.Error("a chat completion with max_tokens 0 was accepted")
	}
}

// FuzzParse checks that the parsers return a valid request or an *Error for any input.
func FuzzParse(f *testing.F) {
	f.Add([]byte(chatBody(`"stop":["a"],"logit_bias":{"1":2},"chat_template_kwargs":{"a":[]}`)))
	for _, body := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"prompt":[1,2]}`,
		`{"messages":[{"role":"a","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}],"prompt":"x"}`,
		chatBody(`"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto"`),
		"{\"prompt\":[ [1 ] ]}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := ParseChat(body); err == nil {
			if len(r.Messages) == 0 || r.MaxTokens < 0 {
				t.Errorf("accepted %q as %+v", body, r)
			}
			for _, m := range r.Messages {
				if m.Role == "" || !json.Valid(m.Raw) {
					t.Errorf("accepted the message %+v", m)
				}
			}
		} else if e := new(*Error); !errors.As(err, e) {
			t.Errorf("%q: the error is a %T", body, err)
		}
		if r, err := ParseCompletion(body); err == nil {
			for i, p := range r.Prompts {
				if p.Text != "" && p.Tokens != nil {
					t.Errorf("%q: prompt %d is both text and tokens", body, i)
				}
			}
			if len(r.Prompts) == 0 {
				t.Errorf("%q has no prompt", body)
			}
		} else if e := new(*Error); !errors.As(err, e) {
			t.Errorf("%q: the error is a %T", body, err)
		}
	})
}
