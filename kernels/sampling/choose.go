package sampling

// Choosing a token. The reference sorts the row. The CPU (chooser.go) and the GPU (choose.metal)
// find the last token that the filters keep without sorting, and choose exactly the same token.

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Choose sets out[m] to a token chosen from logits[m] with the settings Rows[m], or a fault (see
// Fault).
//
// Logits are float32 [M, V] with V at most 2^23, and -Inf for masked tokens. Rows has M settings.
// Out is int32 [M, 1].
type Choose struct {
	Logits kernels.Tensor
	Rows   []Settings
	Out    kernels.Tensor

	partTokens int // for tests: tokens per part of a row on Metal; 0 for the default
}

// Name implements kernels.Op.
func (o *Choose) Name() string { return "choose" }

// Check implements kernels.Op.
func (o *Choose) Check() error {
	err := errors.Join(
		kernels.CheckShape("logits", o.Logits, kernels.F32, len(o.Rows), -1),
		kernels.CheckShape("out", o.Out, kernels.I32, len(o.Rows), 1))
	if o.Logits.Cols > maxVocab {
		err = errors.Join(err, fmt.Errorf("logits: got %d columns, expected at most %d",
			o.Logits.Cols, maxVocab))
	}
	return err
}

// Reference implements kernels.Op.
func (o *Choose) Reference() {
	for r := range o.Rows {
		o.Out.RowRange(r, r+1).Int32s()[0] = bySorting(o.Logits.Row(r), o.Rows[r])
	}
}

// bySorting is the specification of Choose for one row.
func bySorting(logits []float32, s Settings) int32 {
	best := NoToken
	for i, x := range logits {
		if x != x || x > math.MaxFloat32 {
			return FaultAt(int32(i))
		}
		if x >= -math.MaxFloat32 && (best < 0 || x > logits[best]) {
			best = int32(i)
		}
	}
	l := s.limits(len(logits))
	if best < 0 || l.scale == 0 {
		return best
	}
	kept := keptBySorting(logits, logits[best], &l)
	total := uint64(0)
	for _, id := range kept {
		total += weight(logits[best]-logits[id], l.scale)
	}
	left, _ := bits.Mul64(l.random, total)
	for _, id := range kept {
		w := weight(logits[best]-logits[id], l.scale)
		if left < w {
			return id
		}
		left -= w
	}
	panic("sampling: the weights of a row do not add up to their sum")
}

// keptBySorting returns the tokens that pass the filters, in ascending order of their ids.
func keptBySorting(logits []float32, peak float32, l *limits) (kept []int32) {
	order, total := make([]int32, len(logits)), uint64(0)
	for i, x := range logits {
		order[i] = int32(i)
		total += weight(peak-x, log2e)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
	before, limit := uint64(0), l.massLimit(total)
	for i, id := range order {
		if uint32(i) >= l.topK || before >= limit || peak-logits[id] > l.reach {
			break
		}
		kept = append(kept, id)
		before += weight(peak-logits[id], log2e)
	}
	slices.Sort(kept)
	return kept
}

// choosers are the Choosers of Choose on the CPU. The engine does not use them: it has a Chooser
// for each sequence.
var choosers = sync.Pool{New: func() any { return new(Chooser) }}

// CPU implements kernels.Op. Rows are independent.
func (o *Choose) CPU(c *cpu.Context) {
	c.Parallel(o, 0, len(o.Rows), 1+2048/max(o.Logits.Cols, 1))
}

// CPURange implements cpu.Task.
func (o *Choose) CPURange(_ *cpu.Context, _, _, from, to int) {
	c := choosers.Get().(*Chooser)
	for r := from; r < to; r++ {
		o.Out.RowRange(r, r+1).Int32s()[0] = c.Choose(o.Logits.Row(r), o.Rows[r]).Token
	}
	choosers.Put(c)
}

// settingsOf returns random settings whose kind depends on i.
func settingsOf(i int, r *rand.Rand) Settings {
	s := Settings{Temperature: 0.2 + 2*r.Float32(), Random: r.Uint64()}
	switch i % 8 {
	case 0:
		s.Temperature = 0
	case 1:
		s.TopK = 1 + r.IntN(40)
	case 2:
		s.TopP = r.Float32()
	case 3:
		s.MinP = r.Float32() * r.Float32()
	case 4:
		s.TopK, s.TopP, s.MinP = 20, 0.95, 0.01
	case 5:
		s.TopK, s.TopP = 1+r.IntN(2000), 0.999
	case 6:
		s.Random = math.MaxUint64
	}
	return s
}

func chooseCases() []kernels.Case {
	var cases []kernels.Case
	for _, c := range []struct {
		rows, vocab int
		scale       float64
		coarse      bool // integral logits, so that many are equal
		bytes       int64
	}{{16, 320, 3, true, 0}, {1, 1, 1, false, 0}, {8, 31, 1, false, 0}, {16, 3001, 3, false, 0},
		{16, 3000, 0.01, false, 0}, {8, 2500, 0, true, 0},
		{8, 5000, 30, false, 0}, {3, 9000, 1, true, 0}, {1, 151936, 3, false, 4 * 151936},
		{1, 300001, 3, true, 0}} {
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("choose_m%d_v%d_scale_%g_coarse_%t", c.rows, c.vocab, c.scale,
				c.coarse),
			Bytes: c.bytes,
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Choose{Logits: kernels.RandomTensor(d, r, c.rows, c.vocab+3,
					c.scale).Columns(1, c.vocab+1),
					Out: kernels.NewTensor(d, kernels.I32, c.rows, 1)}
				for m := range c.rows {
					x := o.Logits.Row(m)
					for i := range x {
						if c.coarse {
							x[i] = float32(math.Round(float64(x[i])))
						}
						if c.vocab > 1 && r.IntN(10) == 0 {
							x[i] = float32(math.Inf(-1))
						}
					}
					s := settingsOf(m, r)
					if c.rows == 1 && c.vocab > 1 {
						s = settingsOf(4, r)
					}
					o.Rows = append(o.Rows, s)
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}
