package checkpoint

import (
	"context"
	"runtime"
)

// prefaultStep is the number of bytes between two checks of ctx and two reports of progress.
const prefaultStep = 64 << 20

// Prefault reads every mapped page once, in file order, so that the system loads the weights at the
// disk's full speed and no step waits for them later. It calls progress, unless nil, with the
// fraction that is done, from 0 to 1. It returns ctx's error if ctx ends first.
func (w *Weights) Prefault(ctx context.Context, progress func(float64)) error {
	if w.files == nil {
		return nil
	}
	total, done, sum := 0, 0, byte(0)
	for _, f := range w.files.Files() {
		total += len(f.Mapping())
	}
	for _, f := range w.files.Files() {
		for data := f.Mapping(); len(data) > 0; {
			n := min(prefaultStep, len(data))
			for i := 0; i < n; i += 4096 {
				sum += data[i]
			}
			data, done = data[n:], done+n
			if progress != nil {
				progress(float64(done) / float64(total))
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	runtime.KeepAlive(sum) // so that the reads are not optimized away
	return nil
}
