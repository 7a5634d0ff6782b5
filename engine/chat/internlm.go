package chat

// internlm is the format that InternLM 2 and 3 were trained on. Their own templates do not show it,
// but those that vLLM and LMDeploy have for them do:
//
//	<|action_start|><|plugin|>
//	{"name": NAME, "parameters": {…}}<|action_end|>
//
// Source: vLLM's template and parser for InternLM 2.
var internlm = internLMFormat()

func internLMFormat() toolFormat {
	const open, end = "<|action_start|>", "<|action_end|>"
	f := listFormat("internlm", `<\|action_start\|><\|plugin\|>`, listTags{
		open: open, fence: "<|plugin|>", closing: end, call: readJSONCall}, true)
	f.in = []string{"<|plugin|>"}
	f.form = &callForm{between: "\n", call: jsonCall(open+"<|plugin|>\n{\"name\": ",
		`, "parameters": `, "}"+end, true)}
	return f
}
