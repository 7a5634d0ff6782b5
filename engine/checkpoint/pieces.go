package checkpoint

// Reading all bytes of tensors on all cores, in pieces and in file order.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"headroom/engine/safetensors"
)

// readBytes is how much of a piece a core reads at a time. The bytes are in its cache when they are
// checked after hashing.
const readBytes = 256 << 10

// piece is a part of a tensor.
type piece struct {
	file     *safetensors.File
	from     int // of data in the file
	data     []byte
	tensor   string
	check    notFinite
	sum      [sha256.Size]byte // of data, if it is hashed
	isBroken bool              // an element is not finite
}

// inOrder returns the tensors of a file, in its order.
func inOrder(f *safetensors.File) []safetensors.Tensor {
	names := f.Names()
	tensors := make([]safetensors.Tensor, len(names))
	for i, name := range names {
		tensors[i], _ = f.Tensor(name)
	}
	slices.SortFunc(tensors, func(a, b safetensors.Tensor) int {
		return cmp.Compare(a.From, b.From)
	})
	return tensors
}

// pieces returns the pieces of all tensors of a file, in its order.
func (w *Weights) pieces(f *safetensors.File) (all []piece) {
	for _, t := range inOrder(f) {
		check, from := w.notFiniteOf(t), t.From
		for data := range slices.Chunk(t.Data, digestPiece) {
			all = append(all, piece{file: f, from: from, data: data, tensor: t.Name, check: check})
			from += len(data)
		}
	}
	return all
}

// noteBroken adds the tensors of the pieces that are not finite to found.
func noteBroken(pieces []piece, found map[string]bool) {
	for i := range pieces {
		if pieces[i].isBroken {
			found[pieces[i].tensor] = true
		}
	}
}

// hashPieces hashes and checks pieces on all cores, and begins them in order. It calls done with
// the bytes of each. It reads files with system calls where it can; see safetensors.File.Reader.
func hashPieces(ctx context.Context, pieces []piece, done func(bytes int)) error {
	readers := map[*safetensors.File]io.ReaderAt{}
	for _, p := range pieces {
		if _, known := readers[p.file]; known {
			continue
		}
		r, err := p.file.Reader()
		if readers[p.file] = nil; err == nil {
			defer r.Close()
			readers[p.file] = r
		}
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	hashed := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			buffer := make([]byte, readBytes)
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) {
					return
				}
				pieces[i].hash(readers[pieces[i].file], buffer)
				hashed <- len(pieces[i].data)
			}
		})
	}
	go func() {
		workers.Wait()
		close(hashed)
	}()
	for n := range hashed {
		done(n)
	}
	return ctx.Err()
}

// hash sets sum and isBroken. r reads the file; nil: read the mapping. buffer has readBytes.
func (p *piece) hash(r io.ReaderAt, buffer []byte) {
	h, at := sha256.New(), p.from
	for data := range slices.Chunk(p.data, readBytes) {
		if r != nil {
			// The mapping has what cannot be read so, or ends the program with the error.
			if n, _ := r.ReadAt(buffer[:len(data)], int64(at)); n == len(data) {
				data = buffer[:n]
			}
		}
		h.Write(data)
		p.isBroken = p.isBroken || p.check.in(data)
		at += len(data)
	}
	h.Sum(p.sum[:0])
}

// checkPieces checks those of the pieces that end before a byte of their file, on all cores. Their
// pages should be in memory. It adds the tensors that are not finite to found, and returns the
// other pieces.
func checkPieces(pieces []piece, end int, found map[string]bool) (rest []piece) {
	n := 0
	for n < len(pieces) && pieces[n].from+len(pieces[n].data) <= end {
		n++
	}
	parallel(n, 1, func(i, _ int) {
		p := &pieces[i]
		p.isBroken = p.check.in(p.data)
	})
	noteBroken(pieces[:n], found)
	return pieces[n:]
}
