package models

// Drafters in folders of their own that become a part of the model that they draft for: their
// weights stay in files of their own, and their memory is a part of the model's. A kind of them is
// a row of attached.

import "headroom/engine/checkpoint"

// Attached is a kind of drafter that becomes a part of a model.
type Attached struct {
	Name string // with its article, for sentences
	// Blocks says that it drafts blocks of tokens, and Spec().Block is set. Otherwise it drafts one
	// token after another, and Spec().Drafts is set.
	Blocks bool
	// Check returns an error, which says why, unless a drafter can draft for a model, as far as
	// both configs tell. It reads no weights.
	Check func(model, drafter *checkpoint.Config) error
	// Add adds a drafter to a model that Load has returned. The weights of the drafter are valid
	// until w is closed. An error that is no Problem says why the two do not fit together.
	Add func(to Model, w *checkpoint.Weights) error

	is func(c *checkpoint.Config) bool
}

var attached = []Attached{
	{Name: "an assistant of Gemma 4", is: isAssistant, Check: checkAssistant, Add: addAssistant},
	{Name: "a DFlash drafter", Blocks: true, is: IsDFlash, Check: CheckDFlash, Add: AddDFlash},
}

// FindAttached returns the kind of drafter that a config.json describes; nil: none of these.
func FindAttached(c *checkpoint.Config) *Attached {
	for i := range attached {
		if attached[i].is(c) {
			return &attached[i]
		}
	}
	return nil
}
