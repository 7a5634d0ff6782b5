package chat

import "strings"

// Cases of formats whose arguments are elements, one for each.

// k3 writes a tag of Kimi K3 for each <tag>, </tag> and <tag attributes>.
func k3(text string) string {
	return strings.NewReplacer("</", "<|close|>", "<", "<|open|>", ">", "<|sep|>").Replace(text)
}

var kimiK3Tests = []toolTest{
	{"a call after reasoning", k3(`why</think><response></response><tools><call tool="f" `+
		`index="1">`+
		`<argument key="s" type="string">1 & "2"`+"\n"+`</argument><argument key="n" `+
		`type="number">3</argument><argument key="o" type="object">{"a": [1, null]}</argument>`+
		`<argument key="b" type="boolean">true</argument></call></tools></message>`) +
		"<|end_of_msg|>", true,
		`why | <|end_of_msg|> | f{"s": "1 & \"2\"\n", "n": 3, "o": {"a":[1,null]}, "b": true}`},
	{"an answer", k3(`<think>why</think><response>Yes.</response></message>`), false,
		"why | Yes. | "},
	{"two calls", k3(`<response>So</response><tools>` + "\n" + ` <call tool="now"></call>` +
		"\n" + `<call tool="f" index="2"><argument key="n" type="string">3</argument></call>` +
		"\n" + `</tools>`), false, ` | So | now{} f{"n": "3"}`},
	{"an object", k3(`<tools><call tool="f" index="1"><json type="object">{"s": "a", "n": "3"}` +
		`</json></call></tools>`), false, ` |  | f{"s": "a", "n": 3}`},
	{"no object", k3(`<tools><call tool="f" index="1"><json type="object">[1]</json></call>` +
		`</tools>x`), false, " | x | "},
	{"without a type", k3(`<tools><call tool="f"><argument key="n">3</argument></call></tools>`),
		false, ` |  | f{"n": 3}`},
	{"escaped attributes", k3(`<tools><call tool="a&quot;&amp;b"><argument key="&amp;quot;" ` +
		`type="null">null</argument></call></tools>`), false, ` |  | a"&b{"&quot;": null}`},
	{"anything in a value", k3(`<tools><call tool="f"><argument key="s" type="string"></argument>` +
		` é</call></tools> </argument></call></tools>`), false,
		` |  | f{"s": "` + k3(`</argument> é</call></tools> `) + `"}`},
	{"no name", k3(`<tools><call index="1"></call></tools>x`), false, " | x | "},
	{"no key", k3(`<tools><call tool="f"><argument type="string">a</argument></call></tools>x`),
		false, " | x | "},
	{"text between", k3(`<tools><call tool="now"></call> and <call tool="now"></call></tools>x`),
		false, " | x | now{}"},
	{"no call", k3(`<tools>now()</tools>x`), false, " | now()x | "},
	{"cut off in a value", k3(`<response>a</response><tools><call tool="now"></call>` +
		`<call tool="f"><argument key="s" type="string">ha</arg`), false, " | a | now{}"},
	{"cut off in a tag", k3(`a<tools><call tool="f`), false, " | a | "},
}

// m3 writes the token of MiniMax M3 for each ^.
func m3(text string) string { return strings.ReplaceAll(text, "^", "]<]minimax[>[") }

var minimaxM3Tests = []toolTest{
	{"a block", m3("why</mm:think>So^<tool_call>\n^<invoke name=\"f\">^<s>1 < 2\n^</s>^<n>3^</n>" +
		"^<b>true^</b>^</invoke>\n^<invoke name=\"now\">^</invoke>\n^</tool_call>x"), true,
		`why | Sox | f{"s": "1 < 2\n", "n": 3, "b": true} now{}`},
	{"its own reasoning", "<mm:think>why</mm:think>Yes.", false, "why | Yes. | "},
	{"nested", m3("^<tool_call>^<invoke name=\"h\">^<list>^<item>1^</item>^<item>x^</item>" +
		"^</list>^<at>^<x>2.50^</x>^<tag>7^</tag>^<more>^<item>8^</item>^</more>^</at>^</invoke>" +
		"^</tool_call>"), false,
		` |  | h{"list": [1, "x"], "at": {"x": 2.5, "tag": "7", "more": ["8"]}}`},
	{"without a type", m3("^<tool_call>^<invoke name=\"g\">^<a>^<item>1^</item>^<item>" +
		"^<k>v^</k>^</item>^</a>^<o>^<k>v^</k>^</o>^<z>1^</z>^</invoke>^</tool_call>"), false,
		` |  | g{"a": ["1", {"k": "v"}], "o": {"k": "v"}, "z": "1"}`},
	{"items of another name", m3("^<tool_call>^<invoke name=\"h\">^<list>^<n>1^</n>^</list>" +
		"^</invoke>^</tool_call>"), false, ` |  | h{"list": [1]}`},
	{"a key twice", m3("^<tool_call>^<invoke name=\"g\">^<k>1^</k>^<a>x^</a>^<k>2^</k>^</invoke>" +
		"^</tool_call>"), false, ` |  | g{"k": ["1", "2"], "a": "x"}`},
	{"empty values", m3("^<tool_call>^<invoke name=\"f\">^<s>^</s>^<o>^</o>^<l>^</l>^</invoke>" +
		"^</tool_call>"), false, ` |  | f{"s": "", "o": {}, "l": []}`},
	{"white space", m3("^<tool_call>\n^<invoke name=\"f\">\n  ^<l>\n    ^<item>a^</item>\n  ^</l>" +
		"\n^</invoke>\n^</tool_call>\n"), false, ` |  | f{"l": ["a"]}`},
	{"other tags in a value", m3("^<tool_call>^<invoke name=\"f\">^<s></s></invoke><mm:think>é " +
		"]<]mini^</s>^</invoke>^</tool_call>"), false,
		` |  | f{"s": "</s></invoke><mm:think>é ]<]mini"}`},
	{"a key invoke", m3("^<tool_call>^<invoke name=\"g\">^<invoke>a^</invoke>^</invoke>" +
		"^</tool_call>"), false, ` |  | g{"invoke": "a"}`},
	{"text beside elements", m3("^<tool_call>^<invoke name=\"f\">^<o>a^<k>v^</k>^</o>^</invoke>" +
		"^</tool_call>x"), false, " | x | "},
	{"text after elements", m3("^<tool_call>^<invoke name=\"f\">^<o>^<k>v^</k>a^</o>^</invoke>" +
		"^</tool_call>x"), false, " | x | "},
	{"another closing tag", m3("^<tool_call>^<invoke name=\"f\">^<s>a^</n>^</invoke>" +
		"^</tool_call>x"), false, " | x | "},
	{"no name", m3("^<tool_call>^<invoke>^</invoke>^</tool_call>x"), false, " | x | "},
	{"no tag", m3("^<tool_call>^<invoke name=\"f\">^s^</invoke>^</tool_call>x"), false, " | x | "},
	{"no call", m3("^<tool_call>now()^</tool_call>x"), false, " | now()x | "},
	{"text between", m3("^<tool_call>^<invoke name=\"now\">^</invoke> and " +
		"^<invoke name=\"now\">^</invoke>^</tool_call>x"), false, " | x | now{}"},
	{"cut off in the second", m3("a^<tool_call>^<invoke name=\"now\">^</invoke>\n" +
		"^<invoke name=\"f\">^<s>ha^</s>"), false, " | a | now{}"},
	{"cut off in a tag", m3("a^<tool_call>^<invo"), false, " | a | "},
}

var minicpm5Tests = []toolTest{
	{"two calls", "why\n</think>\n\nSo\n<function name=\"f\"><param name=\"s\">a</param>" +
		"<param name=\"n\">3</param></function>\n<function name=\"now\"></function>", true,
		`why | So | f{"s": "a", "n": 3} now{}`},
	{"text around", "A<function name=\"now\"></function> B", false, " | AB | now{}"},
	{"CDATA", "<function name=\"f\"><param name=\"s\"><![CDATA[a\n</param><param name=\"n\">é" +
		"</function> ]]]></param></function>", false,
		` |  | f{"s": "a\n</param><param name=\"n\">é</function> ]"}`},
	{"almost CDATA", "<function name=\"f\"><param name=\"s\"><![CDAT</param></function>", false,
		` |  | f{"s": "<![CDAT"}`},
	{"a tag in a value", "<function name=\"f\"><param name=\"s\"></param> </function</param>" +
		"</function>", false, ` |  | f{"s": "</param> </function"}`},
	{"white space", "<function name=\"f\">\n <param name='n'>3</param>\n</function>\n", false,
		` |  | f{"n": 3}`},
	{"the tag in prose", "Write <function name= and <functional>.", false,
		" | Write and <functional>. | "},
	{"no name", "<function name=\"\"></function>x", false, " | \"\">x | "},
	{"malformed, then a call", "<function name=\"f\">hm</function><function name=\"now\">" +
		"</function>", false, " |  | now{}"},
	{"a parameter that does not end", "<function name=\"f\"><param name=\"s\">a</function>x", false,
		" | x | "},
	{"cut off in a value", "a\n<function name=\"now\"></function><function name=\"f\">" +
		"<param name=\"s\">ha</par", false, " | a | now{}"},
	{"cut off in CDATA", "<function name=\"f\"><param name=\"s\"><![CDATA[ha]]></param>", false,
		" |  | "},
}

var longcatTests = func() (tests []toolTest) {
	tests = []toolTest{
		{"two calls", "why</longcat_think>So\n<longcat_tool_call>f\n<longcat_arg_key>s" +
			"</longcat_arg_key>\n<longcat_arg_value>a</longcat_arg_value>\n<longcat_arg_key>n" +
			"</longcat_arg_key>\n<longcat_arg_value>3</longcat_arg_value>\n</longcat_tool_call>\n" +
			"<longcat_tool_call>now</longcat_tool_call>", true,
			`why | So | f{"s": "a", "n": 3} now{}`},
		{"its own reasoning", "<longcat_think>\nwhy\n</longcat_think>\nYes.", false,
			"why | Yes. | "},
		{"an object", `<longcat_tool_call>{"name": "f", "arguments": {"n": "3"}}` +
			"</longcat_tool_call>x", false, ` | x | f{"n": 3}`},
		{"tags in an object", "<longcat_tool_call>\n" +
			`{"name":"f","arguments":{"s":"</longcat_tool_call>"}}` + "\n</longcat_tool_call>",
			false, ` |  | f{"s":"</longcat_tool_call>"}`},
		{"an object without a name", `<longcat_tool_call>{"a": 1}</longcat_tool_call>x`, false,
			" | x | "},
		{"cut off in an object", `a<longcat_tool_call>{"name": "now"}`, false, " | a | "},
	}
	return append(tests, renamed(glmTests, "tool_call>", "longcat_tool_call>", "arg_key>",
		"longcat_arg_key>", "arg_value>", "longcat_arg_value>", "think>", "longcat_think>")...)
}()

// renamed returns tests with other tags.
func renamed(tests []toolTest, tags ...string) (out []toolTest) {
	replacer := strings.NewReplacer(tags...)
	for _, tt := range tests {
		tt.name, tt.text, tt.want = "as GLM, "+tt.name, replacer.Replace(tt.text),
			replacer.Replace(tt.want)
		out = append(out, tt)
	}
	return out
}

var solarTests = []toolTest{
	{"an answer", "<|think|>why<|end|><|begin|>assistant<|content|>Yes.<|end|>", false,
		"why | Yes. | "},
	{"two calls", "<|think|>why<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>a1b2" +
		"<|tool_call:name|>f<|tool_call:args|>{\"s\": \"a\", \"n\": \"3\"}<|tool_call:end|>" +
		"<|tool_call:begin|>c3<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|><|calls|>",
		false, `why |  | f{"s": "a", "n": 3} now{}`},
	{"text around", "<|content|>So<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>x" +
		"<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|><|calls|> and", false,
		" | So and | now{}"},
	{"tags in a string", "<|tool_call:begin|>x<|tool_call:name|>f<|tool_call:args|>" +
		"{\"s\":\"<|tool_call:end|> é\"}<|tool_call:end|>", false,
		` |  | f{"s":"<|tool_call:end|> é"}`},
	{"no name", "<|tool_call:begin|>x<|tool_call:args|>{}<|tool_call:end|>y", false, " | y | "},
	{"cut off", "<|tool_calls|><|tool_call:begin|>x<|tool_call:name|>f<|tool_call:args|>{\"s\":" +
		"\"ha", false, " |  | "},
}

var functionary31Tests = []toolTest{
	{"two calls", `So <function=f>{"s": "a", "n": "3"}</function><function=now>{}</function>`, false,
		` | So | f{"s": "a", "n": 3} now{}`},
	{"anything in a string", `<function=f>{"s": "</function><function=now>{} é"}</function>x`, false,
		` | x | f{"s":"</function><function=now>{} é"}`},
	{"no object", "<function=f>s=1</function>x", false, " | x | "},
	{"cut off", `a<function=f>{"s": "ha`, false, " | a | "},
	{"without a closing tag", `a<function=f>{"s": "ha"}`, false, " | a | "},
}

var functionary32Tests = []toolTest{
	{"an answer", "all\nHello.\n", false, " | Hello.\n | "},
	{"a call", "f\n{\"s\": \"a\", \"n\": \"3\"}", false, ` |  | f{"s": "a", "n": 3}`},
	{"text, then two calls", "all\nI look.>>>f\n{\"n\": 1}\n>>>now\n{}", false,
		` | I look. | f{"n":1} now{}`},
	{"prose", "all\nType >>> print(1) or >>>", false, " | Type >>> print(1) or >>> | "},
	{"no recipient", "Hello there.", false, " | Hello there. | "},
	{"a word", "Yes", false, " | Yes | "},
	{"a line", "Yes\nor no", false, " | Yes\nor no | "},
	{"malformed", "f\n{n: 1}>>>all\nx", false, " | x | "},
	{"cut off", "all\na>>>f\n{\"s\": \"ha", false, " | a | "},
	{"anything in a string", "f\n{\"s\": \">>>now\\n{} é\"}", false,
		` |  | f{"s":">>>now\n{} é"}`},
}
