package runner

import (
	"crypto/sha256"
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/ops"
	"headroom/kernels"
)

// Trial runs one pass whose operators go to d, a device that runs them on that of the runner. Each
// of the sequences has a number of rows after contextTokens tokens, which are those of a prompt if
// prompt is true. What the caches have afterwards has no meaning, so no request may run before or
// after it. It does nothing if the runner is too small for the pass.
func (r *Runner) Trial(d kernels.Device, sequences, rows, contextTokens int, prompt bool) error {
	table, ok := r.trialPages(contextTokens + rows)
	if !ok || sequences > r.slots || sequences*rows > r.tokens.Rows {
		return nil
	}
	var spans []kernels.Span
	var outputs []int32
	for i := range sequences {
		s := kernels.Span{Row: i * rows, Rows: rows, Pos: contextTokens, Pages: table,
			Slot: int32(i)}
		if prompt {
			s.Prefill = rows
		}
		spans = append(spans, s)
		outputs = append(outputs, int32((i+1)*rows-1))
	}
	if all := sequences * rows; !prompt && all <= r.logitsRows { // as after drafts
		outputs = firstRows(all)
	}
	own := r.ops.Device
	r.ops.Device = d
	defer func() { r.ops.Device = own }()
	_, err := r.Step(make([]int32, sequences*rows), spans, outputs)
	return err
}

// trialPages returns a page table for so many tokens.
func (r *Runner) trialPages(tokens int) (table []int32, ok bool) {
	n := tokens/cache.PageTokens + 1
	start := min(n, int(r.startPages), r.kv.Start(r.spec.Layers)/cache.PageTokens)
	for i := range n {
		page := int32(i)
		if i >= start {
			page = r.startPages + int32(i-start)
		}
		table = append(table, page)
	}
	return table, int(table[n-1]) < r.pages
}

// Shapes returns a hash of the shapes of the operators of a pass. Models for which it is equal take
// the same time.
func (r *Runner) Shapes() string {
	d := &listedRun{DryRun: kernels.NewDryRun()}
	r.dryPass(ops.NewContext(d, 0, 0), d, 1, 1, 0, true)
	sum := sha256.Sum256(d.list)
	return fmt.Sprintf("%x", sum[:12])
}

// listedRun is a DryRun that lists its operators.
type listedRun struct {
	*kernels.DryRun
	list []byte
}

// Run implements kernels.Device.
func (d *listedRun) Run(op kernels.Op) {
	bytes, operations := d.TrafficBytes, d.Operations
	d.DryRun.Run(op)
	d.list = fmt.Appendln(d.list, op.Name(), d.TrafficBytes-bytes,
		d.Operations.Int8-operations.Int8, d.Operations.Float32-operations.Float32)
}
