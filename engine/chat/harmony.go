package chat

// The messages of gpt-oss.
// Source: https://developers.openai.com/cookbook/articles/openai-harmony

import (
	"encoding/json"
	"regexp"
	"strings"

	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
)

// harmony is the format of gpt-oss:
//
//	<|channel|>analysis<|message|>TEXT<|end|>
//	<|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json
//	<|message|>{…}<|call|>
//	<|start|>assistant<|channel|>final<|message|>TEXT<|return|>
//
// The channel analysis is reasoning. The channels final and commentary are content: in commentary
// the model says what it is going to do. The recipient, to=…, may also stand before the channel. A
// message for a tool of another kind, such as the browser, is reasoning: it is not for the user.
var harmony = channelFormat{
	name:    "harmony",
	marks:   []string{"<|channel|>", "<|message|>", "<|start|>"},
	start:   "<|start|>",
	message: "<|message|>",
	ends:    []string{"<|end|>", "<|return|>", "<|call|>"},
	header:  []string{"<|channel|>", "<|constrain|>"},
	content: []string{"<|channel|>final", "<|message|>"},
	finals:  []string{"<|return|>", "<|call|>"},
	kind:    harmonyKind,
	form:    &harmonyForm,
	begin: func(function string, schemas map[string]schema) callReader {
		return &harmonyReader{function: function, schemas: schemas}
	},
}

var (
	recipientPattern = regexp.MustCompile(`\bto=([^\s<]+)`)
	channelPattern   = regexp.MustCompile(`<\|channel\|>\s*([a-z]+)`)
)

func harmonyKind(header string, schemas map[string]schema) (Kind, string) {
	if to := recipientPattern.FindStringSubmatch(header); to != nil {
		if name, ok := strings.CutPrefix(to[1], "functions."); ok && name != "" {
			return Call, name
		}
		if _, offered := schemas[to[1]]; offered {
			return Call, to[1]
		}
		if to[1] != "user" && to[1] != "all" {
			return Reasoning, ""
		}
	}
	if channel := channelPattern.FindStringSubmatch(header); channel != nil &&
		channel[1] == "analysis" {
		return Reasoning, ""
	}
	return Content, ""
}

// harmonyReader parses the arguments of a call, which are a JSON object. A message without text
// that ends is a call without arguments.
type harmonyReader struct {
	cursor
	function string
	schemas  map[string]schema
	object   objectSpan
}

func (r *harmonyReader) read(text string) (ToolCall, int, verdict) {
	switch r.object.read(&r.cursor, text) {
	case undecided:
		return ToolCall{}, 0, undecided
	case isCall:
		call, ok := callWithJSON(r.function, text[r.object.from:r.object.end], r.schemas)
		if ok {
			return call, r.at, isCall
		}
		return ToolCall{}, r.at, isText
	}
	if r.object.broken {
		return ToolCall{}, r.at, isText
	}
	word, decided := r.word(text, harmony.ends...)
	if word != "" {
		return ToolCall{Name: r.function, Arguments: "{}"}, r.at, isCall
	}
	return ToolCall{}, 0, verdictOf(decided, false)
}

// harmonyForm writes a call after the reasoning that the model may have.
var harmonyForm = callForm{
	call: func(w *callWriter, name string, parameters json.RawMessage) (grammar.Node, error) {
		arguments, err := w.object(parameters, nil)
		if err != nil {
			return 0, err
		}
		space := w.b.Space
		thought := space.Repeat(space.Runes(regular.RuneRange{Lo: 0, Hi: 0x10FFFF}), 0,
			regular.Unlimited)
		reasoning := w.b.Seq(w.text("<|channel|>analysis<|message|>"), w.b.Terminal(thought),
			w.text("<|end|><|start|>assistant"))
		return w.b.Seq(w.b.Optional(reasoning), w.text(harmonyHeader(name)), arguments), nil
	},
	// Headers differ, but that of a call has ended when its reader begins.
	begun: func(reader callReader, text string) (string, bool) {
		name := reader.(*harmonyReader).function
		return harmonyHeader(name) + strings.TrimLeft(text, spaces), true
	},
}

func harmonyHeader(function string) string {
	return "<|channel|>commentary to=functions." + function + " <|constrain|>json<|message|>"
}
