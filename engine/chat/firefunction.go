package chat

// fireFunction is the format of FireFunction 2:
//
//	functools[{"name": NAME, "arguments": {…}}]
var fireFunction = fireFunctionFormat()

func fireFunctionFormat() toolFormat {
	f := listFormat("firefunction", `functools\[`, listTags{open: "functools[", opened: true,
		call: readJSONCall}, false)
	f.prose = true
	return f
}
