package openai

// What becomes of each field of a request; see jsonbody.Field. The table has the fields of OpenAI's
// reference, and those of other servers that clients send.

import "headroom/engine/jsonbody"

const (
	works   = jsonbody.Works
	refused = jsonbody.Refused
	inert   = jsonbody.Inert
)

// field is a row of the table: a jsonbody.Field with the support of two routes.
type field struct {
	name                    string
	chat, completion        jsonbody.Support
	harmless, note, instead string
}

func (f field) ofChat() jsonbody.Field       { return f.with(f.chat) }
func (f field) ofCompletion() jsonbody.Field { return f.with(f.completion) }

func (f field) with(s jsonbody.Support) jsonbody.Field {
	return jsonbody.Field{Name: f.name, Support: s, Harmless: f.harmless, Note: f.note,
		Instead: f.instead}
}

// origin is a group of fields with one source.
type origin struct {
	name   string
	fields []field
}

// The advice of fields that demand a form in other ways.
const (
	otherFormat  = "Send response_format"
	otherGrammar = "Send grammar, which is GBNF"
)

var fieldTable = []origin{
	{"OpenAI", []field{
		{name: "audio", chat: refused},
		{name: "best_of", completion: works, note: "only if it is `n`"},
		{name: "echo", completion: works},
		{name: "frequency_penalty", chat: works, completion: works},
		{name: "function_call", chat: refused, harmless: `"auto" "none"`,
			instead: "Send tools and tool_choice"},
		{name: "functions", chat: refused, harmless: `[]`, instead: "Send tools"},
		{name: "logit_bias", chat: works, completion: works},
		{name: "logprobs", chat: works, completion: works},
		{name: "max_completion_tokens", chat: works, completion: works},
		{name: "max_tokens", chat: works, completion: works},
		{name: "messages", chat: works, note: "text only"},
		{name: "metadata", chat: inert},
		{name: "modalities", chat: refused, harmless: `["text"] []`},
		{name: "model", chat: works, completion: works},
		{name: "moderation", chat: refused},
		{name: "n", chat: works, completion: works, note: "at most 128 for a prompt"},
		{name: "parallel_tool_calls", chat: works,
			note: "with `false` the answer ends after its first call"},
		{name: "prediction", chat: works, note: "tokens that the answer repeats come faster"},
		{name: "presence_penalty", chat: works, completion: works},
		{name: "prompt", completion: works},
		{name: "prompt_cache_key", chat: inert, note: "every prompt is looked up in one cache"},
		{name: "prompt_cache_options", chat: inert},
		{name: "prompt_cache_retention", chat: inert},
		{name: "reasoning_effort", chat: works},
		{name: "response_format", chat: works, completion: works,
			note: "`text`, `json_object` and `json_schema`"},
		{name: "safety_identifier", chat: inert},
		{name: "seed", chat: works, completion: works, note: "modulo 2^64"},
		{name: "service_tier", chat: inert},
		{name: "stop", chat: works, completion: works,
			note: "in a chat, of the content from its first visible character on"},
		{name: "store", chat: works, completion: works,
			note: "`false` keeps the prompt off the disk"},
		{name: "stream", chat: works, completion: works},
		{name: "stream_options", chat: works, completion: works,
			note: "`include_usage`; for chat also `include_drafts`"},
		{name: "suffix", completion: works, note: "of a prompt that is text, for models with " +
			"tokens for it; not with `echo`"},
		{name: "temperature", chat: works, completion: works},
		{name: "tool_choice", chat: works,
			note: "a required call fits the function's schema; allowed tools only with `required`"},
		{name: "tools", chat: works, note: "only functions"},
		{name: "top_logprobs", chat: works},
		{name: "top_p", chat: works, completion: works},
		{name: "user", chat: inert, completion: inert},
		{name: "verbosity", chat: inert},
		{name: "web_search_options", chat: refused},
	}},
	{"Headroom", []field{
		{name: "cache", chat: works, completion: works, note: "`disk`, `memory` or `none`"},
		{name: "speculation", chat: works, completion: works, note: "`auto`, `off`, `lookup`, " +
			"`mtp`, `draft` or `dflash`, within what the server allows"},
	}},
	{"vLLM and SGLang", []field{
		{name: "add_generation_prompt", chat: works},
		{name: "add_special_tokens", chat: refused, completion: refused, harmless: `false`},
		{name: "allowed_token_ids", chat: refused, completion: refused, harmless: `[]`},
		{name: "bad_words", chat: refused, completion: refused, harmless: `[]`},
		{name: "cache_salt", chat: refused, completion: refused, harmless: `""`,
			instead: `Send "cache": "none" to cache nothing of a request`},
		{name: "chat_template", chat: refused, harmless: `""`,
			instead: "Add a chat_template.jinja to the model's folder"},
		{name: "chat_template_kwargs", chat: works},
		{name: "continue_final_message", chat: works},
		{name: "custom_logit_processor", chat: refused, completion: refused},
		{name: "documents", chat: refused, harmless: `[]`, instead: "Put them into a message"},
		{name: "ebnf", chat: works, completion: works, note: "as `grammar`"},
		{name: "enable_thinking", chat: works},
		{name: "guided_choice", chat: works, completion: works},
		{name: "guided_decoding_backend", chat: inert, completion: inert},
		{name: "guided_grammar", chat: works, completion: works},
		{name: "guided_json", chat: works, completion: works},
		{name: "guided_regex", chat: works, completion: works},
		{name: "guided_whitespace_pattern", chat: inert, completion: inert},
		{name: "ignore_eos", chat: works, completion: works},
		{name: "include_reasoning", chat: works},
		{name: "include_stop_str_in_output", chat: refused, completion: refused, harmless: `false`},
		{name: "kv_transfer_params", chat: refused, completion: refused, harmless: `{}`},
		{name: "length_penalty", chat: refused, completion: refused, harmless: `1`},
		{name: "logits_processors", chat: refused, completion: refused, harmless: `[]`},
		{name: "logprob_token_ids", chat: refused, completion: refused, harmless: `[]`},
		{name: "lora_path", chat: refused, completion: refused, harmless: `""`},
		{name: "media_io_kwargs", chat: inert},
		{name: "min_p", chat: works, completion: works},
		{name: "min_tokens", chat: refused, completion: refused, harmless: `0`},
		{name: "mm_processor_kwargs", chat: inert},
		{name: "no_stop_trim", chat: refused, completion: refused, harmless: `false`},
		{name: "priority", chat: works, completion: works,
			note: "the smallest runs first; below 0 is 0 for requests with a named API key"},
		{name: "prompt_logprobs", chat: refused, completion: refused,
			instead: `Send "echo": true and logprobs to /v1/completions`},
		{name: "regex", chat: works, completion: works},
		{name: "repetition_penalty", chat: works, completion: works},
		{name: "request_id", chat: inert, completion: inert},
		{name: "return_hidden_states", chat: refused, completion: refused, harmless: `false`},
		{name: "return_token_ids", chat: refused, completion: refused, harmless: `false`,
			instead: "POST /tokenize returns token ids"},
		{name: "return_tokens_as_token_ids", chat: refused, completion: refused,
			harmless: `false`},
		{name: "separate_reasoning", chat: refused, harmless: `true`},
		{name: "skip_special_tokens", chat: refused, completion: refused, harmless: `true`},
		{name: "spaces_between_special_tokens", chat: inert, completion: inert},
		{name: "stop_regex", chat: refused, completion: refused, harmless: `"" []`},
		{name: "stop_token_ids", chat: refused, completion: refused, harmless: `[]`,
			instead: "Send stop"},
		{name: "structural_tag", chat: refused, completion: refused, harmless: `""`,
			instead: otherGrammar},
		{name: "structured_outputs", chat: works, completion: works,
			note: "not `structural_tag` and `whitespace_pattern`"},
		{name: "think", chat: works},
		{name: "top_k", chat: works, completion: works},
		{name: "truncate_prompt_tokens", chat: refused, completion: refused,
			instead: "Send a shorter prompt"},
		{name: "use_beam_search", chat: refused, completion: refused, harmless: `false`},
		{name: "vllm_xargs", chat: refused, completion: refused, harmless: `{}`},
	}},
	{"llama.cpp", []field{
		{name: "adaptive_target", chat: refused, completion: refused, harmless: `-1`},
		{name: "cache_prompt", chat: inert, completion: inert, note: "the answer is the same"},
		{name: "dry_allowed_length", chat: works, completion: works, note: "2 if it is not sent"},
		{name: "dry_base", chat: works, completion: works, note: "1.75 if it is not sent"},
		{name: "dry_multiplier", chat: works, completion: works, note: "0 is off"},
		{name: "dry_penalty_last_n", chat: works, completion: works,
			note: "-1 is all tokens, as if it is not sent"},
		{name: "dry_sequence_breakers", chat: works, completion: works,
			note: "for all tokens that contain one of them; line break, `:`, `\"` and `*` if it " +
				"is not sent"},
		{name: "dynatemp_range", chat: refused, completion: refused, harmless: `0`},
		{name: "grammar", chat: works, completion: works, note: "in GBNF"},
		{name: "id_slot", chat: inert, completion: inert},
		{name: "json_schema", chat: works, completion: works},
		{name: "logit_bias_exp", chat: refused, completion: refused, harmless: `{} []`},
		{name: "lora", chat: refused, completion: refused, harmless: `[]`},
		{name: "mirostat", chat: refused, completion: refused, harmless: `0`},
		{name: "n_discard", chat: inert, completion: inert},
		{name: "n_indent", chat: refused, completion: refused, harmless: `0`},
		{name: "n_keep", chat: inert, completion: inert, note: "no prompt is truncated"},
		{name: "n_predict", chat: works, completion: works, note: "as `max_tokens`"},
		{name: "n_probs", chat: refused, completion: refused, harmless: `0`,
			instead: "Send logprobs"},
		{name: "post_sampling_probs", chat: refused, completion: refused, harmless: `false`},
		{name: "reasoning_format", chat: refused, harmless: `"auto" "deepseek"`},
		{name: "repeat_penalty", chat: works, completion: works,
			note: "as `repetition_penalty`"},
		{name: "samplers", chat: refused, completion: refused, harmless: `[]`},
		{name: "t_max_predict_ms", chat: refused, completion: refused, harmless: `0 -1`},
		{name: "timings_per_token", chat: inert, completion: inert},
		{name: "top_n_sigma", chat: refused, completion: refused, harmless: `0 -1`},
		{name: "typical_p", chat: refused, completion: refused, harmless: `1 0`},
		{name: "xtc_probability", chat: works, completion: works,
			note: "0 is off; no effect on greedy decoding"},
		{name: "xtc_threshold", chat: works, completion: works,
			note: "0.1 if it is 0 or not sent"},
	}},
	{"mlx-lm", []field{
		{name: "adapters", chat: works, completion: works,
			note: "the name of an adapter, as `model` with `+` and the name; no path"},
		{name: "draft_model", chat: refused, completion: refused, harmless: `""`,
			instead: "Set draftModel in the model's settings"},
		{name: "frequency_context_size", chat: works, completion: works,
			note: "as `repetition_context_size` if it is not sent"},
		{name: "num_draft_tokens", chat: inert, completion: inert, note: "the answer is the same"},
		{name: "presence_context_size", chat: works, completion: works,
			note: "as `repetition_context_size` if it is not sent"},
		{name: "repetition_context_size", chat: works, completion: works,
			note: "for all three penalties unless two have their own; 20 if it is not sent"},
		{name: "role_mapping", chat: refused, harmless: `{}`},
	}},
	{"others", []field{
		{name: "banned_tokens", chat: refused, completion: refused, harmless: `[] ""`},
		{name: "epsilon_cutoff", chat: refused, completion: refused, harmless: `0`},
		{name: "eta_cutoff", chat: refused, completion: refused, harmless: `0`},
		{name: "format", chat: refused, completion: refused, harmless: `""`, instead: otherFormat},
		{name: "grammar_string", chat: refused, completion: refused, harmless: `""`,
			instead: otherGrammar},
		{name: "guidance_scale", chat: refused, completion: refused, harmless: `1`},
		{name: "keep_alive", chat: inert, completion: inert},
		{name: "min_length", chat: refused, completion: refused, harmless: `0`},
		{name: "negative_prompt", chat: refused, completion: refused, harmless: `""`},
		{name: "no_repeat_ngram_size", chat: refused, completion: refused, harmless: `0`},
		{name: "options", chat: refused, completion: refused, harmless: `{}`,
			instead: "Send its members as fields of the body"},
		{name: "output_config", chat: refused, completion: refused, harmless: `{}`,
			instead: otherFormat},
		{name: "output_format", chat: refused, completion: refused, harmless: `""`,
			instead: otherFormat},
		{name: "plugins", chat: refused, harmless: `[]`},
		{name: "reasoning", chat: works, note: "`effort`, `enabled`, `exclude`"},
		{name: "smoothing_factor", chat: refused, completion: refused, harmless: `0`},
		{name: "text", chat: refused, harmless: `{} {"format":{"type":"text"}}`,
			instead: otherFormat},
		{name: "tfs", chat: refused, completion: refused, harmless: `1`},
		{name: "top_a", chat: refused, completion: refused, harmless: `0`},
		{name: "transforms", chat: refused, completion: refused, harmless: `[]`},
		{name: "typical", chat: refused, completion: refused, harmless: `1 0`},
	}},
}

// fieldsOf returns the rows of the table for a route.
func fieldsOf(route func(field) jsonbody.Field) (list []jsonbody.Field) {
	for _, o := range fieldTable {
		for _, f := range o.fields {
			list = append(list, route(f))
		}
	}
	return list
}

var (
	chatFields       = jsonbody.ByName(fieldsOf(field.ofChat))
	completionFields = jsonbody.ByName(fieldsOf(field.ofCompletion))
)
