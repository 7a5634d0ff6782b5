package chat

import "regexp"

// hunyuanDense is the format of Hunyuan 0.5B to 7B, whose tags are no control tokens:
//
//	<tool_calls><tool_call>NAME
//	```json
//	{…}
//	```</tool_call>
//	<tool_call>…</tool_call></tool_calls>
var hunyuanDense = hunyuanDenseFormat()

func hunyuanDenseFormat() toolFormat {
	const fence = "```json"
	f := separatedFormat("hunyuan_dense", separated{open: toolOpen, separator: fence,
		closing: toolClose, plain: true, fence: fence}, "<tool_calls>", "</tool_calls>")
	f.mark = regexp.MustCompile(`<tool_call>function_name(\n|\\n)` + fence)
	f.in, f.control = nil, false
	f.form = separatedForm(&f, jsonCall("", "\n"+fence+"\n", "\n```", false))
	f.form.between = toolClose + "\n" + toolOpen
	return f
}
