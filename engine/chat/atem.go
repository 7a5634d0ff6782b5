package chat

// The messages of Muse Glimmer. Source: the model's chat template.

// atem is the format of Muse Glimmer:
//
//	to=self<|message|>TEXT<|eom|>
//	<|start|>assistant to=NAME<|message|><atem:function_calls>
//	<atem:invoke name="NAME">
//	<atem:parameter name="KEY">VALUE</atem:parameter>
//	</atem:invoke>
//	</atem:function_calls><|eom|>
//	<|start|>assistant to=user<|message|>TEXT<|eot|>
//
// A message to the model itself is reasoning.
var atem = channelFormat{
	name:    "atem",
	marks:   []string{"<atem:function_calls>", "<|message|>", "<|start|>"},
	start:   "<|start|>",
	message: "<|message|>",
	content: []string{"to=user", "<|message|>"},
	ends:    []string{"<|eom|>", "<|eot|>"},
	finals:  []string{"<|eot|>"},
	kind: func(header string, _ map[string]schema) (Kind, string) {
		to := recipientPattern.FindStringSubmatch(header)
		switch {
		case to == nil || to[1] == "user":
			return Content, ""
		case to[1] == "self":
			return Reasoning, ""
		}
		return Call, to[1]
	},
	begin: func(_ string, schemas map[string]schema) callReader {
		return &atemReader{invoke: newInvokeReader(atemTags, schemas)}
	},
}

var atemTags = invokeTags{
	invoke: "<atem:invoke", invokeEnd: "</atem:invoke>",
	parameter: "<atem:parameter", parameterEnd: "</atem:parameter>",
	blockOpen: "<atem:function_calls>", blockEnd: "</atem:function_calls>",
}

// atemReader parses the block of calls in a message.
type atemReader struct {
	cursor
	invoke *invokeReader
	opened bool // the opening tag of the block has been read
	prefix int  // its length, with the white space before it
}

func (r *atemReader) read(text string) (ToolCall, int, verdict) {
	if !r.opened {
		if !r.spaces(text) {
			return ToolCall{}, 0, undecided
		}
		word, decided := r.take(text, atemTags.blockOpen)
		if word == "" {
			return ToolCall{}, 0, verdictOf(decided, false)
		}
		r.opened, r.prefix = true, r.at
	}
	call, n, v := r.invoke.read(text[r.prefix:])
	if v != undecided {
		n += r.prefix
		r.prefix = 0
	}
	return call, n, v
}
