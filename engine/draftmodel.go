package engine

// A draft model: a smaller model with the same vocabulary, which drafts tokens for the engine's
// model (engine/loop). It is loaded on the same device, by the same code, after the other one. A
// DFlash drafter (engine/models) is named in the same way. It has no vocabulary, and its layers are
// a part of the other model.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"headroom/engine/checkpoint"
	"headroom/engine/draft"
	"headroom/engine/loop"
	"headroom/engine/plan"
	"headroom/engine/runner"
	"headroom/engine/textproc"
)

// DraftModel names a model that drafts for another one. Source is required.
type DraftModel struct {
	Source Source
	Name   string // in logs
	// Required refuses the large model if the draft model cannot be used. Otherwise the large model
	// is loaded without it, and a warning is logged.
	Required bool
	Tokens   int // maximum number of drafts in a pass; 0: as many as are worth their time
}

// CheckDraftTokens returns an error unless n is a valid DraftModel.Tokens.
func CheckDraftTokens(n int) error {
	if n < 0 || n > draft.MaxTokens {
		return fmt.Errorf("expected 0 to %d drafts, got %d", draft.MaxTokens, n)
	}
	return nil
}

// draftModel is a loaded draft model, or the weights of a DFlash drafter. The zero value is none.
type draftModel struct {
	weights *checkpoint.Weights
	runner  *runner.Runner // nil for a DFlash drafter
}

// draftModel returns the draft model, unless Speculate rules it out.
func (o *Options) draftModel() *DraftModel {
	switch o.Speculate {
	case SpeculateAuto, SpeculateDraft, SpeculateDFlash:
		return o.DraftModel
	}
	return nil
}

// drafter returns Info.Drafter.
func (e *Engine) drafter() string {
	switch p := e.plan; {
	case p.Draft != nil:
		return SpeculateDraft
	case p.DFlash != nil:
		return SpeculateDFlash
	case p.Spec.Drafts:
		return SpeculateMTP
	}
	return ""
}

// openDFlash maps the weights of the DFlash drafter, if there is one, and reads them once.
func (e *Engine) openDFlash(ctx context.Context) (err error) {
	if e.plan.DFlash == nil {
		return nil
	}
	w, err := checkpoint.Open(e.options.DraftModel.Source, e.plan.DFlash, e.kernels)
	if err != nil {
		return err
	}
	if err := loadingStopped(w.Prefault(ctx, func(float64) {})); err != nil {
		_ = w.Close()
		return err
	}
	e.draft.weights = w
	return nil
}

// blockDrafts returns the maximum number of drafts of a DFlash drafter in a pass; 0: no limit.
func (e *Engine) blockDrafts() int {
	if e.plan.DFlash == nil {
		return 0
	}
	return e.options.DraftModel.Tokens
}

// checkDraftModel plans the model anew without a draft model that has another vocabulary, and logs
// why a draft model is not used. Errors are Problems.
func (e *Engine) checkDraftModel(src Source, o plan.Options) (err error) {
	if e.plan.Draft != nil {
		if other := e.checkVocabulary(); other != nil {
			if o.DraftModel.Required {
				return other
			}
			o.DraftModel = nil
			if e.plan, err = plan.New(src, o); err != nil {
				return err
			}
			e.plan.DraftModelError = other
			if err := cmp.Or(e.plan.Check(), e.plan.CheckBuffers()); err != nil {
				return err
			}
		}
	}
	if err := e.plan.DraftModelError; err != nil {
		slog.Warn("the draft model is not used", "draft_model", e.options.DraftModel.Name,
			"err", err)
	}
	return nil
}

// checkVocabulary returns a Problem unless the draft model has the same tokens as the model, as far
// as both have some. Either may have more.
func (e *Engine) checkVocabulary() error {
	text, err := textproc.ReadWithConfig(e.options.DraftModel.Source, e.plan.Draft.Config)
	if err != nil {
		return plan.RefuseDraftModel(err.Error())
	}
	own, other := e.Tokenizer(), text.Tokenizer()
	common := min(own.VocabSize(), other.VocabSize())
	for id := range int32(common) {
		want, got := own.TokenBytes(id), other.TokenBytes(id)
		if !bytes.Equal(got, want) && got != nil && want != nil {
			return plan.RefuseDraftModel(fmt.Sprintf("its vocabulary is another one: token %d is "+
				"%.40q, the large model expects %.40q", id, got, want))
		}
	}
	return nil
}

// loopDraftModel returns the draft model for the loop; nil: there is none.
func (e *Engine) loopDraftModel() *loop.DraftModel {
	p := e.plan.Draft
	if p == nil {
		return nil
	}
	d := e.options.DraftModel
	return &loop.DraftModel{Runner: e.draft.runner, Name: d.Name, Drafts: d.Tokens,
		Tokens:        min(p.Spec.VocabSize, e.plan.Spec.VocabSize),
		ContextTokens: p.ContextTokens, Pages: p.Pages.Rest, Slots: e.plan.MaxSequences,
		States: p.HasStates(), PieceTokens: p.ChunkTokens}
}

// close frees the weights.
func (d *draftModel) close() error {
	if d.weights == nil {
		return nil
	}
	return d.weights.Close()
}
