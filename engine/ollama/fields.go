package ollama

// What becomes of each field of a request, and of each of its options; see jsonbody.Field. The
// tables have those of Ollama's types, and older ones that clients still send.

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"headroom/engine/jsonbody"
	"headroom/engine/problem"
)

const (
	works   = jsonbody.Works
	refused = jsonbody.Refused
	inert   = jsonbody.Inert
)

// field is a row of fieldTable: a jsonbody.Field with the support of two routes.
type field struct {
	name                    string
	chat, generate          jsonbody.Support
	harmless, note, instead string
}

func (f field) ofChat() jsonbody.Field     { return f.with(f.chat) }
func (f field) ofGenerate() jsonbody.Field { return f.with(f.generate) }

func (f field) with(s jsonbody.Support) jsonbody.Field {
	return jsonbody.Field{Name: f.name, Support: s, Harmless: f.harmless, Note: f.note,
		Instead: f.instead}
}

var fieldTable = withFormFields([]field{
	{name: "_debug_render_only", chat: refused, generate: refused, harmless: `false`,
		instead: "POST /apply-template returns the prompt"},
	{name: "cache", chat: works, generate: works,
		note: "Headroom's: `disk`, `memory` or `none`"},
	{name: "context", generate: refused, harmless: `[]`,
		instead: "Send the conversation to /api/chat: what is cached is not computed again"},
	{name: "format", chat: works, generate: works, note: "`json` or a JSON Schema"},
	{name: "height", generate: refused, harmless: `0`},
	{name: "images", generate: refused, harmless: `[]`,
		instead: "The model reads text only"},
	{name: "keep_alive", chat: works, generate: works,
		note: "without it, as an earlier request or the settings say"},
	{name: "logprobs", chat: works, generate: works},
	{name: "messages", chat: works, note: "text only. Without any, the model is only loaded"},
	{name: "model", chat: works, generate: works},
	{name: "options", chat: works, generate: works, note: "see the next table"},
	{name: "prompt", generate: works, note: "without it, the model is only loaded"},
	{name: "raw", generate: works},
	{name: "shift", chat: inert, generate: inert,
		note: "an answer ends where the context ends"},
	{name: "speculation", chat: works, generate: works,
		note: "Headroom's: `auto`, `off`, `lookup`, `mtp`, `draft` or `dflash`, within what the " +
			"server allows"},
	{name: "steps", generate: refused, harmless: `0`},
	{name: "stream", chat: works, generate: works, note: "`true` without it"},
	{name: "suffix", generate: works, note: "for models with tokens for it"},
	{name: "system", generate: works},
	{name: "template", generate: refused, harmless: `""`,
		instead: "Add a chat_template.jinja to the model's folder"},
	{name: "think", chat: works, generate: works,
		note: "a boolean or an effort. Without it the model decides"},
	{name: "tool_choice", chat: refused, generate: refused, harmless: `"auto" ""`,
		instead: "Ollama's API has none; /v1/chat/completions has"},
	{name: "tools", chat: works, note: "only functions; calls fit the schema if a function is " +
		"`strict`"},
	{name: "top_logprobs", chat: works, generate: works},
	{name: "truncate", chat: inert, generate: inert,
		note: "a prompt that does not fit is refused"},
	{name: "width", generate: refused, harmless: `0`},
})

// withFormFields is jsonbody.WithFormFields for two routes.
func withFormFields(table []field) []field {
	own := make([]jsonbody.Field, len(table))
	for i, f := range table {
		own[i] = jsonbody.Field{Name: f.name, Support: works}
	}
	for _, f := range jsonbody.WithFormFields("Send format", own) {
		if f.Support == refused {
			table = append(table, field{f.Name, refused, refused, f.Harmless, f.Note, f.Instead})
		}
	}
	slices.SortFunc(table, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	return table
}

// The notes of options that are about memory, or about speed.
const (
	memory = "the settings decide"
	speed  = "the engine decides"
)

// optionTable has the options, which are the same on both routes.
var optionTable = []jsonbody.Field{
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
	option("num_gqa", inert, "the model's files say it"),
	option("num_keep", inert, "no prompt is truncated"),
	option("num_predict", works, "0 and less: the rest of the context"),
	option("num_thread", inert, speed),
	option("numa", inert, memory),
	option("penalize_newline", refused, "", `true`),
	option("presence_penalty", works, ""),
	option("repeat_last_n", works, "64 without it, and 131072 for -1"),
	option("repeat_penalty", works, ""),
	option("rope_frequency_base", refused, "", `0`),
	option("rope_frequency_scale", refused, "", `0`),
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

func option(name string, s jsonbody.Support, note string, harmless ...string) jsonbody.Field {
	return jsonbody.Field{Name: name, Support: s, Note: note,
		Harmless: strings.Join(harmless, " ")}
}

// fieldsOf returns the rows of fieldTable for a route.
func fieldsOf(route func(field) jsonbody.Field) (list []jsonbody.Field) {
	for _, f := range fieldTable {
		list = append(list, route(f))
	}
	return list
}

var (
	chatFields     = jsonbody.ByName(fieldsOf(field.ofChat))
	generateFields = jsonbody.ByName(fieldsOf(field.ofGenerate))
	optionsByName  = jsonbody.ByName(optionTable)
)

// refuseFields returns the error of the first refused field or option with a value that would
// change the answer, or of the first option that there is not. jsonbody.Check has accepted the
// body, which is an object.
func refuseFields(body []byte, fields jsonbody.FieldsByName) error {
	err := jsonbody.Members(jsonbody.Trimmed(body), func(name string, value []byte) *Error {
		if name == "options" && fields[name].Support == works && value[0] == '{' {
			return jsonbody.Members(value, refuseOption)
		}
		return fields[name].Refuse(name, value)
	})
	if err != nil {
		return err
	}
	return nil
}

// refuseOption returns the error of an option. One that is not in the table is misspelled: Ollama's
// types have no others.
func refuseOption(name string, value []byte) *Error {
	row, known := optionsByName[name]
	if known || jsonbody.IsNull(value) {
		return row.Refuse("options."+name, value)
	}
	const similar = 3
	names := make([]string, len(optionTable))
	for i, f := range optionTable {
		names[i] = f.Name
	}
	return badParam("options."+jsonbody.Shorten(json.RawMessage(name)),
		"is not an option. The most similar ones are %s",
		strings.Join(problem.Nearest(name, names)[:similar], ", "))
}
