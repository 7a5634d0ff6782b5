package draft

// Counts are how many tokens were proposed in one way, and how many of these the model chose.
type Counts struct {
	Proposed int `json:"proposed"`
	Accepted int `json:"accepted"`
}

// Add adds o.
func (c *Counts) Add(o Counts) {
	c.Proposed, c.Accepted = c.Proposed+o.Proposed, c.Accepted+o.Accepted
}

// Ways are the Counts of each way to draft. Those of a text that the answer may repeat are not
// among the other Lookup. DraftModel are those of a draft model, a drafter of blocks or an
// assistant.
type Ways struct {
	Lookup     Counts `json:"lookup,omitzero"`
	Prediction Counts `json:"prediction,omitzero"`
	Block      Counts `json:"block,omitzero"`
	DraftModel Counts `json:"draft_model,omitzero"`
}

// Add adds o.
func (w *Ways) Add(o Ways) {
	w.Lookup.Add(o.Lookup)
	w.Prediction.Add(o.Prediction)
	w.Block.Add(o.Block)
	w.DraftModel.Add(o.DraftModel)
}
