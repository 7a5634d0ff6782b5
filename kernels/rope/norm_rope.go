package rope

// Rotary embedding, together with the norm that Qwen3 applies to each head before it.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// NormRope normalizes each head's row by RMSNorm over D, if there is a Weight, and rotates its
// first R dimensions by the row's position (Su et al. 2021, "RoFormer"). Dimension i pairs with i +
// R/2, as in the Llama and Qwen checkpoints:
//
//	angle = position * InvFreq[i]
//	out[i]       = x[i] * cos(angle)       - x[i + R/2] * sin(angle)
//	out[i + R/2] = x[i + R/2] * cos(angle) + x[i]       * sin(angle)
//
// With Interleaved, dimensions 2i and 2i+1 of x are a pair (DeepSeek). They are x[i] and
// x[i + R/2] above, so that out still has the first ones of all pairs before the second ones. A dot
// product of two such rows is that of rows with pairs side by side.
//
// All other dimensions are copied. PosScale, if there is one, then multiplies each row by a factor
// that depends on its position alone. Row m*Heads + h is head h of batch row m, whose position
// follows from the span that contains m. Rows outside the spans are not written. The angle is
// computed in float64, where position times frequency is exact, and cosine and sine are rounded
// once. So the error does not grow with the position.
type NormRope struct {
	X       kernels.Tensor // float32 [M*Heads, D]
	Weight  kernels.Tensor // float32 [1, D], or none: no normalization
	InvFreq kernels.Tensor // float32 [1, R/2]
	Out     kernels.Tensor // float32 [M*Heads, D]; may be X, unless Interleaved
	Spans   []kernels.Span
	Heads   int
	Eps     float32
	Scale   float32 // multiplies cosine and sine (YaRN's attention factor); 0 means 1

	Interleaved bool

	// PosScale[i] multiplies the rows of positions i*PosStep to (i+1)*PosStep-1. The last value is
	// for all later positions too.
	PosScale kernels.Tensor // float32 [1, N], or none
	PosStep  int            // positive if there is a PosScale
}

// Name implements kernels.Op.
func (o *NormRope) Name() string { return "norm_rope" }

// Check implements kernels.Op.
func (o *NormRope) Check() error {
	d := o.X.Cols
	if o.Heads < 1 || o.X.Rows%o.Heads != 0 {
		return fmt.Errorf("x: got %d rows for %d heads, expected a multiple of at least one head",
			o.X.Rows, o.Heads)
	}
	if o.InvFreq.Cols < 1 || 2*o.InvFreq.Cols > d {
		return fmt.Errorf(
			"inv_freq: got %d frequencies, expected between 1 and half of the head dimension of %d",
			o.InvFreq.Cols, d)
	}
	err := errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("inv_freq", o.InvFreq, kernels.F32, 1, -1),
		kernels.CheckShape("out", o.Out, kernels.F32, o.X.Rows, d),
		kernels.CheckSpans(o.Spans, o.X.Rows/o.Heads))
	if !o.Weight.IsNone() {
		err = errors.Join(err, kernels.CheckShape("weight", o.Weight, kernels.F32, 1, d))
	}
	if o.Interleaved && o.Out.Buffer == o.X.Buffer && o.Out.Offset == o.X.Offset {
		err = errors.Join(err, errors.New("out: got x, expected another tensor for pairs"))
	}
	if !o.PosScale.IsNone() {
		err = errors.Join(err, kernels.CheckShape("pos_scale", o.PosScale, kernels.F32, 1, -1))
		if o.PosStep < 1 || o.PosStep > math.MaxInt32 || o.PosScale.Cols < 1 {
			err = errors.Join(err, fmt.Errorf(
				"pos_step: got %d for %d factors, expected at least 1 of both", o.PosStep,
				o.PosScale.Cols))
		}
	}
	return err
}

// Reference implements kernels.Op.
func (o *NormRope) Reference() {
	scratch := make([]float32, o.scratch())
	for i := range o.Spans {
		o.rows(&o.Spans[i], 0, o.Spans[i].Rows, scratch)
	}
}

// scratch returns the number of floats a worker needs: the cosines and sines of a row, a normalized
// head, and its pairs apart.
func (o *NormRope) scratch() int { return 2*o.InvFreq.Cols + 2*o.X.Cols }

func (o *NormRope) scale() float32 {
	if o.Scale == 0 {
		return 1
	}
	return o.Scale
}

// posScale returns the factor of the row at a position.
func (o *NormRope) posScale(pos int) float32 {
	if o.PosScale.IsNone() {
		return 1
	}
	return o.PosScale.Row(0)[min(pos/o.PosStep, o.PosScale.Cols-1)]
}

// rows computes rows [from, to) of a span. It is the specification, and builds without cgo run it.
func (o *NormRope) rows(s *kernels.Span, from, to int, scratch []float32) {
	freq, half := o.InvFreq.Row(0), o.InvFreq.Cols
	cos, sin, y := scratch[:half], scratch[half:2*half], scratch[2*half:][:o.X.Cols]
	pairs := scratch[2*half+o.X.Cols:][:2*half]
	for r := from; r < to; r++ {
		factor := o.posScale(s.Pos + r)
		scale := float64(o.scale()) * float64(factor)
		for i, f := range freq {
			sn, cs := math.Sincos(float64(s.Pos+r) * float64(f))
			cos[i], sin[i] = float32(cs*scale), float32(sn*scale)
		}
		for h := range o.Heads {
			row := (s.Row+r)*o.Heads + h
			o.normalize(y, o.X.Row(row))
			if o.Interleaved {
				copy(pairs, y)
				for i := range half {
					y[i], y[i+half] = pairs[2*i], pairs[2*i+1]
				}
			}
			out := o.Out.Row(row)
			for i := range half {
				a, b := y[i], y[i+half]
				out[i] = a*cos[i] - b*sin[i]
				out[i+half] = b*cos[i] + a*sin[i]
			}
			for i := 2 * half; i < len(out); i++ {
				out[i] = y[i] * factor
			}
		}
	}
}

func (o *NormRope) normalize(y, x []float32) {
	if o.Weight.IsNone() {
		copy(y, x)
		return
	}
	var squares float64
	for _, v := range x {
		squares += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(squares/float64(len(x))+float64(o.Eps)))
	for i, w := range o.Weight.Row(0) {
		y[i] = x[i] * scale * w
	}
}

// CPU implements kernels.Op. Rows are independent.
func (o *NormRope) CPU(c *cpu.Context) {
	c.Parallel(o, 0, o.X.Rows/o.Heads, 1+4096/(o.Heads*o.X.Cols))
}

// CPURange implements cpu.Task for rows [from, to) of the batch.
func (o *NormRope) CPURange(c *cpu.Context, _, worker, from, to int) {
	n := o.scratch()
	scratch := unsafe.Slice((*float32)(cpu.Ptr(c.Local(worker, 4*n))), n)
	for i := range o.Spans {
		s := &o.Spans[i]
		first, end := max(from-s.Row, 0), min(to-s.Row, s.Rows)
		if first >= end {
			continue
		}
		if c.ISA == cpu.Generic {
			o.rows(s, first, end, scratch)
		} else {
			o.native(c.ISA, s, first, end, scratch)
		}
	}
}

func normRopeCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		heads, d, rotary, rows, pos int
		weight                      bool
		scale                       float32
		step                        int // of the factors, or 0
		interleaved                 bool
	}{
		{1, 32, 32, 1, 0, false, 0, 0, false}, {4, 64, 64, 5, 100, true, 0, 0, false},
		{16, 256, 64, 3, 262141, true, 0, 0, false}, {2, 80, 40, 4, 4095, false, 1.25, 0, false},
		{3, 96, 96, 2, 131071, true, 0, 0, false}, {32, 128, 128, 1, 5000, true, 0, 0, false},
		{32, 128, 128, 128, 1000, true, 0, 0, false}, {32, 128, 128, 128, 1000, false, 0, 0, false},
		{3, 80, 40, 30, 6, true, 1.25, 8, false}, {6, 64, 64, 30, 262130, false, 0, 131072, false},
		{20, 64, 64, 7, 90, false, 1.25, 0, true}, {3, 80, 40, 2, 4095, true, 0, 0, true},
	} {
		name := fmt.Sprintf("norm_rope_h%d_d%d_r%d_m%d_pos%d_norm_%t", s.heads, s.d, s.rotary,
			s.rows, s.pos, s.weight)
		if s.step > 0 {
			name += fmt.Sprintf("_step%d", s.step)
		}
		if s.interleaved {
			name += "_interleaved"
		}
		cases = append(cases, kernels.Case{
			Name:   name,
			AbsTol: 4e-6, RelTol: 1e-6,
			Why: "the sum of squares uses 16 float32 lanes and the rotation fused multiply-adds; " +
				"if the two products cancel, the error is relative to the products",
			Bytes: int64(8 * s.rows * s.heads * s.d),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				// Views of a wider projection, with one more row on each side of the span.
				wide := kernels.RandomTensor(d, r, (s.rows+2)*s.heads, s.d+16, 2)
				o := &NormRope{
					X:       wide.Columns(16, 16+s.d),
					InvFreq: kernels.FromFloat32s(d, 1, s.rotary/2, Frequencies(s.rotary, 1e6)),
					Out:     kernels.NewTensor(d, kernels.F32, (s.rows+2)*s.heads, s.d),
					Spans:   []kernels.Span{{Row: 1, Rows: s.rows, Pos: s.pos}},
					Heads:   s.heads, Eps: 1e-6, Scale: s.scale,

					Interleaved: s.interleaved,
				}
				if s.weight {
					o.Weight = kernels.RandomTensor(d, r, 1, s.d, 1)
				}
				if s.step > 0 { // the last rows are later than the factors
					o.PosStep, o.PosScale = s.step, kernels.FromFloat32s(d, 1, 3,
						[]float32{0.75, 1.5, 2.25})
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}

// Frequencies returns the unscaled RoPE frequencies theta^(-2i/rotary) for i in [0, rotary/2).
func Frequencies(rotary int, theta float64) []float32 {
	f := make([]float32, rotary/2)
	for i := range f {
		f[i] = float32(math.Pow(theta, -2*float64(i)/float64(rotary)))
	}
	return f
}
