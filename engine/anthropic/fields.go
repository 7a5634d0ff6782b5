package anthropic

// What becomes of each field of a request. A field that would change the answer works or is refused
// by name, so that no client gets an answer that it did not ask for. The table has the fields of
// Anthropic's API with those of its beta. Fields that are not in it are ignored. A test writes the
// table into engine/server/API.md.

import "headroom/engine/jsonbody"

// support says what becomes of a field.
type support string

const (
	works   support = "works"     // does what its reference says, or what the note says
	refused support = "refused"   // an error, unless the value is one of those that change nothing
	inert   support = "no effect" // accepted: the answer would be the same
)

// field is a row of the table.
type field struct {
	name    string
	support support
	// harmless are the JSON values of a refused field that change nothing. null is always one.
	harmless string
	// note is for readers of the table, and instead also for those of the error.
	note, instead string
}

var fieldTable = []field{
	{name: "billing_policy", support: inert},
	{name: "cache", support: works, note: "Headroom's: `disk`, `memory` or `none`"},
	{name: "cache_control", support: inert, note: "every prefix is cached"},
	{name: "compaction", support: refused, instead: "Ask for a summary in a message"},
	{name: "container", support: inert, note: "there are no tools that run in one"},
	{name: "context_management", support: inert,
		note: "the client's messages are the conversation"},
	{name: "diagnostics", support: inert},
	{name: "fallback_credit_token", support: inert},
	{name: "fallbacks", support: inert},
	{name: "inference_geo", support: inert},
	{name: "max_tokens", support: works,
		note: "required. With 0 the prompt is only cached. -1 is the rest of the context"},
	{name: "mcp_servers", support: refused, harmless: `[]`,
		instead: "Send the servers' tools as tools"},
	{name: "messages", support: works, note: "text only"},
	{name: "metadata", support: inert},
	{name: "model", support: works},
	{name: "output_config", support: works, note: "`effort`. `format` is refused"},
	{name: "output_format", support: refused, instead: formatInstead},
	{name: "service_tier", support: inert},
	{name: "speed", support: inert},
	{name: "stop_sequences", support: works, note: "in the text, from its first visible " +
		"character on"},
	{name: "stream", support: works},
	{name: "system", support: works},
	{name: "temperature", support: works, note: "at most 2"},
	{name: "thinking", support: works, note: "`type`, `budget_tokens` and `display`"},
	{name: "thread", support: refused,
		instead: "Send the whole conversation: what is cached is not computed again"},
	{name: "tool_choice", support: works,
		note: "`auto` and `none`, and `disable_parallel_tool_use`"},
	{name: "tools", support: works, note: "those of Anthropic's servers are left out"},
	{name: "top_k", support: works},
	{name: "top_p", support: works},
	{name: "user_profile_id", support: inert},
	{name: "workspace_id", support: inert},
}

// formatInstead is the advice for fields that would constrain the text.
const formatInstead = "Ask for the format in the prompt"

// refusedFields has the refused fields by name.
var refusedFields = func() map[string]*field {
	list := map[string]*field{}
	for i := range fieldTable {
		if f := &fieldTable[i]; f.support == refused {
			list[f.name] = f
		}
	}
	return list
}()

// refuseFields returns an error for the first refused field of a body with a value that would
// change the answer. The body is an object that jsonbody.Check has accepted.
func refuseFields(body []byte) *Error {
	return jsonbody.Members(jsonbody.Trimmed(body), func(name string, value []byte) *Error {
		f, ok := refusedFields[name]
		if !ok || jsonbody.OneOf(value, f.harmless) {
			return nil
		}
		return unsupported(name, "is not supported. %s", f.instead)
	})
}

// unsupported returns an Error about a parameter that Anthropic's API has and Headroom has not.
func unsupported(param, format string, args ...any) *Error {
	err := badParam(param, format, args...)
	err.Unsupported = true
	return err
}
