package chat

// commandRPlus is the format of Command R+. Its template asks for it in words:
//
//	Action:
//	```json
//	[{"tool_name": NAME, "parameters": {…}}]
//	```
//
// The model calls directly-answer if it needs no tool.
var commandRPlus = commandRFormat()

func commandRFormat() toolFormat {
	f := listFormat("command_r_plus", `Action:(\n|\\n)`+"```json", listTags{open: "Action:",
		fence: "```json", closing: "```", call: commandCall}, false)
	f.prose, f.close = true, "" // a fence outside of calls is one of the answer
	return f
}
