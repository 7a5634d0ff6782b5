package chat

import "regexp"

// minimax is the format of MiniMax M2:
//
//	<minimax:tool_call>
//	<invoke name="NAME">
//	<parameter name="KEY">VALUE</parameter>
//	</invoke>
//	</minimax:tool_call>
var minimax = toolFormat{
	name:    "minimax",
	mark:    regexp.MustCompile(`<minimax:tool_call>`),
	open:    []string{minimaxTags.blockOpen},
	close:   minimaxTags.blockEnd,
	control: true,
	form: &callForm{before: "<minimax:tool_call>\n", between: "\n", after: "\n</minimax:tool_call>",
		block: true, call: (&argumentForm{head: `<invoke name="`, afterName: "\">\n",
			key: `<parameter name="`, afterKey: `">`, next: "</parameter>\n", tail: "</invoke>",
			tags: []string{"<minimax:tool_call>", "</minimax:tool_call>", "<invoke", "</invoke>",
				"<parameter", "</parameter>"}, attributes: true, trimmed: true}).call},
	begin: func(schemas map[string]schema) callReader {
		return newInvokeReader(minimaxTags, schemas)
	},
}

var minimaxTags = invokeTags{
	invoke: "<invoke", invokeEnd: "</invoke>",
	parameter: "<parameter", parameterEnd: "</parameter>",
	blockOpen: "<minimax:tool_call>", blockEnd: "</minimax:tool_call>", trim: true,
}
