package decisions

// What becomes of each field of a request; see jsonbody.Field. The tables have the fields of the
// two APIs, those of Headroom, and those that clients send here by mistake. Fields that are not in
// them are ignored. A test writes them into engine/server/API.md.

import "headroom/engine/jsonbody"

// field is a row of a table.
type field = jsonbody.Field

const (
	works   = jsonbody.Works
	refused = jsonbody.Refused
	inert   = jsonbody.Inert
)

var fieldTable = []field{
	{Name: "cache", Support: works, Note: "Headroom's: `disk`, `memory` or `none`"},
	{Name: "chat_template_kwargs", Support: works, Note: "as in chat completions"},
	{Name: "input", Support: works, Note: "text only: a string or messages, function calls and " +
		"custom tool calls with their outputs. Parts may be `input_json`"},
	{Name: "instructions", Support: refused, Instead: "Send a message of the system in input"},
	{Name: "messages", Support: refused, Harmless: `[]`, Instead: "Send input"},
	{Name: "model", Support: works},
	{Name: "previous_response_id", Support: refused, Instead: "Send the whole input"},
	{Name: "prompt_cache_key", Support: inert, Note: "every prompt is looked up in one cache"},
	{Name: "prompt_cache_options", Support: inert},
	{Name: "questions", Support: works,
		Note: "1 to 400 of the types `predicate`, `choice` and `score`, with 2 to 255 options"},
	{Name: "safety_identifier", Support: inert},
	{Name: "state", Support: refused, Instead: "Send input, or POST to /v1/systemone"},
	{Name: "stream", Support: refused, Harmless: `false`, Instead: "The answer is one document"},
	{Name: "temperature", Support: refused, Harmless: `1`,
		Instead: "Probabilities are those of the model"},
	{Name: "tools", Support: refused, Harmless: `[]`, Instead: "No tool is called"},
	{Name: "user", Support: inert},
}

var systemOneTable = []field{
	{Name: "assets", Support: refused, Harmless: `{} []`, Instead: "The model reads text only"},
	{Name: "cache", Support: works, Note: "Headroom's: `disk`, `memory` or `none`"},
	{Name: "chat_template_kwargs", Support: works, Note: "as in chat completions"},
	{Name: "input", Support: refused, Instead: "Send state, or POST to /v1/decisions"},
	{Name: "messages", Support: refused, Harmless: `[]`, Instead: "Send state"},
	{Name: "model", Support: works},
	{Name: "questions", Support: works,
		Note: "1 to 400 of the types `noul`, `choice` and `score`, with 2 to 255 options"},
	{Name: "state", Support: works, Note: "a string, or JSON that is read as text"},
	{Name: "stream", Support: refused, Harmless: `false`, Instead: "The answer is one document"},
	{Name: "temperature", Support: refused, Harmless: `1`,
		Instead: "Probabilities are those of the model"},
}

var (
	fieldsByName    = jsonbody.ByName(fieldTable)
	systemOneByName = jsonbody.ByName(systemOneTable)
)
