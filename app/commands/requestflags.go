package commands

// The flags with which `serve` sets parameters of requests that do not have them, and flags of
// mlx_lm.server that Headroom does not need.

import (
	"encoding/json"
	"fmt"
	"io"

	"headroom/engine/generate"
	"headroom/engine/problem"
)

// RequestFlags are the parameters of requests that do not have them. They override the settings of
// every model.
type RequestFlags struct {
	Temperature      *float64 `aliases:"temp" help:"Sampling temperature of requests that have none. Default: the model's." placeholder:"T"`
	TopP             *float64 `name:"top-p" help:"The same for top_p." placeholder:"P"`
	TopK             *int     `name:"top-k" help:"The same for top_k." placeholder:"N"`
	MinP             *float64 `name:"min-p" help:"The same for min_p." placeholder:"P"`
	MaxTokens        int      `help:"Maximum length of an answer whose request has none. Default: the rest of the context." placeholder:"N"`
	ChatTemplateArgs string   `help:"Variables for the chat template that a request does not set, as a JSON object." placeholder:"JSON"`
}

// defaults returns the flags as defaults of requests. The error is a Problem.
func (f *RequestFlags) defaults() (generate.Defaults, error) {
	d := generate.Defaults{MaxTokens: f.MaxTokens, Temperature: f.Temperature, TopP: f.TopP,
		TopK: f.TopK, MinP: f.MinP}
	if f.ChatTemplateArgs != "" {
		d.TemplateKwargs = json.RawMessage(f.ChatTemplateArgs)
	}
	if err := d.Check(); err != nil {
		return d, problem.New(problem.BadRequest, flagError(err).Error(), "", "")
	}
	return d, nil
}

// WithoutEffect are flags of mlx_lm.server that change nothing.
type WithoutEffect struct {
	PromptConcurrency int  `hidden:""`
	PrefillStepSize   int  `hidden:""`
	TrustRemoteCode   bool `hidden:""`
}

// say writes a line for each flag that was given.
func (f *WithoutEffect) say(out io.Writer) {
	for _, one := range []struct {
		given     bool
		name, why string
	}{
		{f.PromptConcurrency != 0, "prompt-concurrency",
			"as many prompts are computed at once as requests run (--max-sequences)"},
		{f.PrefillStepSize != 0, "prefill-step-size",
			"the length of a chunk follows from the time that it takes (--max-prefill-stall)"},
		{f.TrustRemoteCode, "trust-remote-code", "Headroom runs no code from a model's folder"},
	} {
		if one.given {
			fmt.Fprintf(out, "headroom: --%s has no effect: %s\n", one.name, one.why)
		}
	}
}
