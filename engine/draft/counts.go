package draft

// How many drafts there were in each way to draft, and how many of them the model chose. The usage
// of an answer has these counts.

// Counts are how many tokens were proposed in one way, and how many of these the model chose.
type Counts struct {
	Proposed int `json:"proposed"`
	Accepted int `json:"accepted"`
}

// Add adds o.
func (c *Counts) Add(o Counts) {
	c.Proposed, c.Accepted = c.Proposed+o.Proposed, c.Accepted+o.Accepted
}

// Ways are the Counts of each way to draft. A draft is counted in one of them.
type Ways struct {
	// Lookup are drafts that were found in the conversation or in another one.
	Lookup Counts `json:"lookup,omitzero"`
	// Prediction are drafts that were found in the request's prediction.
	Prediction Counts `json:"prediction,omitzero"`
	// Block are drafts of the model's own block (MTP).
	Block Counts `json:"block,omitzero"`
	// DraftModel are drafts of a draft model, a drafter of blocks or an assistant.
	DraftModel Counts `json:"draft_model,omitzero"`
}

// Add adds o.
func (w *Ways) Add(o Ways) {
	w.Lookup.Add(o.Lookup)
	w.Prediction.Add(o.Prediction)
	w.Block.Add(o.Block)
	w.DraftModel.Add(o.DraftModel)
}
