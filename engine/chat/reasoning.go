package chat

import (
	"slices"
	"strings"
)

// Formats of reasoning. Reasoning models write their thoughts before an answer, between two tags or
// in a message of its own (channels.go). The template shows which tags.
//
// Source: mlx_lm/tokenizer_utils.py, and the templates in llama.cpp's models/templates.

// reasoningFormat encloses reasoning in tags.
type reasoningFormat struct {
	mark        string // what the template contains
	open, close string
	drop        []string // more tags, around content; they mean nothing
	around      []string // as drop, but content may stand without them
}

// reasoningFormats has a row for each format. The first whose mark is in the template applies; a
// template without any has the last one's tags, which add nothing to an answer without them.
var reasoningFormats = []reasoningFormat{
	// Gemma 4, Mistral, Seed-OSS, MiniMax M3, LongCat, Hunyuan 3
	{"<|channel>", "<|channel>thought", "<channel|>", nil, nil},
	{"[THINK]", "[THINK]", "[/THINK]", nil, nil},
	{"<seed:think>", "<seed:think>", "</seed:think>", nil, nil},
	{"<mm:think>", "<mm:think>", "</mm:think>", nil, nil},
	{"<longcat_think>", "<longcat_think>", "</longcat_think>", nil, nil},
	{"<think{}>", "<think:opensource>", "</think:opensource>", nil, nil},
	// Command
	{"<|START_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|>",
		[]string{"<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"}, nil},
	// Apertus
	{"<|inner_prefix|>", "<|inner_prefix|>", "<|inner_suffix|>", nil, nil},
	// Kimi K3, whose template makes a tag of three parts
	{"<|open|>", "<|open|>think<|sep|>", "<|close|>think<|sep|>",
		[]string{"<|open|>response<|sep|>", "<|close|>response<|sep|>"}, nil},
	// Solar Open, whose messages have headers
	{"<|begin|>", "<|think|>", "<|end|>",
		[]string{"<|begin|>assistant", "<|content|>"}, nil},
	// Apriel, whose prompt ends with words that begin the reasoning
	{"[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]",
		[]string{"[END FINAL RESPONSE]"}, nil},
	// Hunyuan, Granite 3.3, ERNIE 4.5 Thinking
	{"<answer>", "<think>", "</think>", nil, []string{"<answer>", "</answer>"}},
	{"<response></response>", "<think>", "</think>", nil, responseTags},
	{"<global_setting>", "<think>", "</think>", nil, responseTags},
	// Qwen, GLM, DeepSeek
	{"<think>", "<think>", "</think>", nil, nil},
}

var responseTags = []string{"<response>", "</response>"}

func reasoningOf(source string) reasoningFormat {
	for _, f := range reasoningFormats {
		if strings.Contains(source, f.mark) {
			return f
		}
	}
	return reasoningFormats[len(reasoningFormats)-1]
}

// tags returns all tags of the format.
func (f reasoningFormat) tags() []string {
	return slices.Concat([]string{f.open, f.close}, f.drop, f.around)
}

// opens reports whether text generated after the prompt begins inside a block of reasoning, which
// is the case if the prompt ends with the opening tag. A tag in a message does not open a block.
func (f reasoningFormat) opens(prompt string) bool {
	return strings.HasSuffix(strings.TrimRight(prompt, spaces), f.open)
}
