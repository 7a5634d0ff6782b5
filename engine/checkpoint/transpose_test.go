package checkpoint

import (
	"encoding/binary"
	"fmt"
	"testing"

	"headroom/engine/safetensors"
	"headroom/kernels"
)

// TestTransposed checks every element of transposed stacks, whose sizes are no multiples of a tile,
// in types of both sizes.
func TestTransposed(t *testing.T) {
	const e, k = 3, 45
	n := []int{33, 70}
	for dtype, size := range map[safetensors.DType]int{safetensors.BF16: 2, safetensors.F32: 4} {
		x := zeros("a", dtype, e, k, n[0]+n[1])
		for i := range x.Elements() {
			binary.LittleEndian.PutUint16(x.Data[i*size:], uint16(i))
		}
		w := open(t, "", x)
		from := 0
		for _, part := range w.At("").Transposed("a", e, k, n...) {
			if err := part.Check(); err != nil {
				t.Fatal(err)
			}
			for i := range e * part.N * k {
				expert, row, col := i/(part.N*k), i/k%part.N, i%k
				got := int(binary.LittleEndian.Uint16(part.Data.Bytes()[i*size:]))
				if want := (expert*k+col)*(n[0]+n[1]) + from + row; got != want {
					t.Fatalf("%s: element [%d, %d, %d] of the rows from %d is number %d, "+
						"expected %d", dtype, expert, row, col, from, got, want)
				}
			}
			from += part.N
		}
	}
}

func BenchmarkTranspose(b *testing.B) {
	const e, k, n = 8, 2048, 768
	for _, dtype := range []kernels.DType{kernels.BF16, kernels.F32} {
		b.Run(fmt.Sprint(dtype), func(b *testing.B) {
			d := kernels.NewReference()
			defer d.Close()
			from := kernels.NewTensor(d, dtype, e*k, n)
			to := kernels.NewTensor(d, dtype, e*n, k)
			b.SetBytes(int64(len(from.Bytes())))
			for b.Loop() {
				transpose(to, from, e)
			}
		})
	}
}
