package chat

import "regexp"

// minicpm5 is the format of MiniCPM 5, which has no tag around several calls:
//
//	<function name="NAME"><param name="KEY">VALUE</param></function>
//	<function name="NAME"><param name="KEY"><![CDATA[VALUE]]></param></function>
var minicpm5 = toolFormat{
	name:  "minicpm5",
	mark:  regexp.MustCompile(`<function name="(?s:.*)<param name="`),
	open:  []string{minicpm5Tags.blockOpen},
	close: minicpm5Tags.blockEnd,
	drop:  []string{"<tool_sep>"},
	begin: func(schemas map[string]schema) callReader {
		return newInvokeReader(minicpm5Tags, schemas)
	},
}

var minicpm5Tags = invokeTags{
	invoke: "<function", invokeEnd: "</function>",
	parameter: "<param", parameterEnd: "</param>",
	blockOpen: "<function name=", blockEnd: "</function>", lead: " name=", cdata: true,
}
