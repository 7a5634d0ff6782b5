package generate

// Text between a prefix and a suffix, which editors ask for while somebody types. Models that can
// write it have tokens that mark the parts of the prompt. Their authors' documents say in which
// order the parts come.

import (
	"slices"
	"strings"

	"headroom/engine/tokenizer"
)

// infillMarks are the tokens of a family. Each is before its part; the answer follows the last one.
type infillMarks struct {
	prefix, suffix, middle string // middle is "" where the answer follows the prefix
	suffixFirst            bool
}

var infillTable = []infillMarks{
	// Qwen, CodeGemma
	{prefix: "<|fim_prefix|>", suffix: "<|fim_suffix|>", middle: "<|fim_middle|>"},
	// StarCoder, Granite
	{prefix: "<fim_prefix>", suffix: "<fim_suffix>", middle: "<fim_middle>"},
	// DeepSeek Coder
	{prefix: "<｜fim▁begin｜>", suffix: "<｜fim▁hole｜>", middle: "<｜fim▁end｜>"},
	// GLM
	{prefix: "<|code_prefix|>", suffix: "<|code_suffix|>", middle: "<|code_middle|>"},
	// Seed-Coder
	{prefix: "<[fim-prefix]>", suffix: "<[fim-suffix]>", middle: "<[fim-middle]>",
		suffixFirst: true},
	// Codestral
	{prefix: "[PREFIX]", suffix: "[SUFFIX]", suffixFirst: true},
}

// infill returns the prompt for the text between Prompt and Suffix. The error is a *ParamError.
func (r *Request) infill(t *tokenizer.Tokenizer) (string, *tokenizer.Shield, error) {
	i := slices.IndexFunc(infillTable, func(m infillMarks) bool {
		return !slices.ContainsFunc([]string{m.prefix, m.suffix, m.middle}, func(mark string) bool {
			_, known := t.TokenID(mark)
			return !known && mark != ""
		})
	})
	if i < 0 {
		return "", nil, Unsupported("suffix", "this model has no tokens that mark a prefix and a "+
			"suffix. Take a model that is made for it, such as Qwen2.5-Coder")
	}
	m, shield := infillTable[i], t.NewShield()
	parts := []string{m.prefix, shield.Hide(r.Prompt), m.suffix, shield.Hide(r.Suffix), m.middle}
	if m.suffixFirst {
		parts = slices.Concat(parts[2:4], parts[:2], parts[4:])
	}
	return strings.Join(parts, ""), shield, nil
}
