package commands

// The sampling parameters of run and chat. They are those of the endpoint, with its names and
// ranges. Samplers of other programs that Headroom lacks are refused by their names.

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"headroom/engine/generate"
)

// SamplingFlags are the flags of the sampler. Flags that are not given have the model's values.
type SamplingFlags struct {
	Temperature       *float64          `aliases:"temp" help:"Sampling temperature; 0 always takes the most likely token. Default: the model's." placeholder:"T"`
	TopP              *float64          `name:"top-p" help:"Keep the most likely tokens that together reach this probability. Default: the model's." placeholder:"P"`
	TopK              *int              `name:"top-k" help:"Keep this many of the most likely tokens; 0: all. Default: the model's." placeholder:"N"`
	MinP              *float64          `name:"min-p" help:"Drop tokens below this share of the largest probability. Default: the model's." placeholder:"P"`
	RepetitionPenalty *float64          `aliases:"repeat-penalty" help:"Divide the logits of recent tokens by this; 1: off." placeholder:"X"`
	PresencePenalty   *float64          `help:"Subtract this once from the logit of each recent token." placeholder:"X"`
	FrequencyPenalty  *float64          `help:"Subtract this from the logit of a recent token for each time that it occurs." placeholder:"X"`
	PenaltyTokens     *int              `name:"repetition-context-size" aliases:"repeat-last-n" help:"How many of the last tokens, prompt included, the three penalties count. Default: 20." placeholder:"N"`
	PresenceTokens    *int              `name:"presence-context-size" help:"How many of the last tokens the presence penalty counts, if not as many as the others." placeholder:"N"`
	FrequencyTokens   *int              `name:"frequency-context-size" help:"How many of the last tokens the frequency penalty counts, if not as many as the others." placeholder:"N"`
	XTCProbability    *float64          `name:"xtc-probability" help:"With this probability drop all likely tokens but the least likely of them (XTC). Default: 0, off." placeholder:"P"`
	XTCThreshold      *float64          `name:"xtc-threshold" help:"The probability from which on a token is likely, for XTC. Default: 0.1." placeholder:"P"`
	DRYMultiplier     *float64          `name:"dry-multiplier" help:"Make tokens less likely that continue a repetition, by this (DRY). Default: 0, off." placeholder:"X"`
	DRYBase           *float64          `name:"dry-base" help:"Multiply that for each token of the repetition. Default: 1.75." placeholder:"X"`
	DRYAllowedTokens  *int              `name:"dry-allowed-length" help:"A repetition of this many tokens is the first that counts. Default: 2." placeholder:"N"`
	DRYContextTokens  *int              `name:"dry-penalty-last-n" help:"Look for repetitions in this many of the last tokens; -1: all. Default: -1." placeholder:"N"`
	DRYBreakers       []string          `name:"dry-sequence-breaker" sep:"none" help:"A text across which no repetition counts; may be given again. \"none\": no such text. Default: line break, colon, quote and asterisk." placeholder:"TEXT"`
	LogitBias         map[int32]float32 `help:"Add a number from -100 to 100 to the logits of tokens, by their IDs." mapsep:"," placeholder:"ID=BIAS,..."`
	Seed              *int64            `help:"Seed of the random numbers, for repeatable answers." placeholder:"N"`
}

// params returns the flags as the parameters of a request. The error is a *generate.ParamError.
func (f *SamplingFlags) params() (generate.Params, error) {
	p := generate.Params{Temperature: f.Temperature, TopP: f.TopP, TopK: f.TopK, MinP: f.MinP,
		RepetitionPenalty: f.RepetitionPenalty, PresencePenalty: f.PresencePenalty,
		FrequencyPenalty: f.FrequencyPenalty, LogitBias: f.LogitBias, Seed: f.Seed}
	breakers := f.DRYBreakers
	if slices.Equal(breakers, []string{"none"}) {
		breakers = []string{}
	}
	if err := p.SetSamplers(&generate.Samplers{ContextTokens: f.PenaltyTokens,
		PresenceContextTokens: f.PresenceTokens, FrequencyContextTokens: f.FrequencyTokens,
		XTCProbability: f.XTCProbability,
		XTCThreshold:   f.XTCThreshold, DRYMultiplier: f.DRYMultiplier, DRYBase: f.DRYBase,
		DRYAllowedTokens: f.DRYAllowedTokens, DRYContextTokens: f.DRYContextTokens,
		DRYBreakers: breakers}); err != nil {
		return p, err
	}
	return p, p.Normalize()
}

// check returns an error about a flag that is out of range.
func (f *SamplingFlags) check() error {
	if _, err := f.params(); err != nil {
		return flagError(err)
	}
	for _, alone := range []struct {
		given       bool
		flag, needs string
	}{
		{f.XTCThreshold != nil && f.XTCProbability == nil, "xtc-threshold", "xtc-probability"},
		{f.DRYBase != nil && f.DRYMultiplier == nil, "dry-base", "dry-multiplier"},
		{f.DRYAllowedTokens != nil && f.DRYMultiplier == nil, "dry-allowed-length",
			"dry-multiplier"},
		{f.DRYContextTokens != nil && f.DRYMultiplier == nil, "dry-penalty-last-n",
			"dry-multiplier"},
		{f.DRYBreakers != nil && f.DRYMultiplier == nil, "dry-sequence-breaker",
			"dry-multiplier"},
	} {
		if alone.given {
			return fmt.Errorf("--%s has no effect without --%s", alone.flag, alone.needs)
		}
	}
	for id, bias := range f.LogitBias {
		if id < 0 || !(bias >= -100 && bias <= 100) {
			return fmt.Errorf("--logit-bias: expected the ID of a token and a number between "+
				"-100 and 100, got %d=%v", id, bias)
		}
	}
	return nil
}

// flagNames are the flags that do not have the names of their parameters.
var flagNames = map[string]string{"dry_sequence_breakers": "dry-sequence-breaker",
	"chat_template_kwargs": "chat-template-args"}

// flagError returns an error about a parameter as one about its flag: "--top-p: must be ...". Other
// errors, and nil, stay as they are.
func flagError(err error) error {
	var bad *generate.ParamError
	if !errors.As(err, &bad) {
		return err
	}
	flag := cmp.Or(flagNames[bad.Param], strings.ReplaceAll(bad.Param, "_", "-"))
	return errors.New("--" + flag + strings.TrimPrefix(bad.Problem.Message, bad.Param))
}

// otherSamplers are flags of mlx-lm and llama.cpp for samplers that Headroom lacks. The endpoint
// refuses the same parameters.
var otherSamplers = map[string]string{
	"adaptive-target":    "adaptive sampling",
	"dynatemp-exp":       "dynamic temperature",
	"dynatemp-range":     "dynamic temperature",
	"min-tokens-to-keep": "a minimum number of tokens to keep",
	"mirostat":           "Mirostat",
	"mirostat-ent":       "Mirostat",
	"mirostat-lr":        "Mirostat",
	"samplers":           "another order of samplers",
	"sampler-seq":        "another order of samplers",
	"sampling-seq":       "another order of samplers",
	"tfs":                "tail-free sampling",
	"top-a":              "top-a",
	"top-n-sigma":        "top-n-sigma",
	"typical":            "typical sampling",
	"typical-p":          "typical sampling",
}

// reserved are flags that other programs have, and what to say of them.
var reserved = map[string]string{
	"image":                     "Headroom reads text only",
	"chat-template":             templateIsAFile,
	"use-default-chat-template": templateIsAFile,
	"ignore-eos":                "only requests to the endpoint have it, as ignore_eos",
	"pipeline":                  "a model runs on one machine",
}

// ownFlags are flags of llama.cpp and others, and what they are called here.
var ownFlags = map[string]string{
	"m": "--model MODEL", "hf": "--model MODEL", "hf-repo": "--model MODEL",
	"p":    `the prompt without a flag: headroom run "PROMPT"`,
	"f":    "--prompt - < FILE",
	"file": "--prompt - < FILE",
	"n":    "--max-tokens N", "n-predict": "--max-tokens N", "predict": "--max-tokens N",
	"c": "--context TOKENS", "ctx-size": "--context TOKENS", "num-ctx": "--context TOKENS",
	"lora-layers": "--num-layers N", "lora": "--adapter DIR", "md": "--draft-model MODEL",
	"model-draft": "--draft-model MODEL",
	"draft":       "--num-draft-tokens N", "draft-max": "--num-draft-tokens N",
	"ctk": "--kv-format FORMAT", "cache-type-k": "--kv-format FORMAT",
	"ctv": "--kv-format FORMAT", "cache-type-v": "--kv-format FORMAT",
	"t": "--threads N", "np": "--max-sequences N", "parallel": "--max-sequences N",
	"sys": "--system TEXT", "system-prompt": "--system TEXT",
	"ngl": "--device metal or --device cpu", "n-gpu-layers": "--device metal or --device cpu",
	"gpu-layers":     "--device metal or --device cpu",
	"repeat-penalty": "--repetition-penalty X", "repeat-last-n": "--repetition-context-size N",
}

const templateIsAFile = "Headroom takes the template from the model's folder: put it there as " +
	"chat_template.jinja"

var unknownFlag = regexp.MustCompile(`^unknown flag (--?)([\w-]+)`)

// refusedFlag returns a sentence about a flag that no command has, if it is known from other
// programs; "": it is not.
func refusedFlag(flag string) string {
	if sampler := otherSamplers[flag]; sampler != "" {
		return fmt.Sprintf("--%s is not supported: Headroom does not have %s", flag, sampler)
	}
	if why := reserved[flag]; why != "" {
		return fmt.Sprintf("--%s is not supported: %s", flag, why)
	}
	return ""
}
