package chat

import "regexp"

// kimiK3 is the format of Kimi K3. A call may have its arguments one by one, or all of them in an
// object:
//
//	<|open|>tools<|sep|>
//	<|open|>call tool="NAME" index="1"<|sep|>
//	<|open|>argument key="KEY" type="string"<|sep|>TEXT<|close|>argument<|sep|>
//	<|open|>argument key="KEY" type="number"<|sep|>1<|close|>argument<|sep|>
//	<|close|>call<|sep|>
//	<|open|>call tool="NAME" index="2"<|sep|>
//	<|open|>json type="object"<|sep|>{…}<|close|>json<|sep|>
//	<|close|>call<|sep|>
//	<|close|>tools<|sep|>
var kimiK3 = toolFormat{
	name:    "kimi_k3",
	mark:    regexp.MustCompile(`<\|open\|>(?s:.*)<\|sep\|>`),
	open:    []string{kimiK3Tags.blockOpen},
	close:   kimiK3Tags.blockEnd,
	drop:    []string{"<|close|>message<|sep|>"},
	in:      []string{"<|open|>", "<|close|>", "<|sep|>"},
	ends:    []string{"<|end_of_msg|>"},
	control: true,
	begin: func(schemas map[string]schema) callReader {
		return newInvokeReader(kimiK3Tags, schemas)
	},
}

var kimiK3Tags = invokeTags{
	invoke: "<|open|>call", invokeEnd: "<|close|>call<|sep|>",
	parameter: "<|open|>argument", parameterEnd: "<|close|>argument<|sep|>",
	blockOpen: "<|open|>tools<|sep|>", blockEnd: "<|close|>tools<|sep|>",
	tagEnd: "<|sep|>", object: "<|open|>json", objectEnd: "<|close|>json<|sep|>", escaped: true,
}
