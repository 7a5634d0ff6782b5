package plan

// A draft model (engine/loop): a smaller model that drafts tokens for this one. It has a plan of
// its own, for its weights and its activations. The plan of the large model chooses how many pages
// and slots it has, and counts its memory.
//
// The folder of a draft model may also have no model, but a drafter that becomes a part of the
// large model (models.Attached), or a block that drafts. Neither has a plan: the one adds its
// memory to the large model's, and the other is loaded as if it were the model's own.

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/draft"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/kernels"
)

// draftPieceTokens is how many tokens a draft model reads before a pass at most.
const draftPieceTokens = 256

// DraftModel is a model that drafts for another one.
type DraftModel struct {
	Source checkpoint.Source
	// Required refuses the large model if the draft model cannot be used. Otherwise the large model
	// is planned without it, and Plan.DraftModelError says why.
	Required bool
	NotFound string // why there is no such model; "": Source tells
	// Way is draft.WayDraft, draft.WayDFlash or draft.WayMTP if it must be of one kind; else any
	// way. With draft.WayMTP a model is left out, since the model may have a block of its own.
	Way string
}

// planDraftModel sets Draft to the plan of the draft model of the large one, or Block if it is a
// block. Errors are Problems.
func (p *Plan) planDraftModel(large checkpoint.Source) error {
	if p.DraftModel == nil || p.DraftTokens == 0 {
		return nil
	}
	if p.Config.Modules != nil { // a draft model of all models does not keep this one from loading
		p.DraftModelError = RefuseDraftModel("the large model generates no text")
		return nil
	}
	if src := p.DraftModel.Source; !src.Has("config.json") {
		return RefuseDraftModel(cmp.Or(p.DraftModel.NotFound, fmt.Sprintf("there is no model %s "+
			"here, expected a model's name or its folder", src)))
	} else if c, _ := src.Config(); c != nil && models.IsBlock(c) {
		return p.planBlock(large, c)
	} else if kind := findAttached(c); kind != nil &&
		!(kind.Blocks && p.DraftModel.Way == draft.WayMTP) {
		return p.planAttached(large, c, kind)
	} else if p.DraftModel.Way == draft.WayMTP {
		err := RefuseDraftModel("it is not the folder of a block that drafts, nor an assistant, " +
			"which the way to decode ahead, mtp, expects")
		if p.DraftModel.Required {
			return err
		}
		p.DraftModelError = err // the model may have a block of its own
		return nil
	}
	if p.DraftModel.Way == draft.WayDFlash {
		return RefuseDraftModel("it is a model, expected a DFlash drafter, since the way to " +
			"decode ahead is dflash")
	}
	format := p.KVFormat
	format.StartTokens = 0 // it has no start pages
	d, err := New(p.DraftModel.Source, Options{KVFormat: format, StateFormat: p.StateFormat,
		MaxSequences: p.MaxSequences, ChunkTokens: draftPieceTokens, NoPrefixCache: true,
		AvailableBytes: p.AvailableBytes, LongestBuffer: p.LongestBuffer})
	if err != nil {
		return Refusal(err)
	}
	if d.Spec.Vectors != nil {
		return RefuseDraftModel("it generates no text, expected a language model")
	}
	p.Draft = d
	return nil
}

// findAttached returns the kind of a drafter with such a config; nil: it is none, or has none.
func findAttached(c *checkpoint.Config) *models.Attached {
	if c == nil {
		return nil
	}
	return models.FindAttached(c)
}

// planAttached sets Attached to the config of the draft model, which is a drafter of this kind.
// Errors are Problems.
func (p *Plan) planAttached(large checkpoint.Source, config *checkpoint.Config,
	kind *models.Attached) error {
	own := draft.WayMTP
	if kind.Blocks {
		own = draft.WayDFlash
	}
	switch way := p.DraftModel.Way; way {
	case own:
	case draft.WayDraft, draft.WayDFlash, draft.WayMTP:
		return RefuseDraftModel(fmt.Sprintf("it is %s, whose way to decode ahead is %s: use that "+
			"or auto, not %s", kind.Name, own, way))
	}
	if err := kind.Check(p.Config, config); err != nil {
		return Misfit(p.DraftModel.Source, large, err)
	}
	if _, err := p.DraftModel.Source.Config(); err != nil { // its quantization
		return Refusal(err)
	}
	if p.MaxKVTokens > 0 {
		return RefuseDraftModel(fmt.Sprintf("it is %s, and the KV cache is limited to %d tokens",
			kind.Name, p.MaxKVTokens))
	}
	p.Attached = config
	return nil
}

// OpenAttached opens the weights of the attached drafter; if there is none, it returns empty ones.
func (p *Plan) OpenAttached(d kernels.Device) (*checkpoint.Weights, error) {
	if p.Attached == nil {
		return &checkpoint.Weights{}, nil
	}
	return checkpoint.Open(p.DraftModel.Source, p.Attached, d)
}

// addAttached adds the attached drafter, if there is one, to the large model. Errors are Problems.
func (p *Plan) addAttached(large checkpoint.Source, m models.Model,
	drafter *checkpoint.Weights) error {
	if p.Attached == nil {
		return nil
	}
	if err := models.FindAttached(p.Attached).Add(m, drafter); err != nil {
		if errors.As(err, new(*problem.Problem)) {
			return Refusal(err)
		}
		return Misfit(p.DraftModel.Source, large, err)
	}
	if b := m.Spec().Block; b != nil && b.Windows && p.KV.StartTokens > 0 {
		return RefuseDraftModel("some of its layers have a window, so that no first tokens of " +
			"the KV cache can stay in float16")
	}
	return nil
}

// planBlock sets Block to the folder of the draft model, whose config is c. Errors are Problems.
func (p *Plan) planBlock(large checkpoint.Source, c *checkpoint.Config) error {
	if err := models.CheckBlock(p.Config, c); err != nil {
		return Misfit(p.DraftModel.Source, large, err)
	}
	switch {
	case p.DraftModel.Way == draft.WayDraft || p.DraftModel.Way == draft.WayDFlash:
		return RefuseDraftModel("it is a block, not a model: decode ahead with mtp or " +
			"auto, not with " + p.DraftModel.Way)
	case p.MaxKVTokens > 0:
		return RefuseDraftModel("it is a block, which cannot use a limited KV cache")
	}
	p.Block = &p.DraftModel.Source
	return nil
}

// attachBlock opens the weights of Block beside those of the model. Errors are Problems.
func (p *Plan) attachBlock(w *checkpoint.Weights) error {
	if p.Block == nil {
		return nil
	}
	if err := w.AttachBlock(*p.Block); err != nil {
		return Refusal(err)
	}
	return nil
}

// Refusal returns the Problem of a draft model that cannot be used because of err. It has one
// remedy: that of RefuseDraftModel.
func Refusal(err error) *problem.Problem {
	if p := new(problem.Problem); errors.As(err, &p) && p.Message == draftModelRefused {
		return p
	}
	return RefuseDraftModel(reason(err))
}

// reason returns the text of err without the remedy, if it is a Problem.
func reason(err error) string {
	p := new(problem.Problem)
	switch {
	case !errors.As(err, &p):
		return err.Error()
	case p.Why == "":
		return p.Message
	}
	return p.Message + ": " + p.Why
}

const draftModelRefused = "The draft model cannot be used"

// RefuseDraftModel returns the Problem of a draft model that cannot be used.
func RefuseDraftModel(why string) *problem.Problem {
	return problem.New(problem.BadRequest, draftModelRefused, why,
		"Choose a smaller model of the same family, a drafter of this model, or none.")
}

// Misfit returns the Problem of a drafter that is not made for a model. err says why.
func Misfit(drafter, model checkpoint.Source, err error) *problem.Problem {
	return RefuseDraftModel(fmt.Sprintf("%s does not fit %s: %s", drafter, model,
		reason(err)))
}

// reserveDraftModel gives the draft model its slots, and counts its memory but for pages. The large
// model may have turned out not to have drafts.
func (p *Plan) reserveDraftModel() {
	if p.DraftTokens == 0 {
		p.Draft = nil
	}
	d := p.Draft
	if d == nil {
		return
	}
	d.Runner.Slots = p.MaxSequences
	if d.HasStates() {
		d.Runner.Slots *= 2
	}
	need, own := &p.Description.Need, d.Description.Need
	need.WeightsBytes += own.WeightsBytes
	need.ScratchBytes += own.ScratchBytes
	need.StateBytes += int64(d.Runner.Slots) * d.Description.StateBytesPerSeq
	p.Description.DraftKVBytesPerToken = d.PageSizes.Rest / cache.PageTokens
	p.Description.DraftContextTokens = d.Spec.ContextTokens
}

// sizeDraftPages chooses the number of pages of the draft model: those of one sequence, as NeedAt
// counts. Sequences share them; one for which there are none is not drafted.
func (p *Plan) sizeDraftPages() {
	d := p.Draft
	if d == nil {
		return
	}
	d.ContextTokens = min(p.ContextTokens, d.Spec.ContextTokens)
	d.Pages.Start = 0
	d.Pages.Rest = min(pagesFor(d.ContextTokens), p.Pages.Total(), d.pagesWithin(0))
	d.Runner.Pages, d.Runner.StartPages = d.Pages.Rest, 0
	p.draftCacheBytes = int64(d.Runner.Slots)*d.Description.StateBytesPerSeq +
		p.Description.draftBytes(p.ContextTokens)
}

// DraftCacheBytes returns the part of Need.StateBytes that is for the caches of a draft model; 0:
// there is none.
func (p *Plan) DraftCacheBytes() int64 { return p.draftCacheBytes }

// withoutDraftModel plans the model without its draft model, because of err. If that fails too, the
// model itself is to blame. Otherwise err is the error if the draft model is required.
func withoutDraftModel(src checkpoint.Source, o Options, err error) (*Plan, error) {
	d := o.DraftModel
	o.DraftModel = nil
	plain, plainErr := New(src, o)
	if plainErr != nil {
		return nil, Named(plainErr, src)
	}
	if err = Named(err, d.Source); d.Required {
		return nil, err
	}
	plain.DraftModelError = err
	return plain, nil
}

// Named returns a Problem that says which of two models err is about. Memory is needed by both.
func Named(err error, src checkpoint.Source) *problem.Problem {
	p := *problem.From(err)
	if name := src.String(); p.Code != problem.DoesNotFit && p.Code != problem.Cancelled &&
		!strings.Contains(p.Why, name) {
		p.Why = strings.TrimSuffix(name+": "+p.Why, ": ")
	}
	return &p
}

// WithoutDrafter returns options for planning the model without what drafts for it in p. err is the
// error of loading the model of p. If it loads with these options, the drafter is to blame: blame
// says so, and required whether the model must not be used without it. If it does not, Named names
// the model in the second error. If nothing drafts for the model, ok is false.
func (p *Plan) WithoutDrafter(src checkpoint.Source, o Options, err error) (
	plain Options, blame error, required, ok bool) {
	switch {
	case p.Draft != nil || p.Attached != nil || p.Block != nil:
		blame, required = Named(Refusal(err), o.DraftModel.Source), o.DraftModel.Required
		o.DraftModel = nil
	case p.Spec.Drafts:
		blame = Named(err, src)
		o.NoDrafter = true
	default:
		return o, nil, false, false
	}
	return o, blame, required, true
}
