package chat

import "strings"

// Cases of the formats in json_list.go.

var commandTests = []toolTest{
	{"only calls", "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", " +
		"\"parameters\": {\"s\": \"a\", \"n\": \"3\"}},\n    {\"tool_call_id\": \"1\", " +
		"\"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>", false,
		` |  | f{"s": "a", "n": 3} now{}`},
	{"after a plan", "I look.<|END_THINKING|><|START_ACTION|>[{\"tool_name\": \"now\"}]" +
		"<|END_ACTION|>", true, "I look. |  | now{}"},
	{"an answer", "<|START_THINKING|>why<|END_THINKING|><|START_TEXT|>Yes.<|END_TEXT|>", false,
		"why | Yes. | "},
	{"an answer of R7B", "<|START_RESPONSE|>Yes.<|END_RESPONSE|>", false, " | Yes. | "},
	{"text around", "So\n<|START_ACTION|>[{\"tool_name\":\"now\"}]<|END_ACTION|>\nDone.", false,
		" | SoDone. | now{}"},
	{"without brackets", "<|START_ACTION|>{\"tool_name\": \"now\"}<|END_ACTION|>", false,
		" |  | now{}"},
	{"an escaped bar", `<|START_ACTION|>[{"tool_name": "f", "parameters": {"s": "a\|b\\|\"c"}}]` +
		`<|END_ACTION|>`, false, ` |  | f{"s":"a|b\\|\"c"}`},
	{"tags in a string", `<|START_ACTION|>[{"tool_name":"f","parameters":{"s":"}]<|END_ACTION|>` +
		` é"}}]<|END_ACTION|>x`, false, ` | x | f{"s":"}]<|END_ACTION|> é"}`},
	{"an empty list", "<|START_ACTION|>[]<|END_ACTION|>x", false, " | x | "},
	{"cut off in the second", `<|START_ACTION|>[{"tool_name":"now"}, {"tool_name":"f","param`, false,
		" |  | now{}"},
	{"cut off before the list ends", `a<|START_ACTION|>[{"tool_name":"now"}`, false,
		" | a | now{}"},
	{"no name", `<|START_ACTION|>[{"parameters":{}}]<|END_ACTION|>x`, false, " | x | "},
	{"no list", "<|START_ACTION|>now()<|END_ACTION|>x", false, " | now()x | "},
	{"text in the list", `<|START_ACTION|>[{"tool_name":"now"} and]<|END_ACTION|>x`, false,
		" | x | now{}"},
	{"a bracket is missing", `<|START_ACTION|>[{"tool_name":"now"}<|END_ACTION|>x`, false,
		" | x | now{}"},
}

var nemotronTests = []toolTest{
	{"only calls", `<TOOLCALL>[{"name": "f", "arguments": {"n": "3"}}, {"name": "now", ` +
		`"arguments": {}}]</TOOLCALL>`, false, ` |  | f{"n": 3} now{}`},
	{"after reasoning, text around", "why\n</think>\n\nSo\n<TOOLCALL>[{\"name\":\"now\"}]" +
		"</TOOLCALL>\nDone.", true, "why | SoDone. | now{}"},
	{"arguments in a string", `<TOOLCALL>[{"name": "f", "arguments": "{\"s\": \"a\"}"}]` +
		`</TOOLCALL>`, false, ` |  | f{"s":"a"}`},
	{"the tag in prose", "Write <TOOLCALL> first, or <TOOLCALL>[1].", false,
		" | Write first, or[1]. | "},
	{"cut off", `a<TOOLCALL>[{"name": "f", "argum`, false, " | a | "},
	{"in reasoning", `<think>I write <TOOLCALL>[{"name":"now"}]</TOOLCALL></think>No.`, false,
		`I write <TOOLCALL>[{"name":"now"}]</TOOLCALL> | No. | `},
}

var toolCallsTests = []toolTest{
	{"only a call", `<tool_calls>[{"name": "f", "arguments": {"n": 3}, "id": "0"}]</tool_calls>`,
		false, ` |  | f{"n":3}`},
	{"two lines", "<tool_calls>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n" +
		"{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>", false, ` |  | f{"n":1} now{}`},
	{"after reasoning", "why\n[BEGIN FINAL RESPONSE]\nSo\n<tool_calls>[{\"name\":\"now\"}]" +
		"</tool_calls>\n[END FINAL RESPONSE]", true, "why | So | now{}"},
	{"its own reasoning", "Here are my reasoning steps:\nwhy\n[BEGIN FINAL RESPONSE]\nYes.\n" +
		"[END FINAL RESPONSE]\n", false, "why | Yes. | "},
	{"a comma between lines", "<tool_calls>{\"name\":\"now\"},{\"name\":\"now\"}</tool_calls>x",
		false, " | x | now{}"},
	{"cut off", "a\n<tool_calls>\n{\"name\": \"now\"", false, " | a | "},
}

var apertusTests = []toolTest{
	{"calls", `why<|inner_suffix|><|tools_prefix|>[{"f": {"n": "3"}}, {"now": {}}]` +
		`<|tools_suffix|>`, true, `why |  | f{"n": 3} now{}`},
	{"text around", `So <|tools_prefix|>[{"now": null}]<|tools_suffix|> x`, false,
		" | Sox | now{}"},
	{"two keys", `<|tools_prefix|>[{"f": {}, "now": {}}]<|tools_suffix|>x`, false, " | x | "},
	{"no object", `<|tools_prefix|>[{"f": 1}]<|tools_suffix|>x`, false, " | x | "},
	{"cut off", `a<|tools_prefix|>[{"now": {}}, {"f": {"s": "ha`, false, " | a | now{}"},
}

var phi4Tests = []toolTest{
	{"calls", `<|tool_call|>[{"name": "f", "arguments": {"n": "3"}}, {"name": "now"}]` +
		`<|/tool_call|>`, false, ` |  | f{"n": 3} now{}`},
	{"text around", `So <|tool_call|>[{"name":"now"}]<|/tool_call|> x`, false, " | Sox | now{}"},
	{"cut off", `a<|tool_call|>[{"name": "f"`, false, " | a | "},
}

var granite3Tests = []toolTest{
	{"calls", `<|tool_call|>[{"name": "f", "arguments": {"n": "3"}}, {"name": "now"}]`, false,
		` |  | f{"n": 3} now{}`},
	{"after reasoning, text around", "why</think>So <|tool_call|>[{\"name\":\"now\"}]\nx", true,
		"why | Sox | now{}"},
	{"twice", `<|tool_call|>[{"name":"now"}]<|tool_call|>[{"name":"now"}]`, false,
		" |  | now{} now{}"},
	{"malformed, then a call", `<|tool_call|>[{"name": 1}]<|tool_call|>[{"name":"now"}]`, false,
		" |  | now{}"},
	{"another bracket", `<|tool_call|>[{"name":"now"}) x`, false, " |  | now{}"},
	{"cut off", `a<|tool_call|>[{"name":"now"}, {"name": "f"`, false, " | a | now{}"},
}

var gigaChatTests = []toolTest{
	{"a call", `So<|function_call|>{"name": "f", "arguments": {"n": "3"}}`, false,
		` | So | f{"n": 3}`},
	{"text after", "<|function_call|>{\"name\":\"now\"}\nx", false, " | x | now{}"},
	{"cut off", `a<|function_call|>{"name": "f", "arg`, false, " | a | "},
	{"no call", "<|function_call|>now() x", false, " | now() x | "},
}

var gigaChat3Tests = []toolTest{
	{"a call", "So<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": " +
		"{\"n\": \"3\"}}<|message_sep|>\n\n", false, ` | So | f{"n": 3}`},
	{"only a call", "function call<|role_sep|>\n{\"name\":\"now\",\"arguments\":{}}", false,
		" |  | now{}"},
	{"an answer", "A function call is one.<|message_sep|>\n\n", false,
		" | A function call is one. | "},
	{"cut off", "a<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f", false, " | a | "},
}

var commandRTests = []toolTest{
	{"two calls", "Plan: I look.\nAction:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n   " +
		"     " +
		"\"parameters\": {\"n\": \"3\"}\n    },\n    {\"tool_name\": \"now\", \"parameters\": " +
		"{}}\n]```",
		false, ` | Plan: I look. | f{"n": 3} now{}`},
	{"text after", "Action: ```json\n[{\"tool_name\": \"now\"}]\n```\nDone.", false,
		" | Done. | now{}"},
	{"prose", "Action: run. Then Action:\n```json\n[1]\n``` and Action:", false,
		" | Action: run. Then Action:\n```json\n[1]\n``` and Action: | "},
	{"another fence", "Action:\n```go\nx\n```", false, " | Action:\n```go\nx\n``` | "},
	{"no name", "a Action: ```json\n[{\"parameters\": {}}]\n```x", false, " | ax | "},
	{"cut off", "a\nAction:\n```json\n[\n{\"tool_name\": \"f", false, " | a | "},
	{"a fence in a string",
		"Action:\n```json\n[{\"tool_name\":\"f\",\"parameters\":{\"s\":\"```\"}}]```",
		false, " |  | f{\"s\":\"```\"}"},
}

var fireFunctionTests = []toolTest{
	{"two calls", `So functools[{"name": "f", "arguments": {"n": "3"}}, {"name": "now", ` +
		`"arguments": {}}]`, false, ` | So | f{"n": 3} now{}`},
	{"text after", `functools[{"name": "now"}] x`, false, " | x | now{}"},
	{"prose", "Use functools[1] or functools.cache or functools[", false,
		" | Use functools[1] or functools.cache or functools[ | "},
	{"malformed", `functools[{"name": 1}]`, false, " |  | "},
	{"cut off", `a functools[{"name": "now"}, {"name": "f"`, false, " | a | now{}"},
}

// listFormats has the formats of these cases.
var listFormats = []formatTests{
	{"command", "<|START_THINKING|><|START_ACTION|>", commandTests},
	{"nemotron", `<TOOLCALL>[{{"name": "tool_name1"`, nemotronTests},
	{"tool_calls", "[BEGIN FINAL RESPONSE] <tool_calls>[{", toolCallsTests},
	{"apertus", "<|inner_prefix|> <|tools_prefix|>", apertusTests},
	{"phi4", "<|tool_call|><|/tool_call|>", phi4Tests},
	{"granite3", "with <|tool_call|> followed by a JSON list of tools", granite3Tests},
	{"gigachat", "<|function_call|>", gigaChatTests},
	{"gigachat3", "<|role_sep|>", gigaChat3Tests},
	{"command_r_plus", "'\\nAction:\\n```json\\n[\\n'", commandRTests},
	{"firefunction", "formatted as functools[{", fireFunctionTests},
	{"functionary31", `<function=example_function_name>{"example_name": "example_value"}</function>`,
		functionary31Tests},
	{"functionary32", ">>>${recipient}\n${content}", functionary32Tests},
	{"solar", "<|begin|>assistant<|tool_call:args|>", solarTests},
	{"kimi_k3", "'<|open|>' + tag + '<|sep|>'", kimiK3Tests},
	{"minimax_m3", "']<]minimax[>[' ~ '<tool_call>' <mm:think>", minimaxM3Tests},
	{"minicpm5", `<function name="f"><param name="p">`, minicpm5Tests},
	{"longcat", "<longcat_tool_call> <longcat_think>", longcatTests},
	{"hunyuan", "HYTK = ':opensource' '<tool_sep{}>' '<think{}>'", hunyuanTests()},
	{"pythonic", `"List of tools: ["`, pythonicTests},
}

// hunyuanTests returns tests of GLM with the tags of Hunyuan 3.
func hunyuanTests() []toolTest {
	tags := strings.NewReplacer("<tool_calls>", "<tool_calls:opensource>", "</tool_calls>",
		"</tool_calls:opensource>", "<tool_call>", "<tool_call:opensource>", "</tool_call>",
		"</tool_call:opensource>", "<tool_sep>", "<tool_sep:opensource>",
		"<arg_key>", "<arg_key:opensource>", "</arg_key>", "</arg_key:opensource>",
		"<arg_value>", "<arg_value:opensource>", "</arg_value>", "</arg_value:opensource>",
		"<think>", "<think:opensource>", "</think>", "</think:opensource>")
	tests := []toolTest{
		{"two calls", "why</think>So<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>s</arg_key>\n" +
			"<arg_value>a</arg_value>\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n" +
			"</tool_call>\n<tool_call>now<tool_sep>\n</tool_call>\n</tool_calls>", true,
			`why | So | f{"s": "a", "n": 3} now{}`},
		{"its own reasoning", "<think></think>Yes.", false, " | Yes. | "},
		{"no separator", "<tool_call>f<arg_key>n</arg_key><arg_value>3</arg_value></tool_call>x",
			false, " | x | "},
		{"a tag in a value", "<tool_call>f<tool_sep><arg_key>s</arg_key><arg_value></arg_value> " +
			"<tool_sep></tool_call>é</arg_value></tool_call>x", false,
			` | x | f{"s": "</arg_value> <tool_sep></tool_call>é"}`},
		{"cut off", "a<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>s</arg_key>\n<arg_value>h",
			false, " | a | "},
	}
	for i := range tests {
		tests[i].text = tags.Replace(tests[i].text)
		tests[i].want = tags.Replace(tests[i].want)
	}
	return tests
}
