// Package matmul multiplies activations with weights in the checkpoint's packed format. Linear
// multiplies an input with one or more matrices, Experts multiplies each row with the matrices of
// its experts, and GateUp computes the gate and up projections of a feed-forward layer. No weight
// is ever dequantized into memory as a whole.
//
// Quantized weights have two paths on the CPU. With cpu.Context.Int8Activation, each row of the
// input is rounded to 8 bits once per operator, with a scale per 64 elements. The products of 64
// elements (32 in groups of 32) add up to an exact integer, and one fused multiply-add applies the
// scales of the weight and of the activations. Every instruction set gives the same bits, and so
// does plain Go. Without Int8Activation, and always for plain and MXFP8 weights, products are
// float32 and are summed in sixteen lanes. Operators with Split multiply plain weights as sums of
// two bfloat16, if the processor has a matrix unit for these (split.c).
//
// On all paths, the operations of an output element and their order depend only on K and on the
// weight's format. So a row has the same bits in a batch of one and in a prompt of thousands,
// although the loops differ: with few rows, packed weights are read directly; with many, a tile or
// panel of the weight is unpacked once and shared.
package matmul

import (
	"errors"
	"fmt"

	"headroom/kernels"
)

// Part is a weight of an operator and the output of its product.
type Part struct {
	W   *kernels.Weight
	Out kernels.Tensor // float32, one column per row of W; rows may be strided
}

// Rows is the range [From, To) of the rows of a batch.
type Rows struct{ From, To int }

// Prefill lists the rows of a batch that are prefill (kernels.Span.Prefill), in order. A GPU
// multiplies them on matrix units. An empty list is valid for any batch: it only costs speed.
type Prefill []Rows

// Of appends the prefill rows of spans to p, joins adjacent ranges, and returns the result.
func (p Prefill) Of(spans []kernels.Span) Prefill {
	for i := range spans {
		s := &spans[i]
		switch {
		case s.Prefill == 0:
		case len(p) > 0 && p[len(p)-1].To == s.Row:
			p[len(p)-1].To += s.Prefill
		default:
			p = append(p, Rows{s.Row, s.Row + s.Prefill})
		}
	}
	return p
}

func (p Prefill) check(rows int) error {
	end := 0
	for _, r := range p {
		if r.From < end || r.To < r.From || r.To > rows {
			return fmt.Errorf("prefill: got rows %v, expected ranges of [0, %d) in order", p, rows)
		}
		end = r.To
	}
	return nil
}

// each divides rows [0, rows) into ranges r, in order. It calls many(r) for a range in p, and
// few(r) for a range outside p. Empty ranges are skipped.
func (p Prefill) each(rows int, few, many func(Rows)) {
	at := 0
	for _, r := range p {
		if at < r.From {
			few(Rows{at, r.From})
		}
		if r.From < r.To {
			many(r)
		}
		at = r.To
	}
	if at < rows {
		few(Rows{at, rows})
	}
}

func checkParts(parts []Part, experts, k, rows int) error {
	if len(parts) == 0 {
		return errors.New("parts: got none, expected at least one weight")
	}
	for i, p := range parts {
		if p.W == nil {
			return fmt.Errorf("part %d: got no weight", i)
		}
		err := p.W.Check()
		switch {
		case err != nil:
		case p.W.Experts != experts:
			err = fmt.Errorf("weight: got %d experts, expected %d", p.W.Experts, experts)
		case p.W.K != k:
			err = fmt.Errorf("weight: got [%d, %d], expected the input's width of %d", p.W.N, p.W.K,
				k)
		default:
			err = kernels.CheckShape("out", p.Out, kernels.F32, rows, p.W.N)
		}
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	return nil
}

// blockRows is the number of rows of a weight in a unit of work. It is a multiple of the panel size
// of every instruction set (PANEL_ROWS in lanes.h).
const blockRows = 32

func blocks(parts []Part) int {
	n := 0
	for _, p := range parts {
		n += (p.W.N + blockRows - 1) / blockRows
	}
	return n
}

// eachPart calls do(p, row, endRow) for every part p that overlaps blocks [from, to). Rows
// [row, endRow) are the part's rows in these blocks. Blocks are numbered across all parts.
func eachPart(parts []Part, from, to int, do func(p *Part, from, to int)) {
	for i := range parts {
		p := &parts[i]
		n := (p.W.N + blockRows - 1) / blockRows
		if from < n && to > 0 {
			do(p, max(from, 0)*blockRows, min(to*blockRows, p.W.N))
		}
		from, to = from-n, to-n
	}
}

// grain returns the number of blocks that a thread claims at a time. If all blocks together take
// less than about 10 µs, one thread does them all. Otherwise the pieces are large enough to stream
// memory and small enough to balance the threads. madds is the number of multiply-adds of a block
// per row of the input.
func grain(threads, blocks, madds, rows int) int {
	// Eight rows cost little more than one, because reading and unpacking the weights dominates.
	const serial = 1 << 18
	cost := madds * (1 + rows/8)
	switch {
	case blocks*cost <= serial:
		return blocks
	case rows <= packRows: // bound by memory, so streams (int8_few.h) should be long
		const stream = 1 << 19 // 256 KB of 4-bit codes
		return max(1, min(blocks/(4*threads), stream/max(madds, 1)))
	}
	return max(1, blocks/(32*threads), serial/4/max(cost, 1))
}
