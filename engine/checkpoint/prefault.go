package checkpoint

import (
	"context"
	"runtime"
	"time"
)

// prefaultStep is the number of bytes after which Prefault checks ctx and reports progress.
const prefaultStep = 64 << 20

// Prefault reads every mapped page once, in file order. So the system loads the weights at the full
// speed of the disk, and no step waits for them later. With Digests it also finds the digest of the
// weights. Unless progress is nil, Prefault calls it with the share done, from 0 to 1. If ctx ends
// first, it returns ctx.Err().
func (w *Weights) Prefault(ctx context.Context, progress func(float64)) error {
	if w.files == nil {
		return nil
	}
	all := []*Weights{w}
	if block := w.modules[blockModule]; block != nil {
		block.Digests = w.Digests
		all = append(all, block)
	}
	total, before := 0, 0
	for _, one := range all {
		total += one.mappingBytes()
	}
	for _, one := range all {
		read := 0 // by the digest first; then the pages are in memory
		report := func(n int) {
			read = max(read, n)
			if progress != nil {
				progress(float64(before+read) / float64(total))
			}
		}
		if one.Digests != nil {
			hashed := 0
			if err := one.findDigest(ctx, time.Now(), func(n int) {
				hashed += n
				if hashed-read >= prefaultStep {
					report(hashed)
				}
			}); err != nil {
				return err
			}
		}
		if err := one.touch(ctx, report); err != nil {
			return err
		}
		before += one.mappingBytes()
	}
	return nil
}

// mappingBytes returns the total size of the mapped files.
func (w *Weights) mappingBytes() (total int) {
	for _, f := range w.files.Files() {
		total += len(f.Mapping())
	}
	return total
}

// touch reads a byte of every page, and calls report with the number of bytes done so far. It
// checks that values are finite, unless that is known.
func (w *Weights) touch(ctx context.Context, report func(done int)) error {
	done, sum, found := 0, byte(0), map[string]bool{}
	for _, f := range w.files.Files() {
		var unchecked []piece
		if w.notFinite == nil {
			unchecked = w.pieces(f)
		}
		all := f.Mapping()
		for from := 0; from < len(all); {
			to := min(from+prefaultStep, len(all))
			for ; from < to; from += 4096 {
				sum += all[from]
			}
			from = to
			unchecked = checkPieces(unchecked, to, found)
			report(done + to)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		done += len(all)
	}
	runtime.KeepAlive(sum) // so that the reads are not optimized away
	if w.notFinite == nil {
		w.notFinite = found
	}
	return nil
}
