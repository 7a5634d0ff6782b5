package commands

// The figures of an answer: a line for people, mlx-lm's lines for --verbose and one about drafts,
// and a document for --json.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/problem"
)

// printFigures prints what an answer took.
func (f *AnswerFlags) printFigures(out io.Writer, answer reply, s engine.Stats) {
	if !f.Verbose {
		answer.figures(out)
		return
	}
	fmt.Fprint(out, answer.verbose(s))
	if text := answer.drafts(); text != "" {
		fmt.Fprintln(out, "Drafts: "+strings.Replace(text, "no drafts: ", "none. ", 1))
	}
}

// verbose returns the figures in the form of mlx-lm's --verbose, with the memory that the engine
// takes after the answer: it gives none back meanwhile.
func (s reply) verbose(stats engine.Stats) string {
	u, memory := s.event.Usage, stats.WeightsBytes+stats.KVBytes+stats.StateBytes+stats.ScratchBytes
	return fmt.Sprintf("Prompt: %d tokens, %.3f tokens-per-sec\n"+
		"Generation: %d tokens, %.3f tokens-per-sec\nPeak memory: %.3f GB\n", u.PromptTokens,
		s.promptSpeed(), u.CompletionTokens, s.event.Timing.DecodeTokensPerSecond(),
		float64(memory)/1e9)
}

// promptSpeed returns the tokens of the prompt that were computed, per second; 0: none were.
func (s reply) promptSpeed() float64 {
	u, prefill := s.event.Usage, s.event.Timing.Prefill
	if prefill <= 0 {
		return 0
	}
	return float64(u.PromptTokens-u.CachedTokens) / prefill.Seconds()
}

// answerDocument is what --json prints. The names are those of the endpoint where it has them.
type answerDocument struct {
	Model        string      `json:"model"`
	Content      string      `json:"content"`
	Reasoning    string      `json:"reasoning_content,omitempty"`
	FinishReason string      `json:"finish_reason"` // stop, length or cancelled
	Usage        answerUsage `json:"usage"`
}

type answerUsage struct {
	PromptTokens          int        `json:"prompt_tokens"`
	CachedTokens          int        `json:"cached_tokens"`
	CompletionTokens      int        `json:"completion_tokens"`
	DraftTokens           int        `json:"draft_tokens"`
	AcceptedTokens        int        `json:"accepted_tokens"`
	Drafts                draft.Ways `json:"drafts,omitzero"`     // by the way they were made
	Gained                float64    `json:"gained,omitzero"`     // by drafts; 0: none, or unknown
	NoDrafts              string     `json:"no_drafts,omitempty"` // why there were none
	FirstTokenSeconds     float64    `json:"first_token_seconds"`
	PromptTokensPerSecond float64    `json:"prompt_tokens_per_second"`
	TokensPerSecond       float64    `json:"tokens_per_second"` // after the first
}

// gained returns how many times as fast as without drafts the answer was decoded; 0 if there were
// no drafts, or the time was too short to tell.
func (s reply) gained() float64 {
	if s.event.Usage.DraftTokens == 0 || s.event.Timing.Decode < leastTimed {
		return 0
	}
	return s.event.Timing.Speedup()
}

// writeJSON writes the answer as one object, on one line.
func (s reply) writeJSON(out io.Writer, model string) error {
	u, t := s.event.Usage, s.event.Timing
	finish := string(s.event.Finish)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(answerDocument{Model: model, Content: s.content, Reasoning: s.reasoning,
		FinishReason: finish, Usage: answerUsage{PromptTokens: u.PromptTokens,
			CachedTokens: u.CachedTokens, CompletionTokens: u.CompletionTokens,
			DraftTokens: u.DraftTokens, AcceptedTokens: u.AcceptedTokens, Drafts: u.Drafts(),
			Gained: s.gained(), NoDrafts: s.event.NoDrafts.Cause.String(),
			FirstTokenSeconds: t.FirstToken.Seconds(), PromptTokensPerSecond: s.promptSpeed(),
			TokensPerSecond: t.DecodeTokensPerSecond()}})
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The answer cannot be written", "")
	}
	return nil
}
