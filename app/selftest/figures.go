package selftest

// Figures are the times of kernels at the sizes of real models, by the GPU's clock: the rows of the
// tables in metal/PEERS.md and kernels/gpu/PERF.md, as this GPU takes them.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"headroom/kernels"
	"headroom/kernels/attention"
	"headroom/kernels/golden"
	"headroom/kernels/gpu"
	"headroom/kernels/matmul"
	"headroom/kernels/recurrent"
	"headroom/kernels/transfer"
	"headroom/metal"
)

// Figure is the measured time of an operator.
type Figure struct {
	Group, Name  string
	Bytes, Flops int64         // moved and computed by one run
	Took         time.Duration // of one run
	// Copying is the share of the rate at which this GPU copies, counting bytes read and written.
	Copying float64
	Skipped string // why it was not measured; "": it was
}

// timings returns what Measure measures, by group. Tests replace it.
var timings = func() map[string][]kernels.Timing {
	all := map[string][]kernels.Timing{groupProducts: matmul.LargeTimings(),
		groupAttention: attention.LargeTimings()}
	for _, f := range golden.Families() {
		switch f.Name {
		case "matmul", "attention":
		case "recurrent":
			all[groupOthers] = append(all[groupOthers], recurrent.LargeTimings()...)
		default:
			all[groupOthers] = append(all[groupOthers], kernels.Timings(f.Cases)...)
		}
	}
	return all
}

// The groups of figures, in the order in which they are measured.
const (
	groupCopying   = "copying"
	groupProducts  = "products"
	groupAttention = "attention"
	groupOthers    = "other operators"
)

const (
	copiedBytes = 256 << 20 // of the copy that gives the rate
	manyBytes   = 96 << 20  // of the operands of one figure, if they are smaller than a cache
	mostCopies  = 16
	figureTime  = 0.02 // seconds of a batch
	figureRuns  = 64   // most of them in a batch
	batches     = 4
)

// Measure adds the figures to r. It stops when ctx ends, and returns the error of ctx. A figure
// that this GPU cannot take, such as one that needs too much memory, says why.
func (r *Report) Measure(ctx context.Context, m metal.Device, say func(line string)) error {
	rate := 0.0
	groups := timings()
	groups[groupCopying] = []kernels.Timing{{Name: "copy, 256 MiB", Bytes: 2 * copiedBytes,
		New: newCopy}}
	for _, group := range []string{groupCopying, groupProducts, groupAttention, groupOthers} {
		for _, t := range groups[group] {
			if err := ctx.Err(); err != nil {
				return err
			}
			say(group + ": " + t.Name)
			f := Figure{Group: group, Name: t.Name, Bytes: t.Bytes, Flops: t.Flops}
			took, err := measure(ctx, m, t, r.Facts)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				f.Skipped = err.Error()
			} else {
				f.Took = time.Duration(took * 1e9)
				if group == groupCopying {
					rate = float64(t.Bytes) / took
				}
				if rate > 0 {
					f.Copying = float64(t.Bytes) / took / rate
				}
			}
			r.Figures = append(r.Figures, f)
		}
	}
	return nil
}

func newCopy(d kernels.Device, _ *rand.Rand, _ int) []kernels.Op {
	b := d.NewBuffer(2 * copiedBytes)
	return []kernels.Op{&transfer.Copy{Buffer: b, To: copiedBytes, Bytes: copiedBytes}}
}

// measure returns the seconds of one run: the best of several batches. It returns between batches
// if ctx ends.
func measure(ctx context.Context, m metal.Device, t kernels.Timing, facts metal.Facts) (
	best float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	limit := facts.RecommendedMaxWorkingSetSize
	if limit > 0 && uint64(t.Bytes) > limit/4 {
		return 0, fmt.Errorf("it needs %s, a quarter of the working set is %s",
			gib(uint64(t.Bytes)), gib(limit/4))
	}
	d, err := gpu.New(m)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	copies := int(max(1, min(mostCopies, manyBytes/max(t.Bytes, 1))))
	ops := t.New(d, rand.New(rand.NewPCG(1, 2)), copies)
	if _, ok := ops[0].(gpu.Op); !ok {
		return 0, errors.New("it has no kernel")
	}
	batch := func(runs int) (float64, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		before := d.GPUSeconds()
		for i := range runs {
			d.Run(ops[i%len(ops)])
		}
		err := d.Sync()
		return (d.GPUSeconds() - before) / float64(runs), err
	}
	if best, err = batch(len(ops)); err != nil { // it compiles
		return 0, err
	}
	if best, err = batch(len(ops)); err != nil {
		return 0, err
	}
	runs := int(max(1, min(figureRuns, figureTime/max(best, 1e-9))))
	for range batches {
		took, err := batch(runs)
		if err != nil {
			return 0, err
		}
		best = min(best, took)
	}
	return best, nil
}

// writeFigures prints the figures as tables.
func (r *Report) writeFigures(w *printer) {
	for i := 0; i < len(r.Figures); {
		group := r.Figures[i].Group
		rows := []string{group + "\tµs\tGB/s\tof copying\tTFLOP/s"}
		for ; i < len(r.Figures) && r.Figures[i].Group == group; i++ {
			rows = append(rows, r.Figures[i].row())
		}
		w.line("")
		w.table(rows)
	}
}

func (f *Figure) row() string {
	if f.Skipped != "" {
		return f.Name + "\tnot measured: " + strings.ReplaceAll(f.Skipped, "\t", " ") + "\t\t\t"
	}
	seconds := f.Took.Seconds()
	row := fmt.Sprintf("%s\t%.1f\t%.1f\t%.0f %%\t", f.Name, seconds*1e6,
		float64(f.Bytes)/seconds/1e9, 100*f.Copying)
	if f.Flops > 0 {
		row += fmt.Sprintf("%.2f", float64(f.Flops)/seconds/1e12)
	}
	return row
}
