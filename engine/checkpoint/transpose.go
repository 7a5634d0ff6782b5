package checkpoint

// Transposition of weights while a model is loaded. It takes as long as reading the weights from
// memory a few times, so it must use the caches and all cores.

import (
	"encoding/binary"
	"runtime"
	"sync"

	"headroom/kernels"
)

// tile is the number of rows and columns that are transposed at a time.
const tile = 64

// transpose copies from, a stack of e matrices [k, n] that may be columns of wider ones, to to, a
// stack of e matrices [n, k]. Elements have 2 or 4 bytes. It uses all cores.
func transpose(to, from kernels.Tensor, e int) {
	k, n := to.Cols, from.Cols
	tilesOfK := (k + tile - 1) / tile
	work := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), e*tilesOfK) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := range work {
				x, k0 := i/tilesOfK, i%tilesOfK*tile
				k1 := min(k0+tile, k)
				transposeRows(to.RowRange(x*n, (x+1)*n).Columns(k0, k1),
					from.RowRange(x*k+k0, x*k+k1))
			}
		}()
	}
	for i := range e * tilesOfK {
		work <- i
	}
	close(work)
	workers.Wait()
}

// transposeRows transposes up to tile rows of a matrix.
func transposeRows(to, from kernels.Tensor) {
	size, in, out := from.DType.Size(), from.Bytes(), to.Bytes()
	// The transposed tile. Written to directly, rows of a power of two would share the same few
	// lines of the cache.
	var local [tile * tile * 4]byte
	for n0 := 0; n0 < from.Cols; n0 += tile {
		cols := min(tile, from.Cols-n0)
		for j := range from.Rows {
			row := in[(j*from.Stride+n0)*size:][:cols*size]
			if size == 2 {
				for at := 2 * j; len(row) >= 2; row, at = row[2:], at+2*tile {
					binary.LittleEndian.PutUint16(local[at:], binary.LittleEndian.Uint16(row))
				}
				continue
			}
			for at := 4 * j; len(row) >= 4; row, at = row[4:], at+4*tile {
				binary.LittleEndian.PutUint32(local[at:], binary.LittleEndian.Uint32(row))
			}
		}
		for i := range cols {
			copy(out[(n0+i)*to.Stride*size:][:from.Rows*size], local[i*tile*size:])
		}
	}
}

// Absorbed loads the matrix name.weight of shape [heads*(n+m), k], which computes n+m values of
// each head, for the absorbed form of latent attention. keys has the transpose of the first n rows
// of each head, [heads, k, n], and values the last m rows, [heads, m, k]. Both are copies. Packed
// values stay packed. Packed keys become float32, because their groups are along k.
func (s Scope) Absorbed(name string, heads, n, m, k int) (keys, values *kernels.Weight) {
	w := s.View(name, heads*(n+m), k)
	values = s.Pick(w, heads*m, func(i int) int { return i/m*(n+m) + n + i%m })
	keys = &kernels.Weight{Experts: heads, N: k, K: n}
	if s.w.err != nil {
		return keys, values
	}
	values.Experts, values.N = heads, m
	dtype := w.Data.DType
	if w.Bits > 0 {
		dtype = kernels.F32
	}
	keys.Data = kernels.NewTensor(s.w.Device, dtype, heads*k, n)
	for h := 0; h < heads && keys.Data.Buffer.Bytes != nil; h++ {
		transpose(keys.Data.RowRange(h*k, (h+1)*k), s.plainRows(w, h*(n+m), n), 1)
	}
	return keys, values
}

// plainRows returns n rows of w, as float32 if they are packed.
func (s Scope) plainRows(w *kernels.Weight, from, n int) kernels.Tensor {
	if w.Bits == 0 {
		return w.Data.RowRange(from, from+n)
	}
	rows := kernels.FromFloat32s(kernels.NewReference(), n, w.K, make([]float32, n*w.K))
	sorted := make([]float32, w.K)
	for i := range n {
		w.DequantizeRow(sorted, from+i)
		if row := rows.Row(i); w.Order.IsNone() {
			copy(row, sorted)
		} else {
			for j, to := range w.Order.Int32s() {
				row[to] = sorted[j]
			}
		}
	}
	return rows
}
