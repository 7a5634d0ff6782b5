package engine

// A draft model: a smaller model with the same vocabulary, which drafts tokens for the engine's
// model (engine/loop). It is loaded on the same device, by the same code, after the other one. A
// drafter that becomes a part of the other model (models.Attached) and a block that drafts are
// named in the same way. They have no vocabulary of their own.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"headroom/engine/checkpoint"
	"headroom/engine/draft"
	"headroom/engine/loop"
	"headroom/engine/models"
	"headroom/engine/plan"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/textproc"
)

// DraftModel names a model that drafts for another one. Source is required.
type DraftModel struct {
	Source Source
	Name   string // in logs
	// Required refuses the large model if the draft model cannot be used. Otherwise the large model
	// is loaded without it, and a warning is logged. So is one that generates no text.
	Required bool
	Tokens   int // maximum number of drafts in a pass; 0: as many as are worth their time
	// NotFound says that there is no model of this name, and which there are; "": Source is one, or
	// what is wrong with it shows when it is opened.
	NotFound string
}

// CheckDraftTokens returns an error unless n is a valid DraftModel.Tokens.
func CheckDraftTokens(n int) error {
	if n < 0 || n > draft.MaxTokens {
		return fmt.Errorf("it is %d, expected 1 to %d tokens, or 0 for as many as are worth their "+
			"time", n, draft.MaxTokens)
	}
	return nil
}

// maxMissingTokens is how many tokens of the large model a draft model may not have, at most one in
// a hundred. Releases of a family differ by a few, such as the image tokens that the larger models
// of Gemma 3 add. llama.cpp has the same limit.
const maxMissingTokens = 128

// draftModel is a loaded draft model, or the weights of an attached drafter. The zero value is
// none.
type draftModel struct {
	weights *checkpoint.Weights
	runner  *runner.Runner // nil for an attached drafter
}

// draftModel returns the draft model, unless Speculate rules it out.
func (o *Options) draftModel() *DraftModel {
	if UsesDraftModel(o.Speculate) {
		return o.DraftModel
	}
	return nil
}

// UsesDraftModel reports whether tokens may come from a draft model or another drafter with this
// value of Options.Speculate.
func UsesDraftModel(speculate string) bool {
	switch speculate {
	case SpeculateAuto, SpeculateDraft, SpeculateMTP, SpeculateDFlash:
		return true
	}
	return false
}

// looksUp reports whether tokens may be looked up.
func (o *Options) looksUp() bool {
	return o.Speculate == SpeculateAuto || o.Speculate == SpeculateLookup
}

// drafter returns Info.Drafter.
func (e *Engine) drafter() string {
	switch p := e.plan; {
	case p.Draft != nil:
		return SpeculateDraft
	case p.Spec.Block != nil:
		return SpeculateDFlash
	case p.Spec.Drafts:
		return SpeculateMTP
	}
	return ""
}

// draftModelInUse returns Info.DraftModel and Info.DraftModelUnused.
func (e *Engine) draftModelInUse() (name, unused string) {
	d, p := e.options.DraftModel, e.plan
	switch {
	case d == nil:
		return "", ""
	case p.Draft != nil || p.Attached != nil || p.Block != nil:
		return d.Name, ""
	case p.DraftModelError != nil:
		return "", problem.From(p.DraftModelError).Why
	case e.options.draftModel() == nil:
		return "", "the way to decode ahead is " + cmp.Or(e.options.Speculate, SpeculateOff)
	}
	return "", "the model does not decode ahead with these options"
}

// whyNoDrafter has the values of Options.Speculate that need a drafter, and why there may be none.
var whyNoDrafter = map[string]string{
	SpeculateMTP:    "the model has no block that drafts, or cannot use it with these options",
	SpeculateDraft:  "no draft model is named",
	SpeculateDFlash: "no DFlash drafter is named",
}

// warnOfNoDrafter logs that nothing drafts in the way that Options.Speculate names, unless the log
// has the reason already: what could not be used has been named. p planned the model.
func (e *Engine) warnOfNoDrafter(p plan.Options) {
	why, ok := whyNoDrafter[e.options.Speculate]
	logged := e.plan.DraftModelError != nil || e.plan.DrafterError != nil || p.NoDrafter ||
		p.DraftModel == nil && e.options.draftModel() != nil
	if !ok || logged || e.drafter() == e.options.Speculate {
		return
	}
	if e.plan.Spec.Vectors != nil {
		why = "the model generates no text"
	}
	slog.Warn("nothing drafts tokens as --speculate or the setting speculate asks for",
		"speculate", e.options.Speculate, "why", cmp.Or(e.info.DraftModelUnused, why))
}

// openAttached maps the weights of the attached drafter, if there is one, and reads them once.
func (e *Engine) openAttached(ctx context.Context) (err error) {
	if e.plan.Attached == nil {
		return nil
	}
	w, err := e.plan.OpenAttached(e.kernels)
	if err != nil {
		return err
	}
	e.rememberDigest(w, e.plan)
	if err := loadingStopped(w.Prefault(ctx, func(float64) {})); err != nil {
		_ = w.Close()
		return err
	}
	e.draft.weights = w
	return nil
}

// openWithoutDrafter opens the model of e again without what drafts for it, because of err, with
// which loading e has failed. Only so it shows whether the drafter or the model is damaged. Errors
// are Problems, which name the one that is.
func (e *Engine) openWithoutDrafter(ctx context.Context, src Source, err error) (*Engine, error) {
	p, blame, required, ok := e.plan.WithoutDrafter(src, e.options.planning(), err)
	if !ok {
		return nil, err
	}
	plain, err := open(ctx, src, e.options, p)
	if err == nil && p.DraftModel == nil && e.options.DraftModel != nil {
		plain.info.DraftModelUnused = problem.From(blame).Why
	}
	switch {
	case err != nil:
		return nil, plan.Named(err, src)
	case required:
		_ = plain.Close()
		return nil, blame
	case p.DraftModel == nil && e.options.draftModel() != nil:
		slog.Warn(draftModelUnused, "draft_model", e.options.DraftModel.Name, "err", blame)
	default:
		slog.Warn(blockUnused, "err", blame)
	}
	return plain, nil
}

// The log lines of what cannot draft.
const (
	draftModelUnused = "the draft model is not used"
	blockUnused      = "the model's block that drafts tokens cannot be used"
)

// attachedDrafts returns the maximum number of drafts of the attached drafter in a pass; 0: no
// limit.
func (e *Engine) attachedDrafts() int {
	if e.plan.Attached == nil {
		return 0
	}
	return e.options.DraftModel.Tokens
}

// checkDraftModel plans the model anew without a draft model that has another vocabulary, and logs
// why a draft model is not used. Errors are Problems.
func (e *Engine) checkDraftModel(src Source, o plan.Options) (err error) {
	if e.plan.Draft != nil {
		if other := e.checkVocabulary(src); other != nil {
			other = plan.Named(other, o.DraftModel.Source)
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
		slog.Warn(draftModelUnused, "draft_model", e.options.DraftModel.Name,
			"err", err)
	}
	return nil
}

// checkVocabulary returns a Problem unless the draft model has the vocabulary of the model in src.
func (e *Engine) checkVocabulary(src Source) error {
	d := e.options.DraftModel
	text, err := textproc.ReadWithConfig(d.Source, e.plan.Draft.Config)
	if err != nil {
		return plan.Refusal(err)
	}
	missing, err := compareVocabularies(vocabulary{e.TextProcessor, e.plan.Spec.VocabSize},
		vocabulary{text, e.plan.Draft.Spec.VocabSize})
	if err != nil {
		return plan.Misfit(d.Source, src, err)
	}
	if missing > 0 {
		slog.Info("the draft model does not draft in texts with one of the tokens that it lacks",
			"draft_model", d.Name, "tokens", missing)
	}
	return nil
}

// vocabulary is that of a model, which has the first tokens of its tokenizer, size of them.
type vocabulary struct {
	text *TextProcessor
	size int
}

// compareVocabularies returns an error, which says why, unless a model with the vocabulary other
// can draft for one with the vocabulary own. It must have the same tokens, but for a few that it
// may lack; it may have more. missing are those beyond its size: where one occurs, it cannot draft.
func compareVocabularies(own, other vocabulary) (missing int, err error) {
	tokens, drafts := own.text.Tokenizer(), other.text.Tokenizer()
	all, unknown := min(tokens.VocabSize(), own.size), 0
	for id := range int32(all) {
		want, got := tokens.TokenBytes(id), drafts.TokenBytes(id)
		switch {
		case want == nil:
		case int(id) >= other.size && own.text.IsEOS(id):
			return 0, fmt.Errorf("its vocabulary has %d tokens, and token %d, %.40q, ends the "+
				"answers of the large model", other.size, id, want)
		case int(id) >= other.size:
			missing++
			unknown++
		case got == nil:
			unknown++
		case !bytes.Equal(got, want):
			return 0, fmt.Errorf("its vocabulary is another one: token %d is %.40q, the large "+
				"model expects %.40q", id, got, want)
		}
	}
	return missing, checkMissing(unknown, all)
}

// checkMissing returns an error if a draft model lacks too many of all tokens of the large model.
func checkMissing(unknown, all int) error {
	if most := min(maxMissingTokens, all/100); unknown > most {
		return fmt.Errorf("its vocabulary lacks %d of the large model's %d tokens, at most %d "+
			"may be missing", unknown, all, most)
	}
	return nil
}

// CheckShapes returns a Problem unless a model with the shape of one config.json can draft for one
// with that of another, as far as the sizes of their vocabularies tell. The names are those of the
// shapes.
func CheckShapes(drafts Source, draftName string, model Source, name string) error {
	other, err := drafts.Config()
	if err != nil {
		return err
	}
	own, err := model.Config()
	if err != nil {
		return err
	}
	size, all := models.VocabSize(other), models.VocabSize(own)
	if err = checkMissing(max(0, all-size), all); err == nil && checkMissing(size-all, all) != nil {
		err = fmt.Errorf("its vocabulary is another one: it has %d tokens, the large model has %d",
			size, all)
	}
	if err != nil {
		return plan.RefuseDraftModel(fmt.Sprintf("%s does not fit %s: %s", draftName, name, err))
	}
	return nil
}

// IsDrafter reports whether a folder has no model but a block that drafts for one, or a drafter
// that becomes a part of one.
func IsDrafter(src Source) bool {
	c, _ := src.Config()
	return c != nil && (models.IsBlock(c) || models.FindAttached(c) != nil)
}

// DraftTarget is a model for which others may draft. Fits reads the model's tokenizer once.
type DraftTarget struct {
	config    *checkpoint.Config
	tokens    []byte // tokenizer.json; nil: it has another form
	src       Source
	processor *TextProcessor // nil: not read
}

// NewDraftTarget returns the model in a folder as a DraftTarget. Errors are Problems.
func NewDraftTarget(src Source) (*DraftTarget, error) {
	config, err := src.Config()
	if err != nil {
		return nil, err
	}
	tokens, _ := src.ReadFile(tokenizerFile)
	return &DraftTarget{config: config, tokens: tokens, src: src}, nil
}

const tokenizerFile = "tokenizer.json"

// Fits returns a Problem unless another folder has a drafter that is made for t, or a language
// model with its vocabulary. It reads no weights. Files that are equal are not parsed.
func (t *DraftTarget) Fits(other Source) error {
	config, err := other.Config()
	switch {
	case config != nil && models.IsBlock(config):
		if err := models.CheckBlock(t.config, config); err != nil {
			return plan.Misfit(other, t.src, err)
		}
		return nil
	case config != nil && models.FindAttached(config) != nil:
		if err := models.FindAttached(config).Check(t.config, config); err != nil {
			return plan.Misfit(other, t.src, err)
		}
		return nil
	case err != nil:
		return err
	}
	size := models.VocabSize(config)
	tokens, _ := other.ReadFile(tokenizerFile)
	if tokens != nil && bytes.Equal(tokens, t.tokens) && size >= models.VocabSize(t.config) {
		return nil
	}
	if t.processor == nil {
		if t.processor, err = textproc.ReadWithConfig(t.src, t.config); err != nil {
			return err
		}
	}
	text, err := textproc.ReadWithConfig(other, config)
	if err != nil {
		return err
	}
	if _, err := compareVocabularies(vocabulary{t.processor, models.VocabSize(t.config)},
		vocabulary{text, size}); err != nil {
		return plan.Misfit(other, t.src, err)
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
	const context = 256 // it hardly matters
	step := float64(e.draft.runner.Cost(1, 1, context, true).Bytes) /
		float64(e.runner.Cost(1, 1, context, true).Bytes)
	return &loop.DraftModel{Step: step,
		Runner: e.draft.runner, Name: d.Name, Drafts: d.Tokens,
		Tokens:        min(p.Spec.VocabSize, e.plan.Spec.VocabSize),
		ContextTokens: p.ContextTokens, Pages: p.Pages.Rest, Slots: e.plan.MaxSequences,
		States: p.HasStates(), Recurrent: p.Description.StateBytesPerSeq > 0,
		PieceTokens: p.ChunkTokens}
}

// close frees the weights.
func (d *draftModel) close() error {
	if d.weights == nil {
		return nil
	}
	return d.weights.Close()
}
