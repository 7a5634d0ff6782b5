// Package transfer copies bytes within device memory. The engine copies a KV page when two
// sequences that share it diverge, and a recurrent state to save or restore it.
package transfer

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case { return copyCases() }

// Copy copies Bytes bytes inside Buffer from offset From to offset To. The ranges must not overlap.
type Copy struct {
	Buffer          *kernels.Buffer
	From, To, Bytes int
}

// Name implements kernels.Op.
func (o *Copy) Name() string { return "copy" }

// Check implements kernels.Op.
func (o *Copy) Check() error {
	switch {
	case o.Buffer == nil || o.Bytes < 0 || o.From < 0 || o.To < 0 ||
		o.From+o.Bytes > o.Buffer.Size || o.To+o.Bytes > o.Buffer.Size:
		return fmt.Errorf("copy: got %d bytes from %d to %d, expected ranges inside the buffer",
			o.Bytes, o.From, o.To)
	case o.From < o.To+o.Bytes && o.To < o.From+o.Bytes && o.Bytes > 0:
		return fmt.Errorf("copy: got %d bytes from %d to %d, expected ranges that do not overlap",
			o.Bytes, o.From, o.To)
	}
	return nil
}

// Reference implements kernels.Op.
func (o *Copy) Reference() {
	copy(o.Buffer.Bytes[o.To:o.To+o.Bytes], o.Buffer.Bytes[o.From:o.From+o.Bytes])
}

// CPU implements kernels.Op on one thread: copy is as fast as memory, and a page is too small to
// share.
func (o *Copy) CPU(*cpu.Context) { o.Reference() }

func copyCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct{ bytes, gap int }{{1, 3}, {127, 3}, {4096, 3}, {4096, 16},
		{1 << 20, 0}} {
		n := s.bytes
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("copy_%d_gap_%d", n, s.gap), Bytes: int64(2 * n),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				b := d.NewBuffer(2*n + s.gap)
				for i := range b.Bytes[:n] {
					b.Bytes[i] = byte(r.Uint32() | 1)
				}
				return &Copy{Buffer: b, To: n + s.gap, Bytes: n},
					[]kernels.Tensor{{Buffer: b, DType: kernels.U8, Rows: 1, Cols: b.Size,
						Stride: b.Size}}
			},
		})
	}
	return cases
}
