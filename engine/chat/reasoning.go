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
}

// reasoningFormats has a row for each format. The first whose mark is in the template applies; a
// template without any has the last one's tags, which add nothing to an answer without them.
var reasoningFormats = []reasoningFormat{
	{"<|channel>", "<|channel>thought", "<channel|>"},                // Gemma 4
	{"[THINK]", "[THINK]", "[/THINK]"},                               // Mistral
	{"<seed:think>", "<seed:think>", "</seed:think>"},                // Seed-OSS
	{"<mm:think>", "<mm:think>", "</mm:think>"},                      // MiniMax M3
	{"<|START_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|>"}, // Command
	{"<|inner_prefix|>", "<|inner_prefix|>", "<|inner_suffix|>"},     // Apertus
	{"<think>", "<think>", "</think>"},                               // Qwen, GLM, DeepSeek
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
