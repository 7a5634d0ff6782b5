package matmul

import (
	"errors"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Linear computes out = X Wᵀ for every part. Weights that share an input (q, k and v; gate and up)
// belong in one Linear, which rounds the input and synchronizes the threads only once.
//
// X is float32 [M, K], each W one matrix [N, K], and each Out float32 [M, N]. No Out may overlap X.
type Linear struct {
	X       kernels.Tensor
	Parts   []Part
	Prefill Prefill // rows of X
	// Split multiplies weights of plain floats as sums of two bfloat16 on CPUs with a matrix unit
	// (split.c): several times faster, with errors of at most 2^-16 of a product. All products of a
	// model must have the same value, and the bits then depend on whether there is such a unit.
	Split bool

	in input
}

// Name implements kernels.Op.
func (o *Linear) Name() string { return "linear" }

// Check implements kernels.Op.
func (o *Linear) Check() error {
	return errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		checkParts(o.Parts, 1, o.X.Cols, o.X.Rows),
		o.Prefill.check(o.X.Rows))
}

// Reference implements kernels.Op.
func (o *Linear) Reference() {
	in := input{x: o.X}
	for _, p := range o.Parts {
		in.floatRows(&p, 0, 0, p.W.N, rows{count: o.X.Rows, perInput: 1})
	}
}

// The phases of an operator on the CPU, and their units of work.
const (
	phaseRound    = iota // rounds rows of X to 8 bits
	phasePack            // packs blocks of packRows rows
	phaseMultiply        // multiplies blocks of blockRows rows of the weights
	phaseSplit           // splits blocks of packRows rows of X
)

// CPU implements kernels.Op.
func (o *Linear) CPU(c *cpu.Context) {
	if o.X.Rows == 0 {
		return
	}
	size := o.in.plan(c, o.X, o.Parts)
	size += o.in.planPacked(c, o.Parts)
	if o.Split {
		size += o.in.planSplit(c, size, o.Parts)
	}
	o.in.scratch = c.Shared(size)
	if o.in.rounds {
		c.Parallel(o, phaseRound, o.X.Rows, roundGrain(o.X.Cols))
	}
	if o.in.packing.unit > 0 {
		c.Parallel(o, phasePack, (o.X.Rows+packRows-1)/packRows, 1)
	}
	if o.in.splits {
		c.Parallel(o, phaseSplit, (o.X.Rows+packRows-1)/packRows, 1)
	}
	n := blocks(o.Parts)
	if o.X.Rows <= readAheadRows {
		c.Reads(uintptr(o.Parts[0].W.Data.Ptr()), o)
	}
	each := grain(c.Threads, n, blockRows*o.X.Cols, o.X.Rows)
	if o.in.splits {
		each = splitGrain(c.Threads, n)
	}
	c.Parallel(o, phaseMultiply, n, each)
}

// CPURange implements cpu.Task.
func (o *Linear) CPURange(c *cpu.Context, phase, worker, from, to int) {
	switch phase {
	case phaseRound:
		o.in.round(c, from, to)
		return
	case phasePack:
		o.in.nativePack(from, to)
		return
	case phaseSplit:
		o.in.nativeSplitRows(from, to)
		return
	}
	eachPart(o.Parts, from, to, func(p *Part, from, to int) {
		o.in.multiply(c, worker, p, 0, from, to, rows{count: o.X.Rows, perInput: 1})
	})
}

// splitGrain returns how many blocks of a weight of n blocks a thread multiplies with split rows at
// a time: at most as many as have their outputs in the second-level cache.
func splitGrain(threads, n int) int {
	pieces := (n + splitPanels*threads - 1) / (splitPanels * threads) * threads
	return (n + pieces - 1) / pieces
}

// A product of few rows waits for memory. Threads that idle before it prefetch what they will read.
const (
	readAheadRows  = 4         // products of more rows are not prefetched
	readAheadBytes = 192 << 10 // of codes, for each thread
)

// Stretches implements cpu.Reader. It returns the beginnings of the streams (int8_few.h) in which
// the worker will read the first rows of its blocks. int8_slice4.h reads one stream.
func (o *Linear) Stretches(c *cpu.Context, worker int) (all []cpu.Stretch) {
	n, left := blocks(o.Parts), readAheadBytes
	first := grain(c.Threads, n, blockRows*o.X.Cols, 1) * blockRows
	eachPart(o.Parts, n*worker/c.Threads, n*(worker+1)/c.Threads, func(p *Part, from, to int) {
		streams := max(policyOf(c.ISA).streams, 1)
		unit := packingOf(c.ISA, p.W).unit // 0 for weights of floats
		if p.W.Bits == 4 && unit > 0 && o.X.Rows <= policyOf(c.ISA).slice4Rows &&
			(o.X.Rows > 2 || p.W.K/unit >= 16) { // as in int8.c
			streams = 1
		}
		for ; from < to && left > 0; from += first {
			length := (min(first, to-from) + streams - 1) / streams // rows of a stream
			rows := min(length, 1+left/streams/rowBytes(p.W.Data))
			for at := from; at < min(from+first, to); at += length {
				for _, t := range []kernels.Tensor{p.W.Data, p.W.Scales, p.W.Biases} {
					if !t.IsNone() {
						all = append(all, cpu.Stretch{At: uintptr(t.Ptr()) +
							uintptr(at*rowBytes(t)), Bytes: min(rows, to-at) * rowBytes(t)})
					}
				}
			}
			left -= rows * streams * rowBytes(p.W.Data)
		}
	})
	return all
}

func rowBytes(t kernels.Tensor) int { return t.Stride * t.DType.Size() }
