package norm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

// TestRMSNormRowAloneOrInBatch checks that a row and its residual give the same bits alone, in a
// batch, and in place of the input.
func TestRMSNormRowAloneOrInBatch(t *testing.T) {
	const m, n = 9, 700
	for _, d := range kerneltest.Devices(t) {
		r := rand.New(rand.NewPCG(9, 8))
		x, residual, weight := kernels.RandomTensor(d, r, m, n, 3),
			kernels.RandomTensor(d, r, m, n, 3), kernels.RandomTensor(d, r, 1, n, 1)
		before, batch := kernels.FromFloat32s(d, m, n, residual.Float32s()),
			kernels.NewTensor(d, kernels.F32, m, n)
		d.Run(&RMSNorm{X: x, Residual: residual, Weight: weight, Out: batch, Eps: 1e-6})
		sync(t, d)
		for i := range m {
			oneX, oneResidual := kernels.FromFloat32s(d, 1, n, x.Row(i)), before.RowRange(i, i+1)
			d.Run(&RMSNorm{X: oneX, Residual: oneResidual, Weight: weight, Out: oneX, Eps: 1e-6})
			sync(t, d)
			if !bytes.Equal(oneX.Bytes(), batch.RowRange(i, i+1).Bytes()) ||
				!bytes.Equal(oneResidual.Bytes(), residual.RowRange(i, i+1).Bytes()) {
				t.Errorf("%s: row %d differs alone and in the batch", d.Name(), i)
			}
		}
	}
}
