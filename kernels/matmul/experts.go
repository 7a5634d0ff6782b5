package matmul

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Experts computes out[m*k+j] = x W[IDs[m, j]]ᵀ: each row chooses its matrices. If X has M rows
// (the gate and up projections of a mixture of experts), x is row m. If X has M*k rows (the down
// projection), x is row m*k+j.
//
// Rows are first sorted by expert, so the weights of an expert are read only once for all its rows.
// A row's result does not depend on the rows that share its expert.
//
// X is float32 [M, K] or [M*k, K], IDs int32 [M, k], each W is E matrices [N, K], each Out float32
// [M*k, N]. No Out may overlap X. IDs are computed on the device, where Check cannot see them: one
// outside [0, E) gives a row of NaN.
type Experts struct {
	X       kernels.Tensor
	IDs     kernels.Tensor
	Parts   []Part
	Prefill Prefill // rows of IDs

	in     input
	pairs  []int32 // rows m*k+j in order of expert, within an expert ascending
	starts []int32 // [E+1]: expert e's rows are pairs[starts[e]:starts[e+1]]
	active []int32 // the experts that have rows
}

// Name implements kernels.Op.
func (o *Experts) Name() string { return "experts" }

// Check implements kernels.Op.
func (o *Experts) Check() error {
	if err := errors.Join(
		kernels.CheckShape("ids", o.IDs, kernels.I32, -1, -1),
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1)); err != nil {
		return err
	}
	m, k := o.IDs.Rows, o.IDs.Cols
	if o.X.Rows != m && o.X.Rows != m*k {
		return fmt.Errorf("x: got %s, expected %d rows, one per token, or %d, one per choice", o.X,
			m, m*k)
	}
	if len(o.Parts) == 0 || o.Parts[0].W == nil {
		return errors.New("parts: got none, expected at least one weight")
	}
	return errors.Join(checkParts(o.Parts, o.Parts[0].W.Experts, o.X.Cols, m*k), o.Prefill.check(m))
}

// perInput returns how many rows of the output share a row of X.
func (o *Experts) perInput() int {
	if o.X.Rows == o.IDs.Rows {
		return max(o.IDs.Cols, 1)
	}
	return 1
}

// Reference implements kernels.Op.
func (o *Experts) Reference() {
	in := input{x: o.X}
	for m := range o.IDs.Rows {
		for j, e := range o.IDs.RowRange(m, m+1).Int32s() {
			pair := m*o.IDs.Cols + j
			for _, p := range o.Parts {
				if e < 0 || int(e) >= p.W.Experts {
					fillNaN(p.Out.Row(pair))
					continue
				}
				in.floatRows(&p, int(e), 0, p.W.N,
					rows{list: []int32{int32(pair)}, count: 1, perInput: o.perInput()})
			}
		}
	}
}

// CPU implements kernels.Op.
func (o *Experts) CPU(c *cpu.Context) {
	pairs, experts := o.IDs.Rows*o.IDs.Cols, o.Parts[0].W.Experts
	if pairs == 0 {
		return
	}
	size := o.in.plan(c, o.X, o.Parts)
	o.in.scratch = c.Shared(size + 4*(pairs+2*experts+1))
	lists := unsafe.Slice((*int32)(unsafe.Pointer(&o.in.scratch[size])), pairs+2*experts+1)
	o.pairs, o.starts, o.active = lists[:pairs], lists[pairs:pairs+experts+1],
		lists[pairs+experts+1:]
	o.sort()
	if len(o.active) == 0 {
		return
	}
	if o.in.rounds {
		c.Parallel(o, phaseRound, o.X.Rows, roundGrain(o.X.Cols))
	}
	n := blocks(o.Parts) * len(o.active)
	c.Parallel(o, phaseMultiply, n,
		grain(c.Threads, n, blockRows*o.X.Cols, len(o.pairs)/len(o.active)))
}

// sort sets pairs, starts and active by a counting sort, and fills rows whose expert does not exist
// with NaN.
func (o *Experts) sort() {
	clear(o.starts)
	experts, k := len(o.starts)-1, o.IDs.Cols
	for m := range o.IDs.Rows {
		for j, e := range o.IDs.RowRange(m, m+1).Int32s() {
			if e >= 0 && int(e) < experts {
				o.starts[e+1]++
				continue
			}
			for _, p := range o.Parts {
				fillNaN(p.Out.Row(m*k + j))
			}
		}
	}
	n := 0
	for e := range experts {
		if o.starts[e+1] > 0 {
			o.active[n] = int32(e)
			n++
		}
		o.starts[e+1] += o.starts[e]
	}
	// Placing a row advances its expert's start, so afterwards every start is the next expert's.
	for m := range o.IDs.Rows {
		for j, e := range o.IDs.RowRange(m, m+1).Int32s() {
			if e >= 0 && int(e) < experts {
				o.pairs[o.starts[e]] = int32(m*k + j)
				o.starts[e]++
			}
		}
	}
	copy(o.starts[1:], o.starts[:experts])
	o.starts[0] = 0
	o.active, o.pairs = o.active[:n], o.pairs[:o.starts[experts]]
}

// CPURange implements cpu.Task.
func (o *Experts) CPURange(c *cpu.Context, phase, worker, from, to int) {
	if phase == phaseRound {
		o.in.round(c, from, to)
		return
	}
	per := blocks(o.Parts)
	for from < to {
		e := o.active[from/per]
		end := min(to, (from/per+1)*per)
		list := o.pairs[o.starts[e]:o.starts[e+1]]
		eachPart(o.Parts, from%per, end-from/per*per, func(p *Part, from, to int) {
			o.in.multiply(c, worker, p, int(e), from, to,
				rows{list: list, count: len(list), perInput: o.perInput()})
		})
		from = end
	}
}

func fillNaN(row []float32) {
	for i := range row {
		row[i] = float32(math.NaN())
	}
}
