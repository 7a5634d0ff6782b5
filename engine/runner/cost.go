package runner

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/ops"
	"headroom/kernels"
)

// Cost is the minimum memory traffic and arithmetic of a pass.
type Cost struct {
	Bytes int64 // weights, keys and values, recurrent states
	kernels.Operations
}

// Cost returns the cost of a pass. For each of the sequences, the pass computes a number of rows
// after a context of contextTokens. If logits is true, it also computes the logits of the last of
// these rows. Cost measures the pass on a device that allocates nothing.
func (r *Runner) Cost(sequences, rows, contextTokens int, logits bool) Cost {
	d := kernels.NewDryRun()
	r.dryPass(ops.NewContext(d, 0, 0), d, sequences, rows, contextTokens, logits)
	return Cost{Bytes: d.TrafficBytes, Operations: d.Operations}
}

// Uses says how a pass uses the weights of the model, as far as an adapter can add to them.
func (r *Runner) Uses() map[*kernels.Weight]ops.Use {
	d := kernels.NewDryRun()
	c := ops.NewContext(d, 0, 0)
	uses := c.RecordUses()
	r.dryPass(c, d, 1, 1, 0, true)
	return uses
}

// dryPass runs the pass of Cost on d, which allocates nothing.
func (r *Runner) dryPass(c *ops.Context, d kernels.Device, sequences, rows, contextTokens int,
	logits bool) {
	pages := (contextTokens+rows)/cache.PageTokens + 1
	table := make([]int32, pages)
	for i := range table {
		table[i] = int32(i)
	}
	layers := sequentialCaches(d, r.spec.Layers,
		cache.Options{Format: r.kv, State: r.state, Pages: pages, Slots: sequences,
			SpanTokens: sequences * rows})
	b := batch.Batch{Tokens: kernels.NewTensor(d, kernels.I32, sequences*rows, 1)}
	var last []int32 // rows whose logits are computed
	for i := range sequences {
		b.Spans = append(b.Spans,
			kernels.Span{Row: i * rows, Rows: rows, Pos: contextTokens, Pages: table,
				Slot: int32(i)})
		if logits {
			last = append(last, int32((i+1)*rows-1))
		}
	}
	b.Rounds = []batch.Round{{Spans: b.Spans}}
	if r.spec.Drafts && !r.spec.InPlace {
		b.Hidden.Set(b.Spans, b.Rounds, int32(sequences))
	}
	c.SetPrefill(b.Spans)
	b.Outputs = &batch.Outputs{}
	b.Outputs.Select(last, b.Spans)
	x := r.model.Forward(c, &b, layers)
	if x.Rows == len(last) {
		last = firstRows(len(last))
	}
	r.model.Logits(c, x, last)
}
