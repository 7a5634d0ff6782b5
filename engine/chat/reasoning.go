package chat

import "strings"

// Formats of reasoning. Reasoning models write their thoughts before an answer, between two tags or
// in a message of its own (channels.go). The template shows which tags.
//
// Source: mlx_lm/tokenizer_utils.py, and the templates in llama.cpp's models/templates.

// reasoningFormat encloses reasoning in tags.
type reasoningFormat struct {
	mark        string // what the template contains
	open, close string
	drop        []string // more tags, around content; they mean nothing
}

// reasoningFormats has a row for each format. The first whose mark is in the template applies; a
// template without any has the last one's tags, which add nothing to an answer without them.
var reasoningFormats = []reasoningFormat{
	// Gemma 4, Mistral, Seed-OSS, MiniMax M3, LongCat, Hunyuan 3
	{"<|channel>", "<|channel>thought", "<channel|>", nil},
	{"[THINK]", "[THINK]", "[/THINK]", nil},
	{"<seed:think>", "<seed:think>", "</seed:think>", nil},
	{"<mm:think>", "<mm:think>", "</mm:think>", nil},
	{"<longcat_think>", "<longcat_think>", "</longcat_think>", nil},
	{"<think{}>", "<think:opensource>", "</think:opensource>", nil},
	// Command
	{"<|START_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|>",
		[]string{"<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
	// Apertus
	{"<|inner_prefix|>", "<|inner_prefix|>", "<|inner_suffix|>", nil},
	// Kimi K3, whose template makes a tag of three parts
	{"<|open|>", "<|open|>think<|sep|>", "<|close|>think<|sep|>",
		[]string{"<|open|>response<|sep|>", "<|close|>response<|sep|>"}},
	// Solar Open, whose messages have headers
	{"<|begin|>", "<|think|>", "<|end|>",
		[]string{"<|begin|>assistant", "<|content|>"}},
	// Apriel, whose prompt ends with words that begin the reasoning
	{"[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]",
		[]string{"[END FINAL RESPONSE]"}},
	// Qwen, GLM, DeepSeek
	{"<think>", "<think>", "</think>", nil},
}

func reasoningOf(source string) reasoningFormat {
	for _, f := range reasoningFormats {
		if strings.Contains(source, f.mark) {
			return f
		}
	}
	return reasoningFormats[len(reasoningFormats)-1]
}

// opens reports whether text generated after the prompt begins inside a block of reasoning, which
// is the case if the prompt ends with the opening tag. A tag in a message does not open a block.
func (f reasoningFormat) opens(prompt string) bool {
	return strings.HasSuffix(strings.TrimRight(prompt, spaces), f.open)
}
