// Package runner runs forward passes. Step copies a batch to the device, runs the model over it and
// returns the logits. On a GPU, Start launches a pass that also samples the tokens, and Await waits
// for it. New allocates all memory. A pass allocates nothing, except for the page tables of a
// slot's rings when a sequence first runs in that slot.
package runner

import (
	"errors"
	"fmt"
	"sync/atomic"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/ops"
	"headroom/engine/sample"
	"headroom/kernels"
)

// Options configure a runner. MaxKVTokens, State, StartPages and LongestBuffer are optional.
type Options struct {
	KV          cache.Format      // format of keys and values
	MaxKVTokens int               // tokens that an attention layer keeps (cache.Limit); 0: all
	State       cache.StateFormat // format of recurrent states
	Pages       int               // number of KV pages, shared by all sequences
	StartPages  int               // the first of these pages, for the start of each sequence
	Slots       int               // number of slots for recurrent states and rings
	BatchRows   int               // maximum number of rows in a pass
	LogitsRows  int               // maximum number of rows in a pass whose logits are computed
	// LongestBuffer is the size in bytes of the device's longest buffer; 0: no limit.
	LongestBuffer int
}

// Cache returns the options of the memory of a model's sequences.
func (o *Options) Cache() cache.Options {
	return cache.Options{Format: o.KV, State: o.State, Pages: o.Pages, StartPages: o.StartPages,
		Slots: o.Slots, SpanTokens: o.BatchRows}
}

// Runner runs a model on a device and owns the model's memory there. Only one goroutine at a time
// may call its methods.
type Runner struct {
	device kernels.Device
	model  models.Model
	spec   models.Spec
	kv     cache.Format
	state  cache.StateFormat
	layers []cache.Layer

	startPages                             int32
	startRegions, pageRegions, slotRegions []cache.Region

	ops    *ops.Context
	tokens kernels.Tensor // I32 [BatchRows, 1]
	batch  batch.Batch
	round  [1]batch.Round

	outputs batch.Outputs // the rows of batch whose logits are computed
	slots   int           // of Options
	pages   int           // of Options
	// hidden [LogitsRows, hidden] has the hidden states of the last Draft; none: the model has no
	// drafter that drafts one token at a time.
	hidden kernels.Tensor
	rows   []int32 // all rows of a pass
	recent []int32 // memory of recentRows

	logitsRows int // of Options

	async  kernels.AsyncDevice // equal to device; nil: device is synchronous
	chosen [2]kernels.Tensor   // I32 [LogitsRows, 1]; passes alternate between the two
	last   int                 // index in chosen that the last Start used

	drafted kernels.Tensor // I32 [LogitsRows, ops.LikeliestCols]; see Drafted
}

// New allocates the memory that the model needs to run on d.
func New(d kernels.Device, m models.Model, o Options) *Runner {
	spec := m.Spec()
	spec.Layers = cache.Limit(spec.Layers, o.MaxKVTokens)
	scratch, _ := ScratchBytes(m, o)
	r := &Runner{
		device:     d,
		model:      m,
		spec:       spec,
		logitsRows: o.LogitsRows,
		slots:      o.Slots,
		pages:      o.Pages,
		kv:         o.KV,
		state:      o.State,
		layers:     cache.New(d, spec.Layers, o.Cache()),
		ops:        ops.NewContext(d, scratch, o.LongestBuffer),
		tokens:     kernels.NewTensor(d, kernels.I32, o.BatchRows, 1),
		rows:       firstRows(o.BatchRows),
		drafted:    kernels.NewTensor(d, kernels.I32, o.LogitsRows, ops.LikeliestCols),
	}
	// Vectors come from prompts alone. Their products need no kernel that is fast for one row.
	r.ops.Split = spec.Vectors != nil
	if spec.Drafts {
		r.hidden = kernels.NewTensor(d, kernels.F32, o.LogitsRows, r.beforeDrafts().Cols)
	}
	r.startPages, r.startRegions = int32(o.StartPages), cache.PageRegions(r.layers, true)
	r.pageRegions, r.slotRegions = cache.PageRegions(r.layers, false), cache.SlotRegions(r.layers)
	if r.async, _ = d.(kernels.AsyncDevice); r.async != nil {
		for i := range r.chosen {
			r.chosen[i] = kernels.NewTensor(d, kernels.I32, o.LogitsRows, 1)
		}
	}
	return r
}

// ScratchBytes returns the memory for the activations of the largest pass, and the size of the
// largest activation. It measures that pass on a device that allocates nothing.
func ScratchBytes(m models.Model, o Options) (total, largest int) {
	d := kernels.NewDryRun()
	pages := (o.BatchRows + cache.PageTokens - 1) / cache.PageTokens
	table := make([]int32, pages)
	for i := range table {
		table[i] = int32(i)
	}
	r := &Runner{
		device: d,
		model:  m,
		layers: sequentialCaches(d, cache.Limit(m.Spec().Layers, o.MaxKVTokens),
			cache.Options{Format: o.KV, State: o.State, Pages: pages, Slots: 1,
				SpanTokens: o.BatchRows}),
		ops:   ops.NewContext(d, 0, o.LongestBuffer),
		spec:  m.Spec(),
		slots: 1,
	}
	r.batch = batch.Batch{
		Tokens: kernels.NewTensor(d, kernels.I32, o.BatchRows, 1),
		Spans:  []kernels.Span{{Rows: o.BatchRows, Pages: table}},
	}
	r.batch.Rounds = []batch.Round{{Spans: r.batch.Spans}}
	r.setHidden(r.batch.Spans, r.batch.Rounds)
	// Models may copy the rows of a selection, unless these are all rows.
	for _, n := range []int{o.BatchRows, min(o.LogitsRows, o.BatchRows-1)} {
		r.outputs.Select(firstRows(n), r.batch.Spans)
		r.batch.Outputs = &r.outputs
		m.Logits(r.ops, m.Forward(r.ops, &r.batch, r.layers), make([]int32, o.LogitsRows))
		r.ops.Release(0)
	}
	if r.spec.Drafts {
		n := min(o.LogitsRows, o.BatchRows)
		r.hidden = kernels.NewTensor(d, kernels.F32, n, r.beforeDrafts().Cols)
		r.tokens, r.rows = r.batch.Tokens, firstRows(n)
		r.draft(make([]int32, n), []kernels.Span{{Rows: n, Pages: table}}, nil, nil)
	}
	if r.spec.Block != nil {
		n := min(o.LogitsRows, o.BatchRows)
		r.tokens = r.batch.Tokens
		r.draftBlocks(make([]int32, n), []kernels.Span{{Rows: n, Pages: table}}, firstRows(n))
	}
	return r.ops.PeakBytes(), r.ops.LargestBytes()
}

// firstRows returns the indices 0 to n-1.
func firstRows(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// sequentialCaches allocates caches for page tables in which entry i is page i.
func sequentialCaches(d kernels.Device, specs []cache.LayerSpec, o cache.Options) []cache.Layer {
	o.StartPages = min(o.Pages, o.Format.Start(specs)/cache.PageTokens)
	return cache.New(d, specs, o)
}

// Step runs tokens through the model. spans assigns the tokens to sequences. Step returns the
// logits [len(logits), VocabSize] of the rows that logits lists. They are in device memory and
// valid until the next pass. rounds is needed only if a state must be kept inside a span; see
// batch.Batch.
func (r *Runner) Step(tokens []int32, spans []kernels.Span, logits []int32,
	rounds ...batch.Round) ([]float32, error) {
	if err := r.fits(tokens); err != nil {
		return nil, err
	}
	defer r.ops.Release(r.ops.Mark()) // also frees the activations if the pass panics
	x := r.forward(tokens, spans, rounds, logits)
	return r.logits(x, logits)
}

// ErrStopped is the error of a pass that was stopped.
var ErrStopped = errors.New("runner: the pass was stopped")

// StepUntil is Step for a pass that ends with ErrStopped, after the layer that is being computed,
// when stop becomes true. The same tokens can then be computed again: what the pass has written to
// pages is written again. A recurrent state or a state that is kept cannot: the model must have
// none, and the device must be synchronous.
func (r *Runner) StepUntil(stop *atomic.Bool, tokens []int32, spans []kernels.Span,
	logits []int32) ([]float32, error) {
	if err := r.fits(tokens); err != nil {
		return nil, err
	}
	r.ops.Stop = stop
	defer func() { r.ops.Stop = nil }()
	defer r.ops.Release(r.ops.Mark())
	x := r.forward(tokens, spans, nil, logits)
	if r.ops.Stopped() {
		return nil, ErrStopped
	}
	return r.logits(x, logits)
}

// logits computes the logits of some rows of x and waits for them.
func (r *Runner) logits(x kernels.Tensor, rows []int32) ([]float32, error) {
	out := r.model.Logits(r.ops, x, r.rowsIn(x, rows))
	if err := r.Sync(); err != nil {
		return nil, err
	}
	return out.Float32s(), nil
}

// Draft runs the model's drafter over tokens, one for each span, and drafts the tokens after them
// (Drafted). It returns their logits [len(tokens), VocabSize], which are in device memory and valid
// until the next pass. from is nil if the model has computed the tokens before these. Otherwise
// these are drafts, and from has for each of them the row of the last Draft that drafted it. A span
// has the position of its token, or, if InPlace is true, that of the last token that the model has
// computed.
func (r *Runner) Draft(tokens []int32, spans []kernels.Span, from []int32) ([]float32, error) {
	return r.DraftListed(tokens, spans, from, nil)
}

// DraftListed is Draft for the tokens of a shortlist alone: of Shortlist, with any tokens Between.
// Drafted and the logits [len(tokens), list.Size()] have their indices in it. nil: all tokens.
func (r *Runner) DraftListed(tokens []int32, spans []kernels.Span, from []int32,
	list *batch.Shortlist) ([]float32, error) {
	if n := min(r.hidden.Rows, r.tokens.Rows); len(tokens) > n {
		return nil, fmt.Errorf("runner: got %d tokens to draft after, the limit is %d", len(tokens),
			n)
	}
	defer r.ops.Release(r.ops.Mark())
	out := r.draft(tokens, spans, from, list)
	if r.spec.HostDrafts {
		if err := r.Sync(); err != nil {
			return nil, err
		}
		r.model.(models.Drafter).FinishDraftLogits(out)
	}
	return r.findDrafts(out)
}

// findDrafts finds the most likely token of each row of logits, for Drafted. It waits for them, and
// returns the logits.
func (r *Runner) findDrafts(logits kernels.Tensor) ([]float32, error) {
	r.ops.Likeliest(r.drafted.RowRange(0, logits.Rows), logits)
	if err := r.Sync(); err != nil {
		return nil, err
	}
	return logits.Float32s(), nil
}

// Drafted returns the most likely token of a row of the logits that the last Draft, DraftBlocks or
// StepDrafts has computed, and its probability. A row that has no valid logits has token 0 with
// probability 0.
func (r *Runner) Drafted(row int) (token int32, probability float64) {
	return ops.MostLikely(r.drafted.RowRange(row, row+1).Int32s())
}

// StepDrafts is Step for a model that drafts for a larger one, whose tokens after the given rows
// Drafted then has. They are among the first vocab ones.
func (r *Runner) StepDrafts(tokens []int32, spans []kernels.Span, rows []int32, vocab int) error {
	if err := r.fits(tokens); err != nil {
		return err
	}
	defer r.ops.Release(r.ops.Mark())
	x := r.forward(tokens, spans, nil, rows)
	if len(rows) == 0 {
		return r.Sync()
	}
	out := r.model.Logits(r.ops, x, r.rowsIn(x, rows))
	_, err := r.findDrafts(out.Columns(0, vocab))
	return err
}

func (r *Runner) draft(tokens []int32, spans []kernels.Span, from []int32,
	list *batch.Shortlist) kernels.Tensor {
	n := len(tokens)
	in := r.tokens.RowRange(0, n)
	r.ops.Feed(in, tokens, kernels.Tensor{})
	b := &r.batch // with its memory
	b.Tokens, b.Spans, b.Rounds, b.Outputs = in, spans, nil, nil
	before := r.ops.Temp(kernels.F32, n, r.hidden.Cols)
	switch h := &b.Hidden; {
	case from != nil:
		r.ops.MoveRows(before, r.hidden, from, r.rows[:n])
	case r.spec.InPlace:
		r.ops.MoveRows(before, r.beforeDrafts(), r.recentRows(spans), r.rows[:n])
	default:
		h.Set(spans, nil, int32(r.slots))
		r.ops.MoveRows(before, r.beforeDrafts(), h.Slots, h.RowsAfterSlots)
	}
	r.ops.SetPrefill(spans)
	drafter := r.model.(models.Drafter)
	x, next := drafter.Draft(r.ops, &r.batch, before, r.layers)
	r.ops.MoveRows(r.hidden, next, r.rows[:n], r.rows[:n])
	return drafter.DraftLogits(r.ops, x, r.rows[:n], list)
}

// DraftBlocks runs the drafter over blocks, one for each span: a token and then masks. It drafts
// tokens at the given rows (Drafted) and returns their logits [len(rows), VocabSize], which are in
// device memory and valid until the next pass.
func (r *Runner) DraftBlocks(tokens []int32, spans []kernels.Span, rows []int32) ([]float32,
	error) {
	if n := min(r.logitsRows, r.tokens.Rows); len(tokens) > n {
		return nil, fmt.Errorf("runner: got blocks of %d tokens, the limit is %d", len(tokens), n)
	}
	defer r.ops.Release(r.ops.Mark())
	return r.findDrafts(r.draftBlocks(tokens, spans, rows))
}

func (r *Runner) draftBlocks(tokens []int32, spans []kernels.Span,
	rows []int32) kernels.Tensor {
	in := r.tokens.RowRange(0, len(tokens))
	r.ops.Feed(in, tokens, kernels.Tensor{})
	b := &r.batch // with its memory
	b.Tokens, b.Spans, b.Rounds, b.Outputs = in, spans, nil, nil
	r.ops.SetPrefill(spans)
	x, _ := r.model.(models.Drafter).Draft(r.ops, b, kernels.Tensor{}, r.layers)
	return r.model.Logits(r.ops, x, rows)
}

// recentRows returns the rows of cache.Layer.Recent for the positions of spans. The result is valid
// until the next call.
func (r *Runner) recentRows(spans []kernels.Span) []int32 {
	r.recent = r.recent[:0]
	for _, s := range spans {
		for i := range s.Rows {
			r.recent = append(r.recent, cache.RecentRow(s.Slot, s.Pos+i))
		}
	}
	return r.recent
}

// beforeDrafts returns the hidden states that sequences have before their first draft.
func (r *Runner) beforeDrafts() kernels.Tensor {
	memory := &r.layers[len(r.layers)-1]
	if r.spec.InPlace {
		return memory.Recent
	}
	return memory.Hidden
}

// Drafts reports whether the model has a drafter that drafts one token at a time.
func (r *Runner) Drafts() bool { return r.spec.Drafts }

// Shortlist returns the tokens from which drafts may be chosen; nil: only the whole vocabulary. It
// is nil on an asynchronous device, whose operators have few parts.
func (r *Runner) Shortlist() *batch.Shortlist {
	if r.Async() {
		return nil
	}
	return r.spec.Shortlist
}

// InPlace reports whether all drafts of a pass have the same position: that before their first
// token.
func (r *Runner) InPlace() bool { return r.spec.InPlace }

// Block describes the drafter of blocks of tokens; nil: there is none.
func (r *Runner) Block() *models.Block { return r.spec.Block }

// setHidden lists the hidden states of a pass, which a block that drafts reads.
func (r *Runner) setHidden(spans []kernels.Span, rounds []batch.Round) {
	if r.spec.Drafts && !r.spec.InPlace {
		r.batch.Hidden.Set(spans, rounds, int32(r.slots))
	}
}

// StepScored is Step for a pass that also needs the logits of many rows, one after the other. It
// calls score for each of the rows that scored lists, in order; i is the index in scored. The
// logits are valid until score returns, and score may change them. At any time, only as many rows
// of logits are in memory as fit into the scratch memory of an ordinary pass.
func (r *Runner) StepScored(tokens []int32, spans []kernels.Span, logits, scored []int32,
	score func(i int, logits []float32), rounds ...batch.Round) ([]float32, error) {
	if err := r.fits(tokens); err != nil {
		return nil, err
	}
	defer r.ops.Release(r.ops.Mark())
	x := r.forward(tokens, spans, rounds, r.rows[:len(tokens)])
	mark := r.ops.Mark()
	rowBytes := (x.Cols + r.spec.VocabSize) * kernels.F32.Size()
	n := max(r.logitsRows, r.ops.FreeBytes()/rowBytes)
	for from := 0; from < len(scored); from += n {
		rows := scored[from:min(from+n, len(scored))]
		out, err := r.logits(x, rows)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			score(from+i, out[i*r.spec.VocabSize:][:r.spec.VocabSize])
		}
		r.ops.Release(mark)
	}
	return r.logits(x, logits)
}

// StepHidden runs tokens through the model, like Step, and calls read for the hidden states of each
// row in rows; i is the index in rows. They are valid until read returns.
func (r *Runner) StepHidden(tokens []int32, spans []kernels.Span, rows []int32,
	read func(i int, hidden []float32)) error {
	if err := r.fits(tokens); err != nil {
		return err
	}
	defer r.ops.Release(r.ops.Mark())
	x := r.forward(tokens, spans, nil, rows)
	if err := r.Sync(); err != nil {
		return err
	}
	for i, row := range r.rowsIn(x, rows) {
		read(i, x.Row(int(row)))
	}
	return nil
}

// Vectors returns the vectors of pooled hidden states, one after the other; see models.Vectors.
// pooled has at most LogitsRows rows. The result is in device memory and valid until the next pass.
func (r *Runner) Vectors(pooled [][]float32) ([]float32, error) {
	defer r.ops.Release(r.ops.Mark())
	x := r.ops.Temp(kernels.F32, len(pooled), r.spec.Vectors.Hidden)
	for i, row := range pooled {
		copy(x.Row(i), row)
	}
	out := r.model.Logits(r.ops, x, r.rows[:len(pooled)])
	if err := r.Sync(); err != nil {
		return nil, err
	}
	return out.Float32s(), nil
}

// Embeds describes the vectors that the model computes; nil: it generates text.
func (r *Runner) Embeds() *models.Vectors { return r.spec.Vectors }

// Async reports whether the device runs passes asynchronously. Otherwise Start and Await must not
// be called.
func (r *Runner) Async() bool { return r.async != nil }

// Pass is a pass in flight.
type Pass struct {
	ticket kernels.Ticket
	chosen kernels.Tensor
}

// Start launches a pass in which the device also samples a token for each row that logits lists.
// choices has the sampling parameters of these rows, in the same order. tokens may contain
// placeholders for the tokens that the previous pass samples (sampling.Placeholder). At most two
// passes may be in flight.
func (r *Runner) Start(tokens []int32, spans []kernels.Span, logits []int32, choices *sample.Rows,
	rounds ...batch.Round) (Pass, error) {
	if err := r.fits(tokens); err != nil {
		return Pass{}, err
	}
	defer r.ops.Release(r.ops.Mark())
	x := r.forward(tokens, spans, rounds, logits)
	p := Pass{chosen: r.chosen[1-r.last].RowRange(0, len(logits))}
	if len(logits) > 0 {
		out := r.model.Logits(r.ops, x, r.rowsIn(x, logits))
		r.ops.Choose(p.chosen, out, choices.Settings, choices.Adjusted(), r.chosen[r.last])
	}
	r.last = 1 - r.last
	p.ticket = r.async.Commit()
	return p, nil
}

// Await waits for a pass and returns the tokens that it has sampled. A negative token is an error
// code (sampling.Fault). The result is in device memory. It is valid until Start has been called
// twice more.
func (r *Runner) Await(p Pass) ([]int32, error) {
	if err := r.async.Wait(p.ticket); err != nil {
		return nil, fmt.Errorf("runner: %s: %w", r.device.Name(), err)
	}
	return p.chosen.Int32s(), nil
}

// Sync waits for all passes and copies. Call it before the host accesses pages or slots.
func (r *Runner) Sync() error {
	if err := r.device.Sync(); err != nil {
		return fmt.Errorf("runner: %s: %w", r.device.Name(), err)
	}
	return nil
}

func (r *Runner) fits(tokens []int32) error {
	if len(tokens) > r.tokens.Rows {
		return fmt.Errorf("runner: the pass has %d rows, the limit is %d", len(tokens),
			r.tokens.Rows)
	}
	return nil
}

// forward runs a pass and returns the hidden states, at least those of the rows that outputs lists.
func (r *Runner) forward(tokens []int32, spans []kernels.Span, rounds []batch.Round,
	outputs []int32) kernels.Tensor {
	if len(rounds) == 0 {
		r.round[0] = batch.Round{Spans: spans}
		rounds = r.round[:]
	}
	in := r.tokens.RowRange(0, len(tokens))
	r.ops.Feed(in, tokens, r.chosen[r.last])
	for i := 1; i < len(outputs); i++ {
		if outputs[i] <= outputs[i-1] { // not a selection
			outputs = r.rows[:len(tokens)]
			break
		}
	}
	r.outputs.Select(outputs, spans)
	b := &r.batch // with its memory
	b.Tokens, b.Spans, b.Rounds, b.Outputs = in, spans, rounds, &r.outputs
	r.setHidden(spans, rounds)
	r.ops.SetPrefill(spans)
	return r.model.Forward(r.ops, &r.batch, r.layers)
}

// rowsIn returns the rows of x, which forward has returned, that have the hidden states of the
// given rows of the batch.
func (r *Runner) rowsIn(x kernels.Tensor, rows []int32) []int32 {
	if x.Rows < r.batch.Rows() { // x has only the rows of the selection, which are these
		return r.rows[:len(rows)]
	}
	return rows
}

// CopyPage copies a page in every attention layer without a window. The parameters from and to must
// be pages of the same kind.
func (r *Runner) CopyPage(from, to int32) { r.copy(r.PageRegions(from < r.startPages), from, to) }

// CopyState copies a slot: the recurrent state and the rings of every layer.
func (r *Runner) CopyState(from, to int32) { r.copy(r.slotRegions, from, to) }

func (r *Runner) copy(regions []cache.Region, from, to int32) {
	for i := range regions {
		g := &regions[i]
		r.ops.Copy(g.Buffer, g.Offset+int(from)*g.PieceBytes, g.Offset+int(to)*g.PieceBytes,
			g.PieceBytes)
	}
}

// PageRegions returns the memory of the start pages if start is true, else of the other pages. The
// block store reads and writes it. A shared page never changes, so any goroutine that holds a
// reference may read it.
func (r *Runner) PageRegions(start bool) []cache.Region {
	if start {
		return r.startRegions
	}
	return r.pageRegions
}

// SlotRegions returns the memory of the slots.
func (r *Runner) SlotRegions() []cache.Region { return r.slotRegions }

// VocabSize returns the length of one row of logits.
func (r *Runner) VocabSize() int { return r.spec.VocabSize }

// SetAdapter sets the adapter with that number for spans that name it; nil removes it. Its memory
// is the caller's; see ops.Context.SetAdapter.
func (r *Runner) SetAdapter(number int, a *ops.Adapter) { r.ops.SetAdapter(number, a) }

// NewBuffer allocates memory on the device.
func (r *Runner) NewBuffer(bytes int) *kernels.Buffer { return r.device.NewBuffer(bytes) }
