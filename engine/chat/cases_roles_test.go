package chat

// Cases of formats whose calls have no tags of their own.

var glm4Tests = []toolTest{
	{"only a call", "f\n{\"s\": \"a\", \"n\": \"3\"}", false, ` |  | f{"s": "a", "n": 3}`},
	{"no arguments", "\nnow \n{}\n", false, " |  | now{}"},
	{"several", "now\n{}<|assistant|>f\n{\"o\": {\"k\": [{\"x\": 1}, null]}}<|assistant|>\n" +
		"now\r\n {}", false,
		` |  | now{} f{"o":{"k":[{"x":1},null]}} now{}`},
	{"several without a token", "now\n{}\nnow\n{}", false, " |  | now{} now{}"},
	{"after reasoning", "now\n{}</think>\nnow\n{}", true, "now\n{} |  | now{}"},
	{"text before", "I look.<|assistant|>now\n{}", false, " | I look. | now{}"},
	{"text after", "now\n{}<|assistant|>\nDone.", false, " | Done. | now{}"},
	{"an answer", "\nf is a function\n{", false, " | f is a function\n{ | "},
	{"a name alone", "now", false, " | now | "},
	{"the beginning of a name", "no", false, " | no | "},
	{"a name alone after a token", "a<|assistant|>no", false, " | ano | "},
	{"a name and no object", "now\nor later", false, " | now\nor later | "},
	{"an object on the line", "now {}", false, " | now {} | "},
	{"not offered", "g\n{\"n\": 3}", false, " | g\n{\"n\": 3} | "},
	{"another word", "nowhere\n{}", false, " | nowhere\n{} | "},
	{"within text", "So:\nnow\n{}", false, " | So:\nnow\n{} | "},
	{"tags in a string", "f\n{\"s\": \"<|assistant|>now\\n{} é\\\"}\"}<|observation|>", false,
		" | <|observation|> | f{\"s\":\"<|assistant|>now\\n{} é\\\"}\"}"},
	{"no JSON", "f\n{s: 1}<|assistant|>now\n{}", false, " |  | now{}"},
	{"a tag in the object", "f\n{\"s\": <b>}<|assistant|>now\n{}", false, " |  | now{}"},
	{"cut off", "a<|assistant|>f\n{\"s\": \"half", false, " | a | "},
	{"a token in prose", "Write <|assistant|>. ", false, " | Write.  | "},
}

var internlmTests = []toolTest{
	{"a call", "So\n<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"n\": \"3\"}}" +
		"<|action_end|>\nx", false, ` | Sox | f{"n": 3}`},
	{"two calls", `<|action_start|><|plugin|>{"name":"now","arguments":{}}<|action_end|>` +
		`<|action_start|><|plugin|>{"name":"f","parameters":{"s":"<|action_end|> é"}}<|action_end|>`,
		false, ` |  | now{} f{"s":"<|action_end|> é"}`},
	{"no arguments", "<|action_start|><|plugin|>\n{\"name\": \"now\"}\n<|action_end|>", false,
		" |  | now{}"},
	{"another plugin", "<|action_start|><|interpreter|>x", false, " | <|interpreter|>x | "},
	{"malformed", `<|action_start|><|plugin|>{"name":}<|action_end|>x`, false, " | x | "},
	{"cut off", `a<|action_start|><|plugin|>{"name":"f","par`, false, " | a | "},
}

var nemotronMiniTests = []toolTest{
	{"a call", `So <toolcall> {"name": "f", "arguments": {"n": "3", "o": {"k": [1]}}} </toolcall> x`,
		false, ` | Sox | f{"n": 3, "o": {"k":[1]}}`},
	{"two calls", "<toolcall> {\"name\": \"now\"} </toolcall>\n<toolcall>{\"name\": \"now\", " +
		"\"arguments\": {}}</toolcall>", false, " |  | now{} now{}"},
	{"a tag in prose", "Write <toolcall> first.", false, " | Write first. | "},
	{"malformed", `<toolcall> {"name": } </toolcall>x`, false, " | x | "},
	{"cut off", `a <toolcall> {"name": "f", "arg`, false, " | a | "},
}
