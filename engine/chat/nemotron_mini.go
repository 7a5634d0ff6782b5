package chat

import "regexp"

// nemotronMini is the format of Nemotron Mini, whose template shows tools but no calls:
//
//	<toolcall> {"name": NAME, "arguments": {…}} </toolcall>
//
// Source: the prompt format of the model card, and Ollama's template of the model.
var nemotronMini = toolFormat{
	name:  "nemotron_mini",
	mark:  regexp.MustCompile(`<tool> ['"] *\+ *tool`),
	open:  []string{"<toolcall>"},
	close: "</toolcall>",
	write: nemotronMiniCalls,
	form: &callForm{between: "\n", call: jsonCall(`<toolcall> {"name": `, `, "arguments": `,
		"} </toolcall>", true)},
	begin: func(schemas map[string]schema) callReader {
		return newJSONReader("<toolcall>", "</toolcall>", schemas)
	},
}

var nemotronMiniCalls = mustParse("{% for call in calls %}{% if not loop.first %}\n{% endif %}" +
	"<toolcall> {{ {'name': call.name, 'arguments': call.arguments} | tojson }} </toolcall>" +
	"{% endfor %}")
