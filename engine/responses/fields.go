package responses

// What becomes of each field of a request; see jsonbody.Field. The table has the fields of
// OpenAI's reference, those of Headroom, and those of chat completions that clients send here by
// mistake. Fields that are not in it are ignored. A test writes the table into
// engine/server/API.md.

import "headroom/engine/jsonbody"

// field is a row of a table.
type field = jsonbody.Field

const (
	works   = jsonbody.Works
	refused = jsonbody.Refused
	inert   = jsonbody.Inert
	leftOut = jsonbody.LeftOut
)

var fieldTable = jsonbody.WithFormFields(formatInstead, []field{
	{Name: "access_programs", Support: inert},
	{Name: "adapters", Support: refused, Harmless: `""`,
		Instead: "Send model with + and the name of the adapter"},
	{Name: "background", Support: refused, Harmless: `false`, Instead: "Send \"stream\": true"},
	{Name: "cache", Support: works, Note: "Headroom's: `disk`, `memory` or `none`"},
	{Name: "chat_template_kwargs", Support: works, Note: "as in chat completions"},
	{Name: "client_metadata", Support: inert},
	{Name: "context_management", Support: refused, Harmless: `[]`,
		Instead: "POST to /v1/responses/compact when a conversation grows too long"},
	{Name: "conversation", Support: refused, Instead: "Send previous_response_id"},
	{Name: "dry_allowed_length", Support: works, Note: "as in chat completions"},
	{Name: "dry_base", Support: works, Note: "as in chat completions"},
	{Name: "dry_multiplier", Support: works, Note: "as in chat completions"},
	{Name: "dry_penalty_last_n", Support: works, Note: "as in chat completions"},
	{Name: "dry_sequence_breakers", Support: works, Note: "as in chat completions"},
	{Name: "frequency_context_size", Support: works, Note: "as in chat completions"},
	{Name: "frequency_penalty", Support: works, Note: "as in chat completions"},
	{Name: "functions", Support: refused, Harmless: `[]`, Instead: "Send tools"},
	{Name: "include", Support: works, Note: "`reasoning.encrypted_content`. " +
		"`message.output_text.logprobs` is refused. Others are about tools of OpenAI"},
	{Name: "input", Support: works, Note: "text only"},
	{Name: "instructions", Support: works},
	{Name: "logit_bias", Support: refused, Harmless: `{}`,
		Instead: "/v1/chat/completions has it"},
	{Name: "logprobs", Support: refused, Harmless: `false 0`,
		Instead: "/v1/chat/completions has them"},
	{Name: "max_completion_tokens", Support: refused, Instead: "Send max_output_tokens"},
	{Name: "max_output_tokens", Support: works},
	{Name: "max_tokens", Support: refused, Instead: "Send max_output_tokens"},
	{Name: "max_tool_calls", Support: inert, Note: "about the tools of OpenAI"},
	{Name: "messages", Support: refused, Harmless: `[]`, Instead: "Send input"},
	{Name: "metadata", Support: works, Note: "is in the response"},
	{Name: "min_p", Support: works, Note: "as in chat completions"},
	{Name: "model", Support: works},
	{Name: "moderation", Support: refused, Instead: "There is no moderation"},
	{Name: "n", Support: refused, Harmless: `1`, Instead: "Send the request several times"},
	{Name: "parallel_tool_calls", Support: works,
		Note: "with `false` the answer ends after its first call"},
	{Name: "personality", Support: inert},
	{Name: "presence_context_size", Support: works, Note: "as in chat completions"},
	{Name: "presence_penalty", Support: works, Note: "as in chat completions"},
	{Name: "previous_response_id", Support: works, Note: "of a response that is still stored"},
	{Name: "prompt", Support: refused, Instead: "Send the text as instructions and input"},
	{Name: "prompt_cache_key", Support: inert, Note: "every prompt is looked up in one cache"},
	{Name: "prompt_cache_options", Support: inert},
	{Name: "prompt_cache_retention", Support: inert},
	{Name: "reasoning", Support: works, Note: "`effort` and `summary`"},
	{Name: "reasoning_effort", Support: refused, Instead: "Send reasoning.effort"},
	{Name: "repetition_context_size", Support: works, Note: "as in chat completions"},
	{Name: "repetition_penalty", Support: works, Note: "as in chat completions"},
	{Name: "safety_identifier", Support: inert},
	{Name: "seed", Support: works, Note: "as in chat completions"},
	{Name: "service_tier", Support: inert},
	{Name: "speculation", Support: works, Note: "Headroom's: `auto`, `off`, `lookup`, `mtp`, " +
		"`draft` or `dflash`, within what the server allows"},
	{Name: "stop", Support: works, Note: "as in chat completions"},
	{Name: "store", Support: works, Note: "`true` unless sent: the response is kept in memory. " +
		"`false` also keeps the prompt off the disk"},
	{Name: "stream", Support: works},
	{Name: "stream_options", Support: inert, Note: "nothing is obfuscated"},
	{Name: "temperature", Support: works},
	{Name: "text", Support: works,
		Note: "`format`: `text`, `json_object` and `json_schema`. `verbosity` has no effect"},
	{Name: "tool_choice", Support: works,
		Note: "a required call fits the function's schema; allowed tools only with `required`"},
	{Name: "tools", Support: works, Note: "functions and custom tools. Others are left out"},
	{Name: "top_k", Support: works, Note: "as in chat completions"},
	{Name: "top_logprobs", Support: refused, Harmless: `0`,
		Instead: "/v1/chat/completions has them"},
	{Name: "top_p", Support: works},
	{Name: "truncation", Support: works,
		Note: "an input that does not fit is refused, with `auto` too"},
	{Name: "user", Support: inert},
	{Name: "xtc_probability", Support: works, Note: "as in chat completions"},
	{Name: "xtc_threshold", Support: works, Note: "as in chat completions"},
})

// itemTable says what becomes of each type of item in input. Other types are left out.
var itemTable = []field{
	{Name: "additional_tools", Support: refused, Instead: "Send tools"},
	{Name: "apply_patch_call", Support: leftOut},
	{Name: "apply_patch_call_output", Support: leftOut},
	{Name: "code_interpreter_call", Support: leftOut},
	{Name: "compaction", Support: works, Note: "of Headroom. That of another server is left out"},
	{Name: "compaction_trigger", Support: refused, Instead: "POST to /v1/responses/compact"},
	{Name: "computer_call", Support: leftOut},
	{Name: "computer_call_output", Support: leftOut},
	{Name: "configuration_update", Support: refused, Instead: "Send reasoning and text"},
	{Name: "custom_tool_call", Support: works},
	{Name: "custom_tool_call_output", Support: works, Note: "a text or parts"},
	{Name: "file_search_call", Support: leftOut},
	{Name: "function_call", Support: works},
	{Name: "function_call_output", Support: works,
		Note: "a text or parts; for an image or a file in it there is a remark"},
	{Name: "image_generation_call", Support: leftOut},
	{Name: "item_reference", Support: works, Note: "to an item of a response that is still stored"},
	{Name: "local_shell_call", Support: leftOut},
	{Name: "local_shell_call_output", Support: leftOut},
	{Name: "mcp_approval_request", Support: leftOut},
	{Name: "mcp_approval_response", Support: leftOut},
	{Name: "mcp_call", Support: leftOut},
	{Name: "mcp_list_tools", Support: leftOut},
	{Name: "message", Support: works, Note: "text only; also without a type"},
	{Name: "program", Support: leftOut},
	{Name: "program_output", Support: leftOut},
	{Name: "reasoning", Support: works, Note: "`encrypted_content` of Headroom, or `content`, or " +
		"`summary`, in this order"},
	{Name: "shell_call", Support: leftOut},
	{Name: "shell_call_output", Support: leftOut},
	{Name: "tool_search_call", Support: leftOut},
	{Name: "tool_search_output", Support: leftOut},
	{Name: "web_search_call", Support: leftOut},
}

// toolTable says what becomes of each type of tool. Other types are left out.
var toolTable = []field{
	{Name: "apply_patch", Support: leftOut},
	{Name: "code_interpreter", Support: leftOut},
	{Name: "computer", Support: leftOut},
	{Name: "computer_use_preview", Support: leftOut},
	{Name: "custom", Support: works,
		Note: "a function with one argument, `input`; a grammar is told to the model"},
	{Name: "file_search", Support: leftOut},
	{Name: "function", Support: works},
	{Name: "image_generation", Support: leftOut},
	{Name: "local_shell", Support: leftOut},
	{Name: "mcp", Support: leftOut},
	{Name: "namespace", Support: leftOut},
	{Name: "programmatic_tool_calling", Support: leftOut},
	{Name: "shell", Support: leftOut},
	{Name: "tool_search", Support: leftOut},
	{Name: "web_search", Support: leftOut},
	{Name: "web_search_preview", Support: leftOut},
}

// row returns the row of a type; one that is not in the table is left out.
func row(table []field, kind string) field {
	for _, f := range table {
		if f.Name == kind {
			return f
		}
	}
	return field{Support: leftOut}
}

// formatInstead is the advice for fields of other APIs that constrain the text.
const formatInstead = "Send text.format"

var fieldsByName = jsonbody.ByName(fieldTable)
