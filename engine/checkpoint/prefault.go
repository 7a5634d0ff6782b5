package checkpoint

import (
	"context"
	"runtime"
	"slices"
)

// prefaultStep is the number of bytes after which Prefault checks ctx and reports progress.
const prefaultStep = 64 << 20

// Prefault reads every mapped page once, in file order. So the system loads the weights at the full
// speed of the disk, and no step waits for them later. Unless progress is nil, Prefault calls it
// with the share done, from 0 to 1. If ctx ends first, it returns ctx.Err().
func (w *Weights) Prefault(ctx context.Context, progress func(float64)) error {
	if w.files == nil {
		return nil
	}
	total, done, sum := 0, 0, byte(0)
	files := w.files.Files()
	if block := w.modules[blockModule]; block != nil {
		files = slices.Concat(files, block.files.Files())
	}
	for _, f := range files {
		total += len(f.Mapping())
	}
	for _, f := range files {
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
