package responses

// What becomes of each field of a request. A field that would change the answer works or is refused
// by name, so that no client gets an answer that it did not ask for. The table has the fields of
// OpenAI's reference, those of Headroom, and those of chat completions that clients send here by
// mistake. Fields that are not in it are ignored. A test writes the table into
// engine/server/API.md.

import "headroom/engine/jsonbody"

// support says what becomes of a field.
type support string

const (
	works   support = "works"     // does what its reference says, or what the note says
	refused support = "refused"   // an error, unless the value is one of those that change nothing
	inert   support = "no effect" // accepted: the answer would be the same
	leftOut support = "left out"  // an item or a tool that the prompt does not have
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
	{name: "access_programs", support: inert},
	{name: "background", support: refused, harmless: `false`, instead: "Send \"stream\": true"},
	{name: "cache", support: works, note: "Headroom's: `disk`, `memory` or `none`"},
	{name: "chat_template_kwargs", support: works, note: "as in chat completions"},
	{name: "client_metadata", support: inert},
	{name: "context_management", support: refused, harmless: `[]`,
		instead: "POST to /v1/responses/compact when a conversation grows too long"},
	{name: "conversation", support: refused, instead: "Send previous_response_id"},
	{name: "frequency_penalty", support: works, note: "as in chat completions"},
	{name: "functions", support: refused, harmless: `[]`, instead: "Send tools"},
	{name: "include", support: works, note: "`reasoning.encrypted_content`. " +
		"`message.output_text.logprobs` is refused. Others are about tools of OpenAI"},
	{name: "input", support: works, note: "text only"},
	{name: "instructions", support: works},
	{name: "logit_bias", support: refused, harmless: `{}`,
		instead: "/v1/chat/completions has it"},
	{name: "logprobs", support: refused, harmless: `false 0`,
		instead: "/v1/chat/completions has them"},
	{name: "max_completion_tokens", support: refused, instead: "Send max_output_tokens"},
	{name: "max_output_tokens", support: works},
	{name: "max_tokens", support: refused, instead: "Send max_output_tokens"},
	{name: "max_tool_calls", support: inert, note: "about the tools of OpenAI"},
	{name: "messages", support: refused, harmless: `[]`, instead: "Send input"},
	{name: "metadata", support: works, note: "is in the response"},
	{name: "min_p", support: works, note: "as in chat completions"},
	{name: "model", support: works},
	{name: "moderation", support: refused, instead: "There is no moderation"},
	{name: "n", support: refused, harmless: `1`, instead: "Send the request several times"},
	{name: "parallel_tool_calls", support: works,
		note: "with `false` the answer ends after its first call"},
	{name: "personality", support: inert},
	{name: "presence_penalty", support: works, note: "as in chat completions"},
	{name: "previous_response_id", support: works, note: "of a response that is still stored"},
	{name: "prompt", support: refused, instead: "Send the text as instructions and input"},
	{name: "prompt_cache_key", support: inert, note: "every prompt is looked up in one cache"},
	{name: "prompt_cache_options", support: inert},
	{name: "prompt_cache_retention", support: inert},
	{name: "reasoning", support: works, note: "`effort` and `summary`"},
	{name: "reasoning_effort", support: refused, instead: "Send reasoning.effort"},
	{name: "repetition_penalty", support: works, note: "as in chat completions"},
	{name: "response_format", support: refused, harmless: `{"type":"text"}`,
		instead: formatInstead},
	{name: "safety_identifier", support: inert},
	{name: "seed", support: works, note: "as in chat completions"},
	{name: "service_tier", support: inert},
	{name: "stop", support: works, note: "as in chat completions"},
	{name: "store", support: works, note: "`true` unless sent: the response is kept in memory. " +
		"`false` also keeps the prompt off the disk"},
	{name: "stream", support: works},
	{name: "stream_options", support: inert, note: "nothing is obfuscated"},
	{name: "temperature", support: works},
	{name: "text", support: works, note: "`format`: only `text`. `verbosity` has no effect"},
	{name: "tool_choice", support: works, note: "only `auto` and `none`"},
	{name: "tools", support: works, note: "functions and custom tools. Others are left out"},
	{name: "top_k", support: works, note: "as in chat completions"},
	{name: "top_logprobs", support: refused, harmless: `0`,
		instead: "/v1/chat/completions has them"},
	{name: "top_p", support: works},
	{name: "truncation", support: works,
		note: "an input that does not fit is refused, with `auto` too"},
	{name: "user", support: inert},
}

// itemTable says what becomes of each type of item in input. Other types are left out.
var itemTable = []field{
	{name: "additional_tools", support: refused, instead: "Send tools"},
	{name: "apply_patch_call", support: leftOut},
	{name: "apply_patch_call_output", support: leftOut},
	{name: "code_interpreter_call", support: leftOut},
	{name: "compaction", support: works, note: "of Headroom. That of another server is left out"},
	{name: "compaction_trigger", support: refused, instead: "POST to /v1/responses/compact"},
	{name: "computer_call", support: leftOut},
	{name: "computer_call_output", support: leftOut},
	{name: "configuration_update", support: refused, instead: "Send reasoning and text"},
	{name: "custom_tool_call", support: works},
	{name: "custom_tool_call_output", support: works, note: "a text or parts"},
	{name: "file_search_call", support: leftOut},
	{name: "function_call", support: works},
	{name: "function_call_output", support: works,
		note: "a text or parts; for an image or a file in it there is a remark"},
	{name: "image_generation_call", support: leftOut},
	{name: "item_reference", support: works, note: "to an item of a response that is still stored"},
	{name: "local_shell_call", support: leftOut},
	{name: "local_shell_call_output", support: leftOut},
	{name: "mcp_approval_request", support: leftOut},
	{name: "mcp_approval_response", support: leftOut},
	{name: "mcp_call", support: leftOut},
	{name: "mcp_list_tools", support: leftOut},
	{name: "message", support: works, note: "text only; also without a type"},
	{name: "program", support: leftOut},
	{name: "program_output", support: leftOut},
	{name: "reasoning", support: works, note: "`encrypted_content` of Headroom, or `content`, or " +
		"`summary`, in this order"},
	{name: "shell_call", support: leftOut},
	{name: "shell_call_output", support: leftOut},
	{name: "tool_search_call", support: leftOut},
	{name: "tool_search_output", support: leftOut},
	{name: "web_search_call", support: leftOut},
}

// toolTable says what becomes of each type of tool. Other types are left out.
var toolTable = []field{
	{name: "apply_patch", support: leftOut},
	{name: "code_interpreter", support: leftOut},
	{name: "computer", support: leftOut},
	{name: "computer_use_preview", support: leftOut},
	{name: "custom", support: works,
		note: "a function with one argument, `input`; a grammar is told to the model"},
	{name: "file_search", support: leftOut},
	{name: "function", support: works, note: "`strict` has no effect"},
	{name: "image_generation", support: leftOut},
	{name: "local_shell", support: leftOut},
	{name: "mcp", support: leftOut},
	{name: "namespace", support: leftOut},
	{name: "programmatic_tool_calling", support: leftOut},
	{name: "shell", support: leftOut},
	{name: "tool_search", support: leftOut},
	{name: "web_search", support: leftOut},
	{name: "web_search_preview", support: leftOut},
}

// row returns the row of a type; one that is not in the table is left out.
func row(table []field, kind string) field {
	for _, f := range table {
		if f.name == kind {
			return f
		}
	}
	return field{support: leftOut}
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
