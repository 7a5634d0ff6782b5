package anthropic

// What becomes of each field of a request; see jsonbody.Field. The table has the fields of
// Anthropic's API with those of its beta, and fields of OpenAI's that would change an answer.
// Fields that are not in it are ignored. A test writes the table into engine/server/API.md.

import "headroom/engine/jsonbody"

// field is a row of a table.
type field = jsonbody.Field

const (
	works   = jsonbody.Works
	refused = jsonbody.Refused
	inert   = jsonbody.Inert
)

// inChats is the advice for fields of OpenAI's API.
const inChats = "/v1/chat/completions has it"

var fieldTable = jsonbody.WithFormFields("Send output_config.format", []field{
	{Name: "adapters", Support: refused, Harmless: `""`,
		Instead: "Send model with + and the name of the adapter"},
	{Name: "billing_policy", Support: inert},
	{Name: "cache", Support: works, Note: "Headroom's: `disk`, `memory` or `none`"},
	{Name: "cache_control", Support: inert, Note: "every prefix is cached"},
	{Name: "compaction", Support: refused, Instead: "Ask for a summary in a message"},
	{Name: "container", Support: inert, Note: "there are no tools that run in one"},
	{Name: "context_management", Support: inert,
		Note: "the client's messages are the conversation"},
	{Name: "diagnostics", Support: inert},
	{Name: "dry_multiplier", Support: refused, Harmless: `0`, Instead: inChats},
	{Name: "fallback_credit_token", Support: inert},
	{Name: "fallbacks", Support: inert},
	{Name: "frequency_penalty", Support: refused, Harmless: `0`, Instead: inChats},
	{Name: "inference_geo", Support: inert},
	{Name: "logit_bias", Support: refused, Harmless: `{}`, Instead: inChats},
	{Name: "logprobs", Support: refused, Harmless: `false 0`, Instead: inChats},
	{Name: "max_tokens", Support: works,
		Note: "required. With 0 the prompt is only cached. -1 is the rest of the context"},
	{Name: "mcp_servers", Support: refused, Harmless: `[]`,
		Instead: "Send the servers' tools as tools"},
	{Name: "messages", Support: works, Note: "text only"},
	{Name: "metadata", Support: inert},
	{Name: "min_p", Support: refused, Harmless: `0`, Instead: inChats},
	{Name: "model", Support: works},
	{Name: "n", Support: refused, Harmless: `1`, Instead: inChats},
	{Name: "output_config", Support: works, Note: "`effort`, and `format`, a `json_schema`"},
	{Name: "output_format", Support: works, Note: "a `json_schema`"},
	{Name: "presence_penalty", Support: refused, Harmless: `0`, Instead: inChats},
	{Name: "reasoning_effort", Support: refused, Instead: "Send output_config.effort"},
	{Name: "repetition_penalty", Support: refused, Harmless: `1`, Instead: inChats},
	{Name: "seed", Support: refused, Instead: inChats},
	{Name: "service_tier", Support: inert},
	{Name: "speculation", Support: works, Note: "Headroom's: `auto`, `off`, `lookup`, `mtp`, " +
		"`draft` or `dflash`, within what the server allows"},
	{Name: "speed", Support: inert},
	{Name: "stop", Support: refused, Harmless: `[] ""`, Instead: "Send stop_sequences"},
	{Name: "stop_sequences", Support: works, Note: "in the text, from its first visible " +
		"character on"},
	{Name: "stream", Support: works},
	{Name: "system", Support: works},
	{Name: "temperature", Support: works, Note: "at most 2"},
	{Name: "thinking", Support: works, Note: "`type`, `budget_tokens` and `display`"},
	{Name: "thread", Support: refused,
		Instead: "Send the whole conversation: what is cached is not computed again"},
	{Name: "tool_choice", Support: works,
		Note: "a required call fits the function's schema; also `disable_parallel_tool_use`"},
	{Name: "tools", Support: works, Note: "those of Anthropic's servers are left out"},
	{Name: "top_k", Support: works},
	{Name: "top_logprobs", Support: refused, Harmless: `0`, Instead: inChats},
	{Name: "top_p", Support: works},
	{Name: "user_profile_id", Support: inert},
	{Name: "xtc_probability", Support: refused, Harmless: `0`, Instead: inChats},
	{Name: "workspace_id", Support: inert},
})

var fieldsByName = jsonbody.ByName(fieldTable)
