package chat

import "strings"

// Cases of the formats of tool calls and reasoning: what a model writes, and what becomes of it.
// tools_test.go runs them.

// coder returns a call in the format of qwen3Coder.
func coder(name string, pairs ...string) string {
	text := "<tool_call>\n<function=" + name + ">\n"
	for i := 0; i < len(pairs); i += 2 {
		text += "<parameter=" + pairs[i] + ">\n" + pairs[i+1] + "\n</parameter>\n"
	}
	return text + "</function>\n</tool_call>"
}

var coderTests = []toolTest{
	{"only a call", coder("f", "s", "a", "n", "3"), false, ` |  | f{"s": "a", "n": 3}`},
	{"no arguments", coder("now"), false, " |  | now{}"},
	{"after reasoning", "why\n</think>\n\n" + coder("now"), true, "why |  | now{}"},
	{"text before and after", "Wait.\n\n" + coder("now") + "\n\nDone. ", false,
		" | Wait.Done.  | now{}"},
	{"several", coder("now") + "\n" + coder("f", "n", "1") + "\n and \n" + coder("f", "n", "2"),
		false, ` | and | now{} f{"n": 1} f{"n": 2}`},
	{"without line breaks",
		"<tool_call><function=f><parameter=s>a</parameter><parameter=n>1</parameter></function></tool_call>", false, ` |  | f{"s": "a", "n": 1}`},
	{"more white space",
		"<tool_call> \n\n<function= f >\r\n\n <parameter=n>\n1\n</parameter> </function>\t\n " +
			"</tool_call>", false, ` |  | f{"n": 1}`},
	{"one line break is stripped from each side", coder("f", "s", "\n a\n\n"), false,
		` |  | f{"s": "\n a\n\n"}`},
	{"not offered", coder("g", "n", "3"), false, ` |  | g{"n": "3"}`},
	{"a key twice", coder("f", "n", "1", "s", "a", "n", "2"), false, ` |  | f{"n": 2, "s": "a"}`},
	{"tags in a value", coder("f", "s",
		"<think>\n</think> </function> <tool_call> </tool_call> <parameter=a> </parameter> < </p"),
		false,
		` |  | f{"s": "<think>\n</think> </function> <tool_call> </tool_call> <parameter=a> </parameter> < </p"}`},
	{"quotes and letters", coder("f", "s", "\"é\" \\ & <b>"), false,
		` |  | f{"s": "\"é\" \\ & <b>"}`},
	{"in reasoning", "I may write " + coder("now") + "\n</think>\nNo.", true,
		"I may write " + coder("now") + " | No. | "},
	{"in unclosed reasoning", "<think>" + coder("now"), false, coder("now") + " |  | "},
	{"reasoning between calls", coder("now") + "\n<think>\nhm\n</think>\n\n" + coder("now"), false,
		"hm |  | now{} now{}"},

	{"two functions", "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n</function>\n" +
		"<function=now>\n</function>\n</tool_call>\nx", false, ` | x | f{"n": 1} now{}`},
	{"two functions, the second malformed", "<tool_call>\n<function=now>\n</function>\n" +
		"<function=f>\nhm</function>\n</tool_call>x", false, ` | x | now{}`},
	{"a second function without a name", "<tool_call><function=now></function>" +
		"<function=></function></tool_call>x", false, ` | x | now{}`},
	{"a second function cut off", "<tool_call>\n<function=now>\n</function>\n<function=f>\n" +
		"<parameter=s>\nha", false, " |  | now{}"},

	{"a parameter that does not end", "<tool_call>\n<function=f>\n<parameter=s>\na\n b\n" +
		"<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>", false,
		` |  | f{"s": "a\n b", "n": 3}`},
	{"three that do not end", "<tool_call><function=f><parameter=s>a\r\n\t <parameter=b>\ntrue\n" +
		"<parameter= x >\n\n<parameter=n>\n3\n</parameter></function></tool_call>", false,
		` |  | f{"s": "a\r", "b": true, "x": "", "n": 3}`},
	{"tags that end no value", coder("f", "n", "1", "s", "<parameter=x> \n<parameter=x>1\n"+
		"<parameter=g>\n<parameter=n>\n<parameter=s>\n<parameter=x\n<parameter=<parameter=>\n"+
		" a <parameter=x>\n<parameter=x>\r "), false,
		` |  | f{"n": 1, "s": "<parameter=x> \n<parameter=x>1\n<parameter=g>\n<parameter=n>\n` +
			`<parameter=s>\n<parameter=x\n<parameter=<parameter=>\n a <parameter=x>\n` +
			`<parameter=x>\r "}`},

	{"without the opening tag", "I look.\n\n" +
		strings.TrimPrefix(coder("f", "s", "a", "n", "3"), "<tool_call>\n") + "\n", false, ` | I look. | f{"s": "a", "n": 3}`},
	{"without both tags", "<function=f><parameter=n>3</parameter></function> Done", false,
		` | Done | f{"n": 3}`},
	{"without both tags, twice", "<function= now >\n</function>\n<function=f>\n<parameter=s>\n" +
		"<function=now></function>\n</parameter>\n</function>", false,
		` |  | now{} f{"s": "<function=now></function>"}`},
	{"without the opening tag, after reasoning", "why\n</think>\n\n<function=now>\n</function>\n" +
		"</tool_call>", true, "why |  | now{}"},
	{"functions in prose",
		"Write <function=f> or `<function=now>`: <function=f>\na <function= <fun", false,
		" | Write <function=f> or `<function=now>`: <function=f>\na <function= <fun | "},
	{"a function in prose, then a call", "<function=now> is <function=f>:\n" + coder("now"), false,
		" | <function=now> is <function=f>: | now{}"},
	{"without the opening tag, not offered", "a\n<function=g>\n<parameter=s>\n1\n</parameter>\n" +
		"</function>", false,
		" | a\n<function=g>\n<parameter=s>\n1\n</parameter>\n</function> | "},
	{"a long name", "<function=" + strings.Repeat("now", 400) + "></function>", false,
		" | <function=" + strings.Repeat("now", 400) + "></function> | "},
	{"a mention at the end", "Write <function=now>", false, " | Write <function=now> | "},
	{"a mention with a tag without a key", "<function=f>\n<parameter=>", false,
		" | <function=f>\n<parameter=> | "},
	{"without the opening tag, malformed", "a\n<function=f>\n<parameter=s>\na\n</parameter>\n" +
		"<parameter=>\n</function>\nb", false, " | a\nb | "},
	{"without the opening tag and </function>", "a\n<function=f>\n<parameter=s>\na\n" +
		"</parameter>\n</tool_call>b", false, " | ab | "},
	{"without the opening tag, then a call", "<function=f>\n<parameter=s>\na\n</parameter>\n" +
		"<parameter=>" + coder("now"), false, " |  | now{}"},
	{"without the opening tag, cut off", "a\n<function=f>\n<parameter=s>\na\n</param", false,
		" | a | "},

	{"cut off in a value", "So:\n\n" + "<tool_call>\n<function=f>\n<parameter=s>\nhalf </think> ",
		false, " | So: | "},
	{"cut off before the end", strings.TrimSuffix(coder("f", "n", "1"), "call>"), false,
		" |  | "},
	{"cut off in the tag", "a\n<tool_", false, " | a\n<tool_ | "},
	{"cut off after a call", coder("now") + "\n<tool_call>\n<fun", false,
		" |  | now{}"},

	{"the tag in prose", "Write <tool_call> first. ", false, " | Write first.  | "},
	{"the tag in prose, then a call", "Write <tool_call>: " + coder("now"), false,
		" | Write: | now{}"},
	{"JSON where XML belongs", "<tool_call>\n{\"name\": \"f\"}\n</tool_call> x", false,
		" | \n{\"name\": \"f\"} x | "},
	{"no name", "<tool_call>\n<function=>\n</function>\n</tool_call>", false,
		" |  | "},
	{"a name that does not end",
		"<tool_call>\n<function=f\n</function>\n</tool_call>" + coder("now"), false,
		" |  | now{}"},
	{"a name over two lines", "<tool_call>\n<function=f\n<x>\n</function>\n</tool_call>", false,
		" |  | "},
	{"text between parameters",
		"<tool_call>\n<function=f>\nhm <parameter=s>\na\n</parameter>\n</function>\n</tool_call>",
		false,
		" |  | "},
	{"text after the function", "<tool_call>\n<function=now>\n</function> ok </tool_call>", false,
		" |  | "},
	{"a parameter that does not end, then a call",
		"<tool_call>\n<function=f>\n<parameter=s>\na\n</function>\n</tool_call>\n" + coder("now"),
		false,
		" |  | now{}"},
	{"a function that does not end, then a call",
		"<tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n</tool_call>\n" + coder("now"),
		false,
		" |  | now{}"},
}

var jsonTests = []toolTest{
	{"only a call",
		"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"a\", \"n\": 3}}\n</tool_call>",
		false, ` |  | f{"s":"a","n":3}`},
	{"arguments first", `<tool_call>{"arguments":{"z":1,"a":2.50},"name":"f"}</tool_call>`, false,
		` |  | f{"z":1,"a":2.50}`},
	{"no arguments",
		`<tool_call>{"name":"now"}</tool_call><tool_call>{"name":"now","arguments":null}</tool_call>`, false, " |  | now{} now{}"},
	{"a value that does not fit stays",
		`<tool_call>{"name":"f","arguments":{"n":"null","b":"yes","x":"1e999"}}</tool_call>`, false,
		` |  | f{"n":"null","b":"yes","x":"1e999"}`},
	{"text around", "A\n<tool_call>\n{\"name\":\"now\"}\n</tool_call>\nB", false, " | AB | now{}"},
	{"tags in a string",
		`<tool_call>{"name":"f","arguments":{"s":"</tool_call> \"</tool_call> <think> \\"}}</tool_call>`,
		false,
		` |  | f{"s":"</tool_call> \"</tool_call> <think> \\"}`},
	{"a line break in a string",
		"<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"a\nb\"}}</tool_call>", false,
		` |  | f{"s":"a\u000ab"}`},
	{"in reasoning", `<tool_call>{"name":"now"}</tool_call></think>x`, true,
		`<tool_call>{"name":"now"}</tool_call> | x | `},
	{"cut off", `<tool_call>{"name":"now"}</tool_`, false,
		` |  | `},
	{"no name", `<tool_call>{"arguments":{}}</tool_call> x`, false,
		` |  x | `},
	{"arguments in a string", `<tool_call>{"name":"f","arguments":"{\"n\": 1}"}</tool_call>`,
		false, ` |  | f{"n":1}`},
	{"arguments of another type", `<tool_call>{"name":"f","arguments":[]}</tool_call>`, false,
		` |  | `},
	{"invalid JSON, then a call",
		`<tool_call>{name: "f"}</tool_call><tool_call>{"name":"now"}</tool_call>`, false,
		` |  | now{}`},
	{"not an object", `<tool_call>now()</tool_call>`, false, ` | now() | `},
	{"a missing quote", `<tool_call>{"name":"f}</tool_call> and`, false,
		` |  and | `},
	{"text after the object", `<tool_call>{"name":"now"} ok</tool_call>`, false,
		` |  | `},
}

var gemmaTests = []toolTest{
	{"only a call", `<|tool_call>call:f{s:<|"|>a<|"|>,n:3}<tool_call|>`, false,
		` |  | f{"s":"a","n":3}`},
	{"no arguments", "<|tool_call>call:now{}<tool_call|>", false, " |  | now{}"},
	{"after reasoning", "why\n<channel|><|tool_call>call:now{}<tool_call|>", true,
		"why |  | now{}"},
	{"its own reasoning", "<|channel>thought\nwhy\nso\n<channel|>Yes.", false, "why\nso | Yes. | "},
	{"no reasoning", "<|channel>thought\n<channel|>Yes.", false, " | Yes. | "},
	{"text around", "Wait.\n<|tool_call>call:now{}<tool_call|>\nDone.", false,
		" | Wait.Done. | now{}"},
	{"two", `<|tool_call>call:f{n:1}<tool_call|><|tool_call>call:f{n:2}<tool_call|>`, false,
		` |  | f{"n":1} f{"n":2}`},
	{"all kinds", `<|tool_call>call:f{b:true,l:[1,<|"|>x<|"|>,null,[],{}],n:-2,` +
		`o:{a:{<|"|>k y<|"|>:<|"|>v<|"|>},z:false},x:2.50}<tool_call|>`, false,
		` |  | f{"b":true,"l":[1,"x",null,[],{}],"n":-2,"o":{"a":{"k y":"v"},"z":false},"x":2.5}`},
	{"anything in a string", `<|tool_call>call:f{s:<|"|>{a}, "b": \ <tool_call|> é 👩‍🚀` + "\n" +
		`<|channel>thought<|"|>}<tool_call|>`, false,
		` |  | f{"s":"{a}, \"b\": \\ <tool_call|> é 👩‍🚀\n<|channel>thought"}`},
	{"other types", `<|tool_call>call:f{n:<|"|>3<|"|>,s:7,b:<|"|>True<|"|>,x:1}<tool_call|>`, false,
		` |  | f{"n": 3, "s": "7", "b": true, "x": 1}`},
	{"a word without quotes", `<|tool_call>call:f{s:so what,n:1}<tool_call|>`, false,
		` |  | f{"s":"so what","n":1}`},
	{"white space", "<|tool_call> call:f{ n : 1 , s : <|\"|> a <|\"|> } <tool_call|>", false,
		` |  | f{"n":1,"s":" a "}`},
	{"JSON", `<|tool_call>call:f{"s":"a","n":1}<tool_call|>`, false, ` |  | f{"s":"a","n":1}`},
	{"JSON values", `<|tool_call>call:f{s:"a",n:1}<tool_call|>`, false, ` |  | f{"s":"a","n":1}`},
	{"JSON keys", `<|tool_call>call:f{"s":<|"|>a<|"|>}<tool_call|>`, false, ` |  | f{"s":"a"}`},
	{"JSON with escapes", `<|tool_call>call:f{ "s" : "{a}, \"b\": \\" , "o":{"k y":["x\n", "",` +
		` 1.5]}, "l":["` + "a\nb" + `"] }<tool_call|>`, false,
		` |  | f{"s":"{a}, \"b\": \\","o":{"k y":["x\n","",1.5]},"l":["a\u000ab"]}`},
	{"quotes that are not JSON", `<|tool_call>call:f{s:"a" or "b",x:"\q",o:{"k:"v"},l:["a]}` +
		`<tool_call|>`, false,
		` |  | f{"s":"\"a\" or \"b\"","x":"\"\\q\"","o":{"\"k":"v"},"l":["\"a"]}`},
	{"a JSON string with a string", `<|tool_call>call:f{s:"a<|"|>b<|"|>"}<tool_call|>x`, false,
		" | x | "},
	{"not offered", `<|tool_call>call:g{n:<|"|>3<|"|>}<tool_call|>`, false, ` |  | g{"n":"3"}`},
	{"cut off in a string", `So <|tool_call>call:f{s:<|"|>half`, false, " | So | "},
	{"cut off before the tag", `<|tool_call>call:now{}`, false, " |  | "},
	{"no call", "<|tool_call>hello<tool_call|> you", false, " | hello you | "},
	{"no brace", "<|tool_call>call:f n:1<tool_call|>x", false, " | x | "},
	{"a missing brace", "<|tool_call>call:f{o:{n:1}<tool_call|>x", false, " | x | "},
	{"a missing quote", `<|tool_call>call:f{s:<|"|>a}<tool_call|>x`, false, " | x | "},
	{"no value", "<|tool_call>call:f{s:}<tool_call|><|tool_call>call:now{}<tool_call|>", false,
		" |  | now{}"},
	{"no name", "<|tool_call>call:{s:1}<tool_call|>", false, " |  | "},
}

var functionGemmaTests = []toolTest{
	{"only a call",
		"<start_function_call>call:f{s:<escape>a, {b}<escape>,n:3}<end_function_call>", false,
		` |  | f{"s":"a, {b}","n":3}`},
	{"two", "<start_function_call>call:now{}<end_function_call>" +
		"<start_function_call>call:now{}<end_function_call>", false, " |  | now{} now{}"},
	{"cut off", "a<start_function_call>call:f{s:<escape>", false, " | a | "},
}

var glmTests = []toolTest{
	{"only a call", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a</arg_value>\n" +
		"<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>", false,
		` |  | f{"s": "a", "n": 3}`},
	{"without line breaks", "<tool_call>f<arg_key>o</arg_key><arg_value>{\"a\": [1, null]}" +
		"</arg_value><arg_key>b</arg_key><arg_value>true</arg_value></tool_call>", false,
		` |  | f{"o": {"a":[1,null]}, "b": true}`},
	{"no arguments", "<tool_call>now</tool_call>\n<tool_call>now\n</tool_call>", false,
		" |  | now{} now{}"},
	{"after reasoning", "why</think>\n<tool_call>now</tool_call>", true, "why |  | now{}"},
	{"anything in a value", "<tool_call>f<arg_key>s</arg_key><arg_value>a\n</arg_value> " +
		"<tool_call> \"é\" </tool_call> <arg_value></arg_value></tool_call>", false,
		` |  | f{"s": "a\n</arg_value> <tool_call> \"é\" </tool_call> <arg_value>"}`},
	{"not offered", "<tool_call>g<arg_key>n</arg_key><arg_value>3</arg_value></tool_call>", false,
		` |  | g{"n": "3"}`},
	{"cut off", "a\n<tool_call>f<arg_key>s</arg_key><arg_value>half</arg_va", false, " | a | "},
	{"the tag in prose", "Write <tool_call> first.", false, " | Write first. | "},
	{"no value", "<tool_call>f<arg_key>s</arg_key></tool_call>x", false, " | x | "},
	{"text after a value belongs to it",
		"<tool_call>f<arg_key>s</arg_key><arg_value>a</arg_value> hm " +
			"<arg_key>n</arg_key><arg_value>1</arg_value></tool_call>", false,
		` |  | f{"s": "a</arg_value> hm <arg_key>n</arg_key><arg_value>1"}`},
	{"no key", "<tool_call>f<arg_key></arg_key><arg_value>1</arg_value></tool_call>" +
		"<tool_call>now</tool_call>", false, " |  | now{}"},
}

var kimiTests = []toolTest{
	{"a section", "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0" +
		"<|tool_call_argument_begin|>{\"s\": \"a\", \"n\": \"3\"}<|tool_call_end|>" +
		"<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>" +
		"<|tool_calls_section_end|>", false, ` | Hm. | f{"s": "a", "n": 3} now{}`},
	{"white space", "<|tool_calls_section_begin|>\n<|tool_call_begin|>\nfunctions.f:12 \n" +
		"<|tool_call_argument_begin|> \n{\"o\":{\"a\":[{}]}} \n<|tool_call_end|>\n" +
		"<|tool_calls_section_end|>\n", false, ` |  | f{"o":{"a":[{}]}}`},
	{"another id", "<|tool_call_begin|>now<|tool_call_argument_begin|>{}<|tool_call_end|>", false,
		" |  | now{}"},
	{"after reasoning",
		"why</think><|tool_calls_section_begin|><|tool_call_begin|>functions.now:0" +
			"<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", true,
		"why |  | now{}"},
	{"tags in a string", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>" +
		"{\"s\":\"<|tool_call_end|> \\\" é\"}<|tool_call_end|>x", false,
		` | x | f{"s":"<|tool_call_end|> \" é"}`},
	{"cut off", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0" +
		"<|tool_call_argument_begin|>{\"s\":\"ha", false, " |  | "},
	{"no JSON", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>s=1<|tool_call_end|>x",
		false, " | x | "},
	{"no arguments", "<|tool_call_begin|>functions.f:0<|tool_call_end|>x", false, " | x | "},
	{"a list", "<|tool_call_begin|>f:0<|tool_call_argument_begin|>[1]<|tool_call_end|>x", false,
		" | x | "},
}

var deepseekTests = []toolTest{
	{"fenced", "Hm.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n" +
		"{\"s\": \"a\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n" +
		"```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", false,
		` | Hm. | f{"s":"a"} now{}`},
	{"plain", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\": 3}<｜tool▁call▁end｜>" +
		"<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", false,
		` |  | f{"n":3} now{}`},
	{"after reasoning", "why</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}" +
		"<｜tool▁call▁end｜><｜tool▁calls▁end｜>", true, "why |  | now{}"},
	{"tags in a string", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\":\"```<｜tool▁call▁end｜>}\"}" +
		"<｜tool▁call▁end｜>", false, " |  | f{\"s\":\"```<｜tool▁call▁end｜>}\"}"},
	{"cut off in the fence", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n``", false,
		" |  | "},
	{"no fence", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\nhello<｜tool▁call▁end｜>x", false,
		" | x | "},
	{"no separator", "<｜tool▁call▁begin｜>f {}<｜tool▁call▁end｜>x", false, " | x | "},
}

const dsmlCall = "<｜DSML｜invoke name=\"f\">\n" +
	"<｜DSML｜parameter name=\"s\" string=\"true\">1 < 2\n</｜DSML｜parameter>\n" +
	"<｜DSML｜parameter name=\"o\" string=\"false\">{\"a\": [1]}</｜DSML｜parameter>\n" +
	"<｜DSML｜parameter name=\"q\" string=\"false\">5</｜DSML｜parameter>\n</｜DSML｜invoke>\n"

var dsmlTests = []toolTest{
	{"a block", "why</think>Hm.\n\n<｜DSML｜function_calls>\n" + dsmlCall +
		"<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", true,
		`why | Hm. | f{"s": "1 < 2\n", "o": {"a":[1]}, "q": 5} now{}`},
	{"cut off", "<｜DSML｜function_calls>\n" + dsmlCall + "<｜DSML｜invoke name=\"now\">", false,
		` |  | f{"s": "1 < 2\n", "o": {"a":[1]}, "q": 5}`},
	{"no name", "<｜DSML｜function_calls>\n<｜DSML｜invoke>\n</｜DSML｜invoke>\n" +
		"</｜DSML｜function_calls>x", false, " | x | "},
	{"a wrong value", "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\">" +
		"<｜DSML｜parameter name=\"l\" string=\"false\">[1</｜DSML｜parameter></｜DSML｜invoke>" +
		"</｜DSML｜function_calls>", false, ` |  | f{"l": "[1"}`},
}

var minimaxTests = []toolTest{
	{"a block", "why\n</think>\n\nHm.\n<minimax:tool_call>\n<invoke name=\"f\">\n" +
		"<parameter name=\"s\">a</parameter>\n<parameter name=\"n\">3</parameter>\n" +
		"<parameter name=\"l\">[1, {\"a\": null}]</parameter>\n</invoke>\n" +
		"<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>", true,
		`why | Hm. | f{"s": "a", "n": 3, "l": [1,{"a":null}]} now{}`},
	{"anything in a value", "<minimax:tool_call><invoke name=\"f\"><parameter name=\"s\">\n" +
		"<a></parameter> & </invoke> é </minimax:tool_call>\n</parameter></invoke>" +
		"</minimax:tool_call>x", false,
		` | x | f{"s": "<a></parameter> & </invoke> é </minimax:tool_call>"}`},
	{"not offered", "<minimax:tool_call><invoke name='g'><parameter name=n>3</parameter></invoke>" +
		"</minimax:tool_call>", false, ` |  | g{"n": "3"}`},
	{"cut off in the second",
		"<minimax:tool_call><invoke name=\"now\"></invoke><invoke name=\"f\">" +
			"<parameter name=\"s\">ha", false, " |  | now{}"},
	{"no call", "<minimax:tool_call>now()</minimax:tool_call> x", false, " | now() x | "},
	{"a parameter that does not end",
		"<minimax:tool_call><invoke name=\"f\"><parameter name=\"s\">a" +
			"</invoke></minimax:tool_call>x", false, " | x | "},
	{"text between", "<minimax:tool_call><invoke name=\"now\"></invoke> hm <invoke name=\"now\">" +
		"</invoke></minimax:tool_call>x", false, " | x | now{}"},
}

var mistralTests = []toolTest{
	{"a name", `Hm.[TOOL_CALLS]f[ARGS]{"s": "a", "n": 3}`, false, ` | Hm. | f{"s":"a","n":3}`},
	{"two", `[TOOL_CALLS]f[ARGS]{"n": 1}[TOOL_CALLS]now[ARGS]{}`, false, ` |  | f{"n":1} now{}`},
	{"an id", `[TOOL_CALLS]now[CALL_ID]abc123def[ARGS]{}`, false, ` |  | now{}`},
	{"without a tag between", `[TOOL_CALLS]now{"a": [1]}`, false, ` |  | now{"a":[1]}`},
	{"a list", `[TOOL_CALLS][{"name": "f", "arguments": {"s": "]"}, "id": "x"}, ` +
		`{"name": "now", "arguments": "{}"}]`, false, ` |  | f{"s":"]"} now{}`},
	{"an empty list", `[TOOL_CALLS] [] x`, false, ` | x | `},
	{"after reasoning", `why[/THINK]So[TOOL_CALLS]now[ARGS]{}`, true, `why | So | now{}`},
	{"its own reasoning", `[THINK]why[/THINK]So`, false, `why | So | `},
	{"tags in a string", `[TOOL_CALLS]f[ARGS]{"s": "[TOOL_CALLS]a[ARGS]{} \" é"}`, false,
		` |  | f{"s":"[TOOL_CALLS]a[ARGS]{} \" é"}`},
	{"cut off", `[TOOL_CALLS]f[ARGS]{"s": "ha`, false, ` |  | `},
	{"cut off in a list", `[TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "f"`, false,
		` |  | now{}`},
	{"the tag in prose", `[TOOL_CALLS] is a tag`, false, ` |  is a tag | `},
	{"invalid JSON, then a call", `[TOOL_CALLS]f[ARGS]{n: 1}[TOOL_CALLS]now[ARGS]{}`, false,
		` |  | now{}`},
	{"no name in a list", `[TOOL_CALLS][{"arguments": {}}]`, false, ` |  | `},
}

var llamaTests = []toolTest{
	{"bare", `{"name": "f", "parameters": {"s": "a", "n": "3"}}`, false,
		` |  | f{"s": "a", "n": 3}`},
	{"with the tag", `<|python_tag|>{"type": "function", "name": "now", "parameters": {}}`, false,
		` |  | now{}`},
	{"two", `{"name": "f", "parameters": {"n": 1}}; {"name": "now", "parameters": {}}`, false,
		` |  | f{"n":1} now{}`},
	{"white space", "\n\n {\"name\": \"now\",\n \"parameters\": {}}\n", false, " |  | now{}"},
	{"nested", `{"name": "f", "parameters": {"o": {"name": "}", "l": [{}]}}}`, false,
		` |  | f{"o":{"name":"}","l":[{}]}}`},
	{"other JSON", `{"title": "A", "name": "f"}`, false, ` | {"title": "A", "name": "f"} | `},
	{"a name that is no function", ` {"name": "Ada", "age": 36}`, false,
		` |  {"name": "Ada", "age": 36} | `},
	{"text, then JSON", `Look: {"name": "now", "parameters": {}}`, false,
		` | Look: {"name": "now", "parameters": {}} | `},
	{"a block of code", "{ return 1 }", false, " | { return 1 } | "},
	{"Python", "<|python_tag|>print(1)", false, " | print(1) | "},
	{"cut off", `{"name": "f", "parameters": {"s": "ha`, false, ` |  | `},
	{"cut off in the second", `{"name": "now"}; {"name": "f", "param`, false, ` |  | now{}`},
	{"arguments of another type", `{"name": "f", "parameters": [1]} x`, false,
		` | {"name": "f", "parameters": [1]} x | `},
}

var pythonicTests = []toolTest{
	{"only a call", `<|tool_call_start|>[f(s='a', n=3, b=True)]<|tool_call_end|>`, false,
		` |  | f{"s":"a","n":3,"b":true}`},
	{"two, and text", "<|tool_call_start|>[f(n=1), now()]<|tool_call_end|>Checking.", false,
		` | Checking. | f{"n":1} now{}`},
	{"nested", `<|tool_call_start|>[f(o={"a": [1, None, {'b': false}]}, l=[], x=-2.5)]` +
		`<|tool_call_end|>`, false, ` |  | f{"o":{"a":[1,null,{"b":false}]},"l":[],"x":-2.5}`},
	{"anything in a string", `<|tool_call_start|>[f(s="it's)], <|tool_call_end|> \" é\n")]` +
		`<|tool_call_end|>`, false, ` |  | f{"s":"it's)], <|tool_call_end|> \" é\n"}`},
	{"other types", `<|tool_call_start|>[f(n="3", s=7)]<|tool_call_end|>`, false,
		` |  | f{"n": 3, "s": "7"}`},
	{"a dot", `<|tool_call_start|>[files.read(path='x')]<|tool_call_end|>`, false,
		` |  | files.read{"path":"x"}`},
	{"after reasoning", "why</think><|tool_call_start|>[now()]<|tool_call_end|>", true,
		"why |  | now{}"},
	{"an empty list", "<|tool_call_start|>[]<|tool_call_end|>x", false, " | x | "},
	{"cut off in the second", "<|tool_call_start|>[now(), f(s='ha", false, " |  | now{}"},
	{"a positional argument", "<|tool_call_start|>[f(1)]<|tool_call_end|>x", false, " | x | "},
	{"no list", "<|tool_call_start|>now()<|tool_call_end|>x", false, " | now()x | "},
	{"a missing quote", "<|tool_call_start|>[f(s='a)]<|tool_call_end|>x", false, " | x | "},
	{"an expression", "<|tool_call_start|>[f(n=1+1)]<|tool_call_end|>x", false, " | x | "},
}

var harmonyTests = []toolTest{
	{"an answer", "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final" +
		"<|message|>Yes.<|return|>", false, "why | Yes. | "},
	{"a call", "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>commentary " +
		"to=functions.f <|constrain|>json<|message|>{\"s\": \"a\", \"n\": 3}<|call|>", false,
		`why |  | f{"s":"a","n":3}`},
	{"the recipient first",
		" to=functions.f<|channel|>commentary json<|message|>{\"n\": \"3\"}", false,
		` |  | f{"n": 3}`},
	{"without <|constrain|>", "<|channel|>commentary to=functions.now<|message|>{}", false,
		" |  | now{}"},
	{"in analysis", "<|channel|>analysis to=functions.now code<|message|>{}<|call|>", false,
		" |  | now{}"},
	{"a preamble", "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>" +
		"commentary to=functions.now <|constrain|>json<|message|>{}<|call|>", false,
		" | I look. | now{}"},
	{"two thoughts", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis" +
		"<|message|>b<|end|><|start|>assistant<|channel|>final<|message|>c", false, "a\n\nb | c " +
		"| "},
	{"without an end", "<|channel|>analysis<|message|>why<|start|>assistant<|channel|>final" +
		"<|message|>Yes.", false, "why | Yes. | "},
	{"without a start", "<|channel|>analysis<|message|>why<|channel|>final<|message|>Yes.", false,
		"why | Yes. | "},
	{"another tool", "<|channel|>analysis to=python code<|message|>print(1)<|call|>", false,
		"print(1) |  | "},
	{"an offered tool without its namespace", "<|channel|>commentary to=now<|message|>{}<|call|>",
		false, " |  | now{}"},
	{"no arguments", "<|channel|>commentary to=functions.now<|message|><|call|>", false,
		" |  | now{}"},
	{"tags in the arguments", "<|channel|>commentary to=functions.f<|message|>" +
		"{\"s\": \"<|end|><|start|>}\\\" é\"}<|call|>", false, ` |  | f{"s":"<|end|><|start|>}\" é"}`},
	{"a tool's message", "<|channel|>commentary to=functions.now<|message|>{}<|call|>" +
		"<|start|>functions.now to=assistant<|channel|>commentary<|message|>12<|end|>" +
		"<|start|>assistant<|channel|>final<|message|>Noon.", false, " | Noon. | now{}"},
	{"no header", "Hello", false, " | Hello | "},
	{"no header after a message", "<|channel|>analysis<|message|>why<|end|>Yes.", false,
		"why | Yes. | "},
	{"cut off in a header",
		"<|channel|>analysis<|message|>why<|end|><|start|>assistant<|chan", false,
		"why |  | "},
	{"cut off in the arguments",
		"<|channel|>commentary to=functions.f<|message|>{\"s\": \"}", false,
		" |  | "},
	{"invalid JSON",
		"<|channel|>commentary to=functions.f<|message|>{n: 1}<|end|><|start|>assistant" +
			"<|channel|>final<|message|>So.", false, " | So. | "},
	{"a header that does not end", "<|channel|>" + strings.Repeat("x", 600), false,
		" | " + strings.Repeat("x", 600) + " | "},
}

const atemCall = "<atem:function_calls>\n<atem:invoke name=\"f\">\n" +
	"<atem:parameter name=\"s\">a\n\"b\"\n</atem:parameter>\n<atem:parameter name=\"n\">3" +
	"</atem:parameter>\n</atem:invoke>\n</atem:function_calls>"

var atemTests = []toolTest{
	{"a call", " to=self<|message|>why<|eom|><|start|>assistant to=f<|message|>" + atemCall +
		"<|eom|>", false, `why |  | f{"s": "a\n\"b\"\n", "n": 3}`},
	{"an answer", " to=self<|message|>why<|eom|><|start|>assistant to=user<|message|>Yes.<|eot|>",
		false, "why | Yes. | "},
	{"cut off", " to=f<|message|>" + atemCall[:len(atemCall)-50], false, " |  | "},
	{"no call", " to=f<|message|>hello<|eom|><|start|>assistant to=user<|message|>x", false,
		" | x | "},
}

var olmo3Tests = []toolTest{
	{"only a call", `<function_calls>f(s="a", n=3, b=true)</function_calls>`, false,
		` |  | f{"s":"a","n":3,"b":true}`},
	{"lines, and text", "Sure.\n<function_calls>\nf(n=1)\nnow()\n</function_calls>\nChecking.",
		false, ` | Sure.Checking. | f{"n":1} now{}`},
	{"as in Python", `<function_calls>f(s='it\'s', b=True, o={'a': None}, l=[1, 2.5])` +
		`</function_calls>`, false, ` |  | f{"s":"it's","b":true,"o":{"a":null},"l":[1,2.5]}`},
	{"anything in a string", `<function_calls>f(s="x)\n</function_calls> <function_calls> é")` +
		`</function_calls>`, false, ` |  | f{"s":"x)\n</function_calls> <function_calls> é"}`},
	{"other types", `<function_calls>f(n="3", s=7)</function_calls>`, false,
		` |  | f{"n": 3, "s": "7"}`},
	{"after reasoning", "why</think>\n<function_calls>now()</function_calls>", true,
		"why |  | now{}"},
	{"none", "<function_calls></function_calls>x", false, " | x | "},
	{"an empty block of lines", "<function_calls>\n\n</function_calls>x", false, " | x | "},
	{"prose", "The tag <function_calls>, or <function_calls>.", false, " | The tag, or. | "},
	{"prose at the end", "The tag <function_calls> x", false, " | The tag x | "},
	{"a word in it", "<function_calls>calls go here", false, " | calls go here | "},
	{"malformed", "<function_calls>f(n=)</function_calls>x", false, " | x | "},
	{"malformed after a call", "<function_calls>now()\nf n=1\n</function_calls>x", false,
		" | x | now{}"},
	{"a positional argument", `<function_calls>f("a")</function_calls>x`, false, " | x | "},
	{"cut off", `a<function_calls>f(s="ha`, false, " | a | "},
	{"cut off after a call", "<function_calls>now()\nf(", false, " |  | now{}"},
}

var hunyuanDenseTests = []toolTest{
	{"two calls", "<think>\nwhy\n</think>\n<answer>\nSo<tool_calls><tool_call>f\n```json\n" +
		"{\"s\": \"a\", \"n\": \"3\"}\n```</tool_call>\n<tool_call>now\n```json\n{}\n```" +
		"</tool_call></tool_calls>\n</answer>", false, `why | So | f{"s": "a", "n": 3} now{}`},
	{"an answer", "<think>\nwhy\n</think>\n<answer>\nYes.\n</answer>", false, "why | Yes. | "},
	{"no tags around the answer", "\n</think>\nYes.", true, " | Yes. | "},
	{"without a section", "<tool_call>now\n```json\n{}\n```</tool_call>x", false, " | x | now{}"},
	{"without an end of the fence", "<tool_call>now\n```json\n{}</tool_call>x", false,
		" | x | now{}"},
	{"anything in a string", "<tool_call>f\n```json\n{\"s\":\"```</tool_call></answer> é\"}\n```" +
		"</tool_call>", false, ` |  | f{"s":"` + "```" + `</tool_call></answer> é"}`},
	{"no name", "<tool_call>\n```json\n{}\n```</tool_call>x", false,
		" | \n```json\n{}\n```x | "},
	{"no fence", "<tool_call>f {}</tool_call>x", false, " | f {}x | "},
	{"prose", "Write <tool_call> or <tool_call>.", false, " | Write or. | "},
	{"a list", "<tool_call>[]</tool_call>x", false, " | []x | "},
	{"invalid JSON", "<tool_call>f\n```json\n{n: 1}\n```</tool_call>x", false, " | x | "},
	{"cut off", "a<tool_calls><tool_call>f\n```json\n{\"s\": \"ha", false, " | a | "},
}

// Excerpts of templates that show the formats of Qwen.
const (
	coderSource = `{{- '<tool_call>\n<function=' + tool_call.name + '>\n' }}`
	jsonSource  = `{{- "XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}`
)

// allFormats has every format.
var allFormats = append(listFormats, []formatTests{
	{"qwen3_coder", coderSource, coderTests},
	{"seed_oss", "<seed:tool_call>\n<function=example>", []toolTest{
		{"a call", "<seed:tool_call>\n<function=f>\n<parameter=n>3</parameter>\n</function>\n" +
			"</seed:tool_call>", false, ` |  | f{"n": 3}`},
		{"cut off", "a\n<seed:tool_call>\n<function=f>\n<parameter=s>x", false, " | a | "},
		{"malformed", "<seed:tool_call><function=f>x</seed:tool_call>y", false, " | y | "},
	}},
	{"json_tools", jsonSource, jsonTests},
	{"json_tools", `{{- "\n<tool_call>{\"name\": function_1_name, \"arguments\": {a: 1}}" }}`,
		jsonTests}, // EXAONE 4
	{"json_tools", `<tool_call>\n{'arguments': <args-dict>, 'name': <function-name>}`,
		jsonTests}, // Falcon-H1
	{"gemma4", "<|tool_call>call: <|channel>thought", gemmaTests},
	{"function_gemma", "<start_function_call>call:", functionGemmaTests},
	{"glm", "<tool_call>{function-name}\n<arg_key>", glmTests},
	{"glm47", "<tool_call>{function-name}<arg_key>", glmTests},
	{"glm4", "# 可用工具 <think>", glm4Tests},
	{"granite30", "message['role'] == 'assistant_tool_call'", granite3Tests},
	{"internlm", `"<|action_start|><|plugin|>\n"`, internlmTests},
	{"nemotron_mini", `'\n<tool> ' + tool|tojson`, nemotronMiniTests},
	{"kimi", "<|tool_calls_section_begin|>", kimiTests},
	{"deepseek", "<｜tool▁calls▁begin｜>", deepseekTests},
	{"deepseek_v32", "<｜DSML｜function_calls>", dsmlTests},
	{"deepseek_v4", "<｜DSML｜tool_calls>", dsmlV4Tests()},
	{"minimax", "<minimax:tool_call><think>", minimaxTests},
	{"mistral", "[TOOL_CALLS] [THINK]", mistralTests},
	{"llama3", `"parameters": dictionary of argument name and its value <|python_tag|>`,
		llamaTests},
	{"pythonic", "<|tool_call_start|>", pythonicTests},
	{"olmo3", "within <function_calls></function_calls> XML tags", olmo3Tests},
	{"hunyuan_dense", "'<tool_call>function_name\n```json\n' '<answer>' in content",
		hunyuanDenseTests},
	{"harmony", "<|start|>assistant<|channel|>analysis<|message|>", harmonyTests},
	{"atem", "<|start|>assistant to=self<|message|><atem:function_calls>", atemTests},
}...)

// dsmlV4Tests returns dsmlTests with the block of DeepSeek V4.
func dsmlV4Tests() (tests []toolTest) {
	for _, tt := range dsmlTests {
		tt.text = strings.ReplaceAll(tt.text, "function_calls", "tool_calls")
		tests = append(tests, tt)
	}
	return tests
}

// templateFormats has the formats of peers' templates.
var templateFormats = map[string]string{
	"Apertus-8B-Instruct":                           "apertus",
	"Apriel-1.6-15b-Thinker-fixed":                  "tool_calls",
	"Bielik-11B-v3.0-Instruct":                      "json_tools",
	"ByteDance-Seed-OSS":                            "seed_oss",
	"Cohere2MoE":                                    "command",
	"CohereForAI-c4ai-command-r-plus-tool_use":      "command_r_plus",
	"CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command",
	"GLM-4.6":                             "glm",
	"GLM-4.7-Flash":                       "glm47",
	"GigaChat3-10B-A1.8B":                 "gigachat3",
	"GigaChat3.1-10B-A1.8B":               "gigachat",
	"HuggingFaceTB-SmolLM3-3B":            "json_tools",
	"Kimi-K2-Instruct":                    "kimi",
	"Kimi-K2-Thinking":                    "kimi",
	"Kimi-K3":                             "kimi_k3",
	"LFM2-8B-A1B":                         "pythonic",
	"LFM2.5-8B-A1B":                       "pythonic",
	"LFM2.5-Instruct":                     "pythonic",
	"MiMo-VL":                             "json_tools",
	"MiniMax-M1":                          "tool_calls",
	"MiniMax-M2":                          "minimax",
	"MiniMax-M3":                          "minimax_m3",
	"Mistral-Small-3.2-24B-Instruct-2506": "mistral",
	"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen3_coder",
	"NVIDIA-Nemotron-Nano-v2":             "nemotron",
	"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "json_tools",
	"NousResearch-Hermes-3-Llama-3.1-8B-tool_use":   "json_tools",
	"Qwen-QwQ-32B":             "json_tools",
	"Qwen-Qwen2.5-7B-Instruct": "json_tools",
	"Qwen-Qwen3-0.6B":          "json_tools",
	"Qwen3-Coder":              "qwen3_coder",
	"Qwen3.5-4B":               "qwen3_coder",
	"Reka-Edge":                "json_tools",
	"Spark2.5":                 "glm",
	"StepFun3.5-Flash":         "qwen3_coder",
	"deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "json_tools",
	"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek",
	"deepseek-ai-DeepSeek-V3.1":                "deepseek",
	"deepseek-ai-DeepSeek-V3.2":                "deepseek_v32",
	"deepseek-ai-DeepSeek-V4":                  "deepseek_v4",
	"deepseek-ai-DeepSeek-V4-Flash-0731":       "deepseek_v4",
	"fireworks-ai-llama-3-firefunction-v2":     "firefunction",
	"google-gemma-2-2b-it":                     "json_tools",
	"google-gemma-4-31B-it":                    "gemma4",
	"google-gemma-4-31B-it-interleaved":        "gemma4",
	"ibm-granite-granite-3.3-2B-Instruct":      "granite3",
	"ibm-granite-granite-4.0":                  "json_tools",
	"ibm-granite-granite-4.1":                  "json_tools",
	"inclusionai-ling-3.0-flash":               "glm",
	"llama-cpp-deepseek-r1":                    "deepseek",
	"llama-cpp-rwkv-world":                     "json_tools",
	"meetkai-functionary-medium-v3.1":          "functionary31",
	"meetkai-functionary-medium-v3.2":          "functionary32",
	"meta-llama-Llama-3.1-8B-Instruct":         "llama3",
	"meta-llama-Llama-3.2-3B-Instruct":         "llama3",
	"meta-llama-Llama-3.3-70B-Instruct":        "llama3",
	"microsoft-Phi-3.5-mini-instruct":          "json_tools",
	"mistralai-Ministral-3-14B-Reasoning-2512": "mistral",
	"mistralai-Mistral-Nemo-Instruct-2407":     "mistral",
	"moonshotai-Kimi-K2":                       "kimi",
	"muse-glimmer":                             "atem",
	"openai-gpt-oss-120b":                      "harmony",
	"openbmb-MiniCPM5-1B":                      "minicpm5",
	"poolside-Laguna-S-2.1":                    "glm",
	"poolside-Laguna-XS-2.1":                   "glm",
	"poolside-Laguna-XS.2":                     "glm",
	"tencent-Hy3":                              "hunyuan",
	"unsloth-Apriel-1.5":                       "tool_calls",
	"unsloth-mistral-Devstral-Small-2507":      "mistral",
	"upstage-Solar-Open-100B":                  "solar",
}
