package ollama

// What becomes of each field of a request, and of each of its options. One that would change the
// answer works or is refused by name, so that no client gets an answer that it did not ask for. The
// tables have those of Ollama's types, and older ones that clients still send. What is not in them
// is ignored, as by Ollama. A test writes the tables into engine/server/API.md.

import "headroom/engine/jsonbody"

// support says what becomes of a field.
type support uint8

const (
	unknown support = iota // not a field of this route: ignored
	works                  // does what its reference says, or what the note says
	refused                // an error, unless the value is one of those that change nothing
	inert                  // accepted and without effect: the answer would be the same
)

// field is a row of a table.
type field struct {
	name           string
	chat, generate support
	// harmless are the JSON values of a refused field that change nothing. null is always one.
	harmless string
	// note is for readers of the table, and instead also for those of the error.
	note, instead string
}

var fieldTable = []field{
	{name: "_debug_render_only", chat: refused, generate: refused, harmless: `false`,
		instead: "POST /apply-template returns the prompt"},
	{name: "cache", chat: works, generate: works,
		note: "Headroom's: `disk`, `memory` or `none`"},
	{name: "context", generate: refused, harmless: `[]`,
		instead: "Send the conversation to /api/chat: what is cached is not computed again"},
	{name: "format", chat: refused, generate: refused, harmless: `""`,
		instead: "Ask for the format in the prompt"},
	{name: "height", generate: refused, harmless: `0`},
	{name: "images", generate: refused, harmless: `[]`,
		instead: "The model reads text only"},
	{name: "keep_alive", chat: works, generate: works,
		note: "without it, as long as the settings say"},
	{name: "logprobs", chat: works, generate: works},
	{name: "messages", chat: works, note: "text only. Without any, the model is only loaded"},
	{name: "model", chat: works, generate: works},
	{name: "options", chat: works, generate: works, note: "see the next table"},
	{name: "prompt", generate: works, note: "without it, the model is only loaded"},
	{name: "raw", generate: works},
	{name: "shift", chat: inert, generate: inert,
		note: "an answer ends where the context ends"},
	{name: "steps", generate: refused, harmless: `0`},
	{name: "stream", chat: works, generate: works, note: "`true` without it"},
	{name: "suffix", generate: refused, harmless: `""`,
		instead: "Text cannot be inserted before a suffix"},
	{name: "system", generate: works},
	{name: "template", generate: refused, harmless: `""`,
		instead: "Add a chat_template.jinja to the model's folder"},
	{name: "think", chat: works, generate: works,
		note: "a boolean or an effort. Without it the model decides"},
	{name: "tools", chat: works, note: "only functions"},
	{name: "top_logprobs", chat: works, generate: works},
	{name: "truncate", chat: inert, generate: inert,
		note: "a prompt that does not fit is refused"},
	{name: "width", generate: refused, harmless: `0`},
}

// The notes of options that are about memory, or about speed.
const (
	memory = "the settings decide"
	speed  = "the engine decides"
)

// optionTable has the options, which are the same on both routes.
var optionTable = []field{
	option("draft_num_predict", inert, speed),
	option("embedding_only", refused, "", `false`),
	option("f16_kv", inert, memory),
	option("frequency_penalty", works, ""),
	option("logits_all", inert, ""),
	option("low_vram", inert, memory),
	option("main_gpu", inert, speed),
	option("min_p", works, ""),
	option("mirostat", refused, "", `0`),
	option("mirostat_eta", inert, "only with mirostat"),
	option("mirostat_tau", inert, "only with mirostat"),
	option("num_batch", inert, speed),
	option("num_ctx", inert, "the context is that with which the model is loaded"),
	option("num_gpu", inert, speed),
	option("num_keep", inert, "no prompt is truncated"),
	option("num_predict", works, "0 and less: the rest of the context"),
	option("num_thread", inert, speed),
	option("numa", inert, memory),
	option("penalize_newline", refused, "", `true`),
	option("presence_penalty", works, ""),
	option("repeat_last_n", works, "64 without it, and 131072 for -1"),
	option("repeat_penalty", works, ""),
	option("seed", works, "modulo 2^64, and random for -1"),
	option("stop", works, "in a chat, of the content from its first visible character on"),
	option("temperature", works, "at most 2"),
	option("tfs_z", refused, "", `1`),
	option("top_k", works, ""),
	option("top_p", works, ""),
	option("typical_p", refused, "", `1 0`),
	option("use_mlock", inert, memory),
	option("use_mmap", inert, memory),
	option("vocab_only", refused, "", `false`),
}

func option(name string, s support, note string, harmless ...string) field {
	f := field{name: name, chat: s, generate: s, note: note}
	if len(harmless) > 0 {
		f.harmless = harmless[0]
	}
	return f
}

func ofChat(f *field) support     { return f.chat }
func ofGenerate(f *field) support { return f.generate }

// refusedOf returns the refused fields of a table by name.
func refusedOf(table []field, of func(*field) support) map[string]*field {
	list := map[string]*field{}
	for i := range table {
		if f := &table[i]; of(f) == refused {
			list[f.name] = f
		}
	}
	return list
}

var (
	refusedChat     = refusedOf(fieldTable, ofChat)
	refusedGenerate = refusedOf(fieldTable, ofGenerate)
	refusedOptions  = refusedOf(optionTable, ofChat)
)

// refuseFields returns an error for the first refused field or option with a value that would
// change the answer. The body is an object that jsonbody.Check has accepted.
func refuseFields(body []byte, list map[string]*field) error {
	err := jsonbody.Members(jsonbody.Trimmed(body), func(name string, value []byte) *Error {
		if name == "options" && value[0] == '{' {
			return jsonbody.Members(value, func(name string, value []byte) *Error {
				return refuse("options."+name, refusedOptions[name], value)
			})
		}
		return refuse(name, list[name], value)
	})
	if err != nil {
		return err
	}
	return nil
}

// refuse returns an error if f is a refused field and the value would change the answer.
func refuse(name string, f *field, value []byte) *Error {
	if f == nil || jsonbody.OneOf(value, f.harmless) {
		return nil
	}
	text := "is not supported"
	if f.instead != "" {
		text += ". " + f.instead
	}
	return unsupported(name, "%s", text)
}

// unsupported returns an Error about a parameter that Ollama's API has and Headroom has not.
func unsupported(param, format string, args ...any) *Error {
	err := badParam(param, format, args...)
	err.Unsupported = true
	return err
}
